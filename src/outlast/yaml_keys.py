"""Reads YAML key by key, so that what is wrong with it is said with the file, the line and the key."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import yaml

from outlast.clock import parse_duration
from outlast.errors import SettingsError

_NULL, _TEXT, _BOOLEAN = "tag:yaml.org,2002:null", "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
MOST_CHARACTERS = 1 << 20
_MOST_DIGITS = 18  # of a count: int() refuses thousands of them with an error of its own
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Key:
    """A value in a file, and where it stands. `path` is "attempts[2].maintenance.notice", `name` its last name."""

    file: str
    path: str
    node: yaml.Node
    name: yaml.Node | None = None

    def wrong(self, why: str) -> NoReturn:
        """Raises SettingsError with the place."""
        self._wrong_at(self.node, why)

    def misnamed(self, why: str) -> NoReturn:
        """Raises SettingsError with the place of the name, which may stand in a line above its value."""
        self._wrong_at(self.name or self.node, why)

    def _wrong_at(self, node: yaml.Node, why: str) -> NoReturn:
        line = "" if node.start_mark is None else f":{node.start_mark.line + 1}"  # an argument stands in no line
        raise SettingsError(f"{self.file}{line}: {self.path + ': ' if self.path else ''}{why}")

    def fields(self, known: Sequence[str]) -> dict[str, "Key"]:
        """The values of a mapping, by name; raises SettingsError for one that is not `known`, or comes twice."""
        found: dict[str, Key] = {}
        for name, key in self.entries():
            if name not in known:
                key.misnamed(f"{name!r} is not known here{did_you_mean(name, known)}")
            found[name] = key
        return found

    def entries(self) -> Iterator[tuple[str, "Key"]]:
        """The names and values of a mapping, each name once."""
        if self.node.tag == _NULL:
            return
        if not isinstance(self.node, yaml.MappingNode):
            self.wrong(f"expected names with values, found {_shown(self.node)}")
        seen: set[str] = set()
        for name_node, value in self.node.value:
            name = str(name_node.value) if isinstance(name_node, yaml.ScalarNode) else "?"
            key = Key(self.file, f"{self.path}.{name}" if self.path else name, value, name_node)
            if name in seen:
                key.misnamed(f"{name!r} is there twice")
            seen.add(name)
            yield name, key

    def items(self) -> list["Key"]:
        """The values of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.wrong(f"expected a list, found {_shown(self.node)}")
        return [Key(self.file, f"{self.path}[{place}]", node) for place, node in enumerate(self.node.value)]

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_text(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode)

    def text(self) -> str:
        """A text, or a number as it is written."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag not in (_TEXT, *_NUMBERS):
            self.wrong(f"expected a text, found {_shown(self.node)}")
        return str(self.node.value)

    def choice(self, choices: Sequence[str]) -> str:
        """One of several texts."""
        said = self.text()
        if said not in choices:
            self.wrong(f"{said!r} is not known here{did_you_mean(said, choices)}")
        return said

    def seconds(self, *, most: float = float("inf")) -> float:
        """A duration, as everywhere: "30s", "5min", "1h30m", or a bare number of seconds."""
        try:
            seconds = parse_duration(self.text(), setting=self.path)
        except SettingsError:
            self.wrong(f"{self.text()!r} is not a duration; write seconds or a text such as '30s', '5min', '1h30m'")
        if seconds > most:
            self.wrong(f"{self.text()} is more than {most:g} s")
        return seconds

    def count(self, *, least: int = 1) -> int:
        """A whole number."""
        said = self.text()
        if not said.isascii() or not said.isdigit() or len(said) > _MOST_DIGITS or int(said) < least:
            self.wrong(f"{said[:_MOST_SHOWN]!r} is not a whole number of {least} or more")
        return int(said)

    def yes_or_no(self) -> bool:
        """true or false."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != _BOOLEAN:
            self.wrong(f"expected true or false, found {_shown(self.node)}")
        return str(self.node.value).lower() in ("true", "yes", "on")

    def number_above_0(self) -> float:
        said = self.text()
        try:
            number = float(said)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            self.wrong(f"{said!r} is not a number above 0")
        return number


def read_text(path: Path, *, most_bytes: int) -> str:
    """The text of a file. Raises OSError where there is none, or one that is too large, or has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO that nobody writes to would never open
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes} bytes", str(path))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"no UTF-8: {error}", str(path)) from error


def parse_yaml(text: str, file: str) -> Key:
    """The whole document; raises SettingsError with the line where it is no YAML, or too much of it."""
    nodes = parse_documents(text, file)
    if not nodes:
        raise SettingsError(f"{file}: it is empty")
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        raise SettingsError(f"{file}:{line}: this is no YAML: expected a single document, and a second one begins here")
    return Key(file, "", nodes[0])


def parse_documents(text: str, file: str) -> list[yaml.Node]:
    """The nodes of all documents; raises SettingsError with the line where it is no YAML, or too much of it."""
    if len(text) > MOST_CHARACTERS:
        raise SettingsError(f"{file}: more than {MOST_CHARACTERS} characters are too many")
    try:
        return list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{file}:{line}: this is no YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{file}: this is no YAML: {error}") from error


def did_you_mean(said: str, known: Sequence[str]) -> str:
    """The nearest of what is known, as the end of a sentence; all of it where none is near."""
    close = get_close_matches(said, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "names with values"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if node.tag == _NULL else repr(node.value)
