"""Drift: what changed since the checkpoint is said in one line, kept, or refused; secrets are not kept in clear."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.drift import drift_between, in_one_line, look_at_environment
from outlast.events import Drifted, EnvironmentSeen, from_lines, to_line
from outlast.testing import FakeClock
from rehearsal.driving import SOURCE, Ended, events, run

SEEN = EnvironmentSeen(
    script="train.py",
    script_digest="aa",
    arguments=["--lr", "0.1", "--epochs=3", "data/"],
    python="3.12.1",
    system="linux-x86_64",
    accelerator="2x NVIDIA H200",
    tasks=2,
    packages={"numpy": "2.1.0", "torch": "2.12.0"},
)


def changed(**fields: object) -> list[str]:
    return drift_between(SEEN, dataclasses.replace(SEEN, **fields))


def test_what_did_not_change_is_not_mentioned() -> None:
    assert changed() == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"script_digest": "bb"}, "train.py was edited"),
        ({"script": "other.py"}, "the script was train.py and is other.py"),
        (
            {"arguments": ["--lr", "0.2", "--epochs=3", "data/"]},
            "the arguments changed: without --lr 0.1, with --lr 0.2",
        ),
        ({"arguments": ["--lr", "0.1", "--epochs=3", "data/", "-v"]}, "the arguments changed: with -v"),
        ({"arguments": ["data/", "--lr", "0.1", "--epochs=3"]}, "the arguments changed: their order"),
        ({"python": "3.13.0"}, "Python was 3.12.1 and is 3.13.0"),
        ({"system": "linux-aarch64"}, "the system was linux-x86_64 and is linux-aarch64"),
        ({"accelerator": "1x NVIDIA L4"}, "the accelerator was 2x NVIDIA H200 and is 1x NVIDIA L4"),
        ({"tasks": 4}, "the number of tasks was 2 and is 4"),
        ({"packages": {"numpy": "2.1.0", "torch": "2.13.0"}}, "torch 2.12.0 is now 2.13.0"),
    ],
)
def test_each_change_is_said_in_words(fields: dict[str, object], said: str) -> None:
    assert changed(**fields) == [said]


def test_what_one_of_the_two_does_not_know_is_no_change() -> None:
    assert changed(accelerator="", script="", script_digest="", packages={"numpy": "2.1.0", "jax": "1"}) == []


def test_the_one_line_stays_one_line() -> None:
    assert in_one_line(["with a\nb\r\nc\u2028d"]) == r"with a\nb\nc\nd"
    assert in_one_line([str(n) for n in range(40)]).endswith("; and 28 more")
    assert in_one_line(["a", "b"]) == "a; b"


# --- what is looked at ------------------------------------------------------------------------------


def seen(monkeypatch: pytest.MonkeyPatch, *arguments: str, salt: str = "s") -> list[str]:
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    return look_at_environment(1, salt=salt).arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hf-token", "hunter2"],
        ["--password=hunter2"],
        ["--api_key=hunter2"],
        ["--wandb-api-key", "hunter2"],
        ["postgresql://user:hunter2@db/x"],
        ["--data", "https://storage.googleapis.com/b/x?sig=hunter2"],
        ["--auth", "hunter2"],
        ["--wandb.key=hunter2"],
        ["--hubToken", "hunter2"],
        ["MY_SECRET=hunter2"],
        ["--header=Authorization: Bearer hunter2"],
    ],
)
def test_what_looks_like_a_secret_is_not_kept_in_clear(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kept = seen(monkeypatch, *arguments)
    assert "hunter2" not in json.dumps(kept)
    other = [argument.replace("hunter2", "hunter3") for argument in arguments]
    assert seen(monkeypatch, *other) != kept, "a change is still seen"
    assert seen(monkeypatch, *arguments, salt="t") != kept, "nobody can look it up in a table"


@pytest.mark.parametrize(
    "value",
    [
        "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
        "sk-proj-a1B2c3D4e5F6g7H8",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_values_like_tokens_are_hidden_wherever_they_stand(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ([value], [f"--x={value}"], ["--x", value], [f"x={value}"]):
        assert value not in json.dumps(seen(monkeypatch, *arguments))


@pytest.mark.parametrize(
    "argument",
    [
        "--learning-rate=0.0003",
        "--data=/data/imagenet-2012/train-shards",
        "resnet50-finetune-2024-05-17-lr3e4",
        "--optimizer=adamw",
        "gs://bucket/run-7/part-000123.parquet",
        "12345678901234567890",
        "-v",
    ],
)
def test_what_people_write_stays_readable(argument: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, argument) == [argument]


@given(st.lists(st.text(max_size=400), max_size=300))
def test_any_arguments_are_kept_short_and_as_json(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept = seen(patch, *arguments)
        assert len(kept) <= 201
        assert all(len(argument) <= 420 for argument in kept)
        assert seen(patch, *arguments) == kept
    json.dumps(kept).encode()


def test_a_tokenizer_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--tokenizer", "gpt2", "--max-tokens=4096", "--num_tokens", "7", "--author", "me", "--keys", "a,b"]
    assert seen(monkeypatch, *arguments) == arguments


def test_only_what_the_program_has_imported_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.ModuleType("a_library")
    fake.__dict__["__version__"] = "7.1"
    monkeypatch.setitem(sys.modules, "a_library", fake)
    packages = look_at_environment(1, salt="").packages
    assert packages["a_library"] == "7.1"
    assert "json" not in packages
    assert "click" not in packages


def test_looking_imports_no_framework_and_asks_no_device() -> None:
    program = (
        "import sys; from outlast.drift import look_at_environment; before = set(sys.modules)\n"
        "look_at_environment(1, salt=''); new = {n.partition('.')[0] for n in set(sys.modules) - before}\n"
        "assert not new & {'torch', 'jax', 'numpy', 'importlib_metadata'}, new"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": SOURCE})


@pytest.mark.parametrize(("initialized", "said"), [(True, "2x H200, 1x L4"), (False, "")])
def test_cuda_is_asked_only_once_the_program_has(initialized: bool, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["H200", "L4", "H200"]

    class Cuda:
        @staticmethod
        def is_initialized() -> bool:
            return initialized

        @staticmethod
        def device_count() -> int:
            assert initialized
            return len(names)

        @staticmethod
        def get_device_name(number: int) -> str:
            return names[number]

    torch = types.ModuleType("torch")
    torch.__dict__["cuda"] = Cuda
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "jax._src.xla_bridge", raising=False)
    assert look_at_environment(1, salt="").accelerator == said


class _Raising(types.ModuleType):
    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


def _broken(*_: object) -> object:
    raise RuntimeError("CUDA error: device lost")


def _no_argv(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(sys, "argv")


def _strange_argv(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "argv", ["x", Path("a"), 3, None])


def _strange_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys.modules["__main__"], "__file__", 3, raising=False)


def _lost_device(patch: pytest.MonkeyPatch) -> None:
    cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1, get_device_name=_broken)
    patch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))


def _strange_modules(patch: pytest.MonkeyPatch) -> None:
    for name, module in {"a_raising": _Raising("a_raising"), "a_blocked": None, "a_number": 3}.items():
        patch.setitem(sys.modules, name, module)


def _no_version(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "optax", types.ModuleType("optax"))
    patch.setattr("importlib.metadata.version", lambda _: None)


def _no_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "optax", types.ModuleType("optax"))
    patch.setattr("importlib.metadata.version", _broken)


@pytest.mark.parametrize(
    "strange", [_no_argv, _strange_argv, _strange_file, _lost_device, _strange_modules, _no_version, _no_metadata]
)
def test_no_strange_program_keeps_a_job_from_starting(
    strange: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strange(monkeypatch)
    seen = look_at_environment(1, salt="")
    assert "optax" not in seen.packages
    assert from_lines(to_line(seen, FakeClock()))[0].event == seen


def test_a_lazy_module_stays_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.find_spec("this")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    monkeypatch.setitem(sys.modules, "a_lazy_one", lazy)
    look_at_environment(1, salt="")
    assert type(lazy).__name__ == "_LazyModule"


# --- at a resume ------------------------------------------------------------------------------------

PROGRAM = """
import os, sys
if os.environ.get("ARGUMENTS"):
    sys.argv += os.environ["ARGUMENTS"].split()
import outlast
state = {"n": 0}
job = outlast.Job(state=state, every=outlast.Steps(5), name="j", SETTINGS)
for step in job.steps(20):
    state["n"] += 1
    if step == 12 and not os.environ.get("ON"):
        sys.exit(1)
"""


def start(folder: Path, program: str = PROGRAM, *, settings: str = "", on: str = "1", **env: str) -> Ended:
    return run(program.replace("SETTINGS", settings), folder, env={"ON": on, **env})


def test_drift_is_said_once_in_one_line_and_kept_in_the_journal(tmp_path: Path) -> None:
    start(tmp_path, on="", ARGUMENTS="--lr 1 --token=abc")
    again = start(tmp_path, PROGRAM + "# edited\n", ARGUMENTS="--lr 2 --token=abd")
    [line] = [line for line in again.err.splitlines() if "since the checkpoint" in line]
    assert again.code == 0
    assert "(of attempt 0), program.py was edited; the arguments changed: without --lr 1" in line
    assert "abd" not in line
    [drifted] = events(tmp_path, Drifted)
    assert drifted.event.changes[0] == "program.py was edited"
    assert not any(b"abc" in path.read_bytes() for path in (tmp_path / "store").rglob("*.jsonl"))


def test_no_drift_no_line(tmp_path: Path) -> None:
    start(tmp_path, on="", ARGUMENTS="--lr 1")
    assert "since the checkpoint" not in start(tmp_path, ARGUMENTS="--lr 1").err
    assert events(tmp_path, Drifted) == []


def test_a_strict_job_refuses_with_78_before_it_changes_anything(tmp_path: Path) -> None:
    strict = 'on_drift="refuse"'
    start(tmp_path, settings=strict, on="")
    assert start(tmp_path, settings=strict, on="").code == 1, "nothing changed"
    refused = start(tmp_path, settings=strict, ARGUMENTS="-x")
    assert refused.code == 78
    assert "since attempt 0 made the checkpoint, the arguments changed: with -x" in refused.err
    assert start(tmp_path, settings=strict).code == 0


def test_a_strict_job_says_where_nothing_could_be_compared(tmp_path: Path) -> None:
    strict = 'on_drift="refuse"'
    start(tmp_path, settings=strict, on="")
    for journal in (tmp_path / "store").rglob("journal/*.jsonl"):
        journal.unlink()
    again = start(tmp_path, settings=strict, ARGUMENTS="-x")
    assert again.code == 0
    assert 'on_drift="refuse": nothing was compared, since the journal of attempt 0' in again.err


def test_a_word_that_on_drift_does_not_know_is_refused(tmp_path: Path) -> None:
    refused = start(tmp_path, settings='on_drift="shout"')
    assert (refused.code, "on_drift='shout'" in refused.err) == (78, True)
