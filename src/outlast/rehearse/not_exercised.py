"""What a verdict says nothing about: what one machine cannot show, and what this rehearsal did not meet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from outlast.rehearse.batches import Batch
from outlast.rehearse.request import Request
from outlast.rehearse.script import Script
from outlast.rehearse.verdict import Evidence
from outlast.rehearse.words import Nodes

Stdout = Literal["compared", "differs anyway", "came early", "of any rank"]


def what_was_not_exercised(
    request: Request,
    script: Script,
    evidence: Evidence,
    *,
    isolated: bool,
    held: bool,
    batches: Sequence[Batch],
    stdout: Stdout,
    ranks: int,
) -> list[str]:
    """One line for each thing. `isolated`: attempts had namespaces of their own; `held`: their file operations waited
    until they were answered, so that those outside of the copy were seen."""
    return [
        *_on_one_machine(request, script, evidence, isolated=isolated, ranks=ranks),
        *([] if held else ["files that it keeps outside of the copy: nobody saw what it writes there"]),
        *_of_saves(evidence),
        *(["a fresh copy: all runs shared your folder; what they made was set aside between them"] * request.in_place),
        *script.procedure.not_exercised,
        *(() if isolated else script.procedure.needs_namespaces),
        *_of_script(script, evidence),
        *_of_batches(batches),
        *_of_stdout(stdout),
    ]


def _on_one_machine(
    request: Request, script: Script, evidence: Evidence, *, isolated: bool, ranks: int
) -> Iterator[str]:
    if not request.real_store:
        yield "the real bucket or disk: everything was kept in a local folder"
    yield "the GPU and its driver, as the platform gives them"
    yield from _of_ranks(evidence, ranks, script.procedure.nodes if request.nodes > 1 else None)
    yield "the network, as it breaks when a machine goes"
    if not any("live-migration" in attempt.happened for attempt in evidence.landed):
        yield "live migrations (SIGTSTP, then SIGCONT)"
    yield "the platform's limits of time and memory"
    if script.procedure.first_is_pid_1 and not isolated:
        yield "PID namespace (your process was not PID 1)"


def _of_ranks(evidence: Evidence, ranks: int, nodes: Nodes | None) -> Iterator[str]:
    if ranks < 2:
        yield "several tasks or ranks: one task ran"
        return
    if nodes is None:
        yield f"several tasks, or ranks on several machines: all {ranks} ranks ran on this one"
    else:
        yield f"several machines: the nodes and their {ranks} ranks ran on this one, over its loopback, below one PID 1"
        yield from nodes.not_exercised
    ends = evidence.rank_ends
    if ends is None:
        yield "the end of one rank, or a notice to one alone"
    elif ends.missed:
        yield f"{', '.join(ends.missed)}: the job had finished before"


def _of_saves(evidence: Evidence) -> Iterator[str]:
    cuts = evidence.cuts
    if not evidence.saves:
        yield "an interruption in the middle of a save: the program was not seen to save"
    elif cuts is None or not (cuts.places or cuts.left):
        yield "each place between two file operations of a save, and notices in the middle of one"
    elif cuts.left:
        places = "1 place" if cuts.left == 1 else f"{cuts.left} places"
        yield f"{places} between two file operations: no time was left"


def _of_script(script: Script, evidence: Evidence) -> Iterator[str]:
    happened = Counter(word for attempt in evidence.landed for word in attempt.happened)
    planned = Counter(what.word for one in script.interruptions for what in one.happenings)
    if missed := list((planned - happened).elements()):
        yield f"{', '.join(missed)}, of the scenario: the job had finished before"
    if script.speed != 1.0:
        yield (
            f"the program's own clock: the platform's times passed {script.speed:g} times as fast, and the job was "
            "told of them as they passed; its steps, saves and settings of time took as long as ever"
        )


def _of_batches(batches: Sequence[Batch]) -> Iterator[str]:
    if not batches:
        return
    yield "several workers at one queue"
    yield "how long a lease lasts: what a killed attempt held was free at once"
    if any(batch.own for batch in batches):
        yield "a sink of the program's own making, but for the files that it left in the folder"


def _of_stdout(stdout: Stdout) -> Iterator[str]:
    if stdout == "differs anyway":
        yield "standard output's last line, in which the uninterrupted runs differ"
    elif stdout == "of any rank":
        yield "standard output's last line: whichever of the ranks says something last"
    elif stdout == "came early":
        yield "standard output's last line: it came before half of the work was done, so it tells no result"
