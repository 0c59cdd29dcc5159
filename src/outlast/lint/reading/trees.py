"""Parsing by tree-sitter within a bounded time and depth, whatever the grammar."""

import time

import tree_sitter

from outlast.lint.source import Unreadable

_MOST_SECONDS = 5.0
_AT_ONCE = 4096  # bytes that the parser gets, so that it looks at the clock between


def parse_tree(data: bytes, grammar: object) -> tree_sitter.Node:
    """The root of a text's tree; grammars are slow with what no person would write. Raises Unreadable then.

    `grammar`: what a grammar's `language()` gives.
    """
    deadline = time.monotonic() + _MOST_SECONDS
    try:
        tree = tree_sitter.Parser(tree_sitter.Language(grammar)).parse(
            lambda offset, _point: data[offset : offset + _AT_ONCE],
            progress_callback=lambda _offset, _error: time.monotonic() > deadline,
        )
    except ValueError as error:
        raise Unreadable("it takes too long to parse") from error
    return tree.root_node


def check_depth(root: tree_sitter.Node, most: int) -> None:
    """Raises Unreadable where a tree is deeper than that: readers recurse, and this does not."""
    cursor, depth = root.walk(), 0
    while True:
        if depth > most:
            row = cursor.node.start_point.row if cursor.node is not None else 0
            raise Unreadable(f"it is nested more than {most} levels deep", row + 1)
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1
