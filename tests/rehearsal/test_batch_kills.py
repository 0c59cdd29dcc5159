"""Four workers, killed at random: nothing is lost, nothing doubled, and little is computed twice.

OUTLAST_KILLS=200 OUTLAST_ITEMS=10000 OUTLAST_EVERY_PAIR=1 runs it in full: every queue with every sink, in forms that
take turns; with OUTLAST_EVERY_PAIR=forms in every form.
"""

import os
from pathlib import Path

import pytest

from rehearsal.batch_crew import Order, check, publish, survive
from rehearsal.batch_places import QUEUES, SINKS

KILLS = int(os.environ.get("OUTLAST_KILLS", "12"))
ITEMS = int(os.environ.get("OUTLAST_ITEMS", "600"))


SOME = [
    ("sqlite", "same", "list"),
    ("sqlite", "sqlite", "yield"),
    ("sqlite", "same", "load"),
    ("sqlite", "jsonl", "list"),
    ("postgres", "same", "list"),
    ("postgres", "objects", "yield"),
    ("pubsub", "same", "list"),
    ("pubsub", "parquet", "load"),
]
FORMS = ("list", "yield", "load")
PAIRS = [(queue, sink) for queue in QUEUES for sink in SINKS]
CASES = {
    "": SOME,
    "1": [(*pair, FORMS[(number + number // len(SINKS)) % 3]) for number, pair in enumerate(PAIRS)],
    "forms": [(*pair, form) for pair in PAIRS for form in FORMS],
}


@pytest.mark.parametrize(("queue", "sink", "form"), CASES[os.environ.get("OUTLAST_EVERY_PAIR", "")])
def test_nothing_is_lost_or_doubled_whatever_is_killed(queue: str, sink: str, form: str, tmp_path: Path) -> None:
    url, variables = QUEUES[queue](tmp_path)
    order = Order(url, SINKS[sink](tmp_path, url), tmp_path / "diary", form=form, variables=variables)
    assert publish(order, ITEMS).new == ITEMS
    toll = survive(order, workers=4, kills=KILLS, seed=5)
    assert toll.kills >= (KILLS if "OUTLAST_KILLS" in os.environ else KILLS // 2)
    check(order, ITEMS, toll)
