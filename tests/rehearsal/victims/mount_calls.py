"""Lives that meet their fate at one call to a mounted bucket: COUNTER on a mount with the manners of such mounts.

    mount_calls.py mount FATE FOLDER

As victims/calls.py does, for each call that changes something. Nothing can be renamed or linked there; an object that
is not closed is the mount's to keep or lose; an upload's error appears at fsync or close, and leaves a short object.

Fates: "before" kills before the call, and the mount uploads what it was given; "half" does so after half of a write;
"lost" kills, and what was not closed is gone with the mount; "empty" kills, and it is there with no bytes. An errno's
name makes this one call fail with it, with a "+" this and all that follow. "short" makes a close lose the object's
second half and say nothing.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calls import main

from outlast.stores import folder, mount
from outlast.stores.mount import MountStore

mount._CLOSED_WITHIN_SECONDS = 0.02  # a short object does not grow any more here
CHANGING = ("write", "fsync", "close", "unlink")
REFUSED = ("rename", "replace", "link", "symlink", "truncate", "ftruncate", "posix_fallocate", "renames")


class FatefulMount:
    """Stands for the module `os` in the mount's store; `fate` meets changing call number `at`."""

    def __init__(self, fate: str, at: int) -> None:
        self.calls, self._fate, self._at = 0, fate, at
        self.met = ""
        self._open: dict[int, str] = {}

    def install(self) -> None:
        folder.file_system_of = lambda path, mounts="": "fuse.gcsfuse"
        mount.os = self  # type: ignore[assignment]  # the driver's calls instead of the machine's

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED:
            return self._refuse
        call = getattr(os, name)
        return self._counted(name, call) if name in CHANGING else call

    @staticmethod
    def _refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, "a mounted bucket has no such call")

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if not flags & os.O_CREAT:
            return os.open(path, flags, mode)
        assert flags & os.O_EXCL, "an object is written once"
        handle: int = self._counted("open", os.open)(path, flags, mode)
        self._open[handle] = path
        return handle

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            ours = name not in ("write", "fsync", "close") or args[0] in self._open
            if not ours or (self._fate == "half" and name != "write") or (self._fate == "short" and name != "close"):
                return self._close(args[0]) if name == "close" else call(*args)
            self.calls += 1
            if self.calls == self._at or (self.calls > self._at and self._fate.endswith("+")):
                self.met = self.met or f"{name} {self._open.get(args[0], args[0])}"
                return self._meet(name, call, args)
            return self._close(args[0]) if name == "close" else call(*args)

        return counted

    def _close(self, handle: int) -> None:
        self._open.pop(handle, None)
        os.close(handle)

    def _meet(self, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._fate == "half":
            call(args[0], args[1][: len(args[1]) // 2])
        for path in self._open.values():
            if self._fate == "lost":
                Path(path).unlink()
            if self._fate == "empty":
                os.truncate(path, 0)
        if self._fate in ("before", "half", "lost", "empty"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name in ("fsync", "close"):
            path = self._open[args[0]]
            os.truncate(path, Path(path).stat().st_size // 2)
        if name == "close":  # the kernel has let go of it all the same
            self._close(args[0])
        failing = getattr(errno, self._fate.rstrip("+"), None)
        if failing is not None:
            raise OSError(failing, os.strerror(failing))
        return None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), FatefulMount, MountStore)
