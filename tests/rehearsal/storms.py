"""Kill storms of victims/arrays.py on any store: lives as forks, and what must hold after each kill."""

import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.read import refusal
from outlast.checkpoint.record import load_record
from outlast.checkpoint.survey import tasks_in
from outlast.errors import CheckpointCorrupt, ObjectMissing
from outlast.ports import Store
from rehearsal.lives import INTERRUPTED, VICTIMS, environment

_RESUMED = re.compile(r"^outlast: resuming from step (\d+) ", re.MULTILINE)
_STARTED = re.compile(r"^outlast: starting at step 0 ", re.MULTILINE)


class ForkServer:
    """Lives of victims/arrays.py, quick to start."""

    def __init__(self, **variables: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(VICTIMS / "arrays.py"), "serve"],
            env=environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def life(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """One life from its start to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@dataclass(frozen=True)
class Climate:
    """What a storm is like: the place, the victim's settings, when lives end."""

    new_url: Callable[[], str]
    store_at: Callable[[str], Store]
    every: int = 7  # 0: the interval
    interval: str = "40ms"
    keep: int = 2
    steps: int = 400
    sleep_seconds: float = 0.001
    longest_seconds: float = 0.25
    saving: str = "background"


@dataclass
class Tally:
    """What a storm has seen."""

    kills: int = 0
    stops: int = 0
    runs: int = 0
    resumed: int = 0
    most_lost_steps: int = 0
    most_commits: int = 0
    verified: int = 0
    shared: int = 0  # verified checkpoints that refer to files of earlier ones


@dataclass
class Standing:
    """What stands in a store: the counted commits, newest first, and those of them that verify."""

    commits: list[CommitName] = field(default_factory=list)
    counted: list[CommitName] = field(default_factory=list)
    good: list[CommitName] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # data that a counted record refers to, and that is not there
    unnamed: set[str] = field(default_factory=set)  # data that no readable record refers to
    torn: list[CommitName] = field(default_factory=list)  # records that cannot be read
    shared: int = 0


def look(store: Store) -> Standing:
    """Reads everything."""
    found = Standing()
    for place in tasks_in(store):
        lineage = read_lineage(store, place)
        found.commits += lineage.commits
        found.counted += lineage.counted
        _look_at_data(store, place, lineage.commits, set(lineage.counted), found)
        found.good += [name for name in lineage.counted if refusal(store, place.commit(name)) is None]
    return found


def _look_at_data(
    store: Store, place: TaskPlace, commits: tuple[CommitName, ...], counted: set[CommitName], found: Standing
) -> None:
    there = {entry.name: entry.bytes for entry in store.list(place.data)}
    named: set[str] = set()
    for name in commits:
        try:
            record = load_record(store, place.commit(name))
        except (CheckpointCorrupt, ObjectMissing):
            found.torn.append(name)  # a mount keeps an empty object where a death came before its content
            continue
        named |= {file.name for file in record.files}
        if name in counted:  # a record that an attempt makes after it was superseded counts for nothing, nor its data
            found.missing += [file.name for file in record.files if there.get(file.name) != file.bytes]
        found.shared += any(place.data_of(file.name) != name for file in record.files)
    for file in there.keys() - named:
        writer = place.data_of(file)
        if writer is None or not any(writer <= name for name in found.torn):  # what it may refer to has to stay
            found.unnamed.add(file)


class Storm:
    """Lives ended at random moments; a run that comes to its end is judged and begun anew."""

    def __init__(self, climate: Climate, folder: Path, seed: int, server: ForkServer) -> None:
        self.climate, self.folder, self.server = climate, folder, server
        self.random = random.Random(seed)
        self.tally = Tally()
        self.right = str(reduce(lambda acc, step: (acc * 31 + step) % (2**61 - 1), range(climate.steps), 0))
        folder.mkdir(parents=True, exist_ok=True)
        self._new_run()

    def _new_run(self) -> None:
        self.tally.runs += 1
        self.url = self.climate.new_url()
        self.store = self.climate.store_at(self.url)
        self.trace = self.folder / f"trace-{self.tally.runs}"
        self.least, self.most = 0, 0  # where the next life must resume from
        self.newest_good = 0

    def _environment(self) -> dict[str, str]:
        climate = self.climate
        return {
            "VICTIM_URL": self.url,
            "VICTIM_TRACE": str(self.trace),
            "VICTIM_EVERY": str(climate.every),
            "VICTIM_INTERVAL": climate.interval,
            "VICTIM_KEEP": str(climate.keep),
            "VICTIM_STEPS": str(climate.steps),
            "VICTIM_SLEEP": str(climate.sleep_seconds),
            "VICTIM_SAVING": climate.saving,
        }

    def _reported(self) -> list[tuple[int, int, int]]:
        if not self.trace.exists():
            return []
        rows = [tuple(map(int, line.split())) for line in self.trace.read_bytes().splitlines()]
        return [(done, durable, flight) for done, durable, flight in rows]

    def life(self, by: signal.Signals | None = signal.SIGKILL) -> None:
        """One life, ended by a signal at some moment, or by itself; and what must hold after it."""
        before = len(self._reported())
        errors = self.folder / "errors"
        delay = None if by is None else self.random.uniform(0.0, self.climate.longest_seconds)
        within = self.random.random() < 0.8
        ended = self.server.life(
            {
                "life": self._environment(),
                "delay": delay,
                "from_first_step": within,
                "signal": int(by or signal.SIGKILL),
                "errors": str(errors),
            }
        )
        reported = self._reported()[before:]
        said = f"{self.url} {self.tally}, resume in [{self.least}, {self.most}], then {reported[-3:]}: {ended}\n"
        said += errors.read_text()
        self._judge_life(ended, errors.read_text(), reported, said)
        if by is signal.SIGKILL:
            assert ended["code"] in (-signal.SIGKILL, 0), said
            self.tally.kills += ended["code"] != 0
        elif by is signal.SIGTERM:
            early = not _RESUMED.search(said) and not _STARTED.search(said)
            late = (
                reported[-1:] and reported[-1][0] == self.climate.steps
            )  # before and after a job, it is any program's
            assert ended["code"] in (INTERRUPTED, 0) or (ended["code"] == -signal.SIGTERM and (early or late)), said
            self.tally.stops += ended["code"] != 0
        else:
            assert ended["code"] == 0, said
        self._judge_store(said, finished=ended["code"] == 0)

    def _judge_life(
        self, ended: Mapping[str, Any], errors: str, reported: list[tuple[int, int, int]], said: str
    ) -> None:
        resumed = _RESUMED.search(errors)
        start = int(resumed[1]) if resumed else 0 if _STARTED.search(errors) else None
        if start is None:
            return
        self.tally.resumed += start > 0
        assert self.least <= start <= self.most, said
        self.tally.most_lost_steps = max(self.tally.most_lost_steps, self.most - start)
        assert [done for done, _, _ in reported] == list(range(start + 1, start + len(reported) + 1)), said
        done = reported[-1][0] if reported else start
        durable = reported[-1][1] if reported else start
        if ended["code"] == INTERRUPTED:
            self.least = done  # not one step is lost
        else:
            every = self.climate.every
            # The save before the one that was due at the last border has ended: the loop has waited for it.
            exact = (done - 1) // every * every - every if every else 0
            self.least = max(start, durable, exact)
        # A step whose report was cut off by the kill may be saved.
        self.most = min(done + 1, self.climate.steps)

    def _judge_store(self, said: str, *, finished: bool) -> None:
        found = look(self.store)
        said = f"{found}\n{said}"
        assert found.missing == [], said
        if set(found.counted) - set(found.torn) or self.least:
            assert found.good, said
            assert found.good[0].step >= max(self.least, self.newest_good), said
            self.newest_good = found.good[0].step
        self.tally.most_commits = max(self.tally.most_commits, len(found.commits))
        self.tally.verified += len(found.good)
        self.tally.shared += found.shared
        if finished:
            assert Path(f"{self.trace}.result").read_text().strip() == self.right, said
            assert found.unnamed == set(), said
            assert len(found.commits) <= self.climate.keep + len(found.torn), said
            self._new_run()

    def blow(self, kills: int, *, stops: bool = False) -> Tally:
        """So many kills and stops, some of which find a checkpoint; the last run is let go to its end."""
        lives = 0
        while self.tally.kills + self.tally.stops < kills or (self.tally.resumed < 2 and lives < 4 * kills):
            lives += 1
            by = self.random.choice([signal.SIGKILL, signal.SIGTERM]) if stops else signal.SIGKILL
            self.life(by)
        if self.trace.exists():
            self.life(None)
        return self.tally
