"""Which commands and flags the gcloud on this machine has: a flag may be new, or of another release track.

gcloud ships a table of all its commands and flags, for completion in shells (`data/cli/gcloud_completions.py`; JSON
behind a few comments; read in 528.0.0, 2026-11-30). Where it is missing, `gcloud COMMAND --help` is asked once for each
command. Both leave hidden flags out, so a flag that is not listed may still be taken: say "not listed".
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

_HELP_SECONDS = 60.0
# gcloud's own, which every command takes ("GCLOUD WIDE FLAGS" of any help page; 528.0.0), with the short forms.
WIDE_FLAGS = frozenset(
    {
        "--access-token-file", "--account", "--billing-project", "--configuration", "--flags-file", "--flatten",
        "--format", "--help", "--impersonate-service-account", "--log-http", "--project", "--quiet", "--trace-token",
        "--user-output-enabled", "--verbosity", "-h", "-q",
    }
)  # fmt: skip
_STYLE = re.compile(r"\x1b\[[0-9;]*m|.\x08")
_FLAG = re.compile(r"(?<![\w-])--(\[no-\])?([a-z][a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class CommandFlags:
    """The flags that one command lists, with "--" in front; `negatable` have a --no- form too."""

    flags: frozenset[str]
    negatable: frozenset[str]

    def has(self, flag: str) -> bool:
        """Whether a flag as it is written ("--gpu", "--gpu=1", "--no-gpu") is listed. Short ones are not judged."""
        name = flag.partition("=")[0]
        if not name.startswith("--"):
            return True
        positive = "--" + name.removeprefix("--no-")
        return name in self.flags or name in WIDE_FLAGS or (name != positive and positive in self.negatable)


@dataclass(frozen=True)
class InstalledSdk:
    """The Cloud SDK on this machine. `program` is looked for on PATH; nothing runs until a question needs it."""

    program: str = "gcloud"
    _helps: dict[tuple[str, ...], CommandFlags | None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def path(self) -> Path | None:
        """Where the program really is; None: it is not installed."""
        found = shutil.which(self.program)
        return None if found is None else Path(found).resolve()

    @property
    def _roots(self) -> Sequence[Path]:
        """Where the SDK's own files may be: above its bin folder, or one further up."""
        return () if self.path is None else self.path.parents[1:3]

    @cached_property
    def version(self) -> str | None:
        """Such as "528.0.0"; None where it cannot be told."""
        if self.path is None:
            return None
        for root in self._roots:
            if (root / "VERSION").is_file():
                return (root / "VERSION").read_text(errors="replace").strip()
        said = re.search(r"Google Cloud SDK (\S+)", self._ask(("version",)) or "")
        return said[1] if said else None

    def command(self, words: Sequence[str]) -> CommandFlags | None:
        """The flags of a command such as ("beta", "run", "jobs", "deploy"); None: the SDK has no such command."""
        key = tuple(words)
        if key not in self._helps:
            self._helps[key] = self._in_table(key) if self._table is not None else self._in_help(key)
        return self._helps[key]

    def problems(self, argv: Sequence[str]) -> list[str]:
        """What a command line, with or without the program in front, has that this SDK does not list; [] is well.

        An SDK that is not installed has no problems to tell of: ask `path` first.
        """
        if self.path is None:
            return []
        words = list(argv[1:] if argv and Path(argv[0]).name == self.program else argv)
        name = self._command_in(words)
        flags = self.command(name) if name else None
        sdk = f"the SDK installed here ({self.version or 'of an unknown version'})"
        if flags is None:
            said = [word for word in words if not word.startswith("-")]
            return [f"`{self.program} {' '.join(said[:4])}` is no command of {sdk}"]
        asked = [word for word in words if word.startswith("--") and word != "--"]
        return [f"{flag.partition('=')[0]} is not listed in {sdk}" for flag in asked if not flags.has(flag)]

    def _command_in(self, words: Sequence[str]) -> tuple[str, ...]:
        """The longest beginning of the words that is a command; () if none is."""
        plain: list[str] = []
        for word in words:
            if word.startswith("-"):
                break
            plain.append(word)
        for length in range(len(plain), 0, -1):
            if self.command(plain[:length]) is not None:
                return tuple(plain[:length])
        return ()

    # --- the table that ships with it ---

    @cached_property
    def _table(self) -> Mapping[str, Any] | None:
        for root in self._roots:
            file = root / "data" / "cli" / "gcloud_completions.py"
            try:
                text = file.read_text(encoding="utf-8")
                found = json.loads(text[text.index("{") :])
            except (OSError, ValueError):
                continue  # another layout, or another SDK: its help is asked instead
            if isinstance(found, dict) and "commands" in found:
                return found
        return None

    def _in_table(self, words: tuple[str, ...]) -> CommandFlags | None:
        node: Any = self._table
        for word in words:
            node = node.get("commands", {}).get(word)
            if node is None:
                return None
        if node.get("commands"):
            return None  # a group
        flags = node.get("flags", {})
        return CommandFlags(frozenset(flags), frozenset(name for name, kind in flags.items() if kind == "bool"))

    # --- its help ---

    def _in_help(self, words: tuple[str, ...]) -> CommandFlags | None:
        text = self._ask((*words, "--help"))
        return None if text is None else flags_in_help(text)

    def _ask(self, words: Sequence[str]) -> str | None:
        if self.path is None:
            return None
        command = [str(self.path), *words]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_HELP_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None


def flags_in_help(text: str) -> CommandFlags | None:
    """The flags that a help page names; None for that of a group, which lists commands."""
    plain = _STYLE.sub("", text)
    if re.search(r"^(GROUPS|COMMANDS)$", plain, re.MULTILINE):
        return None
    found = [(bool(negatable), f"--{name}") for negatable, name in _FLAG.findall(plain)]
    return CommandFlags(frozenset(name for _, name in found), frozenset(name for can, name in found if can))
