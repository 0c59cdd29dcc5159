"""Good programs of many styles survive, whatever the seed. OUTLAST_SEEDS=100 runs each of them over so many seeds."""

import os
import sys

import pytest
from proving import GOOD, Case, rehearse_all

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")
SEEDS = int(os.environ.get("OUTLAST_SEEDS", "0"))
SAMPLE = 4  # without seeds: so many programs, each with a seed of its own


def good_cases() -> list[Case]:
    if SEEDS:
        return [Case(path.stem, path.read_text(), seed=seed) for seed in range(SEEDS) for path in GOOD]
    chosen = GOOD[:: len(GOOD) // SAMPLE]
    return [Case(path.stem, path.read_text(), seed=number) for number, path in enumerate(chosen)]


def test_there_are_good_programs_of_many_styles() -> None:
    assert len(GOOD) >= 10


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * SEEDS)
def test_good_programs_survive_and_nothing_is_said_against_them() -> None:
    wrong = {
        (case.name, case.seed): (report["verdict"], report["reasons"])
        for case, report in rehearse_all(good_cases())
        if report["verdict"] != "survived" or report["reasons"] or not report["cut_saves"] or not report["more_notices"]
    }
    assert wrong == {}
