"""COUNTER that stops itself (SIGSTOP) once, right before one file-system call, as a host that hangs would.

`VICTIM_FREEZE`: the call, a text in its path, and which of these calls, as in "link /commits/ 2".
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from counter import from_environment

from outlast.stores import directory
from outlast.stores.disk import LocalDisk


def freezing(name: str, text: str, count: int) -> LocalDisk:
    disk = LocalDisk()
    call: Callable[..., Any] = getattr(disk, name)
    seen = 0

    def freeze(*args: Any) -> Any:
        nonlocal seen
        seen += text in str(args[-1])
        if seen == count and text in str(args[-1]):
            os.kill(os.getpid(), signal.SIGSTOP)
        return call(*args)

    setattr(disk, name, freeze)
    return disk


if __name__ == "__main__":
    name, text, count = os.environ["VICTIM_FREEZE"].split()
    disk = freezing(name, text, int(count))
    directory.LocalDisk = lambda: disk  # type: ignore[assignment,misc]  # the driver's disk instead of the machine's
    from_environment().run()
