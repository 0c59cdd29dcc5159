"""The benchmarks of `make bench`: each figure beside the peer and the physical limit, interleaved in one run.

    python benchmarks/bench.py [--rounds 7] [--megabytes 256] [--json FILE]

Prints medians with their spread (lowest to highest) and ratios. No verdict where the raw limit itself moved by more
than 20 % within the run.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from safetensors.numpy import save_file

import outlast

Figures = dict[str, list[float]]
_STEADY = 1.2


def interleaved(rounds: int, cases: dict[str, Callable[[], float]]) -> Figures:
    """Each case once per round, in turn, so that a slow moment of the machine meets all of them."""
    figures: Figures = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            figures[name].append(case())
    return figures


# --- the cost of a step when no save is due ---------------------------------------------------------


def step_seconds(folder: Path, steps: int = 100_000) -> float:
    job = outlast.Job(folder / f"steps-{time.monotonic_ns()}", state={"x": 0}, every="1h")
    loop = iter(job.steps(steps + 1))
    next(loop)
    began = time.perf_counter()
    for _ in range(steps):
        next(loop)
    return (time.perf_counter() - began) / steps


def bare_step_seconds(steps: int = 100_000) -> float:
    loop = iter(range(steps + 1))
    next(loop)
    began = time.perf_counter()
    for _ in range(steps):
        next(loop)
    return (time.perf_counter() - began) / steps


# --- saving and restoring ---------------------------------------------------------------------------


def _fresh(folder: Path, name: str) -> Path:
    return folder / f"{name}-{time.monotonic_ns()}"


def raw_write_seconds(folder: Path, data: bytes) -> float:
    path = _fresh(folder, "raw")
    began = time.perf_counter()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view[: 8 << 20]) :]
    os.fsync(handle)
    os.close(handle)
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


def safetensors_seconds(folder: Path, state: dict[str, np.ndarray]) -> float:
    path = _fresh(folder, "peer")
    began = time.perf_counter()
    save_file(state, path)
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


def torch_save_seconds(folder: Path, state: dict[str, np.ndarray]) -> float:
    tensors = {name: torch.from_numpy(value) for name, value in state.items()}
    path = _fresh(folder, "torch")
    began = time.perf_counter()
    with path.open("wb") as file:
        torch.save(tensors, file)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


def outlast_save_seconds(job: outlast.Job) -> float:
    began = time.perf_counter()
    job.save()
    return time.perf_counter() - began


def raw_read_seconds(path: Path) -> float:
    buffer = bytearray(8 << 20)
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def outlast_restore_seconds(folder: Path, state: dict[str, np.ndarray]) -> float:
    target = {name: np.empty_like(value) for name, value in state.items()}
    began = time.perf_counter()
    outlast.Job(folder, state=target, every="1h", name="bench")
    return time.perf_counter() - began


# --- hearing and stopping ---------------------------------------------------------------------------

_VICTIM = """
import hashlib, sys, time
import outlast
job = outlast.Job(sys.argv[1], state={"blob": bytearray(int(sys.argv[2]))}, every="1h")
for step in job.steps(1_000_000):
    print(step, flush=True)
    if sys.argv[3] == "c-call":
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 6_000_000)
    else:
        time.sleep(0.05)
"""


def signalled(folder: Path, *, megabytes: int, kind: str) -> tuple[float, float, int]:
    """Seconds from SIGTERM to the notice being heard, to the end of the process, and its exit code."""
    events = _fresh(folder, "events")
    command = [sys.executable, "-c", _VICTIM, str(_fresh(folder, "victim")), str(megabytes * 1_000_000), kind]
    environment = {**os.environ, "OUTLAST_EVENTS_FILE": str(events), "CLOUD_RUN_JOB": "bench"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.3)
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        ended = time.monotonic()
    lines = [json.loads(line) for line in events.read_bytes().splitlines()]
    heard = next(line["monotonic"] for line in lines if line["event"] == "NoticeHeard")
    return heard - sent, ended - sent, process.returncode


def main() -> None:
    """Runs all of it and prints the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--megabytes", type=int, default=256)
    options.add_argument("--folder", type=Path, default=None, help="where to write (default: the temporary folder)")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    # outlast's own lines would drown the table
    quiet = contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="outlast-bench-") as name, quiet:
        report = measure(Path(name), chosen.rounds, chosen.megabytes)
    print_report(report)
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2))


def measure(folder: Path, rounds: int, megabytes: int) -> dict[str, Figures]:
    """Figures in seconds by group and case; the first case of a group is the limit."""
    rng = np.random.default_rng(0)
    state = {f"w{index:02}": rng.random(megabytes * 1_000_000 // 128, dtype=np.float32) for index in range(32)}
    data = b"".join(value.tobytes() for value in state.values())
    job = outlast.Job(folder / "saves", state=state, every="1h", keep=1, name="bench")
    job.save()
    groups: dict[str, Figures] = {}
    groups["one step, no save due"] = interleaved(
        rounds, {"bare range()": bare_step_seconds, "outlast": lambda: step_seconds(folder)}
    )
    groups[f"save of {megabytes} MB, durable"] = interleaved(
        rounds,
        {
            "raw write + fsync": lambda: raw_write_seconds(folder, data),
            "safetensors.save_file + fsync": lambda: safetensors_seconds(folder, state),
            "torch.save + fsync": lambda: torch_save_seconds(folder, state),
            "outlast (verified, committed)": lambda: outlast_save_seconds(job),
        },
    )
    job.save()
    file = max((folder / "saves").rglob("*.safetensors"))
    groups[f"restore of {megabytes} MB, warm"] = interleaved(
        rounds,
        {
            "raw read": lambda: raw_read_seconds(file),
            "outlast (verified, in place)": lambda: outlast_restore_seconds(folder / "saves", state),
        },
    )
    heard, stopped = [], []
    for _ in range(min(rounds, 5)):
        heard.append(signalled(folder, megabytes=0, kind="c-call")[0])
        _, seconds, code = signalled(folder, megabytes=50, kind="sleep")
        assert code == 143, f"the stop left with {code}"
        stopped.append(seconds)
    groups["SIGTERM"] = {"heard inside a 3 s C call": heard, "stop with 50 MB of state, exit 143": stopped}
    return groups


def print_report(groups: dict[str, Figures]) -> None:
    """The table for people."""
    table = Table("what", "case", "median", "lowest to highest", "÷ first case")
    for group, figures in groups.items():
        limit = next(iter(figures.values()))
        steady = max(limit) <= _STEADY * min(limit)
        for number, (case, values) in enumerate(figures.items()):
            median = statistics.median(values)
            ratio = f"{median / statistics.median(limit):.2f}" + ("" if steady else " (limit unsteady)")
            table.add_row(
                group if number == 0 else "",
                case,
                _time(median),
                f"{_time(min(values))} to {_time(max(values))}",
                "" if group == "SIGTERM" else ratio,
            )
        table.add_section()
    Console(width=130).print(table)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-4 else f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
