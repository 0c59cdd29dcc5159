"""Reads README.md and docs/: the scripts to run, the files to write and the commands to try, page by page.

In a page, a fenced block may have a comment on the line before it:
    <!-- not run: REASON -->   it is passed over; the reason is needed
    <!-- separate -->          it runs alone, instead of with the page's other python blocks
    <!-- file: NAME -->        it is written to that file, for the page's commands, and does not run by itself
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"(?:^<!-- *(?P<mark>[^\n]*?) *-->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
_EXIT = re.compile(r"\s+# exit (?P<code>\d+)$")


class PageError(Exception):
    """A page's marks make no sense."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line after `$ ` in a console block, and the exit code that the page promises."""

    line: str
    exit_code: int = 0


@dataclass(slots=True)
class Page:
    """What a page asks a test to do."""

    scripts: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def read_page(text: str) -> Page:
    """The page's work; raises PageError for an unknown mark or a missing reason."""
    page, shared = Page(), []
    for block in _BLOCK.finditer(text):
        mark, language, body = block["mark"] or "", block["language"], block["body"]
        word, _, rest = (part.strip() for part in mark.partition(":"))
        if word == "not run":
            if len(rest.split()) < 2:
                raise PageError(f"'<!-- {mark} -->' gives no reason")
            page.passed_over.append(rest)
        elif word == "file" and rest:
            page.files[rest] = body
        elif language == "console":
            page.commands += _commands(body)
        elif language == "python" and word == "separate":
            page.scripts.append(body)
        elif language == "python":
            shared.append(body)
    if shared:
        page.scripts.insert(0, "\n".join(shared))
    return page


def _commands(body: str) -> list[Command]:
    joined = re.sub(r"\\\n\s*", "", body)
    found = []
    for line in joined.splitlines():
        if re.match(r"\$ (outlast|python)\b", line):
            promised = _EXIT.search(line)
            found.append(Command(_EXIT.sub("", line[2:]), int(promised["code"]) if promised else 0))
    return found
