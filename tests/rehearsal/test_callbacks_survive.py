"""The callbacks' promise: whatever interrupts a framework's loop, and where, it comes to the same losses and weights.

Real frameworks, in real processes with real signals; they run by `make frameworks`.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_other_frameworks import NOTICE_FIRST, assert_survived, rehearse_example

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1800)]
PROGRAM = Path(__file__).with_name("callback_programs.py")
FRAMEWORKS = ["transformers", "lightning"]


def run(framework: str, folder: Path, **settings: Any) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), framework, str(folder), json.dumps(settings)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = json.loads(done.stdout.splitlines()[-1])
    assert wrong == []


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, [1, 10, 11, 12, 22, 30]),  # 11 is the last step of an epoch
        ({"every": "1h"}, [5, 11]),  # a kill throws back to the start
        ({"max_steps": 25}, [11, 24]),
        ({"workers": 2, "epochs": 2}, [4, 11]),
        ({"early": True, "epochs": 8}, [12, 20]),
    ],
    ids=["every step", "rare saves", "by steps", "workers", "early stopping"],
)
def test_an_interrupted_run_ends_with_the_same_bits(
    framework: str, tmp_path: Path, settings: dict[str, Any], steps: list[int]
) -> None:
    run(framework, tmp_path, **settings, how={"steps": steps})


@pytest.mark.parametrize(("framework", "steps"), [("transformers", [1, 4, 5]), ("lightning", [2, 3, 10, 11, 14])])
def test_x05_a_stop_inside_accumulated_gradients_loses_none(framework: str, tmp_path: Path, steps: list[int]) -> None:
    run(framework, tmp_path, window=3, how={"steps": steps})


def test_a_shuffle_from_the_global_generator_is_drawn_again(tmp_path: Path) -> None:
    run("transformers", tmp_path, seedable=False, epochs=2, how={"steps": [6, 11, 12]})


@pytest.mark.parametrize("settings", [{"validate": 4}, {"validate": 4, "by_step": True}], ids=["inside", "schedule"])
def test_a_validation_inside_the_training_is_not_done_twice(tmp_path: Path, settings: dict[str, Any]) -> None:
    run("lightning", tmp_path, **settings, how={"steps": [4, 8, 9, 15, 22]})


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_storm_of_kills_changes_no_bit(framework: str, tmp_path: Path) -> None:
    run(framework, tmp_path, every="0s", epochs=12, how={"times": 30, "seed": 7})


@pytest.mark.parametrize("platform", ["local", "cloud-run"])
@pytest.mark.parametrize("name", ["trainer_callback.py", "lightning_callback.py", "jax_sharded.py"])
def test_an_example_survives_its_rehearsal(tmp_path: Path, name: str, platform: str) -> None:
    needed = {"trainer": "transformers", "lightning": "lightning"}.get(name.partition("_")[0])
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    assert_survived(rehearse_example(tmp_path, name, "--platform", platform, *NOTICE_FIRST))


REFUSED = [
    ("transformers", {"auto_find_batch_size": True}, "auto_find_batch_size=True cannot be resumed exactly"),
    ("transformers", {"ignore_data_skip": True}, "ignore_data_skip=True cannot be resumed exactly"),
    ("lightning", {"RANK": "0", "WORLD_SIZE": "2"}, "WORLD_SIZE=2"),
]


@pytest.mark.parametrize(("framework", "settings", "said"), REFUSED)
def test_what_cannot_be_exact_is_refused_with_78(
    framework: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    env = {**os.environ, "OMP_NUM_THREADS": "1", **{name: one for name, one in settings.items() if name.isupper()}}
    asked = json.dumps({name: one for name, one in settings.items() if name.islower()})
    code = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r})\nfrom callback_programs import RUNS\nimport json\n"
    code += f"RUNS[{framework!r}]({str(tmp_path / 'store')!r}, json.loads({asked!r}))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 78, done.stderr
    assert said in done.stderr
