"""Makes docs/lint-rules.md from the rules; `make rules` writes it."""

from collections.abc import Iterator
from pathlib import Path

from outlast.lint.catalogue import families

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lint-rules.md"
_HEAD = """# The rules of lint

<!-- Made by `make rules` from the rules themselves; changes here are lost. -->
[`outlast lint`](howto/lint.md) looks for these. The severity is the usual one: a finding may be graver or milder, and
its message says why. `outlast explain RULE` tells the reason and what to do.
"""


def page() -> str:
    """The page's text."""
    return "\n".join([_HEAD, *_tables()])


def _tables() -> Iterator[str]:
    for title, rules in families().items():
        yield f"## {title}\n\n| rule | severity | finds | source |\n|---|---|---|---|"
        for one in rules:
            yield f"| {one.id} | {one.severity} | {_cell(one.title)} | {_cell(one.source)} |"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
