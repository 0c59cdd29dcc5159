"""What a Dockerfile says about the start of a container: its command, its folder, its variables."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_SHELL = ("/bin/sh", "-c")


@dataclass(slots=True)
class Start:
    """How a container of the image starts. `working_folder`: WORKDIR, None where there is none; `environment`: ENV."""

    entry_point: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_folder: PurePosixPath | None = None
    environment: dict[str, str] = field(default_factory=dict)


def read_start(text: str) -> Start:
    """Reads ENTRYPOINT, CMD, WORKDIR and ENV of the last stage; what the other instructions do is not looked at."""
    start = Start()
    for name, rest in _instructions(text):
        if name == "FROM":
            start = Start()
        elif name == "ENTRYPOINT":
            start.entry_point, start.arguments = _command(rest), ()
        elif name == "CMD":
            start.arguments = _command(rest)
        elif name == "WORKDIR":
            start.working_folder = (start.working_folder or PurePosixPath("/")) / shlex.split(rest)[0]
        elif name == "ENV":
            start.environment |= _variables(rest)
    return start


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    found = [_INSTRUCTION.match(line) for line in joined.splitlines()]
    return [(match[1].upper(), match[2].strip()) for match in found if match]


def _command(text: str) -> tuple[str, ...]:
    """The exec form is a list in JSON; anything else is the shell form, single quotes included."""
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return tuple(words)
    return (*_SHELL, text)


def _variables(text: str) -> dict[str, str]:
    words = shlex.split(text)
    if words and "=" not in words[0]:  # the old form: ENV NAME all the rest
        name, _, value = text.partition(" ")
        return {name: value.strip()}
    return {name: value for name, _, value in (word.partition("=") for word in words)}
