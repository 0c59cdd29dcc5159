"""What a run in the emulator does not show about Cloud Run itself."""

import os
import tempfile
from functools import cache
from pathlib import Path

from outlast.containers.container import Container, View, can_isolate

_ALWAYS = (
    "the buckets: in the folders that stand for them a file is there as soon as it is written, and a folder is renamed",
    "the limits of CPU and memory: the files of a container count against no limit",
    "the GPU: whether a task has one decides only whether maintenance ends it or moves it",
    "the image: no step of a Dockerfile is carried out, and beside its own files a task sees this machine's",
    "the network, the service account and its rights, quotas, the time that a container takes to start",
)
_FILES_STAY = (
    "the container's file system: what a task writes outside of its own folder stays on this machine, and the next "
    "attempt finds it"
)


def not_exercised() -> tuple[str, ...]:
    """One sentence for each thing, as a verdict may list them."""
    return _ALWAYS if _files_go_with_a_container() else (*_ALWAYS, _FILES_STAY)


@cache
def _files_go_with_a_container() -> bool:
    """Whether this machine can keep apart what a container writes: tried once, with a container that writes."""
    if not can_isolate():
        return False
    with tempfile.TemporaryDirectory(prefix="outlast-cloud-run-") as made:
        folder = Path(made)
        (folder / "root").mkdir()
        with (
            (folder / "output").open("wb") as output,
            Container(
                ["sh", "-c", "echo >mark"],
                folder=folder,
                environment=dict(os.environ),
                stdout=output,
                stderr=output,
                isolated=True,
                view=View(folder / "root", (), private=True),
            ) as container,
        ):
            container.wait(10)
            container.finish()
        return not (folder / "mark").exists()
