"""Up-times of interruptible machines: real traces (benchmarks/traces, with their licences) and synthetic ones."""

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_FOLDER = Path(__file__).parent / "traces"
_DAY_SECONDS = 86400.0
SYNTHETIC_SHAPE = 0.6  # fitted to most AWS spot zones: 0.50 to 0.73
SYNTHETIC_SCALE_SECONDS = 7200.0  # a mean of 3 h, what outlast expects of spot machines before it has learned
SYNTHETIC_TRACES, SYNTHETIC_SECONDS = 9, 45 * _DAY_SECONDS


@dataclass(frozen=True, slots=True)
class UpTime:
    """How long one machine was there, and whether it was taken away (else the trace ended). Seconds."""

    seconds: float
    killed: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """The machines that a job had, one after the other. `scope`: what one of them is."""

    name: str
    up_times: tuple[UpTime, ...]
    scope: str = "machine"

    @property
    def kills(self) -> int:
        return sum(one.killed for one in self.up_times)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.up_times)

    @property
    def between_seconds(self) -> float:
        """The mean time between interruptions, in hindsight."""
        return self.seconds / max(self.kills, 1)


def judged_traces() -> list[Trace]:
    """What the goals are held against: a job on one machine at a time."""
    counted = [machines_of(name, rows) for name, rows in _counts().items()]
    return [*_bamboo(), *counted, *synthetic_traces()]


def cluster_traces() -> list[Trace]:
    """The counts again, for a job that needs all of its machines: each drop interrupts it."""
    return [cluster_of(name, rows) for name, rows in _counts().items()]


def _bamboo() -> Iterator[Trace]:
    for kind in ("p3", "g4dn"):
        document = json.loads((_FOLDER / "bamboo" / f"bamboo_{kind}-trace.json").read_text())
        yield Trace(
            f"bamboo AWS {kind}", tuple(UpTime(seconds, bool(killed)) for seconds, killed in document["upruns"])
        )


Counts = list[tuple[float, int]]


def _counts() -> dict[str, Counts]:
    """(moment, machines there), in order of time."""
    gcloud = _FOLDER / "bamboo" / "gcloud"
    return {
        "bamboo GCP a100": _dated(gcloud / "a100x1-east1b.txt"),
        "bamboo GCP v100": _dated(gcloud / "v100x1-east1c.txt"),
        "pccheck": _stamped(_FOLDER / "pccheck" / "gpus_trace.csv"),
    }


def _dated(path: Path) -> Counts:
    rows = []
    for line in path.read_text().splitlines():
        day, hour, count = (part.strip() for part in line.split(","))
        rows.append((datetime.fromisoformat(f"{day}T{hour}").replace(tzinfo=UTC).timestamp(), int(count)))
    return sorted(rows, key=lambda row: row[0])


def _stamped(path: Path) -> Counts:
    with path.open(newline="") as file:
        return sorted((float(row["Time"]), int(row["GPUs"])) for row in csv.DictReader(file))


def machines_of(name: str, rows: Counts) -> Trace:
    """Up-times of single machines from counts: which of those there a drop took is drawn (seeded), each as likely."""
    source = random.Random(name)
    born: list[float] = []
    ended: list[UpTime] = []
    for moment, count in rows:
        while len(born) < count:
            born.append(moment)
        while len(born) > count:
            start = born.pop(source.randrange(len(born)))
            ended.append(UpTime(moment - start, killed=True))
    last = rows[-1][0]
    return Trace(name, (*ended, *(UpTime(last - start, killed=False) for start in born if start < last)))


def cluster_of(name: str, rows: Counts) -> Trace:
    """The times between drops."""
    drops = [moment for (moment, count), (_, before) in zip(rows[1:], rows, strict=False) if count < before]
    starts = [rows[0][0], *drops]
    ended = [UpTime(end - start, killed=True) for start, end in zip(starts, drops, strict=False) if end > start]
    rest = rows[-1][0] - starts[-1]
    return Trace(name, (*ended, *([UpTime(rest, killed=False)] if rest > 0 else [])), scope="whole cluster")


def synthetic_traces() -> list[Trace]:
    """As many and as long as the public AWS zones of 45 days, whose data carries no licence."""
    return [weibull_trace(f"weibull 0.6 #{number}", seed=number) for number in range(1, SYNTHETIC_TRACES + 1)]


def weibull_trace(
    name: str,
    *,
    seed: int,
    shape: float = SYNTHETIC_SHAPE,
    scale_seconds: float = SYNTHETIC_SCALE_SECONDS,
    seconds: float = SYNTHETIC_SECONDS,
) -> Trace:
    """Machines with Weibull up-times until so much time is full."""
    source, left = random.Random(seed), seconds
    found: list[UpTime] = []
    while left > 0:
        drawn = source.weibullvariate(scale_seconds, shape)
        found.append(UpTime(min(drawn, left), killed=drawn < left))
        left -= drawn
    return Trace(name, tuple(found))
