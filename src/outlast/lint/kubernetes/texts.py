"""Texts of other languages inside a manifest, with their places in the file."""

from dataclasses import dataclass

from outlast.lint.commands.entry import ShellText
from outlast.lint.kubernetes.manifest import Manifest
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import At, Place


@dataclass(frozen=True, slots=True)
class Embedded:
    """The text of a scalar. `exact`: its lines are lines of the file; else all of it stands where the scalar begins."""

    node: Node
    shell: ShellText
    exact: bool

    def place(self, at: Place) -> Place:
        """A place, as ShellText has made it, or the scalar's where that would be wrong."""
        return at if self.exact else At(self.node.line, self.node.column)


def embedded(node: Node, manifest: Manifest) -> Embedded:
    """A scalar's text: literal blocks (`|`) keep their lines, single lines their columns, what is folded neither."""
    line = manifest.lines[node.line - 1] if 0 < node.line <= len(manifest.lines) else ""
    style = line[node.column - 1 : node.column]
    if style == "|":
        first = next((one for one in manifest.lines[node.line :] if one.strip()), "")
        indent = len(first) - len(first.lstrip(" "))
        return Embedded(node, ShellText(node.text, node.line + 1, indent + 1, indent), exact=True)
    single = "\n" not in node.text and style != ">" and node.end_line <= node.line
    return Embedded(node, ShellText(node.text, node.line, node.column + node.quoted), exact=single)
