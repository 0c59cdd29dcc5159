"""A rehearsal from first to last: two uninterrupted runs, the interrupted one, then the verdict."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.clock import format_duration
from outlast.containers.container import can_hold_calls, can_isolate
from outlast.emulate.scale import TimeScale
from outlast.events import ItemsStored
from outlast.registry import platform_named
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.baseline import Baseline, outcome_of, run_baseline
from outlast.rehearse.batch_life import account_of
from outlast.rehearse.batches import without_batches
from outlast.rehearse.cut_batches import cut_batches
from outlast.rehearse.cut_saves import CutSaves, Job, can_cut, cut_everywhere
from outlast.rehearse.display import Display, SilentDisplay
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.interrupted import run_interrupted
from outlast.rehearse.many_notices import warn_often
from outlast.rehearse.not_exercised import Stdout, what_was_not_exercised
from outlast.rehearse.outputs import last_line, tail
from outlast.rehearse.rank_ends import end_ranks
from outlast.rehearse.report import Report
from outlast.rehearse.request import CannotRehearse, Limits, Request
from outlast.rehearse.results import STDOUT, Outcome, Result, compare_outcomes, set_aside
from outlast.rehearse.sandbox import PRIVATE_FOLDER, CopyPlan, plan_copy
from outlast.rehearse.scenario import ROUNDS
from outlast.rehearse.script import Script, read_script
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage
from outlast.rehearse.verdict import Evidence, judge, last_failure

Confirm = Callable[[str], bool]
_PLATFORM_LIMITS = Limits()
# A second uninterrupted run that works for less than this share of the first, and by this much, was no fresh start.
_FRESH_SHARE, _FRESH_SECONDS = 0.3, 0.2


def rehearse(
    request: Request,
    *,
    limits: Limits = _PLATFORM_LIMITS,
    display: Display | None = None,
    confirm: Confirm = lambda _question: False,
) -> Report:
    """Rehearses a command and reports what that proves.

    `confirm` is asked before a copy larger than the limit. Raises SettingsError for settings that cannot work;
    whatever else goes wrong is a report with the verdict "could-not-rehearse".
    """
    script = read_script(request)
    retries = script.retries(request, platform_named(request.platform).facts)
    shown = display or SilentDisplay()
    work = Path(tempfile.mkdtemp(prefix="outlast-rehearsal-")).resolve()
    kept = work if request.keep else None
    _announce(request, script, retries, shown)
    try:
        site = _make_site(request, script, limits, work, confirm)
        return _Rehearsal(site, script, retries, shown, kept).run()
    except CannotRehearse as error:
        return _without_proof(request, error, retries, kept)
    except OSError as error:  # the disk is full, no watches are left, …
        return _without_proof(request, CannotRehearse(f"the rehearsal itself failed: {error}"), retries, kept)
    finally:
        _clean_up(request, work, shown)


def _without_proof(request: Request, error: CannotRehearse, retries: int, kept: Path | None) -> Report:
    return Report(
        verdict="could-not-rehearse",
        platform=request.platform,
        seed=request.seed,
        command=request.command,
        reasons=(str(error),),
        retries=retries,
        nodes=request.nodes,
        baseline_seconds=error.seconds,
        baseline_exit_code=error.exit_code,
        output=error.output,
        kept=kept,
    )


def _announce(request: Request, script: Script, retries: int, display: Display) -> None:
    count = request.raised_interruptions
    if script.interruptions:
        what = f"scenario {script.name}"
    else:
        what = f"{count} interruptions"
        if count != request.interruptions:
            said = f"--interruptions {request.interruptions} raised to {count}"
            display.say(f"{said}: there are three kinds, each is needed")
    what = f"{request.nodes} nodes, {what}" if request.nodes > 1 else what
    faster = f", {script.speed:g} s of the platform in one" if script.speed != 1.0 else ""
    display.say(f"rehearsing on {request.platform}: {what}, {retries} retries, seed {request.seed}{faster}")
    inside = [word for word in request.command[1:] if Path(word).is_relative_to(request.folder)]
    if inside and not request.in_place:
        display.say(f"note: {inside[0]} names your own folder, not the copy; what is written beside it is not seen")


def _make_site(request: Request, script: Script, limits: Limits, work: Path, confirm: Confirm) -> Site:
    if not sys.platform.startswith("linux"):
        raise CannotRehearse("a rehearsal needs Linux: elsewhere processes cannot be killed as a container's are")
    return Site(
        request=request,
        limits=limits,
        platform=platform_named(request.platform),
        procedure=script.procedure,
        work=work,
        copies=None if request.in_place else _plan_copies(request, limits, confirm),
        isolated=can_isolate(),
        given=script.given,
        scale=TimeScale(script.speed),
    )


def _plan_copies(request: Request, limits: Limits, confirm: Confirm) -> CopyPlan:
    try:
        plan = plan_copy(request.folder)
    except OSError as error:
        raise CannotRehearse(f"the folder cannot be read: {error}") from error
    if plan.bytes > limits.copy_bytes:
        size = f"{plan.bytes / (1 << 30):.2f} GiB"
        if not confirm(f"Copy {size} from {plan.source} for each of three runs?"):
            raise CannotRehearse(
                f"a copy of {plan.source} takes {size}, more than {limits.copy_bytes / (1 << 30):.2f} GiB: "
                "say --yes, leave data out with .outlastignore, or rehearse with --in-place"
            )
    return plan


def _clean_up(request: Request, work: Path, display: Display) -> None:
    if request.keep:
        return
    for folder in (work, *((request.folder / PRIVATE_FOLDER,) if request.in_place else ())):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            display.say(f"{folder} could not be removed: {error}")


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    """One rehearsal on its site."""

    site: Site
    script: Script
    retries: int
    display: Display
    kept: Path | None

    def run(self) -> Report:
        """Raises CannotRehearse when there is nothing to judge."""
        elsewhere = Elsewhere()
        first, second = self._baseline(1, elsewhere), self._baseline(2, elsewhere)
        if _did_less(first, second):  # or the machine was busy during the first: a third run tells
            third = self._baseline(3, elsewhere)
            if _did_less(first, third):
                raise _not_fresh(first, third)
            first, second = second, third
        stdout: Stdout = "came early" if first.told_early or second.told_early else "compared"
        between = self._compare(first, second.outcome, with_stdout=stdout == "compared")
        if not between:
            told = "what it said came before half of its work" if stdout == "came early" else "it said nothing"
            raise CannotRehearse(
                f"there is nothing to compare: it made no file, and {told} on standard output. Let it write its result "
                "to a file below the folder, or as its last line"
            )
        several = max(first.profile.ranks, second.profile.ranks) > 1  # whichever of them says something last
        if len(between) > 1 and any(one.path == STDOUT and (several or not one.same) for one in between):
            stdout = "of any rank" if several else "differs anyway"
            between = [one for one in between if one.path != STDOUT]
        with_stdout = stdout == "compared"
        for round_number in range(ROUNDS):
            stage, evidence = self._round(round_number, (first, second), between, with_stdout=with_stdout)
            if not evidence.finished or evidence.left_early or evidence.all_landed or round_number + 1 == ROUNDS:
                break
            if self.site.copies is None:
                set_aside(stage.folder, first.before, stage.made)
            landed, planned = len(evidence.landed), len(evidence.scenario)
            self.display.say(
                f"the job finished after {landed} of {planned} interruptions: too late; once more, earlier"
            )
        evidence = self._with_cut_saves(first, evidence, with_stdout=with_stdout)
        evidence = self._with_rank_ends(first, evidence, with_stdout=with_stdout)
        return self._report(first, stage, evidence, stdout=stdout)

    def _with_cut_saves(self, first: Baseline, evidence: Evidence, *, with_stdout: bool) -> Evidence:
        """Also kills attempts at each place of a save, where nothing else has decided yet."""
        hoped = replace(evidence, cuts=CutSaves((), (), 0, stopped=True))  # whether it stops is seen here
        if judge(hoped)[0] != "survived" or not can_cut(self.site):
            return evidence

        def compare(stage: Stage, last: int) -> list[Result]:
            return self._compare(first, outcome_of(stage, last), with_stdout=with_stdout)

        batches = first.outcome.batches
        job = Job(
            site=self.site,
            compare=compare,
            seconds=evidence.baseline_seconds,
            hung_seconds=self.site.limits.hung_seconds(evidence.baseline_seconds),
            to_resume=evidence.saves
            and not batches  # a queue knows what is done
            and all(one.resumed_from_step is None for one in evidence.attempts),
        )
        # All of the files of some programs are those of outlast's queues and sinks.
        own_files = not batches or bool(without_batches(first.paths, batches))
        cuts = cut_everywhere(job, self.display) if own_files else CutSaves((), (), 0)
        if not cuts.broken and batches:
            more = cut_batches(job, batches, self.display)
            cuts = replace(cuts, places=(*cuts.places, *more.places), broken=more.broken)
        if not cuts.broken and cuts.places and own_files:
            notices = warn_often(job, self.display)
            cuts = replace(cuts, broken=notices.broken, stopped=notices.stopped, notices=notices.places)
        if self.site.request.real_store:  # what lies elsewhere is meant to
            cuts = replace(cuts, elsewhere=())
        return replace(evidence, cuts=cuts)

    def _with_rank_ends(self, first: Baseline, evidence: Evidence, *, with_stdout: bool) -> Evidence:
        """Also ends single ranks of a program that has several, where nothing else has decided yet."""
        if first.profile.ranks < 2 or self.site.copies is None or judge(evidence)[0] != "survived":
            return evidence

        def compare(stage: Stage, last: int) -> list[Result]:
            return self._compare(first, outcome_of(stage, last), with_stdout=with_stdout)

        job = Job(
            site=self.site,
            compare=compare,
            seconds=evidence.baseline_seconds,
            hung_seconds=self.site.limits.hung_seconds(evidence.baseline_seconds),
            to_resume=False,
        )
        profile = replace(first.profile, saves=evidence.saves)
        return replace(evidence, rank_ends=end_ranks(job, profile, self.display))

    def _baseline(self, number: int, elsewhere: Elsewhere) -> Baseline:
        with self.display.working(f"uninterrupted run {number}"):
            baseline = run_baseline(self.site, number, elsewhere)
        self.display.say(f"uninterrupted run {number} took {format_duration(baseline.attempt.seconds)}")
        return baseline

    def _compare(self, expected: Baseline, actual: Outcome, *, with_stdout: bool) -> list[Result]:
        tolerance = self.site.request.tolerance
        return compare_outcomes(expected.paths, expected.outcome, actual, tolerance=tolerance, with_stdout=with_stdout)

    def _round(
        self,
        round_number: int,
        baselines: tuple[Baseline, Baseline],
        between: Sequence[Result],
        *,
        with_stdout: bool,
    ) -> tuple[Stage, Evidence]:
        request, profiles = self.site.request, [one.profile for one in baselines]
        profile = replace(min(profiles, key=lambda one: one.seconds), saves=any(one.saves for one in profiles))
        scenario = self.script.scenario(request, saves=profile.saves, round_number=round_number)
        stage = self.site.make_stage(f"rehearsal-{round_number + 1}")
        elsewhere = None if can_cut(self.site) else Elsewhere()  # else attempts that are cut tell
        attempts, scenario = run_interrupted(
            self.site,
            stage,
            scenario,
            profile,
            retries=self.retries,
            round_number=round_number,
            display=self.display,
            elsewhere=elsewhere,
        )
        results, nearest = self._compare_with_both(baselines, stage, attempts[-1], with_stdout=with_stdout)
        outcome = outcome_of(stage, attempts[-1].number)
        evidence = Evidence(
            facts=self.site.platform.facts,
            grace_seconds=self.site.grace_seconds,
            retries=self.retries,
            tolerance=request.tolerance,
            saves=profile.saves,
            baseline_seconds=profile.seconds,
            baseline_writes=max(one.attempt.writes for one in baselines),
            scenario=scenario,
            attempts=tuple(attempts),
            results=tuple(results),
            between_baselines=tuple(between),
            nearest=tuple(nearest),
            last_words=_last_words(stage, attempts),
            elsewhere=tuple(sorted(elsewhere.read)) if elsewhere is not None and not request.real_store else (),
            outside=tuple(dict.fromkeys(url for batch in outcome.batches for url in batch.outside)),
            results_named=bool(request.results),
            items=account_of(baselines[0].stage, stage, attempts[-1].number),
        )
        return stage, evidence

    def _compare_with_both(
        self, baselines: tuple[Baseline, Baseline], stage: Stage, last: Attempt, *, with_stdout: bool
    ) -> tuple[list[Result], list[Result]]:
        """The results against the first uninterrupted run, and each against the one to which it is nearer."""
        first, second = baselines
        outcome = outcome_of(stage, last.number)
        results = self._compare(first, outcome, with_stdout=with_stdout)
        others = self._compare(replace(second, paths=first.paths), outcome, with_stdout=with_stdout)
        known = {other.path: other for other in others}
        nearer = [min(one, known.get(one.path, one), key=lambda result: result.distance.relative) for one in results]
        return results, nearer

    def _report(self, first: Baseline, stage: Stage, evidence: Evidence, *, stdout: Stdout) -> Report:
        request = self.site.request
        verdict, reasons = judge(evidence)
        not_exercised = what_was_not_exercised(
            request,
            self.script,
            evidence,
            isolated=self.site.isolated,
            held=self.site.isolated and can_hold_calls(),
            batches=first.outcome.batches,
            stdout=stdout,
            ranks=first.profile.ranks,
        )
        last = evidence.last
        output = () if evidence.finished else (*tail(stage.stdout(last.number)), *tail(stage.stderr(last.number)))
        return Report(
            verdict=verdict,
            platform=request.platform,
            seed=request.seed,
            command=request.command,
            reasons=tuple(reasons),
            not_exercised=tuple(not_exercised),
            retries=self.retries,
            nodes=request.nodes,
            grace_seconds=evidence.grace_seconds,
            scenario=self.script.name,
            speed=self.script.speed,
            baseline_seconds=evidence.baseline_seconds,
            baseline_exit_code=first.attempt.exit_code,
            attempts=evidence.attempts,
            cut_saves=evidence.cuts.places if evidence.cuts else (),
            rank_ends=evidence.rank_ends.said if evidence.rank_ends else (),
            more_notices=evidence.cuts.notices if evidence.cuts else (),
            results=evidence.results,
            output=output,
            kept=self.kept,
        )


def _did_less(first: Baseline, later: Baseline) -> bool:
    """By its time; a worker says how much it did, whatever that took on a busy machine."""
    stored = _stored(first)
    if stored and _stored(later) == stored:
        return False
    before, after = first.profile.work_seconds, later.profile.work_seconds
    return after < _FRESH_SHARE * before and before - after > _FRESH_SECONDS


def _stored(run: Baseline) -> int:
    """How many results a worker stored in it."""
    return sum(one.event.items for one in run.attempt.recorded if isinstance(one.event, ItemsStored))


def _not_fresh(first: Baseline, later: Baseline) -> CannotRehearse:
    """No judgement of a program that did less in later runs: what it saved is not below the folder."""
    return CannotRehearse(
        f"the first uninterrupted run worked for {format_duration(first.profile.work_seconds)}, later ones for "
        f"{format_duration(later.profile.work_seconds)}: they seem to find what the first one left outside the copy. "
        "Keep its files below the folder",
        seconds=first.attempt.seconds,
        exit_code=0,
    )


def _last_words(stage: Stage, attempts: Sequence[Attempt]) -> str:
    """The last line of error output of the last attempt that failed by itself."""
    failed = last_failure(attempts)
    return last_line(stage.stderr(failed.number)) if failed is not None else ""
