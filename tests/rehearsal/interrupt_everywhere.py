"""Runs programs of sampler_programs in forked processes, each ended by a real signal at another place.

By notices, one at each place of one run ("notice"), by kills too ("chain"), and also at every place in a run of its
own ("each"):

    python interrupt_everywhere.py FOLDER STRIDE notice|chain|each PROGRAM…

Prints as JSON what went wrong: the interrupted places whose resumed run did not equal the uninterrupted one. Forked
from a parent that has the libraries loaded, since hundreds of interpreters would cost minutes.
"""

import importlib
import json
import multiprocessing.util
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from sampler_programs import EPOCHS, ITEMS, PROGRAMS, Program

from outlast import Job, Steps

Place = tuple[str, int]
# A notice this late finds no step left to do, so it may leave the run finished, with 0.
LATE: list[Place] = [("step", EPOCHS * ITEMS - 1), ("below", EPOCHS - 1)]
LIBRARIES = {
    "numpy": ["numpy"],
    "DataLoader": ["torch.utils.data"],
    "StatefulDataLoader": ["torchdata.stateful_dataloader"],
}
SAVES = {"every 7": Steps(7), "every step": "0s"}


def run_once(program: Program, settings: dict[str, Any], result: Path, at: Place | None, how: int) -> int:
    """The exit code of one forked attempt, which a signal meets `at` a place."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def here(job: Job, place: str, number: int) -> None:
        if (place, number) != at:
            return
        os.kill(os.getpid(), how)
        until = time.monotonic() + 10
        while not job.stopping and time.monotonic() < until:
            time.sleep(0.0005)

    code = 1
    try:
        result.write_text(json.dumps(program(settings, here)))
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:  # noqa: BLE001 - as the interpreter does at the top
        traceback.print_exc()
    multiprocessing.util._exit_function()  # as at the end of a whole interpreter: ends the workers of loaders
    os._exit(code)


def places(stride: int, *, epochs: bool) -> list[Place]:
    """In the order in which a run meets them."""
    found: list[Place] = []
    for epoch in range(EPOCHS):
        found += [("top", epoch)] if epochs else []
        steps = range(epoch * ITEMS, (epoch + 1) * ITEMS)
        found += [("step", step) for step in steps if step % stride == 0 or step % ITEMS in (0, 1, ITEMS - 1)]
        found += [("below", epoch)] if epochs else []
    return found


class Trial:
    """One program, its right result, and a folder for stores."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self.folder, self.stores = program, folder, 0
        self.result = folder / "result.json"
        straight = {"name": "straight", "url": str(folder / "straight"), "every": Steps(1000)}
        assert run_once(program, straight, self.result, None, 0) == 0, (folder.parent / "stderr").read_text()
        self.right = self.result.read_text()

    def interrupted(self, at: list[Place], how: int, saves: str) -> list[str]:
        """What is wrong with a run that is interrupted at each of these places in turn, and then left alone."""
        self.stores += 1
        settings = {"name": "j", "url": str(self.folder / str(self.stores)), "every": SAVES[saves]}
        self.result.unlink(missing_ok=True)
        expected = 143 if how == signal.SIGTERM else -signal.SIGKILL
        wrong = []
        for place in at:
            code = run_once(self.program, settings, self.result, place, how)
            if code not in ((expected, 0) if place in LATE else (expected,)):
                wrong.append(f"{how} at {place}, saves {saves}: left with {code}")
        code = run_once(self.program, settings, self.result, None, how)
        if code or self.result.read_text() != self.right:
            wrong.append(f"{how} at {at[0]} … {at[-1]}, saves {saves}: the result differs (exit code {code})")
        return wrong


def what_is_wrong(name: str, folder: Path, stride: int, mode: str) -> list[str]:
    folder.mkdir()
    trial = Trial(PROGRAMS[name], folder)
    found = places(stride, epochs="steps" not in name)
    wrong = trial.interrupted(found, signal.SIGTERM, "every 7")
    if mode != "notice":
        wrong += trial.interrupted(found, signal.SIGKILL, "every step")
    for place in found if mode == "each" else ():
        for how in (signal.SIGTERM, signal.SIGKILL):
            wrong += trial.interrupted([place], how, "every 7")
    return [f"{name}: {one}" for one in wrong]


def main(folder: Path, stride: int, mode: str, names: list[str]) -> list[str]:
    sys.stderr = (folder / "stderr").open("w")
    for library in {library for name in names for library in LIBRARIES.get(name.split()[0].strip(","), ())}:
        importlib.import_module(library)  # in the parent, once
    return [one for name in names for one in what_is_wrong(name, folder / name, stride, mode)]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])))
