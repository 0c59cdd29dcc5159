"""Rehearses the programs of this folder, many side by side, each in a process and a folder of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import outlast

PROGRAMS = Path(__file__).parent / "programs"
GOOD = sorted((PROGRAMS / "good").glob("*.py"))
# Programs sleep most of their time, so that more of them than cores may run at once.
SIDE_BY_SIDE = int(os.environ.get("OUTLAST_SIDE_BY_SIDE", "4"))
_REHEARSE = """
import json, sys
from pathlib import Path
from outlast.rehearse.report import as_object
from outlast.rehearse.request import Limits, Request
from outlast.rehearse.runner import rehearse
asked = json.loads(sys.argv[1])
limits = Limits(grace_seconds=asked.pop("grace"), hung_floor_seconds=8.0, hung_factor=1.0)
request = Request(folder=Path.cwd(), **{k: tuple(v) if isinstance(v, list) else v for k, v in asked.items()})
print(json.dumps(as_object(rehearse(request, limits=limits))))
"""


@dataclass(frozen=True)
class Case:
    """A program to rehearse: its source, the command (of which {python} is the interpreter), and what is asked."""

    name: str
    source: str
    seed: int = 0
    command: tuple[str, ...] = ("{python}", "program.py")
    platform: str = "cloud-run"
    interruptions: int = 3
    grace: float = 1.5
    results: tuple[str, ...] = ()


def rehearse_case(case: Case) -> dict[str, Any]:
    """The report, as `rehearse --json` prints it."""
    with tempfile.TemporaryDirectory(prefix="outlast-proof-") as name:
        folder = Path(name) / "work"
        folder.mkdir()
        (folder / "program.py").write_text(case.source)
        asked = {
            "command": [word.format(python=sys.executable) for word in case.command],
            "platform": case.platform,
            "interruptions": case.interruptions,
            "seed": case.seed,
            "grace": case.grace,
            "results": list(case.results),
        }
        found = {**os.environ, "PYTHONPATH": str(Path(outlast.__file__).parents[1]), "TMPDIR": name}
        done = subprocess.run(
            [sys.executable, "-c", _REHEARSE, json.dumps(asked)],
            cwd=folder,
            env=found,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise AssertionError(f"{case.name}: the rehearsal itself failed\n{done.stderr}")
    return dict(json.loads(done.stdout))


def rehearse_all(cases: Iterable[Case]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Each case with its report, in their order."""
    listed = list(cases)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield from zip(listed, pool.map(rehearse_case, listed), strict=True)
