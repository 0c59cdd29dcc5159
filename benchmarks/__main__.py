"""The command of `make bench`.

    python -m benchmarks [--rounds 7] [--scale 1] [--only stall,restore] [--states small] [--cases torch.save,...]

Prints medians with their spread and ratios, and writes results.json, results.png and results.svg.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.batch.settings import BATCH
from benchmarks.ours import OURS
from benchmarks.peers import PEERS
from benchmarks.report import WIDTH, print_report
from benchmarks.runner import PARTS, Plan, run_all
from benchmarks.samples import Result, Samples, as_document
from benchmarks.states import KINDS

_PACKAGES = (
    "outlast", "torch", "safetensors", "orbax-checkpoint", "jax", "torchsnapshot", "numpy", "litequeue", "huey",
    "persist-queue", "pgqueuer", "procrastinate", "psycopg", "asyncpg", "google-cloud-pubsub",
)  # fmt: skip
_ALL_CASES = (*OURS, *PEERS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="of the states and the queues; 1: 1 GiB, 20,000")
    parser.add_argument("--only", type=_names_of(PARTS), default=PARTS, help=f"any of {','.join(PARTS)}")
    parser.add_argument("--states", type=_names_of(KINDS), default=KINDS, help=f"any of {','.join(KINDS)}")
    parser.add_argument("--cases", type=_names_of(_ALL_CASES), default=_ALL_CASES, help=",".join(_ALL_CASES))
    parser.add_argument("--batch", type=_names_of(BATCH), default=BATCH, help=f"any of {','.join(BATCH)}")
    parser.add_argument("--step-seconds", type=float, default=0.25, help="how long a step of training takes")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--folder", type=Path, help="where checkpoints go (default: the temporary folder)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where the results go")
    return parser.parse_args()


def _names_of(known: tuple[str, ...]) -> Any:
    def names(text: str) -> tuple[str, ...]:
        chosen = tuple(name.strip() for name in text.split(","))
        if strange := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(strange)}: there are {', '.join(known)}")
        return chosen

    return names


def main() -> None:
    """Runs what was asked for, prints the report and writes it."""
    chosen = _options()
    progress = Console(stderr=True, width=WIDTH, markup=False)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="outlast-bench-") as folder:
        plan = Plan(
            parts=frozenset(chosen.only),
            states=chosen.states,
            cases=chosen.cases,
            rounds=chosen.rounds,
            scale=chosen.scale,
            folder=Path(folder),
            step_seconds=chosen.step_seconds,
            timeout_seconds=chosen.timeout,
            batch=chosen.batch,
        )
        samples = Samples(_results(plan, progress))
    chosen.out.mkdir(parents=True, exist_ok=True)
    document = as_document(samples, _settings(chosen))
    (chosen.out / "results.json").write_text(json.dumps(document, indent=2))
    print_report(samples)
    _draw(samples, chosen.out, progress)


def _results(plan: Plan, progress: Console) -> list[Result]:
    """All results, or those so far if somebody has had enough."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found: list[Result] = []
    try:
        for result in run_all(plan):
            found.append(result)
            progress.print(_line(result), highlight=False)
    except KeyboardInterrupt:
        progress.print(f"interrupted: the report is of {len(found)} runs")
    return found


def _line(result: Result) -> str:
    return f"round {result.round}: {result.state}: {result.case}: {result.action}: {result.fails or 'done'}"


def _settings(chosen: argparse.Namespace) -> dict[str, Any]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    machine = {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in vars(chosen).items()}
    return {"asked": asked, "versions": versions, "machine": machine}


def _draw(samples: Samples, out: Path, progress: Console) -> None:
    try:
        from benchmarks.plot import draw
    except ImportError as error:
        progress.print(f"no picture: {error}")
        return
    draw(samples, [out / "results.png", out / "results.svg"])


if __name__ == "__main__":
    main()
