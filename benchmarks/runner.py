"""Runs the cases in turn, each in a fresh process, so that a slow moment of the machine meets all of them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.batch.rounds import BatchRounds
from benchmarks.figures import LIMITS
from benchmarks.goodput_report import replay_all
from benchmarks.one_run import Request
from benchmarks.ranks import CASES, STATE
from benchmarks.samples import Result, is_ours

PARTS = (
    "stall",
    "slowdown",
    "restore",
    "incremental",
    "step",
    "sigterm",
    "notice",
    "goodput",
    "batch",
    "lint",
    "ranks",
)
NO_STATE = "any state"
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `parts` is any of PARTS; `cases` are names of savers; `batch` any of benchmarks.batch.settings."""

    parts: frozenset[str]
    states: tuple[str, ...]
    cases: tuple[str, ...]
    rounds: int
    scale: float
    folder: Path
    step_seconds: float
    timeout_seconds: float
    batch: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        """How often the state was changed when the last save of a run began."""
        return 2 if "slowdown" in self.parts else 1


def run_all(plan: Plan) -> Iterator[Result]:
    """Every run of every round, as each ends; goodput once, since it is reckoned and not timed."""
    if "goodput" in plan.parts:
        yield from replay_all()
    with BatchRounds(plan.batch if "batch" in plan.parts else (), plan.folder) as batch:
        for number in range(plan.rounds):
            yield from Round(plan, number).run()
            yield from batch.one(number, Round(plan, number).batch)


@dataclass(frozen=True, slots=True)
class Round:
    """All cases once."""

    plan: Plan
    number: int

    def run(self) -> Iterator[Result]:
        plan = self.plan
        if plan.parts & {"stall", "slowdown", "restore", "incremental", "notice"}:
            shift = self.number % max(len(plan.cases), 1)  # so that no case always follows the same one
            for state in plan.states:
                yield self._one("limits", LIMITS, state)
                if "notice" in plan.parts:
                    yield self._one("going on", "outlast", state)
                yield from self._savers(state, plan.cases[shift:] + plan.cases[:shift])
        if "step" in plan.parts:
            yield from self._beside_its_limit("step", "step_bare")
        if "lint" in plan.parts:
            yield from self._beside_its_limit("lint", "lint_parse")
        if "ranks" in plan.parts:
            yield from self._ranks(CASES[self.number % len(CASES) :] + CASES[: self.number % len(CASES)])
        if "sigterm" in plan.parts:
            yield self._one("sigterm", "outlast", NO_STATE)

    def batch(self, which: str, case: str, state: str, server: str) -> Result:
        """One run of the batch part; `state` is its name in the report."""
        return replace(self._one("batch", case, which, server=server), state=state)

    def _beside_its_limit(self, action: str, limit: str) -> Iterator[Result]:
        """What bounds it, a bare loop or a bare parse, runs in the same process."""
        result = self._one(action, "outlast", NO_STATE)
        bare = {name: value for name, value in result.figures.items() if name == limit}
        yield replace(result, figures={name: value for name, value in result.figures.items() if name not in bare})
        yield Result(self.number, NO_STATE, LIMITS, action, bare)

    def _savers(self, state: str, cases: tuple[str, ...]) -> Iterator[Result]:
        if not self.plan.parts & {"stall", "slowdown", "restore", "incremental"}:
            return
        restored_ours = False  # the file is the same, whichever way it was saved
        for case in cases:
            with self._folder(state, case) as folder:
                if self.plan.parts & {"stall", "slowdown", "restore"}:
                    saved = self._one("save", case, state, folder)
                    yield saved
                    if "restore" in self.plan.parts and saved.fails is None and not (is_ours(case) and restored_ours):
                        restored_ours = restored_ours or is_ours(case)
                        yield from self._restores(state, case, folder)
            if "incremental" in self.plan.parts and is_ours(case):
                yield self._one("incremental", case, state)

    def _ranks(self, cases: tuple[str, ...]) -> Iterator[Result]:
        """Two processes for each; a checkpoint of outlast is restored once, however it was saved."""
        yield self._one("ranks limits", LIMITS, STATE)
        for case in cases:
            with self._folder(STATE, case) as folder:
                saved = self._one("ranks save", case, STATE, folder)
                yield saved
                if saved.fails is None and case != "outlast blocking":
                    named = "outlast" if is_ours(case) else case
                    yield self._one("ranks restore", named, STATE, folder, warm=True)

    def _restores(self, state: str, case: str, folder: Path) -> Iterator[Result]:
        name = "outlast" if is_ours(case) else case
        for warm in (False, True):
            yield self._one("restore", case, state, folder, named=name, warm=warm)
        if is_ours(case) and state == "transformer":
            fresh = "outlast, fresh optimizer"
            for warm in (False, True):
                yield self._one("restore", case, state, folder, named=fresh, warm=warm, with_moments=False)

    def _one(
        self, action: str, case: str, state: str, folder: Path | None = None, *, named: str = "", **options: bool | str
    ) -> Result:
        if folder is None:
            with self._folder(state, action) as own:
                return self._one(action, case, state, own, named=named, **options)
        plan = self.plan
        request = Request(
            action=action,
            case=case,
            state=state,
            scale=plan.scale,
            folder=str(folder),
            step_seconds=plan.step_seconds,
            running="slowdown" in plan.parts,
            changes=plan.changes,
            **options,
        )
        answer = ask(request, plan.timeout_seconds)
        return Result(self.number, state, named or case, action, answer.get("figures", {}), answer.get("fails"))

    @contextlib.contextmanager
    def _folder(self, *names: str) -> Iterator[Path]:
        path = self.plan.folder / "-".join([str(self.number), *names]).replace(" ", "-")
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def ask(request: Request, timeout_seconds: float) -> dict:
    """Has one run done in a fresh process; the answer has `figures` or `fails`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.one_run", request.to_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        cwd=Path(__file__).resolve().parents[1],
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        return {"fails": f"no result within {timeout_seconds:.0f} s"}
    finally:
        # Its children too: the group is its own. They may all have ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return _answer(output, errors, process.returncode)


def _answer(output: bytes, errors: bytes, code: int) -> dict:
    for line in reversed(output.splitlines()):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
    said = errors.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return {"fails": f"left with {code}: {said[-1][:_LONGEST_REASON]}"}


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    return {**kept, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
