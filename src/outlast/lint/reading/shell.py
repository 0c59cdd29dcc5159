"""Shell scripts as statements with places, by tree-sitter, within bounds of time and depth."""

import tree_sitter_bash

from outlast.lint.reading.shell_statements import Reading
from outlast.lint.reading.statements import Script
from outlast.lint.reading.trees import check_depth, parse_tree
from outlast.lint.source import Unreadable

MOST_CHARACTERS = 1 << 20
_MOST_OF_ONE = 3_000
_MOST_PARTS = 150_000  # words, operators and what they are in: each is looked at by many checks
_COSTLY = ("|", "<<", "((")  # the grammar's time and memory grow with the square of their number
_DEEPEST = 150  # statements in statements; bash itself would read more, a person would not


def read_shell(text: str) -> Script:
    """The statements of a script; what the grammar does not know in it is left out.

    A variable that is given one known value, `NAME=value` or `NAME=${NAME:-value}`, is replaced by it; so is an array.
    Raises Unreadable for what is no script at all, or too large for a bounded look.
    """
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it has {len(text):,} characters; of a script at most {MOST_CHARACTERS:,} are read")
    for token in _COSTLY:
        if text.count(token) > _MOST_OF_ONE:
            raise Unreadable(
                f"it has {text.count(token):,} times {token}; of a script at most {_MOST_OF_ONE:,} are read"
            )
    data = text.encode()
    root = parse_tree(data, tree_sitter_bash.language())
    if root.descendant_count > _MOST_PARTS:
        raise Unreadable(f"it has {root.descendant_count:,} parts; of a script at most {_MOST_PARTS:,} are read")
    check_depth(root, _DEEPEST)
    statements = Reading.of(root, data).statements()
    if root.has_error and not statements:
        raise Unreadable("it is no shell script", root.start_point.row + 1)
    return Script(statements, _shell_of(text))


def _shell_of(text: str) -> str | None:
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        return None
    words = [word.rsplit("/", 1)[-1] for word in first[2:].split() if not word.startswith("-")]
    if words[:1] == ["env"]:
        words = words[1:]
    return words[0] if words else None
