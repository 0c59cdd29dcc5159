"""From what happened to the verdict: each way to fail has its own words."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.events import NoticeHeard, Recorded, Restored, SaveCommitted
from outlast.registry import platform_named
from outlast.rehearse.attempt import Attempt, add_events
from outlast.rehearse.compare import EQUAL, Distance
from outlast.rehearse.cut_saves import CutSaves
from outlast.rehearse.findings import find_in_notices, find_in_progress
from outlast.rehearse.not_exercised import what_was_not_exercised
from outlast.rehearse.notice import LeftBehind, NoticeView
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.rank_ends import RankEnds
from outlast.rehearse.report import Report, as_object
from outlast.rehearse.request import Request
from outlast.rehearse.results import STDOUT, Result
from outlast.rehearse.scenario import Interruption, Kind
from outlast.rehearse.script import Script
from outlast.rehearse.verdict import Evidence, judge
from outlast.rehearse.watch import SaveFilter, Write, find_logs

HEARD = NoticeView(first_command="python job.py", first_hears=True, first_was_pid_1=True, hearing_child=None)
SAME = Result("out.txt", True, "", EQUAL)
DIFFERENT = Result("out.txt", False, "line 1: expected 1, found 2", Distance(0.5, "line 1: expected 1, found 2"))


def attempt(number: int, kind: Kind | None = None, **changes: object) -> Attempt:
    ended_by = kind or "finished"
    code = {"SIGTERM": 143, "finished": 0}.get(ended_by, 137)
    made = Attempt(number, 1.0, ended_by, code, float(number), kind, 0.5 if kind else None)
    return replace(made, notice=HEARD if kind == "SIGTERM" else None, **changes)


ALL: tuple[Kind, ...] = ("SIGTERM", "SIGKILL", "SIGKILL at a save")


def evidence(*attempts: Attempt, **changes: object) -> Evidence:
    made = Evidence(
        facts=platform_named("cloud-run").facts,
        grace_seconds=10.0,
        retries=5,
        tolerance=0.0,
        saves=True,
        baseline_seconds=3.0,
        scenario=tuple(Interruption(kind, 0.5) for kind in ALL),
        attempts=attempts or (*(attempt(number, kind) for number, kind in enumerate(ALL)), attempt(3)),
        results=(SAME,),
        between_baselines=(SAME,),
        nearest=(SAME,),
    )
    return replace(made, **changes)


def test_every_kind_and_equal_results_survive() -> None:
    assert judge(evidence()) == ("survived", [])


def test_b24_a_job_that_works_on_to_its_end_after_each_notice_shows_nothing_of_how_it_stops() -> None:
    ended = [attempt(0, "SIGKILL"), attempt(1, "SIGKILL at a save")]
    last = attempt(2, "SIGTERM", ended_by="finished", exit_code=0)
    verdict, reasons = judge(evidence(*ended, last))
    assert verdict == "could-not-rehearse"
    assert "worked on until it was done, within the grace of 10 s" in reasons[0]
    assert judge(evidence(*ended, replace(last, heard_notice_after_seconds=0.01)))[0] == "survived"
    assert judge(evidence(*ended, last, cuts=CutSaves((), (), 0, stopped=True)))[0] == "survived"
    assert judge(evidence(attempt(0, "SIGTERM"), *ended[1:], attempt(3, "SIGKILL"), last))[0] == "survived"


def test_a_kind_that_never_landed_proves_nothing() -> None:
    verdict, reasons = judge(evidence(attempt(0, "SIGTERM"), attempt(1, "SIGKILL"), attempt(2)))
    assert verdict == "could-not-rehearse"
    assert "finished before these had landed: SIGKILL at a save. Give it more work" in reasons[0]


def test_different_results_have_not_survived() -> None:
    verdict, reasons = judge(evidence(results=(DIFFERENT,), nearest=(DIFFERENT,)))
    assert verdict == "not-survived"
    assert reasons[0] == "out.txt is not what the uninterrupted run made: line 1: expected 1, found 2"
    assert "--result PATH" in reasons[1]
    assert "save together whatever a step changes and a later one reads" in reasons[2]


def test_who_has_named_the_results_is_not_told_to_name_them() -> None:
    _, reasons = judge(evidence(results=(DIFFERENT,), nearest=(DIFFERENT,), results_named=True))
    assert not any("--result" in reason for reason in reasons)


def test_a_failure_under_a_fault_of_the_scenario_is_not_called_the_programs_own() -> None:
    ends = [attempt(number, kind) for number, kind in enumerate(ALL)]
    met = attempt(3, ended_by="exit", exit_code=75, happened=("storage-fault",))
    own = attempt(4, ended_by="exit", exit_code=1)
    assert judge(evidence(*ends, met, own, attempt(5))) == (
        "survived",
        [
            "attempt 3 failed, having met storage-fault, with exit code 75; a retry mended it",
            "attempt 4 failed by itself with exit code 1; a retry mended it",
        ],
    )


def test_leaving_with_0_on_a_notice_before_the_end_is_lost_work() -> None:
    left = attempt(0, "SIGTERM", ended_by="finished", exit_code=0)
    verdict, reasons = judge(evidence(left, results=(DIFFERENT,), nearest=(DIFFERENT,)))
    assert verdict == "not-survived"
    assert "leave with 143" in reasons[0]


def test_leaving_with_0_on_a_notice_with_all_done_is_an_end() -> None:
    left = attempt(2, "SIGTERM", ended_by="finished", exit_code=0)
    stops = CutSaves((), (), 0, stopped=True)
    done = evidence(attempt(0, "SIGKILL"), attempt(1, "SIGKILL at a save"), left, cuts=stops)
    assert done.all_landed
    assert judge(done) == ("survived", [])


def test_used_up_retries_are_counted_out() -> None:
    failed = attempt(1, ended_by="exit", exit_code=1)
    verdict, reasons = judge(evidence(attempt(0, "SIGKILL"), failed, retries=1, last_words="KeyError: 'step'"))
    assert verdict == "not-survived"
    assert reasons[0] == (
        "the retries are used up: 1 interruption and 1 failure of its own ended all 2 attempts (1 + 1 retries), "
        "and the work is not finished; attempt 1 left with exit code 1: KeyError: 'step'"
    )


def test_a_hung_attempt_has_not_survived() -> None:
    verdict, reasons = judge(evidence(attempt(0, ended_by="hung", exit_code=137, seconds=60.0)))
    assert verdict == "not-survived"
    assert reasons[0].startswith("attempt 0 hung: it ran for 60 s")


@pytest.mark.parametrize(("last", "enough"), [(attempt(3, "SIGTERM"), True), (attempt(3), False)])
def test_an_end_within_the_grace_of_a_notice_is_enough_once_each_kind_has_landed(last: Attempt, enough: bool) -> None:
    planned = tuple(Interruption(kind, 0.5) for kind in (*ALL, *ALL))
    ended = [attempt(number, kind) for number, kind in enumerate(ALL)]
    assert evidence(*ended, last, scenario=planned).all_landed is enough


@pytest.mark.parametrize(
    ("own", "found", "words"),
    [(0.5, 0.4, "lies within"), (0.5, 0.6, "lies outside"), (math.inf, math.inf, "out.txt: the uninterrupted runs")],
)
def test_what_is_not_deterministic_is_compared_with_its_own_spread(own: float, found: float, words: str) -> None:
    spread = Result("out.txt", False, "d", Distance(own, "d"))
    nearest = Result("out.txt", False, "d", Distance(found, "d"))
    equal = Result("same.txt", True, "", EQUAL)
    both, seen = (spread, equal), (nearest, equal)
    verdict, reasons = judge(evidence(between_baselines=both, results=seen, nearest=seen))
    assert verdict == "could-not-rehearse"
    assert reasons[0].startswith("not deterministic")
    assert reasons[1] == "what can be shown: it survived 3 interruptions to the end"
    assert words in reasons[2]
    assert "--tolerance" in reasons[-1]
    assert len(reasons) == 4  # of what is equal nothing is said


def test_a_missing_result_is_lost_work_even_where_others_are_not_deterministic() -> None:
    spread = Result(STDOUT, False, "d", Distance(0.5, "d"))
    missing = Result("out.txt", False, "missing", Distance(math.inf, "missing"))
    left = attempt(0, "SIGTERM", ended_by="finished", exit_code=0)
    verdict, _ = judge(evidence(left, between_baselines=(spread,), results=(missing,), nearest=(missing,)))
    assert verdict == "not-survived"


def test_a_notice_heard_too_late_is_told_with_its_times() -> None:
    late = attempt(0, "SIGTERM", ended_by="SIGKILL after the grace", heard_notice_after_seconds=2.5)
    (line,) = find_in_notices([late], grace_seconds=10.0)
    assert line.startswith("attempt 0: the notice was heard after 2.5 s, but it did not end within 10 s: ")


def test_b19_a_first_process_that_ignores_the_signal_is_named_with_its_child() -> None:
    view = replace(HEARD, first_command="sh -c python j.py", first_hears=False, hearing_child="python j.py")
    killed = replace(attempt_with_view(0, view), ended_by="SIGKILL after the grace", exit_code=137)
    (line,) = find_in_notices([killed], grace_seconds=10.0)
    assert line == (
        "your process never saw the signal: your first process (`sh -c python j.py`) does not handle SIGTERM and, "
        "as PID 1, ignores it; `python j.py` (its child) would, but the signal never reaches it. "
        "Use the exec form, `exec`, or `outlast run -- …`"
    )


def test_a_program_that_fails_before_it_has_a_handler_is_not_called_deaf() -> None:
    failed = replace(attempt_with_view(0, replace(HEARD, first_hears=False)), exit_code=1)
    assert find_in_notices([failed], grace_seconds=10.0) == []


@pytest.mark.parametrize("signals_before", [True, False])
def test_a_notice_after_the_work_is_no_ground_for_any_verdict(signals_before: bool) -> None:
    last = replace(attempt_with_view(3, replace(HEARD, first_hears=False)), ended_by="finished", exit_code=0)
    others = [
        attempt(number, kind, listened=True) for number, kind in enumerate(ALL) if signals_before or kind != "SIGTERM"
    ]
    verdict, reasons = judge(evidence(*others, last))
    assert verdict == ("survived" if signals_before else "could-not-rehearse")
    assert signals_before or "finished before these had landed: SIGTERM." in reasons[0]


def attempt_with_view(number: int, view: NoticeView) -> Attempt:
    return replace(attempt(number, "SIGTERM"), notice=view)


def test_a_child_left_behind_is_named_once_with_what_it_wrote() -> None:
    view = replace(HEARD, left_behind=(LeftBehind("python writer.py", ("a.bin",)),))
    lines = find_in_notices([attempt_with_view(0, view), attempt_with_view(1, view)], grace_seconds=10.0)
    assert len(lines) == 1
    assert "`python writer.py` was still running, writing a.bin, when your first process left" in lines[0]


@pytest.mark.parametrize(
    ("ended_by", "view"),
    [
        ("SIGKILL after the grace", HEARD),
        ("finished", replace(HEARD, first_hears=False)),
        ("SIGTERM", replace(HEARD, left_behind=(LeftBehind("python writer.py", ("a.bin",)),))),
    ],
    ids=["killed", "deaf", "writer"],
)
def test_a_notice_in_vain_is_not_survived_although_the_results_are_equal(ended_by: str, view: NoticeView) -> None:
    code = {"finished": 0, "SIGTERM": 143}.get(ended_by, 137)
    first = replace(attempt(0, "SIGTERM"), ended_by=ended_by, exit_code=code, notice=view)
    verdict, reasons = judge(evidence(first, attempt(1, "SIGKILL"), attempt(2, "SIGKILL at a save"), attempt(3)))
    assert verdict == "not-survived"
    assert reasons != []


def test_a_job_that_writes_as_much_again_has_begun_again() -> None:
    ended = [attempt(number, kind, writes=4) for number, kind in enumerate(ALL)]
    verdict, (reason,) = judge(evidence(*ended, attempt(3, seconds=3.0, writes=20), baseline_writes=20))
    assert verdict == "not-survived"
    assert "attempt 3 began again: it wrote as many files as the whole job does (20 against 20)" in reason
    assert judge(evidence(*ended, attempt(3, seconds=3.0, writes=12), baseline_writes=20)) == ("survived", [])


def test_attempts_that_had_saved_nothing_yet_do_not_show_that_it_begins_again() -> None:
    ended = [attempt(number, kind, writes=0) for number, kind in enumerate(ALL)]
    assert judge(evidence(*ended, attempt(3, seconds=3.0, writes=20), baseline_writes=20)) == ("survived", [])


@pytest.mark.parametrize(
    ("cuts", "verdict", "words"),
    [
        (CutSaves(("write a",), ("after a kill just before `write a` …",), 0), "not-survived", "just before `write a`"),
        (CutSaves((), (), 0, elsewhere=("/data/state",)), "could-not-rehearse", "/data/state, outside of the copy"),
        (CutSaves(("write a",), (), 0, temporary=("$TMPDIR/x",)), "survived", ""),
    ],
    ids=["broken", "elsewhere", "scratch"],
)
def test_what_held_attempts_showed_decides_where_nothing_else_does(cuts: CutSaves, verdict: str, words: str) -> None:
    found, reasons = judge(evidence(cuts=cuts))
    assert found == verdict
    assert words in "\n".join(reasons)


def test_a_state_on_the_attempts_own_disk_is_not_survived_by_a_job_that_saves_nothing_else() -> None:
    verdict, reasons = judge(evidence(saves=False, cuts=CutSaves((), (), 0, temporary=("$TMPDIR/state.json",))))
    assert verdict == "not-survived"
    assert "$TMPDIR/state.json, which goes with the attempt" in reasons[0]


def not_exercised(
    found: Evidence, *, isolated: bool = True, ranks: int = 0, nodes: int = 1, **asked: bool
) -> list[str]:
    request = Request(("x",), Path(), nodes=nodes, **asked)
    script = Script(procedure_on("kubernetes" if nodes > 1 else "cloud-run"))
    return what_was_not_exercised(
        request, script, found, isolated=isolated, held=isolated, batches=(), stdout="compared", ranks=ranks
    )


def test_what_ranks_and_nodes_have_not_met_is_said() -> None:
    one = "\n".join(not_exercised(evidence()))
    assert "several tasks or ranks: one task ran" in one
    ranks = "\n".join(not_exercised(evidence(), ranks=4))
    assert "all 4 ranks ran on this one" in ranks
    assert "the end of one rank, or a notice to one alone" in ranks
    missed = RankEnds((), ("rank 0 alone was killed",), ("rank-stopped",))
    assert "rank-stopped: the job had finished before" in "\n".join(not_exercised(evidence(rank_ends=missed), ranks=4))
    nodes = "\n".join(not_exercised(evidence(), ranks=4, nodes=2))
    assert "the nodes and their 4 ranks ran on this one" in nodes
    assert "a pod that an Indexed Job starts anew" in nodes


def test_places_that_no_time_was_for_are_not_exercised() -> None:
    assert "3 places between" in "\n".join(not_exercised(evidence(cuts=CutSaves(("write a",), (), 3))))
    assert "1 place between" in "\n".join(not_exercised(evidence(cuts=CutSaves(("write a",), (), 1))))
    for none in (None, CutSaves((), (), 0)):
        assert "each place between two file operations" in "\n".join(not_exercised(evidence(cuts=none)))
    assert "each place" not in "\n".join(not_exercised(evidence(cuts=CutSaves(("write a",), (), 0))))


def test_beginning_at_step_0_although_there_are_checkpoints_is_told() -> None:
    began = [attempt(0, "SIGKILL", commits=3), attempt(1)]
    (line,) = find_in_progress(began, saves=True, baseline_seconds=3.0)
    assert line.startswith("attempt 1 began at step 0 although 3 checkpoints were there: ")
    resumed = [began[0], attempt(1, resumed_from_step=15)]
    assert find_in_progress(resumed, saves=True, baseline_seconds=3.0) == []


def test_events_tell_when_the_notice_was_heard_and_where_it_resumed() -> None:
    recorded = [
        Recorded(Restored(20, "c", 0.1), 0.0, 99.0),
        Recorded(NoticeHeard("SIGTERM", "r", 10.0, "supervisor"), 0.0, 100.01),
        Recorded(NoticeHeard("SIGTERM", "r", 10.0), 0.0, 100.5),
        Recorded(SaveCommitted(25, "c", 1, 0.1), 0.0, 100.6),
    ]
    told = add_events(attempt(0, "SIGTERM"), recorded, notice_at=100.0)
    assert told.heard_notice_after_seconds == pytest.approx(0.01)
    assert (told.resumed_from_step, told.commits) == (20, 1)


def test_lost_time_and_goodput_come_from_all_attempts() -> None:
    report = Report("survived", "cloud-run", 0, ("x",), (), baseline_seconds=3.0, attempts=(attempt(0), attempt(1)))
    assert (report.lost_seconds, report.goodput) == (0.0, 1.0)
    found = as_object(replace(report, baseline_seconds=1.5))
    assert (found["lost_seconds"], found["goodput"]) == (0.5, 0.75)


def test_what_was_not_exercised_follows_how_it_ran() -> None:
    said = not_exercised(evidence(saves=False), isolated=False, real_store=True, in_place=True)
    assert "PID namespace (your process was not PID 1)" in said
    assert any("the program was not seen to save" in one for one in said)
    assert any("all runs shared your folder" in one for one in said)
    assert any("outside of the copy" in one for one in said)
    assert not any("bucket" in one for one in said)
    moved = attempt(0, "SIGTERM", happened=("live-migration", "maintenance"))
    for found, live in ((evidence(), True), (evidence(moved), False)):
        assert any(one.startswith("live migrations") for one in not_exercised(found)) is live


def test_a_file_kept_open_all_along_is_a_log_and_no_save() -> None:
    log = [Write("a.log", "modified", moment) for moment in (0.0, 1.0, 2.0, 3.0)]
    saves = [Write("s.json", kind, moment) for moment in (0.0, 1.0, 2.0) for kind in ("modified", "closed")]
    assert find_logs([*log, *saves], life_seconds=4.0) == {"a.log"}
    assert not SaveFilter(logs=frozenset({"a.log"})).accepts(log[0])


def test_in_the_rehearsals_store_only_new_objects_are_saves() -> None:
    which = SaveFilter(store_only=True)
    assert which.accepts(Write(".outlast-rehearsal/store/a/data", "created", 0.0))
    assert not which.accepts(Write(".outlast-rehearsal/store/a/journal", "modified", 0.0))
    assert not which.accepts(Write("out.txt", "created", 0.0))
