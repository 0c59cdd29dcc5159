"""1,000 notices to real jobs in simulated time: what the planner says fits is durable in time, and nothing is lost.

OUTLAST_NOTICES=100000 asks for so many; the table goes to standard output (pytest -s).
"""

import os

import pytest
from notice_cases import GRACES, Case, Outcome, Stage

COUNT = int(os.environ.get("OUTLAST_NOTICES", "1000"))
_HEADER = (
    "grace  notices  said to fit  durable in time  lost steps there  not said, and in time  not said, and not  "
    "no border in time  trained through, of what was possible"
)


def row(grace: float, outcomes: list[Outcome]) -> str:
    said = [one for one in outcomes if one.promised]
    unsaid = [one for one in outcomes if not one.promised and one.counting]
    timely = sum(one.kept for one in said)
    lost = sum(max(one.lost, 0) for one in said)
    lucky = sum(one.kept for one in unsaid)
    shares = [one.share_used for one in said if one.share_used is not None]
    used = f"{sum(shares) / len(shares):.2f}" if shares else "-"
    rest = len(outcomes) - len(said) - len(unsaid)
    return (
        f"{grace:5g}  {len(outcomes):7}  {len(said):11}  {timely:15}  {lost:16}  {lucky:21}  "
        f"{len(unsaid) - lucky:17}  {rest:17}  {used}"
    )


@pytest.mark.timeout(300 if COUNT <= 1000 else 36000)
def test_what_the_planner_says_fits_is_durable_before_the_deadline_and_loses_no_step() -> None:
    with pytest.MonkeyPatch.context() as patch:
        stage = Stage(patch)
        outcomes = [stage.play(Case.drawn(number)) for number in range(COUNT)]
    by_grace = {grace: [one for one in outcomes if one.case.grace == grace] for grace in GRACES}
    print(_HEADER, *[row(grace, rows) for grace, rows in by_grace.items()], sep="\n")
    said = [one for one in outcomes if one.promised]
    late = [one for one in said if not one.kept]
    assert len(late) <= 0.001 * len(said), [(one.case, [plan.reason for _, plan in one.plans]) for one in late]
    lost = [(one.case, one.lost) for one in said if one.kept and one.lost > 0]
    assert lost == [], "steps are lost though the last save was in time"
    # And it is not by saying so seldom, or by leaving at once.
    in_time = [one for one in outcomes if one.kept and one.counting and one.case.saves_before]
    assert sum(one.promised for one in in_time) >= 0.65 * len(in_time)
    used = [one.share_used for one in said if one.share_used is not None]
    assert sum(used) >= 0.6 * len(used)
    for rows in by_grace.values():
        assert sum(one.promised for one in rows) >= 0.35 * len(rows)


def test_the_same_case_goes_the_same_way_each_time() -> None:
    with pytest.MonkeyPatch.context() as patch:
        stage = Stage(patch)
        first, again = (stage.play(Case.drawn(7)) for _ in range(2))
    assert first == again
    assert first.plans
