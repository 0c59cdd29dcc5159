"""The programs that the doctor asks: each question once, with a time limit, and nothing is typed into them."""

import json
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from outlast.deploy.plain_data import at

LONGEST_SECONDS = 20.0
_MOST_BYTES = 32 * 1024 * 1024  # the nodes of a large cluster are a few megabytes
# gcloud would wait for an answer, offer to switch APIs on, or look for a newer version of itself.
_QUIET = {
    "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    "CLOUDSDK_CORE_SHOULD_PROMPT_TO_ENABLE_API": "false",
    "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    "CLOUDSDK_SURVEY_DISABLE_PROMPTS": "1",
}

_Read = TypeVar("_Read")
Failure = Literal["missing", "hung", "failed", "malformed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said. `failure` None: it left with 0."""

    argv: tuple[str, ...]
    out: str = ""
    error: str = ""
    failure: Failure | None = None

    @property
    def program(self) -> str:
        return self.argv[0]

    @property
    def last_line(self) -> str:
        """What it complained of, in short."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        told = next((line for line in lines if line.startswith(("ERROR:", "error:", "Error"))), None)
        return (told or (lines[-1] if lines else "it said nothing"))[:300]


class Programs(Protocol):
    """The door to the programs of this machine."""

    def ask(self, *argv: str) -> Answer:
        """What the program says; never raises, and takes no longer than its limit."""
        ...

    def found(self, program: str) -> bool:
        """Whether it is installed."""
        ...


@dataclass(slots=True)
class Asking:
    """One question: who asks second waits for the answer to the first."""

    done: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None


class RealPrograms:
    """Starts them. A program that hung once is not started again: the next answer would take as long."""

    def __init__(self, env: Mapping[str, str], *, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._env = {**env, **_QUIET}
        self._longest_seconds = longest_seconds
        self._asked: dict[tuple[str, ...], Asking] = {}
        self._hung: set[str] = set()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._starting = threading.Lock()  # a program that starts while all are ended would be left behind
        self._ended = False

    def found(self, program: str) -> bool:
        return shutil.which(program, path=self._env.get("PATH")) is not None

    def ask(self, *argv: str) -> Answer:
        with self._lock:
            first = argv not in self._asked
            asking = self._asked.setdefault(argv, Asking())
        if first:
            try:
                asking.answer = self._start(argv)
            finally:
                asking.done.set()
        asking.done.wait()
        assert asking.answer is not None
        return asking.answer

    def end(self) -> None:
        """Ends what still runs, when nobody waits for it any more; nothing is started after it."""
        with self._starting:
            self._ended = True
            for process in list(self._running):
                _kill(process)

    def _start(self, argv: tuple[str, ...]) -> Answer:
        path = shutil.which(argv[0], path=self._env.get("PATH"))
        if path is None:
            return Answer(argv, failure="missing")
        with self._starting:
            if argv[0] in self._hung or self._ended:
                return Answer(argv, failure="hung")
            try:
                process = subprocess.Popen(
                    [path, *argv[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self._env,
                    start_new_session=True,  # gcloud is a shell script: what it started has to end with it
                )
            except OSError as error:
                return Answer(argv, error=str(error), failure="failed")
            self._running.add(process)
        try:
            return self._hear(argv, process)
        finally:
            self._running.discard(process)

    def _hear(self, argv: tuple[str, ...], process: "subprocess.Popen[bytes]") -> Answer:
        try:
            out, error = _said_by(process, self._longest_seconds)
        except subprocess.TimeoutExpired:
            self._hung.add(argv[0])
            _end(process)
            return Answer(argv, failure="hung")
        except _TooMuch:
            _end(process)
            return Answer(argv, error=f"it printed more than {_MOST_BYTES} bytes", failure="malformed")
        failure: Failure | None = "failed" if process.returncode else None
        return Answer(argv, _text(out), _text(error), failure)


class _TooMuch(Exception):
    """A program that prints without an end."""


def _said_by(process: "subprocess.Popen[bytes]", seconds: float) -> tuple[bytes, bytes]:
    """Both outputs, within bounds of time and size. Raises TimeoutExpired or _TooMuch."""
    deadline = time.monotonic() + seconds
    said = {1: bytearray(), 2: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for number, pipe in ((1, process.stdout), (2, process.stderr)):
            if pipe is not None:
                waiting.register(pipe, selectors.EVENT_READ, number)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(process.args, seconds)
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                said[key.data] += part
                if len(said[key.data]) > _MOST_BYTES:
                    raise _TooMuch
                if not part:
                    waiting.unregister(key.fileobj)
    process.wait(max(0.0, deadline - time.monotonic()))
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return bytes(said[1]), bytes(said[2])


def _end(process: "subprocess.Popen[bytes]") -> None:
    _kill(process)
    # Whoever left the group may hold the pipes open for ever: nobody reads them to their end.
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):  # it has ended in this moment
        os.killpg(process.pid, signal.SIGKILL)


def _text(said: bytes) -> str:
    return said.decode(errors="replace")


def parsed(answer: Answer, shape: Callable[[object], _Read]) -> _Read | Answer:
    """The JSON that was said, as `shape` reads it; else the answer with its failure.

    `shape` raises KeyError, TypeError or ValueError for what is not as it expects.
    """
    if answer.failure is not None:
        return answer
    try:
        return shape(json.loads(answer.out))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"what it printed cannot be read: {type(error).__name__}: {error}"
        return Answer(answer.argv, answer.out, why, "malformed")


def mapping(said: object) -> Mapping[str, object]:
    """An object of JSON; raises TypeError."""
    if not isinstance(said, dict):
        raise TypeError(f"an object was expected, not {type(said).__name__}")
    return said


def rows(said: object) -> Sequence[Mapping[str, object]]:
    """A list of objects; raises TypeError."""
    if not isinstance(said, list):
        raise TypeError(f"a list was expected, not {type(said).__name__}")
    return [mapping(one) for one in said]


def text_at(said: object, *path: str) -> str | None:
    """The text at a path of keys, None where there is none."""
    found = value_at(said, *path)
    return str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def number_at(said: object, *path: str) -> float:
    """The number at a path of keys, also one that is written as text; 0 where there is none."""
    try:
        return float(text_at(said, *path) or 0)
    except ValueError:
        return 0.0


def value_at(said: object, *path: str) -> object:
    """Whatever is at a path of keys, None where there is nothing."""
    found: object = at(said, path)
    return found


def rows_at(said: object, *path: str) -> Sequence[Mapping[str, object]]:
    """The objects of the list at a path of keys; none where there is no such list."""
    found = value_at(said, *path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
