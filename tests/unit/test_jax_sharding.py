"""JAX arrays on several devices of one process: saved as one array, restored to the same mesh or to another."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("sharded_arrays.py")


def run(*arguments: str) -> str:
    """What the program printed, on four devices that are the CPU's."""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["back_without_an_array_there", "back_to_another_mesh"])
def test_a_sharded_array_comes_back(name: str) -> None:
    run(name)


def test_a_layout_that_is_not_here_is_refused_by_name() -> None:
    said = run("what_cannot_be_made_again")
    assert "cpu:99" in said
    assert "it lay on 4 devices, not by a NamedSharding" in said


def test_a_job_goes_on_on_another_mesh_with_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "resumed").mkdir()
    run("train", str(tmp_path / "whole"), "4", "-1", "a")
    assert run("train", str(tmp_path / "resumed"), "4", "3", "a") == ""
    assert run("train", str(tmp_path / "resumed"), "2x2", "-1", "a", "b") == "[2, 2] [2, 2]\n"
    whole, resumed = (np.load(tmp_path / name / "result.npy") for name in ("whole", "resumed"))
    assert whole.tobytes() == resumed.tobytes()
