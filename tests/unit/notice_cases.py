"""Notices to real jobs in simulated time, on a store whose requests take scripted time; what became of each."""

import math
import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.places import TaskPlace
from outlast.clock import Deadline
from outlast.console import Console
from outlast.disruptions import Disruption
from outlast.notices import NoticeBoard
from outlast.planning import planner
from outlast.planning.planner import Plan
from outlast.ports import Bytes, KnownGrace, OpenObject, Pace, StoreTraits, full_speed
from outlast.settings import LONG_NOTICE_SECONDS, Surroundings, look_around
from outlast.testing import MemoryStore
from simulated_time import Gone, World

GRACES = (10.0, 15.0, 30.0, 120.0, 300.0, 3600.0)
SAVES_BEFORE = (0, 1, 2, 10)
STATE_BYTES = 1 << 16  # what is simulated is how long they take
_MOST_STEPS_BETWEEN = 60
_PART_BYTES = STATE_BYTES // 8
_REQUESTS = 6  # of a save, roughly, beside those for its parts
_SLOW_SHARE, _SLOW_TIMES = 0.01, 5.0  # of requests, and by how much
_PLACE = TaskPlace("notices", "run-1", 0)


@dataclass(frozen=True)
class Weather:
    """What a store is like. A request takes `request_seconds` and the time of its bytes, log-normal around that."""

    request_seconds: float
    bytes_per_second: float
    spread: float
    save_spread: float  # of whole stretches of time
    local: bool


@dataclass(frozen=True)
class Case:
    """One notice, or several, and the job that they come to. Seconds."""

    number: int
    grace: float
    kind: str  # "sigterm", "announced": SIGTERM follows at any time, "revoked": SIGTERM follows later
    saves_before: int
    saving: str
    in_flight: bool
    changing_share: float
    step_seconds: float
    step_spread: float
    save_seconds: float  # about what a full one takes
    background_share: float  # of the store's speed, when it writes beside the training
    weather: Weather

    @classmethod
    def drawn(cls, number: int) -> "Case":
        chance = random.Random(20261129 + number)
        grace = GRACES[number % len(GRACES)]
        kind = chance.choices(("sigterm", "announced", "revoked"), (6, 2 if grace > 30 else 0, 1))[0]
        save = min(grace, 900.0) * 10 ** chance.uniform(-2.0, 0.15)
        of_bytes = chance.uniform(0.2, 0.95)
        shortest = grace / 100 if grace >= LONG_NOTICE_SECONDS else 0.001
        return cls(
            number=number,
            grace=grace,
            kind=kind,
            saves_before=chance.choice(SAVES_BEFORE),
            saving=chance.choice(("background", "background", "blocking")),
            in_flight=chance.random() < 0.25,
            changing_share=chance.choice((1.0, 1.0, 0.1)),
            step_seconds=shortest * (grace / 2 / shortest) ** (chance.random() ** 1.5),
            step_spread=chance.choice((0.0, 0.05, 0.2)),
            save_seconds=save,
            background_share=chance.choice((0.5, 2.0, 20.0)),
            weather=Weather(
                request_seconds=save * (1 - of_bytes) / _REQUESTS,
                bytes_per_second=STATE_BYTES / (save * of_bytes),
                spread=chance.choice((0.05, 0.2, 0.4)),
                save_spread=chance.choice((0.0, 0.1, 0.2)),
                local=chance.random() < 0.2,
            ),
        )


@dataclass
class Outcome:
    """What became of a case. `promised`: the planner said of the notice that counted that a save fits."""

    case: Case
    noticed_at: float = math.inf
    deadline: float = math.inf
    completed: int = 0
    durable_step: int = 0
    durable_at: float = -math.inf
    ended_by: str = ""
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    margin: float = 0.0

    @property
    def counting(self) -> list[Plan]:
        """The plans since the last notice."""
        return [plan for at, plan in self.plans if at >= self.noticed_at]

    @property
    def promised(self) -> bool:
        plans = self.counting
        return bool(plans) and (plans[-1].chosen is not None or any(one.train_on_seconds for one in plans))

    @property
    def share_used(self) -> float | None:
        """Of the time in which another step would have fitted before the last save, None for a short notice."""
        if self.deadline - self.noticed_at < LONG_NOTICE_SECONDS or not self.counting:
            return None
        stopped = self.plans[-1][0] if self.plans[-1][1].train_on_seconds is None else self.durable_at
        last_save = self.durable_at - stopped
        possible = self.deadline - self.margin - last_save - self.noticed_at - self.case.step_seconds
        return min((stopped - self.noticed_at) / possible, 1.0) if possible > 0 else None

    @property
    def lost(self) -> int:
        return self.completed - self.durable_step

    @property
    def kept(self) -> bool:
        return self.lost == 0 and self.durable_at < self.deadline


class ScriptedStore(MemoryStore):
    """A store whose requests take time."""

    def __init__(self, world: World, weather: Weather, seed: int) -> None:
        super().__init__()
        self.committed: dict[int, float] = {}
        self._world, self._weather, self._random = world, weather, random.Random(seed)
        self._stretch, self._stretch_until = 1.0, 0.0

    @property
    def traits(self) -> StoreTraits:
        return StoreTraits(local=self._weather.local)

    def create(self, name: str, data: bytes) -> None:
        self._take(0)
        super().create(name, data)
        if name.startswith(_PLACE.commits):
            self.committed[int(name.rpartition("/s")[2].split("-")[0])] = self._world.now

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        parts = []
        for buffer in buffers:
            for start in range(0, len(buffer), _PART_BYTES):
                part = buffer[start : start + _PART_BYTES]
                pace(len(part))
                self._take(len(part))
                parts.append(bytes(part))
        return super().write(name, parts)

    def append(self, name: str, data: bytes) -> None:
        if not self._weather.local:
            self._take(0)
        super().append(name, data)

    def read(self, name: str) -> bytes:
        self._take(0)
        return super().read(name)

    @contextmanager
    def open(self, name: str) -> Iterator[OpenObject]:
        self._take(0)
        with super().open(name) as opened:
            yield _SlowObject(opened, self._take)

    def list(self, prefix: str) -> list[Any]:
        self._take(0)
        return super().list(prefix)

    def delete(self, name: str) -> None:
        self._take(0)
        super().delete(name)

    def _take(self, size: int) -> None:
        weather, chance, now = self._weather, self._random, self._world.now
        typical = weather.request_seconds + size / weather.bytes_per_second
        if now > self._stretch_until:
            self._stretch = chance.lognormvariate(0.0, weather.save_spread)
            self._stretch_until = now + 20 * typical
        slow = _SLOW_TIMES if chance.random() < _SLOW_SHARE else 1.0
        self._world.sleep(typical * self._stretch * slow * chance.lognormvariate(0.0, weather.spread))


class _SlowObject:
    def __init__(self, opened: OpenObject, take: Any) -> None:
        self._opened, self._take = opened, take

    @property
    def bytes(self) -> int:
        return self._opened.bytes

    def read_into(self, offset: int, target: memoryview) -> None:
        self._take(target.nbytes)
        self._opened.read_into(offset, target)


class Stage:
    """Where jobs meet their notices: the doors of outlast lead to the world of the case that is on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.world, self.store, self._case = World(), MemoryStore(), Case.drawn(0)
        self._plans: list[tuple[float, Plan]] = []
        here = SimpleNamespace(TIMEOUT_MAX=self.world.threading.TIMEOUT_MAX)
        for kind in ("Thread", "Event", "Lock", "Condition"):
            setattr(here, kind, partial(self._made_in_the_world, kind))
        for module in ("threads", "saver", "saves", "lessons", "notices.board"):
            patch.setattr(f"outlast.{module}.threading", here)
        patch.setattr("outlast.checkpoint.journal.Lock", here.Lock)
        system = SimpleNamespace(getpid=os.getpid, _exit=lambda _code: self.world.end("the guard"))
        patch.setattr("outlast.notices.board.os", system)
        for module in ("saves", "account", "session"):
            patch.setattr(f"outlast.{module}.call_at_exit", lambda _method: None)
        patch.setattr("outlast.session.exit_watch", lambda: SimpleNamespace(watch=lambda *_: None))
        patch.setattr("outlast.session.listen", self._listen)
        patch.setattr("outlast.session.open_store", lambda _url: self.store)
        patch.setattr("outlast.job.look_around", lambda _env: self._surroundings())
        patch.setattr("outlast.leaving.plan", self._plan)
        patch.setattr(Console, "_write", lambda *_: None)
        patch.setattr("outlast.copies.free_memory_bytes", lambda: None)
        self._patch = patch

    def _made_in_the_world(self, kind: str, **named: Any) -> Any:
        return getattr(self.world.threading, kind)(**named)

    def play(self, case: Case) -> Outcome:
        """One case, from the job's start to its end."""
        self.world, self._case, self._plans = World(), case, []
        self.store = ScriptedStore(self.world, case.weather, case.number)
        rate = case.weather.bytes_per_second * case.background_share
        self._patch.setattr("outlast.saver._BACKGROUND_BYTES_PER_SECOND", rate)
        self._patch.setattr("outlast.saves._POLL_SECONDS", max(0.05, case.save_seconds / 100))  # else most of the work
        outcome = Outcome(case)
        try:
            self._train(outcome)
        except outlast.Interrupted:
            outcome.ended_by = "the stop"
        except Gone:
            outcome.ended_by = self.world.ended_by or ""
        finally:
            committed = dict(self.store.committed)
            self.world.close()
        outcome.plans = self._plans
        outcome.durable_step = max(committed, default=0)
        outcome.durable_at = committed.get(outcome.durable_step, -math.inf)
        return outcome

    def _train(self, outcome: Outcome) -> None:
        case, chance = self._case, random.Random(self._case.number)
        changing = int(STATE_BYTES * case.changing_share)
        state = {"moving": np.zeros(changing, np.uint8), "frozen": np.ones(STATE_BYTES - changing, np.uint8)}
        job = outlast.Job("memory", state=state, name="notices", every="1h", saving=case.saving, random_state=False)
        # Most saves have ended by then.
        noticed = case.saves_before + 1 + min(int(2 * case.save_seconds / case.step_seconds), _MOST_STEPS_BETWEEN)
        platform = self.world.threading.Thread(target=self._end_the_job, args=(outcome, job, chance))
        for step in job.steps(None):
            if step == noticed:
                platform.start()
            state["moving"] += 1
            self.world.sleep(case.step_seconds * chance.lognormvariate(0.0, case.step_spread))
            if step < case.saves_before or (case.in_flight and step == noticed - 1):
                job.save()
            outcome.completed = step + 1

    def _end_the_job(self, outcome: Outcome, job: outlast.Job, chance: random.Random) -> None:
        """The platform, in a thread of its own."""
        case, world, board = self._case, self.world, job._session.board
        outcome.margin = job._session.around.margin_seconds
        world.sleep(chance.random() * case.step_seconds)
        if case.kind != "sigterm":
            outcome.noticed_at, outcome.deadline = world.now, world.now + case.grace
            board.report("test", [Disruption("maintenance", "it is announced", deadline=Deadline(outcome.deadline))])
            world.sleep(case.grace * chance.uniform(0.01, 0.9))
            if case.kind == "revoked":
                board.report("test", [])
                world.sleep(chance.random() * 3 * case.step_seconds)
        outcome.noticed_at, outcome.deadline = world.now, world.now + self._final_grace
        board.post("SIGTERM", Disruption("sigterm", "SIGTERM", kind="final"))
        world.sleep(max(0.0, outcome.deadline - world.now))
        world.end("SIGKILL")

    @property
    def _final_grace(self) -> float:
        return 30.0 if self._case.kind == "announced" else self._case.grace

    def _surroundings(self) -> Surroundings:
        grace = KnownGrace(self._final_grace, "the case")
        return replace(look_around({}), grace_seconds=grace.seconds, graces=(grace,), clock=self.world)

    def _listen(self, around: Surroundings) -> tuple[NoticeBoard, Any]:
        return NoticeBoard(around, self.world), SimpleNamespace(put_back=lambda: None)

    def _plan(self, *arguments: Any, **named: Any) -> Plan:
        made = planner.plan(*arguments, **named)
        self._plans.append((self.world.now, made))
        return made
