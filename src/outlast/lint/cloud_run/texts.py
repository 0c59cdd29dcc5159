"""Shell texts inside a YAML or Terraform value, with their places in the file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.lint.commands.entry import ShellText
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import At, Place

# GitHub's and other CI's placeholders are no shell; a variable of the same length keeps the columns.
_CI = re.compile(r"\$\{\{[^\n}]*\}\}")


@dataclass(frozen=True, slots=True)
class InnerText:
    """A value's text. `exact`: its lines are lines of the file; else all of it stands where the value does."""

    node: Node
    shell: ShellText
    exact: bool

    def outer(self, place: Place) -> At:
        """A place in the text as one in the file."""
        if not self.exact:
            return At(self.node.line, self.node.column)
        return self.shell.outer(At(place.line, place.column))


def inner_text(node: Node, lines: Sequence[str]) -> InnerText:
    """Literal blocks (`|`, and here-documents of Terraform) keep their lines, a single line its columns."""
    text = _CI.sub(lambda found: "${" + "_" * (len(found[0]) - 3) + "}", node.text)
    style = lines[node.line - 1][node.column - 1 : node.column] if 0 < node.line <= len(lines) else ""
    if style == "|":
        first = next((one for one in lines[node.line :] if one.strip()), "")
        indent = len(first) - len(first.lstrip(" "))
        return InnerText(node, ShellText(text, node.line + 1, indent + 1, indent), exact=True)
    if style == "<":
        return InnerText(node, ShellText(text, node.line + 1, 1, 0), exact=True)
    single = "\n" not in node.text and style != ">" and node.end_line <= node.line
    return InnerText(node, ShellText(text, node.line, node.column + node.quoted), exact=single)
