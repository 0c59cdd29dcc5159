"""How an attempt starts: what is asked for, and which of the commits that it finds count for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.lineage import Lineage
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.record import load_record
from outlast.checkpoint.retain import Keep
from outlast.errors import CheckpointCorrupt, NoGoodCheckpoint, ObjectMissing, SettingsError
from outlast.events import Recorded, SaveCommitted, SaveTakenBack
from outlast.ports import Store


@dataclass(frozen=True, slots=True)
class StartRequest:
    """How an attempt starts. `rollback_to`: the step to go back to, or None; `execution` as the platform has it."""

    place: TaskPlace
    rollback_to: int | None
    crashes: CrashPolicy
    keep: Keep
    execution: str | None


def torn_records(
    store: Store, place: TaskPlace, names: Sequence[CommitName], journals: Mapping[int, Sequence[Recorded]]
) -> Iterator[CommitName]:
    """Records that a death cut short while they were made, where that can be: they never were checkpoints."""
    if store.traits.whole_records:
        return
    events = (recorded.event for journal in journals.values() for recorded in journal)
    committed = {event.commit for event in events if isinstance(event, SaveCommitted)}
    for name in names:
        try:
            load_record(store, place.commit(name))
        except CheckpointCorrupt:
            if name.text not in committed:
                yield name
        except ObjectMissing:
            continue


def rolled_back(request: StartRequest, found: Lineage) -> list[CommitName]:
    """The commits that count, after the rollback that was asked for; within one execution it is done once."""
    step = request.rollback_to
    counted = found.counted
    if step is None:
        return counted
    for claim in found.claims:
        done = claim.details.get("rollback_to") == step and claim.details.get("execution") == request.execution
        if done and request.execution is not None:
            return counted
    if step and all(name.step != step for name in counted):
        steps = sorted({name.step for name in counted})
        raise SettingsError(f"resume={step}: there is no checkpoint of that step; there are {steps or 'none'}")
    return [name for name in counted if name.step <= step] if step else []


def was_committed(journals: Mapping[int, Sequence[Recorded]], found: Lineage) -> bool:
    """Whether a journal tells of a commit that was made since the newest claim; what came before stands there."""
    since = found.claims[-1].attempt if found.claims else 0
    recent = [recorded.event for attempt in journals if attempt >= since for recorded in journals[attempt]]
    committed = {event.commit for event in recent if isinstance(event, SaveCommitted)}
    return bool(committed - {event.commit for event in recent if isinstance(event, SaveTakenBack)})


def refuse_vanished(place: TaskPlace, found: Lineage, *, committed: bool) -> None:
    """Only a place that is truly empty means a first run."""
    if found.counted or not (found.expected or committed):
        return
    raise NoGoodCheckpoint(
        f"{place.folder} had checkpoints, and their commit records are gone (attempt {found.newest} knew of "
        f"{found.expected or 'its own'}). Nothing was changed. Bring the records back, or start anew with "
        'resume="none"'
    )
