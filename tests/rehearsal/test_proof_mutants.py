"""Mutants that interruptions really change, as an oracle without outlast found, are caught with the right reason.

OUTLAST_MUTANTS=all takes every mutant of every good program; a number takes about so many.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from mutants import Mutant, all_mutants
from oracle import RESULTS
from proving import GOOD, SIDE_BY_SIDE, Case, rehearse_all

import outlast

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")
ASKED = os.environ.get("OUTLAST_MUTANTS", "4")
CAUGHT = 0.95
# What the reasons must have, by the kind of change that the oracle saw.
PLACES = {
    "result": r"is not what the uninterrupted run made: .*(expected|missing|too much|too many|differs from byte)"
    r"|its handler saved at once \(`.*`\), while `.*` was under way",
    "success": r"left with 0.*|is not what the uninterrupted run made: ",
    "failure": r"(attempt \d+ .*left with exit code \d+|attempt \d+ hung)",
    "deaf": r"does not handle SIGTERM|did not end within",
    "again": r"attempt \d+ began again",
}


@dataclass(frozen=True)
class Examined:
    mutant: Mutant
    usable: bool
    kinds: dict[str, int]

    @property
    def changes(self) -> bool:
        return self.usable and bool(self.kinds)

    @property
    def case(self) -> Case:
        """One that does not hear must live longer than the grace: it is rehearsed at a slower pace."""
        source, grace = self.mutant.source, 1.5
        if set(self.kinds) == {"deaf"}:
            source, grace = re.sub(r"time\.sleep\(0\.0", "time.sleep(6 * 0.0", source), 0.6
        return Case(self.mutant.name, source, grace=grace)


def examine_all(mutants: Sequence[Mutant]) -> list[Examined]:
    """The oracle's word on each, from interpreters of their own."""
    sources = {path.stem: path.read_text() for path in GOOD}
    shares = [mutants[number::SIDE_BY_SIDE] for number in range(min(SIDE_BY_SIDE, len(mutants)))]

    def examine(share: Sequence[Mutant]) -> list[Examined]:
        lines = "".join(json.dumps([one.base, one.source, sources[one.base]]) + "\n" for one in share)
        found = {**os.environ, "PYTHONPATH": str(Path(outlast.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name("oracle.py"))]
        done = subprocess.run(command, input=lines, env=found, capture_output=True, text=True, check=True)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        return [Examined(one, it["usable"], it["kinds"]) for one, it in zip(share, told, strict=True)]

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return [one for share in pool.map(examine, shares) for one in share]


def chosen_mutants() -> list[Mutant]:
    mutants = [one for one in all_mutants() if one.base in RESULTS]
    if ASKED == "all":
        return mutants
    quick = [one for one in mutants if not one.base.startswith("outlast")]
    return quick[5 :: len(quick) // int(ASKED)]


@pytest.mark.slow
@pytest.mark.timeout(7200 if ASKED == "all" else 300)
def test_mutants_that_change_the_outcome_are_caught_with_a_reason_that_names_the_place() -> None:
    examined = examine_all(chosen_mutants())
    changing = [one for one in examined if one.changes]
    assert len(changing) >= (200 if ASKED == "all" else 1)
    missed, unnamed = [], []
    for one, (case, report) in zip(changing, rehearse_all(one.case for one in changing), strict=True):
        reasons = "\n".join(report["reasons"])
        if report["verdict"] == "survived":
            missed.append((case.name, one.kinds, report["reasons"]))
        elif not any(re.search(PLACES[kind], reasons, re.M) for kind in {*one.kinds, "result"}):
            unnamed.append((case.name, one.kinds, report["verdict"], report["reasons"]))
    told = f"{len(missed)} missed and {len(unnamed)} without their place, of {len(changing)}: {missed} {unnamed}"
    assert missed == [], told
    assert len(unnamed) <= (1 - CAUGHT) * len(changing), told
