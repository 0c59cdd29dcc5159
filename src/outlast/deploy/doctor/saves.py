"""Whether a final save fits into the grace: what the job's journal measured, against what its platform leaves."""

from dataclasses import dataclass

from outlast.checkpoint.history import history_of
from outlast.checkpoint.runs import check_store
from outlast.checkpoint.survey import tasks_in
from outlast.clock import format_duration
from outlast.deploy.description import Description
from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.gke.grace import choose_grace
from outlast.deploy.gke.nodes import Nodes
from outlast.errors import OutlastError
from outlast.planning.estimates import learn
from outlast.planning.history import facts_of
from outlast.ports import Identity, PlatformFacts
from outlast.registry import open_store
from outlast.settings import Surroundings, look_around

CHECK = "save time"
_IN_A_POD = "kubernetes-node"  # the notice that only pods hear


@dataclass(frozen=True, slots=True)
class Taken:
    """How long a final save takes, rarely longer, and who says so."""

    seconds: float
    source: str


def save_time(case: Case) -> Findings:
    """The final save, within the grace less outlast's margin."""
    described = case.described
    facts = look_around({}, platform=described.platform).facts if described.platform else None
    if facts is None:
        return [unknown(CHECK, "the description names no platform, so what grace there is is not known")]
    measured, reason = _measured(described)
    taken = measured or _told(described)
    if taken is None:
        return [unknown(CHECK, f"how long a save takes is not known: {reason}", _rehearse(described))]
    return [compare(taken, *_grace(described, facts, taken.seconds), url=described.url)]


def compare(taken: Taken, here: Surroundings, whence: str, *, url: str | None) -> Finding:
    """A save of so long, where so much of a grace can be used."""
    words = (
        f"a final save takes up to {format_duration(taken.seconds)} ({taken.source}); of a grace of "
        f"{format_duration(here.grace_seconds)} ({whence}) {format_duration(here.usable_seconds)} can be used"
    )
    if taken.seconds <= here.usable_seconds:
        return ok(CHECK, words)
    interval = command("outlast", "interval", *([url] if url else []), "--final-save", f"{taken.seconds:.3g}s")
    why = f"{words}: an interruption costs what was done since the last periodic save, so save more often"
    return bad(CHECK, why, interval)


def _told(described: Description) -> Taken | None:
    seconds = described.measured.save_seconds
    return None if seconds is None else Taken(seconds, "as the description says")


def _measured(described: Description) -> tuple[Taken | None, str]:
    """From the journal of the newest runs in the store; None and why not."""
    if described.url is None:
        return None, "there is no store"
    try:
        store = open_store(described.url)
        check_store(store)
        attempts = [one for place in tasks_in(store) for one in history_of(store, place).attempts]
    except OutlastError as error:
        return None, str(error).rstrip(".")
    learned = learn(facts_of(attempts), prior_between_seconds=1.0)  # of which nothing is used
    if learned.final_save is not None:
        return Taken(learned.final_save.p99_seconds, f"{learned.final_save.count} final saves in {described.url}"), ""
    if learned.stall is not None and learned.persist is not None:
        seconds = learned.stall.p99_seconds + learned.persist.p99_seconds
        return Taken(seconds, f"{learned.persist.count} periodic saves in {described.url}"), ""
    return None, f"no save in {described.url} has ended yet"


def _rehearse(described: Description) -> str:
    platform = ("--platform", described.platform) if described.platform else ()
    return command("outlast", "rehearse", *platform, "--", *described.full_command)


def _grace(described: Description, facts: PlatformFacts, save_seconds: float) -> tuple[Surroundings, str]:
    """The surroundings of a job there, and where the grace comes from; in a pod it is what `deploy gke` chooses."""
    if _IN_A_POD not in facts.notice_sources:
        here = look_around({}, platform=facts.name)
        return here, here.grace.source
    nodes = Nodes(described.hardware, described.kubernetes.autopilot)
    asked = described.kubernetes.grace_seconds
    # Not every gcloud can give Spot nodes a longer budget, so it is counted on only where somebody asks for it.
    chosen = choose_grace(nodes.kinds, save_seconds=save_seconds, asked_seconds=asked, long_shutdown=asked is not None)
    return Surroundings(facts, Identity(), float(chosen.seconds), facts.interrupted_exit_code), chosen.reason
