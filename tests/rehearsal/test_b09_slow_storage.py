"""B09: a storage slower than the interval, one checkpoint kept, kills at any moment: a whole one is always there."""

import random
import signal
from pathlib import Path

import pytest
from lives import INTERRUPTED, Victim, counted_steps, ended, only_task

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.read import refusal
from outlast.events import SaveCommitted, SavePostponed, from_lines

DELAY_SECONDS = 0.3
SLOW = {
    "VICTIM_STEPS": "1000",
    "VICTIM_SLEEP": "0.005",
    "VICTIM_INTERVAL": "50ms",
    "VICTIM_SAVING": "background",
    "VICTIM_DELAY": str(DELAY_SECONDS),
}


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim("slow_storage.py", tmp_path, every=0, keep=1, variables=SLOW)


def recorded(victim: Victim) -> list[object]:
    return [one.event for path in victim.url.rglob("*.jsonl") for one in from_lines(path.read_bytes())]


@pytest.mark.slow
def test_at_each_kill_there_is_a_whole_checkpoint_and_none_is_named_before_it_is(victim: Victim) -> None:
    chance = random.Random(9)
    newest = 0
    for kill in range(12):
        victim.live(signal.SIGKILL, chance.uniform(0.1, 1.2), from_its_first_step=True)
        steps = counted_steps(victim.url)
        store, place = only_task(victim.url)
        good = [name for name in read_lineage(store, place).counted if refusal(store, place.commit(name)) is None]
        if steps:
            assert good, f"kill {kill}: none of {steps} is whole"
            assert len(steps) <= 2, "one is kept, and one may be waiting to be retired"
            assert good[0].step >= newest, "a checkpoint that was there is gone"
            newest = good[0].step
    assert newest > 100
    events = recorded(victim)
    assert any(isinstance(event, SavePostponed) for event in events), "saves that overlap are reported"
    commits = [event for event in events if isinstance(event, SaveCommitted)]
    assert len(commits) > 8


def test_the_steps_go_on_while_the_storage_is_slow_and_the_stop_makes_the_last_state_durable(victim: Victim) -> None:
    process = victim.start()
    while not counted_steps(victim.url):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    life = ended(process)
    assert life.exit_code == INTERRUPTED, life
    assert "waits: that of step" in life.errors
    reported = victim.reported()
    assert counted_steps(victim.url)[0] == reported[-1], "the state at the stop is not lost"
    # In the time that one save takes, many steps were done.
    first = next(event.step for event in recorded(victim) if isinstance(event, SaveCommitted))
    assert reported[-1] - first > 10
