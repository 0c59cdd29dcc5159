"""Starts a command in a namespace of its own, as PID 1 or below one, and waits for it. Run as a program, by its path.

`unshare` of util-linux does nearly this, but in some versions (2.38) turns a SIGKILL of the command into exit
code 1. Needs no package: it runs with `python -I -S`.
"""

import ctypes
import json
import os
import platform
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

# From linux/sched.h, sys/mount.h and linux/prctl.h.
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 0x20, 0x1000
_MS_REC, _MS_UNBINDABLE, _MS_PRIVATE = 0x4000, 1 << 17, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

# From linux/seccomp.h, linux/bpf_common.h and linux/audit.h; the numbers of calls from each one's asm/unistd.h.
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8
_RET_ALLOW, _RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
# By machine: the architecture's number, that of seccomp(2), and the calls that write to an open file:
# write, pwrite64, writev, pwritev, pwritev2, fsync, fdatasync, fallocate.
CALLS = {
    "x86_64": (0xC000003E, 317, (1, 18, 20, 296, 328, 74, 75, 285)),
    "aarch64": (0xC00000B7, 277, (64, 68, 66, 70, 287, 82, 83, 47)),
}

NOT_ALLOWED = 125  # the namespace could not be made
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


def main(status: int, view: str, watcher: int, below_init: bool, command: list[str]) -> int:
    """Runs the command; returns its exit code, 128+n for signal n.

    Writes the process number of the namespace's PID 1 to the descriptor `status`, whose other end sees the end of the
    file when the command itself has begun. `view`: empty, or JSON with `root`, an empty folder for a root of the
    command's own, `folder`, in which it starts, and `mounts`: [what, where, whether read-only] each. `watcher` is a
    socket that gets the descriptor on which the command's writes are announced, before they are done; -1 where nobody
    asks. `below_init`: PID 1 is a process of ours that handles no signal, and the command its child, as under an init
    or a service manager.
    """
    os.set_inheritable(status, False)
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    try:
        _enter_namespaces(libc)
    except OSError as error:
        sys.stderr.write(f"outlast: no PID namespace: {error}\n")
        return NOT_ALLOWED
    child = os.fork()
    if child == 0:
        _prepare(libc, json.loads(view) if view else None)
        if below_init:
            _stay_above(status)
        _become(libc, watcher, command)
    os.write(status, b"%d\n" % child)
    os.close(status)
    return _wait_for(child)


def _wait_for(child: int) -> int:
    """The exit code of a child; reaps whatever else was left to this process."""
    while True:
        pid, ended = os.wait()
        if pid == child:
            return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)


def _stay_above(status: int) -> None:
    """Returns in a child; this process stays, and takes the child's exit code for its own."""
    child = os.fork()
    if child:
        os.close(status)
        os._exit(_wait_for(child))


def _enter_namespaces(libc: ctypes.CDLL) -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _check(libc.unshare(_CLONE_NEWPID | _CLONE_NEWNS))
        return
    # Others may in a user namespace of their own; in it they stay who they are.
    _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _prepare(libc: ctypes.CDLL, view: dict[str, Any] | None) -> None:
    try:
        _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
        root = _Root(libc, Path(view["root"])) if view else None
        proc = b"/proc" if root is None else os.fsencode(root.place / "proc")
        _check(libc.mount(b"proc", proc, b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None))
        if root is not None and view is not None:
            for what, where, read_only in view["mounts"]:
                root.mount(Path(what), Path(where), read_only=read_only)
            os.chroot(root.place)
            os.chdir(view["folder"])
    except OSError as error:
        sys.stderr.write(f"outlast: the container cannot be made: {error}\n")
        sys.stderr.flush()
        os._exit(_CANNOT_EXECUTE)


def _become(libc: ctypes.CDLL, watcher: int, command: list[str]) -> None:
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        if watcher >= 0:
            _announce_writes(libc, watcher)
        os.execvp(command[0], command)  # noqa: S606 - a shell would become PID 1 in the program's place
    except FileNotFoundError:
        sys.stderr.write(f"{command[0]}: command not found\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error}\n")
        sys.stderr.flush()
        os._exit(_CANNOT_EXECUTE)


def _announce_writes(libc: ctypes.CDLL, watcher: int) -> None:
    """From now on each call that writes, of this process and all below it, waits for a word on a descriptor.

    A descriptor of that kind goes to whoever is at the other end of the socket `watcher`; see seccomp_unotify(2).
    """
    architecture, seccomp, calls = CALLS[platform.machine()]
    program = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_JUMP_IF_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _RET_ALLOW)]
    program += [(_LOAD, 0, 0, _NUMBER_AT)]
    program += [(_JUMP_IF_EQUAL, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    program += [(_RETURN, 0, 0, _RET_ALLOW), (_RETURN, 0, 0, _RET_USER_NOTIF)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    whole = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    listener = libc.syscall(seccomp, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER, whole)
    if listener < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(fileno=watcher) as there:
        socket.send_fds(there, [b"."], [listener])
    os.close(listener)


class _Root:
    """A root folder of the command's own: what this machine has, and mounts at places that it need not have.

    A folder that lacks such a place is covered by one in memory, which holds the same entries and the place.
    """

    def __init__(self, libc: ctypes.CDLL, place: Path) -> None:
        self._libc, self.place = libc, place
        self._covered: set[Path] = set()
        self._mount_memory(place)
        _check(libc.mount(None, os.fsencode(place), None, _MS_UNBINDABLE, None))  # /tmp below it has it in itself
        self._refill(Path("/"), place, leave_out=("proc",))
        (place / "proc").mkdir()
        self._covered.add(place)

    def mount(self, what: Path, where: Path, *, read_only: bool) -> None:
        """Mounts a folder at an absolute path, which is made if it is missing."""
        target = self.place
        for name in where.parts[1:]:
            if not (target / name).exists():
                self._cover(target)
                (target / name).mkdir()
            target = target / name
        self._bind(what, target)
        if read_only:
            kept = _MS_NOSUID | _MS_NODEV  # in a user namespace they may not be taken off
            _check(self._libc.mount(None, os.fsencode(target), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept, None))

    def _cover(self, folder: Path) -> None:
        if folder in self._covered:
            return
        aside = self.place / ".covered"
        aside.mkdir()
        self._bind(folder, aside)
        self._mount_memory(folder)
        self._refill(aside, folder)
        _check(self._libc.umount2(os.fsencode(aside), _MNT_DETACH))
        aside.rmdir()
        self._covered.add(folder)

    def _refill(self, source: Path, folder: Path, leave_out: tuple[str, ...] = ()) -> None:
        for entry in os.scandir(source):
            here = folder / entry.name
            if entry.name in leave_out:
                continue
            if entry.is_symlink():
                here.symlink_to(os.readlink(entry.path))
            elif entry.is_dir():
                here.mkdir()
                self._bind(Path(entry.path), here)
            else:
                here.touch()
                self._bind(Path(entry.path), here)

    def _bind(self, what: Path, where: Path) -> None:
        _check(self._libc.mount(os.fsencode(what), os.fsencode(where), None, _MS_BIND | _MS_REC, None))

    def _mount_memory(self, where: Path) -> None:
        _check(self._libc.mount(b"tmpfs", os.fsencode(where), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=755"))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    told, rest = sys.argv[1:5], sys.argv[5:]
    sys.exit(main(int(told[0]), told[1], int(told[2]), told[3] == "below-init", rest))
