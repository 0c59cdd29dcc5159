"""What can go wrong on every platform: machines fail, programs crash, disks fill, attempts overlap."""

import errno
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from outlast.containers.container import Mount
from outlast.emulate.scale import TimeScale
from outlast.rehearse.scenario import Kind
from outlast.rehearse.words import (
    EndNode,
    Kill,
    KillAtSave,
    Machine,
    MendStorage,
    Scene,
    Setting,
    Settings,
    SignalRank,
    SpoilStorage,
    StartSecond,
    Timed,
    Warn,
    Word,
    seconds_in,
)

_ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EDQUOT": errno.EDQUOT, "slow": 0}


@dataclass(frozen=True, slots=True)
class PlainMachine:
    """A machine that answers no questions."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


@contextmanager
def plain_machine(_given: Settings, _scale: TimeScale) -> Iterator[Machine]:
    """No server of the platform's."""
    yield PlainMachine()


def stop(scene: Scene, _told: Settings) -> list[Timed]:
    """SIGTERM to the first process, the grace, SIGKILL to all."""
    return [Timed(0.0, Warn()), scene.at(scene.grace_seconds, Kill())]


def _host_error(_scene: Scene, _told: Settings) -> list[Timed]:
    return [Timed(0.0, Kill())]


def _crash_at_a_save(_scene: Scene, told: Settings) -> list[Timed]:
    return [Timed(0.0, KillAtSave(int(told["write"]) if "write" in told else None))]


def _storage_fault(scene: Scene, told: Settings) -> list[Timed]:
    delay = scene.scale.here(seconds_in(told, "delay")) if told["error"] == "slow" else 0.0
    begins = Timed(0.0, SpoilStorage(_ERRORS[str(told["error"])], delay))
    return [begins, *([scene.at(seconds_in(told, "lasts"), MendStorage())] if "lasts" in told else [])]


def _rank(told: Settings) -> int | None:
    return int(told["rank"]) if "rank" in told else None


def _rank_killed(_scene: Scene, told: Settings) -> list[Timed]:
    return [Timed(0.0, SignalRank(signal.SIGKILL, _rank(told)))]


def _rank_stopped(scene: Scene, told: Settings) -> list[Timed]:
    return [Timed(0.0, SignalRank(signal.SIGTERM, _rank(told))), scene.at(scene.grace_seconds, Kill())]


def _ranks_stopped(scene: Scene, told: Settings) -> list[Timed]:
    apart = scene.scale.here(seconds_in(told, "apart"))
    return [Timed(0.0, SignalRank(signal.SIGTERM, apart_seconds=apart)), scene.at(scene.grace_seconds, Kill())]


def _second_attempt(scene: Scene, told: Settings) -> list[Timed]:
    return [Timed(0.0, StartSecond(scene.scale.here(seconds_in(told, "overlap"))))]


EVERYWHERE: dict[str, Word] = {
    "host-error": Word("the machine is gone at once, with no notice", "SIGKILL", _host_error),
    "crash-at-a-save": Word(
        "everything is killed in the middle of a save",
        "SIGKILL at a save",
        _crash_at_a_save,
        {"write": Setting("before which write from then on; at the first that is seen unless given", "count")},
    ),
    "storage-fault": Word(
        "writes fail, or take long",
        "storage fault",
        _storage_fault,
        {
            "error": Setting("what each write gives", "choice", "ENOSPC", tuple(_ERRORS)),
            "lasts": Setting("for how long; until the end of the attempt unless given", "duration"),
            "delay": Setting("how much longer a slow write takes", "duration", 0.1, most=60.0),
        },
    ),
    "rank-killed": Word(
        "one of several processes that train together is killed, the others live",
        "one rank killed",
        _rank_killed,
        {"rank": Setting("which; another one in each attempt unless given", "count", least=0)},
    ),
    "rank-stopped": Word(
        "one of several processes that train together gets SIGTERM, and no other; all are killed after the grace",
        "one rank noticed",
        _rank_stopped,
        {"rank": Setting("which; another one in each attempt unless given", "count", least=0)},
    ),
    "ranks-stopped": Word(
        "all processes that train together get SIGTERM, one after the other; all are killed after the grace",
        "one rank noticed",
        _ranks_stopped,
        {"apart": Setting("from the first to the last, at most", "duration", 0.3, most=60.0)},
    ),
    "second-live-attempt": Word(
        "nobody can reach the attempt; it stands still, and works on once the next one does",
        "second attempt",
        _second_attempt,
        {"overlap": Setting("for how long both work, at most", "duration", 10.0)},
    ),
}


def _node_killed(_scene: Scene, told: Settings) -> list[Timed]:
    return [Timed(0.0, SignalRank(signal.SIGKILL, _node(told), what="node"))]


def _node_stopped(scene: Scene, told: Settings) -> list[Timed]:
    warned = Timed(0.0, SignalRank(signal.SIGTERM, _node(told), what="node"))
    return [warned, scene.at(scene.grace_seconds, EndNode())]


def _node(told: Settings) -> int | None:
    return int(told["node"]) if "node" in told else None


_WHICH_NODE = {"node": Setting("which; another one in each attempt unless given", "count", least=0)}
# Where one job has several nodes, and in a rehearsal with --nodes.
ON_NODES: dict[str, Word] = {
    "node-killed": Word(
        "one of several nodes is gone without a word, the others live", "one rank killed", _node_killed, _WHICH_NODE
    ),
    "node-stopped": Word(
        "the first process of one of several nodes gets SIGTERM; that node is killed after the grace",
        "one rank noticed",
        _node_stopped,
        _WHICH_NODE,
    ),
}


def port_of_first(node: int, count: int) -> dict[str, str]:
    """Where the first node is, for torchrun and its like, as the variables that its options may come from say it
    (PyTorch, torch.distributed.argparse_util: PET_ and the option's name; 2026-12-01)."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}
    options = {"NNODES": str(count), "NODE_RANK": str(node), **where}
    return {**where, "NODE_RANK": str(node), **{f"PET_{name}": text for name, text in options.items()}}


def usual(notice: str) -> dict[Kind, str]:
    """The words for the kinds that are drawn, where `notice` is the one for an end with notice."""
    return {"SIGTERM": notice, "SIGKILL": "host-error", "SIGKILL at a save": "crash-at-a-save"}
