"""Starts a command as PID 1 of a namespace of its own, and waits for it. Run as a program, by its path.

`unshare` of util-linux does nearly this, but in some versions (2.38) turns a SIGKILL of the command into exit
code 1. Needs no package: it runs with `python -I -S`.
"""

import ctypes
import os
import signal
import struct
import sys
from pathlib import Path

# From linux/sched.h, sys/mount.h and linux/prctl.h.
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
_PR_SET_PDEATHSIG = 1
# From asm/unistd.h and linux/seccomp.h.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8

NOT_ALLOWED = 125  # the namespace could not be made
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


def main(status: int, calls: int, program: bytes, command: list[str]) -> int:
    """Runs the command; returns its exit code, 128+n for signal n.

    Writes the command's process number to the descriptor `status`, whose other end sees the end of the file when
    the command itself has begun. `calls` is a socket for the listener of the seccomp filter `program`, -1 for none;
    it is closed without a message where the kernel allows none.
    """
    os.set_inheritable(status, False)
    if calls >= 0:
        os.set_inheritable(calls, False)
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    try:
        _enter_namespaces(libc)
    except OSError as error:
        sys.stderr.write(f"outlast: no PID namespace: {error}\n")
        return NOT_ALLOWED
    child = os.fork()
    if child == 0:
        _become(libc, calls, program, command)
    if calls >= 0:
        os.close(calls)
    os.write(status, b"%d\n" % child)
    os.close(status)
    _, ended = os.waitpid(child, 0)
    return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)


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


def _become(libc: ctypes.CDLL, calls: int, program: bytes, command: list[str]) -> None:
    try:
        _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
        _check(libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None))
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        if calls >= 0:
            _hand_over_calls(libc, calls, program)
        os.execvp(command[0], command)  # noqa: S606 - a shell would become PID 1 in the program's place
    except FileNotFoundError:
        sys.stderr.write(f"{command[0]}: command not found\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error}\n")
        sys.stderr.flush()
        os._exit(_CANNOT_EXECUTE)


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


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    status, *filtered = sys.argv[1].split(":")  # STATUS, or STATUS:SOCKET:PROGRAM in hexadecimal digits
    calls, program = (int(filtered[0]), bytes.fromhex(filtered[1])) if filtered else (-1, b"")
    sys.exit(main(int(status), calls, program, sys.argv[2:]))
