"""The report of the benchmarks on given figures: ratios, the rule of no verdict, failures, tables. Nothing is timed."""

import io
import json

import pytest
from rich.console import Console

from benchmarks.figures import BEST_PEER, FIGURES, LIMITS, Goal
from benchmarks.report import print_report, text
from benchmarks.samples import Result, Samples, as_document, judge, moved, no_verdict

_STALL = next(figure for figure in FIGURES if figure.key == "stall")


def _results(*, limit: list[float], stalls: dict[str, list[float]]) -> list[Result]:
    found = [Result(n, "small", LIMITS, "limits", {"copy_1": value, "bytes": 2**30}) for n, value in enumerate(limit)]
    for case, values in stalls.items():
        found += [Result(n, "small", case, "save", {"stall": value}) for n, value in enumerate(values)]
    return found


def _steady(rounds: int = 7) -> Samples:
    stalls = {"outlast background": [0.11] * rounds, "torch.save": [1.0] * rounds, "safetensors": [0.5] * rounds}
    return Samples(_results(limit=[0.1] * rounds, stalls=stalls))


def _printed(samples: Samples) -> str:
    file = io.StringIO()
    print_report(samples, Console(file=file, width=140, markup=False))
    return file.getvalue()


def test_ratios_are_of_medians_to_the_limit_and_to_the_best_peer() -> None:
    stalls = {"outlast background": [0.3, 0.2, 9.0], "torch.save": [1.0, 1.0, 1.0], "safetensors": [0.6, 0.5, 0.7]}
    samples = Samples(_results(limit=[0.1, 0.11, 0.1], stalls=stalls))
    assert samples.over_limit("small", _STALL, "outlast background") == pytest.approx(3.0)
    assert samples.over_best_peer("small", "stall", "outlast background") == pytest.approx(0.5)
    assert samples.over_best_peer("small", "stall", "safetensors") == pytest.approx(1.0)
    assert samples.cases("small", "stall") == ["outlast background", "safetensors", "torch.save"]


def test_our_own_cases_are_no_peers() -> None:
    samples = Samples(_results(limit=[0.1], stalls={"outlast background": [0.2], "outlast blocking": [0.1]}))
    assert samples.over_best_peer("small", "stall", "outlast background") is None


def test_a_limit_that_moved_by_more_than_a_fifth_gives_no_verdict() -> None:
    assert no_verdict([1.0, 1.19]) is None
    assert no_verdict([1.0, 1.25, 1.1]) == "no verdict: the limit itself moved by 25 %"
    assert moved([2.0, 1.0]) == pytest.approx(1.0)
    assert no_verdict([]) is None


def test_goals_are_judged_only_against_a_steady_limit_and_after_enough_rounds() -> None:
    goal = Goal("outlast background", "stall", 1.15, of_limit=True)
    met = judge(_steady(), "small", goal)
    assert met is not None
    assert (met.verdict, met.measured) == ("met", pytest.approx(1.1))
    missed = judge(_steady(), "small", Goal("outlast background", "stall", 1.05, of_limit=True))
    assert missed is not None
    assert missed.verdict == "missed"
    few = judge(_steady(rounds=2), "small", goal)
    assert few is not None
    assert few.verdict == "no verdict: 2 rounds, 7 are needed"
    shaky = Samples(_results(limit=[0.1, 0.2] * 4, stalls={"outlast background": [0.13] * 8}))
    unsteady = judge(shaky, "small", goal)
    assert unsteady is not None
    assert unsteady.verdict == "no verdict: the limit itself moved by 100 %"


@pytest.mark.parametrize(("stall", "verdict"), [(0.11, "met"), (0.24, "missed"), (0.16, "no verdict")])
def test_a_shaky_limit_still_gives_a_verdict_where_every_moment_says_the_same(stall: float, verdict: str) -> None:
    samples = Samples(_results(limit=[0.1, 0.2] * 4, stalls={"outlast background": [stall] * 8}))
    judged = judge(samples, "small", Goal("outlast background", "stall", 1.15, of_limit=True))
    assert judged is not None
    assert judged.verdict.startswith(verdict)


def test_a_goal_beside_a_peer_is_judged_by_the_ratio_with_its_spread_over_the_rounds() -> None:
    stalls = {"outlast background": [0.1] * 7, "torch.save": [1.0] * 7, "safetensors": [0.5] * 6 + [0.4]}
    samples = Samples(_results(limit=[0.1] * 7, stalls=stalls))
    best = judge(samples, "small", Goal("outlast background", "stall", 0.21, than=BEST_PEER))
    assert best is not None
    assert (best.measured, best.verdict) == (pytest.approx(0.2), "no verdict: the limit itself moved by 25 %")
    assert best.spread == (pytest.approx(0.2), pytest.approx(0.25))
    named = judge(samples, "small", Goal("outlast background", "stall", 0.05, than="torch.save"))
    assert named is not None
    assert (named.measured, named.verdict) == (pytest.approx(0.1), "missed")
    assert judge(samples, "small", Goal("outlast background", "stall", 0.05, than="nobody")) is None


def test_a_goal_of_one_state_is_judged_there_alone() -> None:
    goal = Goal("outlast background", "stall", 1.15, of_limit=True, state="transformer")
    assert judge(_steady(), "small", goal) is None


def test_a_goal_without_a_measurement_is_left_out() -> None:
    assert judge(_steady(), "small", Goal("outlast lazy", "stall", 0.05, of_limit=True)) is None
    assert judge(_steady(), "small", Goal("outlast background", "durable", 1.1, of_limit=True)) is None


def test_a_failing_peer_is_named_with_its_reason_and_sinks_nothing() -> None:
    steady = _steady().results
    failed = [Result(n, "small", "dcp-process", "save", fails="OSError: too many open files") for n in range(7)]
    samples = Samples([*steady, *failed])
    assert samples.failures("small") == {("dcp-process", "save"): "OSError: too many open files (7 of 7 runs)"}
    printed = _printed(samples)
    assert "OSError: too many open files (7 of 7 runs)" in printed
    assert "torch.save" in printed


def test_the_tables_show_medians_spread_ratios_and_verdicts() -> None:
    printed = _printed(_steady())
    for expected in ("110.0 ms", "memory copy, warm, 1 thread", "1.10", "0.22", "10.00 ", "met", "≤ 1.15 x limit"):
        assert expected in printed
    assert "no verdict" not in printed


def test_a_shaky_limit_is_said_under_the_table_and_marks_its_ratios() -> None:
    printed = _printed(Samples(_results(limit=[0.1, 0.2], stalls={"torch.save": [1.0, 1.0]})))
    assert "no verdict: the limit itself moved by 100 %" in printed
    assert "6.67 ?" in printed


def test_the_document_holds_every_run_and_its_failures() -> None:
    samples = Samples([*_steady(2).results, Result(0, "small", "dcp", "save", fails="no result within 5 s")])
    document = json.loads(json.dumps(as_document(samples, {"rounds": 2})))
    assert document["settings"] == {"rounds": 2}
    wanted = {"median": 0.11, "lowest": 0.11, "highest": 0.11, "runs": 2}
    assert document["summary"]["small"]["stall"]["outlast background"] == wanted
    assert {"round": 0, "state": "small", "case": "dcp", "action": "save", "fails": "no result within 5 s"} in (
        document["runs"]
    )


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (2e-6, "s", "2.00 µs"),
        (112.4e-6, "s", "112 µs"),
        (0.0123, "s", "12.3 ms"),
        (1.5, "s", "1.50 s"),
        (-0.01, "s", "-10.0 ms"),
        (2.94, "%", "2.9 %"),
        (1.046, "x", "1.05 x"),
    ],
)
def test_figures_are_written_with_their_unit(value: float, unit: str, expected: str) -> None:
    assert text(value, unit) == expected
