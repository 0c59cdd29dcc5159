"""Starts a command in a namespace of its own, as PID 1 or below one, and waits for it. Run as a program, by its path.

`unshare` of util-linux does nearly this, but in some versions (2.38) turns a SIGKILL of the command into exit
code 1. Needs no package: it runs with `python -I -S`.
"""

import ctypes
import errno
import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

# From linux/sched.h, sys/mount.h and linux/prctl.h.
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 0x20, 0x1000
_MS_REC, _MS_UNBINDABLE, _MS_PRIVATE = 0x4000, 1 << 17, 1 << 18
_MS_NOATIME, _MS_RELATIME, _ST_RELATIME = 0x400, 1 << 21, 0x1000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

_DEVICES = ("dev", "sys")  # the machine's own, and no files
_MOST_STEPS = 1000  # along a path with links, which may lead in a circle

# From asm/unistd.h and linux/seccomp.h.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8

NOT_ALLOWED = 125  # the namespace could not be made
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


def main(how: dict[str, Any], command: list[str]) -> int:
    """Runs the command; returns its exit code, 128+n for signal n.

    Writes the process number of the namespace's PID 1 to the descriptor `status`, whose other end sees the end of the
    file when the command itself has begun; before that a line "!WHY" if it cannot begin.

    `view`, where there is one, has `root`, an empty folder for a root of the command's own, `private`, whether what it
    writes outside of the mounts is kept apart and lost with it, `folder`, in which it starts, and `mounts`:
    [what, where, whether read-only] each. `calls` is a socket for the listener of the seccomp filter `program`
    (hexadecimal digits); it is closed without a message where the kernel allows none. `below_init`: PID 1 is a process
    of ours that handles no signal, and the command its child, as under an init or a service manager.
    """
    status, calls = how["status"], how.get("calls", -1)
    for descriptor in (status, *([calls] if calls >= 0 else [])):
        os.set_inheritable(descriptor, False)
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    try:
        _enter_namespaces(libc)
    except OSError as error:
        sys.stderr.write(f"outlast: no PID namespace: {error}\n")
        return NOT_ALLOWED
    child = os.fork()
    if child == 0:
        _prepare(libc, how.get("view"), status)
        if how.get("below_init"):
            _stay_above(status, calls)
        _become(libc, calls, bytes.fromhex(how.get("program", "")), command, status)
    if calls >= 0:
        os.close(calls)
    os.write(status, b"%d\n" % child)
    os.close(status)
    return _wait_for(child)


def _wait_for(child: int) -> int:
    """The exit code of a child; reaps whatever else was left to this process."""
    while True:
        pid, ended = os.wait()
        if pid == child:
            return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)


def _stay_above(*descriptors: int) -> None:
    """Returns in a child; this process stays, and takes the child's exit code for its own."""
    child = os.fork()
    if child:
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)
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


def _prepare(libc: ctypes.CDLL, view: dict[str, Any] | None, status: int) -> None:
    try:
        _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
        in_place = view is not None and view["in_place"]
        root = _Root(libc, Path(view["root"]), private=view["private"]) if view and not in_place else None
        proc = b"/proc" if root is None else os.fsencode(root.place / "proc")
        _check(libc.mount(b"proc", proc, b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None))
        if root is not None and view is not None:
            for what, where, read_only in view["mounts"]:
                root.mount(Path(what), Path(where), read_only=read_only)
            os.chroot(root.place)
            os.chdir(view["folder"])
        elif view is not None:
            for what, where, _ in view["mounts"]:
                _mount_in_place(libc, Path(what), Path(where), aside=Path(view["root"]))
    except OSError as error:
        _give_up(status, f"outlast: the container cannot be made: {error}", _CANNOT_EXECUTE)


def _become(libc: ctypes.CDLL, calls: int, program: bytes, command: list[str], status: int) -> NoReturn:
    """Takes the command's place in this process."""
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        if calls >= 0:
            _hand_over_calls(libc, calls, program)
        os.execvp(command[0], command)  # noqa: S606 - a shell would become PID 1 in the program's place
    except FileNotFoundError:
        _give_up(status, f"{command[0]}: command not found", _NOT_FOUND)
    except OSError as error:
        _give_up(status, f"{command[0]}: {error}", _CANNOT_EXECUTE)


def _give_up(status: int, why: str, code: int) -> NoReturn:
    os.write(status, f"!{why}\n".encode())
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(code)


def _hand_over_calls(libc: ctypes.CDLL, calls: int, program: bytes) -> None:
    """From here on the calls that the filter names wait for an answer. As root of a namespace, no bit is needed."""
    import socket  # noqa: PLC0415 - every attempt starts through this file, and few need it

    filters = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("H6xQ", len(program) // 8, ctypes.addressof(filters))
    listener = libc.syscall(_SECCOMP[os.uname().machine], _SET_MODE_FILTER, _NEW_LISTENER, described)
    if listener >= 0:
        with socket.socket(fileno=calls) as way:
            socket.send_fds(way, [b"1"], [listener])
        os.close(listener)


def _mount_in_place(libc: ctypes.CDLL, what: Path, where: Path, *, aside: Path) -> None:
    """Mounts a folder over this machine's own files, as the command alone sees them.

    A folder that lacks the place is covered by one in memory, with the same entries; `aside` is an empty folder.
    """
    target, covered = Path("/"), set()
    for name in where.parts[1:]:
        if not (target / name).exists():
            if target.resolve() not in covered:
                _cover_in_place(libc, target.resolve(), aside)
            (target / name).mkdir()
            covered.add((target / name).resolve())
        target = target / name
    _check(libc.mount(os.fsencode(what), os.fsencode(target), None, _MS_BIND | _MS_REC, None))


def _cover_in_place(libc: ctypes.CDLL, folder: Path, aside: Path) -> None:
    _check(libc.mount(os.fsencode(folder), os.fsencode(aside), None, _MS_BIND | _MS_REC, None))
    _check(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=755"))
    for entry in os.scandir(aside):
        here = folder / entry.name
        if entry.is_symlink():
            here.symlink_to(Path(entry.path).readlink())
            continue
        here.mkdir() if entry.is_dir() else here.touch()
        _check(libc.mount(os.fsencode(entry.path), os.fsencode(here), None, _MS_BIND | _MS_REC, None))
    _check(libc.umount2(os.fsencode(aside), _MNT_DETACH))


class _Root:
    """A root folder of the command's own: what this machine has, and mounts at places that it need not have.

    A folder that lacks such a place is covered by one in memory, which holds the same entries and the place.
    `private`: what is written to this machine's own folders goes to memory instead, and is lost with the command; a
    folder with which that cannot be done is read-only. Devices, and what is mounted below /dev, are this machine's.
    """

    def __init__(self, libc: ctypes.CDLL, place: Path, *, private: bool) -> None:
        self._libc, self.place = libc, place
        self._covered: set[Path] = set()
        self._layers: Path | None = None
        self._inner = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        self._mount_memory(place)
        if private:  # it stays reachable by its descriptor below what is mounted over it now
            self._layers = Path(f"/proc/self/fd/{os.open(place, os.O_PATH | os.O_DIRECTORY)}")
            self._mount_memory(place)
        _check(libc.mount(None, os.fsencode(place), None, _MS_UNBINDABLE, None))  # /tmp below it has it in itself
        self._refill(Path("/"), place, leave_out=("proc",))
        (place / "proc").mkdir()
        self._covered.add(place)
        if private:
            self._make_devices(place / "dev")

    def mount(self, what: Path, where: Path, *, read_only: bool) -> None:
        """Mounts a folder or a file at an absolute path, which is made if it is missing."""
        target = self._reach(where, what)
        self._bind(what, target)
        if read_only:
            kept = _MS_NOSUID | _MS_NODEV  # in a user namespace they may not be taken off
            _check(self._libc.mount(None, os.fsencode(target), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept, None))

    def _reach(self, where: Path, what: Path) -> Path:
        """A path of the command's, as it is to be named from outside; links lead where they will lead inside."""
        target, names = self.place, list(where.parts[1:])
        for _ in range(_MOST_STEPS):
            if not names:
                return target
            name, *names = names
            here = target / name
            if name == "..":
                target = target if target == self.place else target.parent
            elif here.is_symlink():
                link = here.readlink()
                target = self.place if link.is_absolute() else target
                names = [*(part for part in link.parts if part != "/"), *names]
            else:
                if not here.exists():
                    self._cover(target)
                    here.mkdir() if names or what.is_dir() else here.touch()
                    self._covered.add(here)
                target = here
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(where))

    def _make_devices(self, folder: Path) -> None:
        """Covers the devices, as a file that is made among them would stay; terminals are found only beside a ptmx."""
        self._cover(folder, leave_out=("pts", "ptmx"))
        (folder / "pts").mkdir()
        (folder / "ptmx").symlink_to("pts/ptmx")
        options = b"newinstance,ptmxmode=0666,mode=620"
        terminals = os.fsencode(folder / "pts")
        self._libc.mount(b"devpts", terminals, b"devpts", _MS_NOSUID | _MS_NOEXEC, options)  # or there are none

    def _cover(self, folder: Path, leave_out: tuple[str, ...] = ()) -> None:
        if folder in self._covered:
            return
        aside = self.place / ".covered"
        aside.mkdir()
        self._bind(folder, aside)
        self._mount_memory(folder)
        self._refill(aside, folder, leave_out)
        _check(self._libc.umount2(os.fsencode(aside), _MNT_DETACH))
        aside.rmdir()
        self._covered.add(folder)

    def _refill(self, source: Path, folder: Path, leave_out: tuple[str, ...] = ()) -> None:
        for entry in os.scandir(source):
            here = folder / entry.name
            if entry.name in leave_out:
                continue
            if entry.is_symlink():
                here.symlink_to(Path(entry.path).readlink())
            elif entry.is_dir():
                here.mkdir()
                self._show(Path(entry.path), here)
            else:
                here.touch()
                self._bind(Path(entry.path), here)

    def _show(self, what: Path, where: Path) -> None:
        if _is_dead(what):
            return
        if self._layers is None or where.relative_to(self.place).parts[0] in _DEVICES:
            self._bind(what, where)
            return
        layered = self._layer(what, where)
        if not layered:
            self._bind(what, where)
            self._forbid_writing(where)
        for one in sorted(self._inner):  # a layer shows nothing of what is mounted inside of it
            if what not in one.parents:
                continue
            inside = where / one.relative_to(what)
            if not layered:
                self._forbid_writing(inside)
            elif inside.is_dir() and not inside.is_mount():
                self._show(one, inside)

    def _forbid_writing(self, mount: Path) -> None:
        """Where writes cannot be kept apart, there are none: else they would outlive the command."""
        flags = os.statvfs(mount).f_flag
        kept = flags & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_NOATIME)  # others may not take them off
        kept |= _MS_RELATIME if flags & _ST_RELATIME else 0
        _check(self._libc.mount(None, os.fsencode(mount), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept, None))

    def _layer(self, what: Path, where: Path) -> bool:
        """Mounts a folder so that writes to it go to memory; whether that can be done."""
        if self._layers is None:
            return False
        number = sum(1 for _ in self._layers.iterdir())
        lower = "".join(f"\\{letter}" if letter in "\\,:" else letter for letter in str(what))
        upper, work = (self._layers / f"{number}" / name for name in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        extra = "" if os.geteuid() == 0 else ",userxattr"
        options = f"lowerdir={lower},upperdir={upper},workdir={work}{extra}"
        upper.chmod(what.stat().st_mode & 0o7777)
        made: int = self._libc.mount(b"overlay", os.fsencode(where), b"overlay", 0, os.fsencode(options))
        return made == 0

    def _bind(self, what: Path, where: Path) -> None:
        _check(self._libc.mount(os.fsencode(what), os.fsencode(where), None, _MS_BIND | _MS_REC, None))

    def _mount_memory(self, where: Path) -> None:
        _check(self._libc.mount(b"tmpfs", os.fsencode(where), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=755"))


def _is_dead(folder: Path) -> bool:
    """Whether nobody answers for what is mounted there (a FUSE server that has ended): it stays an empty folder."""
    try:
        folder.stat()
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.EACCES)
    return False


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
