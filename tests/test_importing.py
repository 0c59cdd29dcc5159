"""Importing outlast: light, fast and without side effects; the public names are frozen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import outlast

SOURCE = Path(__file__).resolve().parents[1] / "src" / "outlast"
# The starter is a link to an example, which is a file to copy and no module. Callbacks are for frameworks that need not
# be installed: tests/rehearsal/test_callbacks_survive.py imports those.
MODULES = [
    ".".join(["outlast", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name != "__main__.py" and not {"starter", "callbacks"} & set(path.relative_to(SOURCE).parts)
]

# What `from outlast import *` gives. A change here is a change of the public interface.
PUBLIC = [
    "CheckpointCorrupt",
    "Epochs",
    "EveryItemFailed",
    "ExitingError",
    "Interrupted",
    "ItemError",
    "Job",
    "Keep",
    "LoopMisused",
    "NoGoodCheckpoint",
    "Notice",
    "OutlastError",
    "Queue",
    "QueueUnreachable",
    "SaveFailed",
    "SettingsError",
    "SinkUnreachable",
    "StateMismatch",
    "StateUnsupported",
    "Steps",
    "StoreUnreachable",
    "Worker",
    "batch",
]  # fmt: skip

HEAVY = {
    "numpy", "torch", "jax", "jaxlib", "sklearn", "scipy", "click", "rich", "pathspec", "watchdog", "requests", "httpx",
    "urllib.request", "http.server", "http.client", "socketserver", "google", "boto3", "botocore", "azure", "obstore",
    "urllib3", "kubernetes", "psycopg", "sqlite3", "flask", "fastapi", "starlette", "uvicorn", "asyncio",
    "multiprocessing",
}  # fmt: skip

_OBSERVE = """
import json, os, signal, sys, threading
def now():
    handlers = {{int(s): repr(signal.getsignal(s)) for s in signal.valid_signals()}}
    return [handlers, sorted(t.name for t in threading.enumerate()), dict(os.environ), sys.excepthook.__module__,
            repr(sys.stdout), sorted(os.listdir('.'))]
{prepare}
import importlib
before = now()
for module in {modules!r}:
    importlib.import_module(module)
print(json.dumps({{"same": before == now(), "modules": sorted(sys.modules)}}))
"""


def _observe_import(folder: Path, modules: list[str], prepare: str = "") -> dict[str, object]:
    code = _OBSERVE.format(modules=modules, prepare=prepare)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    seen: dict[str, object] = json.loads(done.stdout)
    return seen


def test_importing_outlast_loads_nothing_heavy_and_touches_nothing(tmp_path: Path) -> None:
    seen = _observe_import(tmp_path, ["outlast"])
    assert seen["same"]
    assert not HEAVY & set(seen["modules"])  # type: ignore[call-overload]  # JSON has no types


# What ranks say to each other, and how: a single process starts without it.
OF_SEVERAL = {
    "outlast.ranks.messages", "outlast.ranks.wire", "outlast.ranks.leader", "outlast.ranks.member",
    "outlast.company.leading", "outlast.company.following", "outlast.joining",
}  # fmt: skip


def test_a_job_in_a_folder_loads_no_cloud_client_and_nothing_of_ranks(tmp_path: Path) -> None:
    work = "import outlast; job = outlast.Job('checkpoints', state={'n': 0}); list(job.steps(2))"
    clients = {"obstore", "google", "requests", "urllib3", "boto3", "azure", *OF_SEVERAL}
    code = f"{work}\nimport sys; print(sorted({clients!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_any_module_touches_nothing(tmp_path: Path) -> None:
    frameworks = "import numpy, torch, jax, click, rich"  # what these do at import is not ours
    assert _observe_import(tmp_path, MODULES, prepare=frameworks)["same"]


@pytest.mark.serial
def test_importing_outlast_takes_less_than_150_ms(tmp_path: Path) -> None:
    code = "import time; t = time.perf_counter(); import outlast; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True) for _ in range(5)]
    assert min(float(run.stdout) for run in runs) < 0.150


def test_the_public_names_are_the_frozen_ones_and_exist() -> None:
    assert outlast.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(outlast, name).__name__ == name
    assert set(PUBLIC) <= set(dir(outlast))
    with pytest.raises(AttributeError, match="no attribute 'Jobs'"):
        _ = outlast.Jobs


@pytest.mark.parametrize("framework", ["transformers", "lightning"])
def test_a_callback_without_its_framework_says_how_to_install_it(framework: str) -> None:
    code = f"import sys\nsys.modules[{framework!r}] = None\nimport outlast.callbacks.{framework}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert done.stderr == (
        f"outlast: error: outlast.callbacks.{framework} needs {framework}: pip install 'outlast[{framework}]'\n"
    )
