"""Faulty programs of many kinds get the verdict and the reason that they must get.

OUTLAST_MUTANTS=all takes all of them, and not every third.
"""

import os
import sys

import pytest
from faulty import FAULTY
from proving import rehearse_all

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")
CHOSEN = FAULTY if os.environ.get("OUTLAST_MUTANTS") == "all" else FAULTY[1::3]


def test_there_are_faulty_programs_of_many_kinds() -> None:
    assert len({faulty.name for faulty in FAULTY}) == len(FAULTY) >= 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_each_faulty_program_is_told_what_is_wrong_with_it() -> None:
    wrong = {}
    for faulty, (_, report) in zip(CHOSEN, rehearse_all(faulty.case for faulty in CHOSEN), strict=True):
        missing = faulty.missing("\n".join(report["reasons"]))
        if report["verdict"] != faulty.verdict or missing:
            wrong[faulty.name] = (report["verdict"], report["reasons"], f"missing: {missing}")
    assert wrong == {}
