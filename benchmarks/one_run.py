"""One run of one case in its own process: the request is JSON in the argument, the answer JSON on standard output."""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure. `changes`: how often the saved state was changed after it was filled.

    In the batch part `state` is one of benchmarks.batch.settings.BATCH and `server` the HOST:PORT that it needs.
    """

    action: str
    case: str
    state: str
    scale: float
    folder: str
    step_seconds: float = 0.25
    running: bool = True
    warm: bool = False
    changes: int = 0
    with_moments: bool = True
    server: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


# What needs no more than a folder: by action, where it stands.
_OF_A_FOLDER = {
    "step": ("benchmarks.steps", "measure_steps"),
    "sigterm": ("benchmarks.signals", "measure_signals"),
}


def measure(request: Request) -> dict[str, float]:
    """Runs the request; whatever goes wrong is an exception."""
    folder = Path(request.folder)
    if request.action in _OF_A_FOLDER:
        module, name = _OF_A_FOLDER[request.action]
        figures: dict[str, float] = getattr(importlib.import_module(module), name)(folder)
        return figures
    if request.action in _OF_A_REQUEST:
        return _OF_A_REQUEST[request.action](request, folder)
    return _measure_saver(request, folder)


def _measure_saver(request: Request, folder: Path) -> dict[str, float]:
    from benchmarks.ours import OURS, Outlast
    from benchmarks.states import full_bytes, make_state

    if request.case in OURS:
        saver = Outlast(OURS[request.case])
    else:
        from benchmarks.peers import PEERS

        saver = PEERS[request.case]()
    state = make_state(request.state, request.scale, with_moments=request.with_moments)
    if request.action == "restore":
        from benchmarks.restoring import measure_restore

        size = full_bytes(request.state, request.scale)
        return measure_restore(saver, state, folder, warm=request.warm, changes=request.changes, full_bytes=size)
    state.fill()
    if request.action == "incremental":
        from benchmarks.incremental import measure_incremental

        return measure_incremental(saver, state, folder, step_seconds=request.step_seconds)
    from benchmarks.saving import measure_saves

    return measure_saves(saver, state, folder, step_seconds=request.step_seconds, running=request.running)


def _going_on(request: Request, folder: Path) -> dict[str, float]:
    from benchmarks.going_on import measure_going_on

    return measure_going_on(request.state, request.scale, folder)


def _limits(request: Request, folder: Path) -> dict[str, float]:
    from benchmarks.limits import measure_limits

    return measure_limits(request.state, request.scale, folder)


def _lint(request: Request, folder: Path) -> dict[str, float]:
    from benchmarks.linting import measure_linting

    return measure_linting(request.scale, folder)


def _batch(request: Request, folder: Path) -> dict[str, float]:
    from benchmarks.batch.one_case import measure_batch

    return measure_batch(request.state, request.case, request.scale, folder, request.server)


def _ranks(request: Request, _folder: Path) -> dict[str, float]:
    from benchmarks.ranks import measure_ranks

    return measure_ranks(request)


_OF_A_REQUEST: dict[str, Callable[[Request, Path], dict[str, float]]] = {
    "going on": _going_on,
    "limits": _limits,
    "lint": _lint,
    "batch": _batch,
    "ranks limits": _ranks,
    "ranks save": _ranks,
    "ranks restore": _ranks,
}


def main() -> None:
    """Measures what the argument asks for."""
    answer(lambda: measure(Request(**json.loads(sys.argv[1]))))


def answer(measured: Callable[[], dict[str, float]]) -> None:
    """Answers on the real standard output; what libraries print goes to standard error."""
    real = os.dup(1)
    os.dup2(2, 1)
    try:
        result: dict[str, object] = {"figures": measured()}
    except Exception as error:  # noqa: BLE001  a failing peer is a line in the report
        traceback.print_exc()
        result = {"fails": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    os.write(real, json.dumps(result).encode() + b"\n")


if __name__ == "__main__":
    main()
