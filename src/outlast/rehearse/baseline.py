"""The uninterrupted run that everything else is measured against."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.rehearse.attempt import Attempt, read_events
from outlast.rehearse.batches import find_batches, is_own_words
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.outputs import last_line, tail
from outlast.rehearse.profile import Profile, profile_of
from outlast.rehearse.request import CannotRehearse
from outlast.rehearse.results import Listing, Outcome, choose_results, list_files, set_aside
from outlast.rehearse.sandbox import CopyPlan
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import Write, WriteWatch, count_saves, find_rotated

_NAMED = 8
_EARLY = 0.5
_TELLING = 4  # fewer files tell nothing


@dataclass(frozen=True, slots=True)
class Baseline:
    """One uninterrupted run. `before` lists the folder's files as they were at its start, `paths` its results,
    which lie below `folder`. `told_early`: its last output came before half of its life, so it tells no result."""

    stage: Stage
    attempt: Attempt
    profile: Profile
    before: Listing
    paths: list[str]
    folder: Path
    told_early: bool

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.stage, 0, folder=self.folder)


def outcome_of(stage: Stage, last_attempt: int, *, folder: Path | None = None) -> Outcome:
    """What a stage holds after its last attempt."""
    recorded = [one for number in range(last_attempt + 1) for one in read_events(stage, number)]
    line = last_line(stage.stdout(last_attempt))
    return Outcome(
        folder or stage.folder,
        "" if is_own_words(line) else line,
        stage.store,
        find_batches(recorded, stage.folder),
    )


def run_baseline(site: Site, number: int, elsewhere: Elsewhere) -> Baseline:
    """Runs the command to its end; raises CannotRehearse when it fails, or finds what an earlier one left elsewhere."""
    stage = site.make_stage(f"baseline-{number}")
    before = list_files(stage.folder)
    with WriteWatch(stage.folder) as watch, WriteWatch(stage.logs) as outputs:
        attempt = site.run(stage, 0, watch=watch, elsewhere=elsewhere)
        watch.settle()
        outputs.settle()
        writes = watch.writes_since(attempt.started_at)
        output = outputs.writes_since(attempt.started_at)
    printed = [one.at for one in output if one.path in _output_names(stage)]
    told = [one.at for one in output if one.path == stage.stdout(0).name and one.kind == "modified"]
    if attempt.exit_code != 0:
        raise _failed(stage, attempt, site.copies)
    if elsewhere.read and not site.request.real_store:
        files = ", ".join(sorted(elsewhere.read)[:3])
        raise CannotRehearse(
            f"an uninterrupted run read {files}, which one before had left outside the copy. Keep its files below the "
            "folder; what is only fetched, fetch before",
            seconds=attempt.seconds,
            exit_code=0,
        )
    recorded = read_events(stage, 0)
    batches = find_batches(recorded, stage.folder)
    sinks = tuple(batch.sink.path for batch in batches if batch.sink is not None)
    profile = profile_of(attempt, recorded, writes, printed[0] if printed else None, sinks)
    paths = choose_results(stage.folder, before, site.request.results)
    if not site.request.results:
        rotated = find_rotated(writes, paths)
        paths = [path for path in paths if path not in rotated]
    told_early = bool(told) and _is_early(max(told), attempt, profile, writes)
    if site.copies is None:
        set_aside(stage.folder, before, stage.made, also=paths)
    folder = stage.folder if site.copies is not None else stage.made
    return Baseline(stage, attempt, profile, before, paths, folder, told_early)


def _is_early(told_at: float, attempt: Attempt, profile: Profile, writes: Sequence[Write]) -> bool:
    """Whether half of the work came after the last output: of its time, or of the files that it wrote."""
    half = attempt.started_at + attempt.seconds - (1 - _EARLY) * profile.work_seconds
    files = count_saves(writes)
    after = count_saves(write for write in writes if write.at > told_at)
    return told_at < half or (files >= _TELLING and after >= (1 - _EARLY) * files)


def _output_names(stage: Stage) -> set[str]:
    return {stage.stdout(0).name, stage.stderr(0).name}


def _failed(stage: Stage, attempt: Attempt, copies: CopyPlan | None) -> CannotRehearse:
    output = (*tail(stage.stdout(0)), *tail(stage.stderr(0)))
    reason = f"the uninterrupted run failed in the copy with exit code {attempt.exit_code}"
    if output:
        reason += f": {output[-1].strip()}"
    ignored = copies.ignored if copies is not None else []
    if ignored:
        more = f" and {len(ignored) - _NAMED} more" if len(ignored) > _NAMED else ""
        reason += (
            f". The copy lacks what ignore files name: {', '.join(ignored[:_NAMED])}{more}; "
            "bring back what it needs with a line such as !data/ in .outlastignore"
        )
    return CannotRehearse(reason, seconds=attempt.seconds, exit_code=attempt.exit_code, output=output)
