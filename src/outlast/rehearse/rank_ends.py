"""Ends of single ranks: for a program that turned out to be several processes that train together.

A launcher gives a signal to all of them, and a machine takes all of them with it. But one may be killed for its memory,
and a notice may reach one before the others: then they must neither hang, nor mix what they saved at different steps.
"""

from dataclasses import dataclass

from outlast.rehearse.attempt import Attempt
from outlast.rehearse.cut_saves import Job
from outlast.rehearse.display import Display
from outlast.rehearse.interrupted import run_interrupted
from outlast.rehearse.outputs import last_line
from outlast.rehearse.profile import Profile
from outlast.rehearse.ranks import find_in_ranks, which
from outlast.rehearse.scenario import Happening, Interruption
from outlast.rehearse.stage import Stage

_WORDS = ("rank-killed", "rank-stopped", "ranks-stopped")
_OF_NODES = ("node-killed", "node-stopped")
_SPARE = 2  # attempts for failures of its own, which a retry may mend
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class RankEnds:
    """What came of it: `broken` as reasons, and what landed, `said` in words. `missed`: what did not."""

    broken: tuple[str, ...]
    said: tuple[str, ...]
    missed: tuple[str, ...] = ()


def end_ranks(job: Job, profile: Profile, display: Display) -> RankEnds:
    """A run of the job in which single ranks are killed and told to stop."""
    landed: list[Attempt] = []
    words = (*_WORDS, *_OF_NODES) if job.site.request.nodes > 1 else _WORDS
    for round_number in range(_ROUNDS):
        stage = job.site.make_stage(f"ranks-{round_number + 1}")
        done = [word for one in landed for word in one.happened]
        scenario = [
            Interruption("one rank noticed" if "stopped" in word else "one rank killed", 0.7, (Happening(word),))
            for word in words
            if word not in done
        ]
        attempts, _ = run_interrupted(
            job.site,
            stage,
            scenario,
            profile,
            retries=len(scenario) + _SPARE,
            round_number=round_number,
            display=display,
            completes=False,
        )
        landed += [one for one in attempts if one.rank is not None]
        broken = [*find_in_ranks(attempts, grace_seconds=job.site.grace_seconds), *_wrong(job, stage, attempts)]
        if broken or {word for one in landed for word in one.happened} >= set(words):
            break
    happened = [word for one in landed for word in one.happened]
    return RankEnds(tuple(broken), tuple(map(_said, landed)), tuple(word for word in words if word not in happened))


def _wrong(job: Job, stage: Stage, attempts: list[Attempt]) -> list[str]:
    last = attempts[-1]
    where = ", ".join(_said(one) for one in attempts if one.rank is not None) or "with nothing that happened to a rank"
    if not last.succeeded:
        words = last_line(stage.stderr(last.number))
        said = f": {words}" if words else ""
        return [f"after {where}, attempt {last.number} ended by {last.ended_by} with exit code {last.exit_code}{said}"]
    different = [one for one in job.compare(stage, last.number) if not one.same]
    if not different:
        return []
    first = different[0]
    said = f"after {where}, {first.path} is not what the uninterrupted run made: {first.detail}"
    if last.kind == "one rank killed":
        return [
            f"{said}. Attempt {last.number} left with 0 all the same, so the platform records success",
            "the launcher has to pass on the codes of its ranks: torchrun does, and in a shell `wait` for each",
        ]
    return [
        said,
        "all ranks have to go on from one step: save what belongs together at the same one, and commit it as one",
    ]


def _said(attempt: Attempt) -> str:
    return f"{which(attempt)} {'got SIGTERM' if attempt.kind == 'one rank noticed' else 'was killed'}"
