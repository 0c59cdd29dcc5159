"""Fields of manifests in three states: given, surely not given, and unknown, since a template may fill it in."""

from collections.abc import Iterator

from outlast.lint.reading.yaml_nodes import Node


def unset(node: Node, *names: str) -> bool:
    """Whether a field is surely not given: a placeholder on the way to it may hold it, and then it is not sure."""
    for name in names:
        if node.is_unknown:
            return False
        node = node[name]
    return not node.is_set and not node.is_unknown


def known_text(node: Node) -> str | None:
    """A scalar's text; None where there is none, or where it is not known."""
    return node.text if node.kind == "scalar" and node.is_set and not node.is_unknown else None


def number_or(node: Node, default: int) -> int | None:
    """A whole number, the default where nothing is given, None where it is not known."""
    return node.number if node.is_set else default


def entries(node: Node) -> Iterator[Node]:
    """The maps of a list."""
    return (one for one in node if one.kind == "map")


def named(nodes: Node, name: str) -> Node:
    """The map of a list that has a name; a missing node without one."""
    return next((one for one in entries(nodes) if one["name"].text == name), Node("missing", nodes.line, nodes.column))
