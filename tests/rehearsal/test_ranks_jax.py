"""JAX in several processes: arrays that span them are saved in parts, and come back on any mesh of any processes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from rehearsal.lives import VICTIMS, environment

LONGEST_SECONDS = 120


def launch(store: Path, size: int, devices: int, *, stop: int = -1, rows: int = 0) -> tuple[list[int], dict[str, str]]:
    """The codes of all, and what each of them said alike."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [sys.executable, str(VICTIMS / "jax_mesh.py"), str(store), "7", str(stop)],
            env={
                **environment(),
                "JAX_PLATFORMS": "cpu",
                "JAX_PROCESS_ID": str(rank),
                "JAX_NUM_PROCESSES": str(size),
                "JAX_COORDINATOR_ADDRESS": address,
                "DEVICES": str(devices),
                "ROWS": str(rows),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [one.communicate(timeout=LONGEST_SECONDS)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    said: dict[str, str] = {}
    for output in outputs:
        for line in output.splitlines():
            word, _, rest = line.partition(" ")
            if word in ("from", "begins", "result", "divided"):
                assert said.setdefault(word, rest) == rest, outputs
    return [one.returncode for one in started], said | {"all": "\n".join(outputs)}


def test_arrays_that_span_processes_go_on_on_any_mesh_after_a_process_was_lost(tmp_path: Path) -> None:
    codes, whole = launch(tmp_path / "whole", 2, 2)
    assert codes == [0, 0], whole["all"]
    codes, lost = launch(tmp_path / "lost", 2, 2, stop=5)
    assert codes == [int(os.environ.get("OUTLAST_EXIT_CODE", 128 + signal.SIGTERM)), 9], lost["all"]
    begins = None
    for size, devices, rows in ((1, 4, 0), (1, 1, 0), (2, 2, 2), (2, 2, 0)):
        place = tmp_path / f"again-{size}-{devices}-{rows}"
        subprocess.run(["cp", "-r", str(tmp_path / "lost"), str(place)], check=True)
        codes, again = launch(place, size, devices, rows=rows)
        assert codes == [0] * size, again["all"]
        assert again["from"] == "4"
        assert again["divided"] == "True"
        begins = begins or again["begins"]
        assert again["begins"] == begins
    assert again["result"] == whole["result"]  # of the same mesh: sums have the same order
