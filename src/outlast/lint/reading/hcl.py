"""Terraform as the same tree of values with places as YAML: blocks are maps, an expression is a placeholder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import tree_sitter
import tree_sitter_hcl

from outlast.lint.reading.trees import check_depth, parse_tree
from outlast.lint.reading.yaml_nodes import Node, NodeKind
from outlast.lint.source import Unreadable

MOST_CHARACTERS = 1 << 20
_DEEPEST = 300  # of the grammar's nodes; each level of a block has several
_WRAPPERS = ("expression", "literal_value", "collection_value", "template_expr")
Parsed = tree_sitter.Node


@dataclass(frozen=True, slots=True)
class Block:
    """A block at the top of a file: `resource "google_cloud_run_v2_job" "train" {...}`.

    In `body`, blocks of one name are the elements of a list; `dynamic "x"` makes x a placeholder.
    """

    kind: str
    labels: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Terraform:
    """A file's blocks."""

    blocks: tuple[Block, ...]

    def resources(self, kind: str) -> Iterator[Block]:
        """The resources of a type."""
        return (one for one in self.blocks if one.kind == "resource" and one.labels[:1] == (kind,))


def read_terraform(text: str) -> Terraform:
    """The blocks of a file; raises Unreadable when it is no Terraform.

    `var.x` and `local.x` with a plain value in the same file are replaced by it; that of a variable is its default.
    """
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it has {len(text):,} characters; of Terraform at most {MOST_CHARACTERS:,} are read")
    root = parse_tree(text.encode(), tree_sitter_hcl.language())
    check_depth(root, _DEEPEST)
    reading = _Reading(text.split("\n"))
    body = next((child for child in root.children if child.type == "body"), None)
    blocks = [child for child in (body or root).children if child.type == "block"]
    if root.has_error and not blocks:
        raise Unreadable("it is no Terraform", root.start_point.row + 1)
    for block in blocks:
        reading.note(block)
    return Terraform(tuple(reading.block(block) for block in blocks))


@dataclass(slots=True)
class _Reading:
    lines: list[str]
    constants: dict[str, Node] = field(default_factory=dict)

    def note(self, block: Parsed) -> None:
        """Keeps the plain values of variables and locals."""
        made = self.block(block)
        if made.kind == "variable" and made.labels:
            self._keep(f"var.{made.labels[0]}", made.body["default"])
        elif made.kind == "locals":
            for name, value in made.body.fields.items():
                self._keep(f"local.{name}", value)

    def _keep(self, name: str, value: Node) -> None:
        if value.kind == "scalar" and not value.is_unknown and value.is_set:
            self.constants[name] = value

    def block(self, node: Parsed) -> Block:
        """A block with its labels."""
        named = node.named_children
        labels = [_label(one) for one in named[1:] if one.type in ("string_lit", "identifier")]
        body = next((one for one in named if one.type == "body"), None)
        return Block(_text(named[0]), tuple(labels), self._body(body, node))

    def _body(self, body: Parsed | None, place: Parsed) -> Node:
        fields: dict[str, Node] = {}
        repeated: dict[str, list[Node]] = {}
        for child in body.named_children if body is not None else []:
            if child.type == "attribute":
                key, value = child.named_children[0], child.named_children[-1]
                fields[_text(key)] = self._value(value, key)
            elif child.type == "block":
                inner = self.block(child)
                if inner.kind == "dynamic" and inner.labels:
                    fields[inner.labels[0]] = self._scalar(child, "${dynamic}")
                else:
                    repeated.setdefault(inner.kind, []).append(replace(inner.body, key=inner.kind))
        for name, blocks in repeated.items():
            if name not in fields:
                fields[name] = blocks[0] if len(blocks) == 1 else self._list(blocks)
        return self._made("map", place, fields=fields)

    def _list(self, blocks: list[Node]) -> Node:
        return Node("list", blocks[0].line, blocks[0].column, elements=tuple(blocks), key_line=blocks[0].line)

    def _made(
        self, kind: NodeKind, node: Parsed, *, fields: dict[str, Node] | None = None, elements: tuple[Node, ...] = ()
    ) -> Node:
        row, byte = node.start_point
        line = self.lines[row] if row < len(self.lines) else ""
        column = len(line.encode()[:byte].decode(errors="replace")) + 1
        return Node(
            kind,
            row + 1,
            column,
            end_line=node.end_point.row + 1,
            key_line=row + 1,
            fields=fields or {},
            elements=elements,
        )

    def _scalar(self, node: Parsed, text: str, *, tag: str = "", quoted: bool = False) -> Node:
        return replace(self._made("map", node), kind="scalar", text=text, tag=tag, quoted=quoted)

    def _value(self, node: Parsed, key: Parsed | None = None) -> Node:
        made = self._plain(node)
        return made if key is None else replace(made, key=_text(key), key_line=key.start_point.row + 1)

    def _plain(self, node: Parsed) -> Node:
        named = node.named_children
        while node.type in _WRAPPERS and len(named) == 1:
            node, named = named[0], named[0].named_children
        makers: dict[str, Callable[[Parsed], Node]] = {
            "tuple": self._tuple,
            "object": lambda one: self._made("map", one, fields=dict(self._elements(one))),
            "null_lit": lambda one: self._scalar(one, "null", tag="tag:yaml.org,2002:null"),
            "numeric_lit": lambda one: self._scalar(one, _text(one)),
            "bool_lit": lambda one: self._scalar(one, _text(one)),
            "string_lit": lambda one: self._scalar(one, _quoted(one), quoted=True),
            "quoted_template": lambda one: self._scalar(one, _quoted(one), quoted=True),
            "heredoc_template": self._heredoc,
        }
        return makers.get(node.type, self._open)(node)

    def _tuple(self, node: Parsed) -> Node:
        elements = tuple(self._value(one) for one in node.named_children if one.type == "expression")
        return self._made("list", node, elements=elements)

    def _open(self, node: Parsed) -> Node:
        known = self.constants.get(_text(node).strip())
        if known is not None:
            return self._scalar(node, known.text, tag=known.tag, quoted=known.quoted)
        return self._scalar(node, "${" + " ".join(_text(node).split())[:200] + "}")

    def _elements(self, node: Parsed) -> Iterator[tuple[str, Node]]:
        for one in node.named_children:
            if one.type == "object_elem" and len(one.named_children) >= 2:
                key, value = one.named_children[0], one.named_children[-1]
                yield _text(key).strip().strip('"'), self._value(value, key)

    def _heredoc(self, node: Parsed) -> Node:
        """The text between its marks, each line as in the file: columns there are columns here."""
        first, last = node.start_point.row + 1, node.end_point.row
        return self._scalar(node, "\n".join(self.lines[first:last]) + "\n")


def _label(node: Parsed) -> str:
    return _quoted(node) if node.type == "string_lit" else _text(node)


def _quoted(node: Parsed) -> str:
    text = _text(node)[1:-1]
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def _text(node: Parsed) -> str:
    return (node.text or b"").decode(errors="replace")
