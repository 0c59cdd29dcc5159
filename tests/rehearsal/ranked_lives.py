"""Lives of victims/ranked.py, several processes at a time, and what must hold after each."""

import json
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.checkpoint.record import load_record
from outlast.stores.directory import DirectoryStore
from rehearsal.lives import INTERRUPTED, VICTIMS, environment
from rehearsal.storms import Standing, look

# Patience of the victims, then what a busy machine needs to end them.
LONGEST_END_SECONDS = 8.0
NOBODY_CAME = 75
MODULUS = 2**61 - 1


class RankServer:
    """Lives of several ranks, quick to start: what they need of `modules` is loaded once."""

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(VICTIMS / "ranked.py"), *modules],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "RankServer":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
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
class Ended:
    """How the ranks of one launch went. `said`: the lines of each rank's trace; `errors`: its standard error."""

    codes: list[int | None]
    hung: list[int]
    seconds: float
    said: list[list[str]]
    errors: list[str]

    def numbers(self, rank: int, word: str) -> list[int]:
        """What a rank said after a word, as numbers."""
        return [int(line.split()[1]) for line in self.said[rank] if line.startswith(f"{word} ")]


START = """
import os, sys, time
import outlast
rank, url = int(os.environ["RANK"]), os.environ["URL"]
trace = os.open(os.environ["TRACE"] + "-" + str(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def say(*words):
    os.write(trace, (" ".join(map(str, words)) + "\\n").encode())
def together():
    if ring is not None:
        os.write(ring[1], b"x")
        os.read(ring[0], 1)
"""


class Launches:
    """Launches of small programs, one after the other on one store."""

    def __init__(self, server: RankServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.url, self.count = folder / "store", 0
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self,
        program: str,
        size: int = 2,
        *,
        kills: Sequence[tuple[int, float, int]] = (),
        within: bool = True,
        **env: str,
    ) -> Ended:
        """One launch, to its end."""
        self.count += 1
        file, trace = self.folder / f"program-{self.count}.py", self.folder / f"trace-{self.count}"
        file.write_text(START + program)
        asked = {
            "size": size,
            "env": {"URL": str(self.url), "TRACE": str(trace), "PROGRAM": str(file), "OUTLAST_RANKS_WAIT": "4s", **env},
            "kills": list(kills),
            "from_first_step": within,
            "fate": None,
            "errors": f"{trace}-errors",
        }
        answer = self.server.life(asked)
        said = [_lines(Path(f"{trace}-{rank}")) for rank in range(size)]
        errors = ["\n".join(_lines(Path(f"{trace}-errors-{rank}"))) for rank in range(size)]
        return Ended(answer["codes"], answer["hung"], answer["seconds"], said, errors)

    def commits(self) -> list[int]:
        """The steps of the checkpoints that count, the oldest first."""
        return sorted(name.step for name in look(DirectoryStore(str(self.url))).good)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def right_acc(rank: int, steps: int) -> int:
    """The result of an uninterrupted run."""
    acc = 0
    for step in range(1, steps + 1):
        acc = (acc * 31 + step * (rank + 3)) % MODULUS
    return acc


@dataclass
class RankTally:
    """What a storm has seen."""

    lives: int = 0
    kills: int = 0
    runs: int = 0
    resumed: int = 0
    shared: int = 0  # checkpoints in which a rank refers to what another one wrote
    longest_end_seconds: float = 0.0
    codes: dict[str, int] = field(default_factory=dict)


class RankStorm:
    """Runs of several ranks, ended again and again until each comes to its end."""

    def __init__(self, server: RankServer, folder: Path, size: int, seed: int, **env: str) -> None:
        self.server, self.folder, self.size = server, folder, size
        self.random = random.Random(seed)
        defaults = {
            "STEPS": "60",
            "EVERY": "5",
            "KEEP": "2",
            "SAVING": "background",
            "SLEEP": "0.003",
            "OUTLAST_RANKS_WAIT": "3s",
        }
        self.env = {**defaults, **env}
        self.tally = RankTally()
        folder.mkdir(parents=True, exist_ok=True)
        self.new_run()

    def new_run(self) -> None:
        self.url, self.trace = self.folder / secrets.token_hex(4), self.folder / f"trace-{self.tally.runs}"
        self.tally.runs += 1
        self.newest_good = 0

    def lines(self, what: object) -> list[list[int]]:
        path = Path(f"{self.trace}-{what}")
        return [list(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []

    def life(
        self, kills: list[tuple[int, float, int]], *, within: bool = True, fate: list[Any] | None = None
    ) -> dict[str, Any]:
        """One life, and what holds after any."""
        before = len(self.lines("starts"))
        env = {**self.env, "URL": str(self.url), "TRACE": str(self.trace)}
        errors = self.folder / "errors"
        asked = {
            "size": self.size,
            "env": env,
            "kills": kills,
            "from_first_step": within,
            "fate": fate,
            "errors": str(errors),
        }
        ended = self.server.life(asked)
        said = f"{self.url} {kills} {fate} {self.tally}: {ended}\n" + "".join(
            f"[{rank}] {Path(f'{errors}-{rank}').read_text()}" for rank in range(self.size)
        )
        self.tally.lives += 1
        for code in ended["codes"]:
            self.tally.codes[str(code)] = self.tally.codes.get(str(code), 0) + 1
        assert ended["hung"] == [], said
        assert "AssertionError" not in said, said
        assert ended["seconds"] < LONGEST_END_SECONDS, said
        if kills or fate:
            self.tally.longest_end_seconds = max(self.tally.longest_end_seconds, ended["seconds"])
        self._judge(ended, before, said, noticed=any(number == signal.SIGTERM for _, _, number in kills))
        return {**ended, "said": said}

    def _judge(self, ended: Mapping[str, Any], before: int, said: str, *, noticed: bool) -> None:
        starts = self.lines("starts")[before:]
        assert len({(attempt, step) for _, attempt, step in starts}) <= 1, f"not all from one step: {starts} {said}"
        found = look(DirectoryStore(str(self.url))) if self.url.exists() else Standing()
        said = f"{found}\n{said}"
        assert found.missing == [], said
        if starts:
            self.tally.resumed += starts[0][2] > 0
            assert starts[0][2] >= self.newest_good, said
        if found.counted:
            assert found.good, said
            assert found.good[0].step >= self.newest_good, said
            self.newest_good = found.good[0].step
        self.tally.shared += self._shares(found)
        if ended["codes"] == [0] * self.size:
            results = {line[0]: line[1] for line in self.lines("results")}
            assert results == {rank: right_acc(rank, int(self.env["STEPS"])) for rank in range(self.size)}, said
            # A save that a notice left no time to read back retires nothing, and is not retired.
            assert len(found.commits) <= int(self.env["KEEP"]) + noticed, said
            assert found.unnamed == set(), said
            self.new_run()

    def _shares(self, found: Standing) -> bool:
        """Whether the newest checkpoint has an image of each rank, and one refers to a file that another wrote."""
        if not found.good:
            return False
        [place] = {file.parent for file in self.url.glob("ranked/*/task-0/commits")}
        store = DirectoryStore(str(self.url))
        name = str((place / "commits" / found.good[0].text).relative_to(self.url))
        record = load_record(store, name)
        assert [image.rank for image in record.images] == list(range(self.size))
        used = {record.files[piece.file].name for piece in record.images[-1].pieces}
        return any("-r0000-" in name for name in used)

    def storm(
        self, kills: int, *, longest_seconds: float = 0.5, by: tuple[signal.Signals, ...] = (signal.SIGKILL,)
    ) -> RankTally:
        """So many kills of random ranks at random moments; then the run is let go to its end."""
        while self.tally.kills < kills:
            victims = self.random.choice([1, 1, 1, 2, self.size])
            number = self.random.choice(by)
            ranks = self.random.sample(range(self.size), min(victims, self.size))
            moment = self.random.uniform(0.0, longest_seconds)
            planned = [(rank, moment + self.random.choice([0.0, 0.0, 0.02]), int(number)) for rank in ranks]
            ended = self.life(planned, within=self.random.random() < 0.8)
            self.tally.kills += (
                sum(code == -signal.SIGKILL for code in ended["codes"]) if number == signal.SIGKILL else 1
            )
            for rank, code in enumerate(ended["codes"]):
                allowed = {0, INTERRUPTED, NOBODY_CAME}
                allowed |= {-int(number)} if rank in ranks or number == signal.SIGTERM else set()
                assert code in allowed, ended["said"]
        while Path(f"{self.trace}-starts").exists():  # a run that has begun
            self.life([])
        return self.tally


def environment_seed() -> int:
    """Other moments for a long storm."""
    return int(os.environ.get("OUTLAST_STORM_SEED", "1"))
