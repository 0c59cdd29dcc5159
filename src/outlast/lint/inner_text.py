"""Texts of other languages inside a value or a here-document, and their findings with the places of the file."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from outlast.lint.commands.entry import ShellText
from outlast.lint.reading.statements import Heredoc
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import At, Finding, Place

# GitHub's and other CI's placeholders are no shell; a variable of the same length keeps the columns.
# Bounded, for `${{${{...` would be searched n * n times.
_CI = re.compile(r"\$\{\{[^\n}]{0,300}\}\}")


@dataclass(frozen=True, slots=True)
class InnerText:
    """A value's text. `exact`: its lines are lines of the file; else all of it stands where the value does."""

    node: Node
    shell: ShellText
    exact: bool

    def outer(self, place: Place) -> Place:
        """A place in the text as one in the file."""
        return self.mapped(self.shell.outer(At(place.line, place.column)))

    def mapped(self, place: Place) -> Place:
        """A place that `shell` has mapped already, or the value's where that would be wrong."""
        return place if self.exact else At(self.node.line, self.node.column)


def inner_text(node: Node, lines: Sequence[str]) -> InnerText:
    """The text of a YAML or Terraform scalar; `lines` are the file's.

    Literal blocks (`|`, and here-documents of Terraform) keep their lines, a single line its columns, and what is
    folded neither.
    """
    text = _CI.sub(lambda found: "${" + "_" * (len(found[0]) - 3) + "}", node.text)
    style = lines[node.line - 1][node.column - 1 : node.column] if 0 < node.line <= len(lines) else ""
    if style == "|":
        first = next((one for one in lines[node.line :] if one.strip()), "")
        indent = len(first) - len(first.lstrip(" "))
        return InnerText(node, ShellText(text, node.line + 1, indent + 1, indent), exact=True)
    if style == "<":
        return InnerText(node, ShellText(text, node.line + 1), exact=True)
    single = "\n" not in node.text and style != ">" and node.end_line <= node.line
    return InnerText(node, ShellText(text, node.line, node.column + node.quoted), exact=single)


def moved(findings: Iterable[Finding], outer: Callable[[Place], Place]) -> Iterator[Finding]:
    """Findings in an inner text with their places in the file."""
    for one in findings:
        place = outer(At(one.line, one.column))
        yield replace(one, line=place.line, column=place.column)


def moved_out_of(document: Heredoc, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings in a here-document with their places in the script."""

    def outer(place: Place) -> Place:
        cut = document.shift[place.line - 1] if place.line <= len(document.shift) else 0
        return At(document.line + place.line - 1, place.column + cut)

    return moved(findings, outer)
