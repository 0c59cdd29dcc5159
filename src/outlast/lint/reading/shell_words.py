"""A shell's words: quotes and escapes taken away, constant variables put in, the rest left open and said so."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter

from outlast.lint.command_line import Word

Node = tree_sitter.Node
_LONGEST = 4096  # of a variable's value: values of values could grow without bound
_DEEPEST = 8
_LOOSE = {"if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement", "subshell",
          "command_substitution", "list"}  # fmt: skip
_SETTERS = {"read", "getopts", "mapfile", "readarray", "printf", "unset", "source", ".", "eval"}
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"\\$`]|\n)")
_ESCAPED = re.compile(r"\\(.|\n)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r"}


@dataclass(slots=True)
class Places:
    """Character places of a text that is parsed as bytes."""

    lines: list[bytes]
    plain: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain = [line.isascii() for line in self.lines]

    def column(self, row: int, byte: int) -> int:
        """The character column of a byte column, both within a row; starts at 1."""
        if row >= len(self.lines) or self.plain[row]:
            return byte + 1
        return len(self.lines[row][:byte].decode(errors="replace")) + 1


@dataclass(frozen=True, slots=True)
class _Value:
    """What a variable is given: a node for a scalar, or an array's elements."""

    node: Node | None
    added: bool
    loose: bool

    @property
    def elements(self) -> list[Node] | None:
        return self.node.named_children if self.node is not None and self.node.type == "array" else None


@dataclass(slots=True)
class Words:
    """Makes words of nodes. `values`: each variable of the script with all that it is given."""

    places: Places
    values: dict[str, list[_Value]] = field(default_factory=dict)
    _known: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Node, data: bytes) -> "Words":
        """Looks for every assignment first."""
        made = cls(Places(data.split(b"\n")))
        for node, loose in _nodes_with_looseness(root):
            made._note(node, loose=loose)
        return made

    def _note(self, node: Node, *, loose: bool) -> None:
        if node.type == "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            # `A=1 command` holds for that command alone, but scripts that do both are rare.
            added = any(child.type == "+=" for child in node.children)
            if name is not None and name.type == "variable_name":
                self.values.setdefault(_text(name), []).append(_Value(value, added, loose))
            elif name is not None:  # one element of an array
                self.values.setdefault(_text(name).split("[")[0], []).append(_Value(None, True, True))
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            if name is not None:
                self.values.setdefault(_text(name), []).append(_Value(None, False, True))
        elif node.type == "command":
            program = node.child_by_field_name("name")
            if program is not None and _text(program) in _SETTERS:
                for word in node.children_by_field_name("argument"):
                    self.values.setdefault(_text(word), []).append(_Value(None, False, True))

    def words_of(self, node: Node) -> Iterator[Word | None]:
        """The words that a node becomes; None where it may be any number of unknown ones."""
        if node.type == "command_name" and len(node.named_children) == 1:
            node = node.named_children[0]  # `$COMMAND` and `"${command[@]}"` may hold the whole of it
        array = _array_of(node)
        if array is not None:
            yield from self._elements(array, node)
            return
        if node.type in ("simple_expansion", "expansion"):
            text = self._text_of(node, 0)
            if text is not None:
                for part in text.split():
                    yield self._word(node, part, "")
                return
        yield self.word(node)

    def _elements(self, name: str, node: Node) -> Iterator[Word | None]:
        values = self.values.get(name, [])
        if name in ("@", "*") or not values or any(value.elements is None for value in values):
            yield None
            return
        for value in values:
            if value.loose and (value.added or len(values) > 1):
                yield None  # it may be there or not
            else:
                for element in value.elements or []:
                    yield self.word(element) if _array_of(element) is None else None

    def word(self, node: Node) -> Word:
        """The one word that a node is."""
        parts: list[str] = []
        for text in self._pieces(node, 0):
            if text is None:
                return self._word(node, None, "".join(parts))
            parts.append(text)
        return self._word(node, "".join(parts), "")

    def _word(self, node: Node, text: str | None, prefix: str) -> Word:
        row, byte = node.start_point
        return Word(text, row + 1, self.places.column(row, byte), _text(node), prefix)

    def _text_of(self, node: Node, depth: int) -> str | None:
        parts: list[str] = []
        for text in self._pieces(node, depth):
            if text is None:
                return None
            parts.append(text)
        return "".join(parts)

    def _pieces(self, node: Node, depth: int) -> Iterator[str | None]:
        """A word's texts in order; None for one that is not known."""
        kind = node.type
        if kind == "raw_string":
            yield _text(node)[1:-1]
        elif kind == "ansi_c_string":
            yield _ESCAPED.sub(lambda found: _ANSI.get(found[1], found[0]), _text(node)[2:-1])
        elif kind in ("string", "translated_string"):
            yield from self._quoted(node, depth)
        elif kind == "concatenation":
            for child in node.children:
                yield from self._pieces(child, depth)
        elif kind in ("simple_expansion", "expansion"):
            yield self._expanded(node, depth)
        elif kind in ("command_substitution", "process_substitution", "arithmetic_expansion", "array"):
            yield None
        elif kind == "$" or not node.named_children:
            yield _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], _text(node))
        elif kind in ("command_name", "word"):
            for child in node.children:
                yield from self._pieces(child, depth)
        else:
            yield None

    def _quoted(self, node: Node, depth: int) -> Iterator[str | None]:
        """A string in double quotes; the grammar leaves white space before an expansion out of its nodes."""
        inner = node.children[1] if node.type == "translated_string" and len(node.children) > 1 else node
        source = inner.text or b""
        at = 1
        for child in inner.named_children:
            start = child.start_byte - inner.start_byte
            yield _in_quotes(source[at:start])
            if child.type == "string_content":
                yield _in_quotes(child.text or b"")
            else:
                yield from self._pieces(child, depth)
            at = child.end_byte - inner.start_byte
        yield _in_quotes(source[at:-1])

    def _expanded(self, node: Node, depth: int) -> str | None:
        if node.type == "simple_expansion":
            return self._value_of(_text(node)[1:], depth)
        named = node.named_children
        operator = "".join(child.type for child in node.children if not child.is_named)[2:-1]
        if not named or named[0].type != "variable_name" or operator not in ("", ":-", "-", ":=", "="):
            return None
        value = self._value_of(_text(named[0]), depth)
        if value is not None or not operator or len(named) > 2:
            return value
        return self._text_of(named[1], depth + 1) if len(named) == 2 else ""

    def _value_of(self, name: str, depth: int) -> str | None:
        if depth > _DEEPEST:
            return None
        if name not in self._known:
            self._known[name] = None  # so that a variable within its own value is unknown
            values = self.values.get(name, [])
            node = values[0].node if len(values) == 1 and not values[0].loose and not values[0].added else None
            text = self._text_of(node, depth + 1) if node is not None else None
            self._known[name] = text if text is not None and len(text) <= _LONGEST else None
        return self._known[name]


def _in_quotes(data: bytes) -> str:
    return _ESCAPED_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], data.decode(errors="replace"))


def _array_of(node: Node) -> str | None:
    """The name in `"${NAME[@]}"`, `$@` or `$*`; None for all else."""
    inner = node
    if node.type == "string" and len(node.named_children) == 1 and (node.text or b"")[1:2] == b"$":
        inner = node.named_children[0]
    if inner.type == "simple_expansion" and _text(inner) in ("$@", "$*"):
        return _text(inner)[1:]
    if inner.type != "expansion" or not inner.named_children:
        return None
    first = inner.named_children[0]
    if first.type == "special_variable_name" and _text(first) in ("@", "*"):
        return _text(first)
    if first.type == "subscript" and _text(first).endswith(("[@]", "[*]")):
        return _text(first)[:-3]
    return None


def _nodes_with_looseness(root: Node) -> Iterator[tuple[Node, bool]]:
    """Every node, and whether it stands where it may not be run: in a branch, a loop, a subshell."""
    stack = [(root, False)]
    while stack:
        node, loose = stack.pop()
        yield node, loose
        below = loose or node.type in _LOOSE
        stack.extend((child, below) for child in reversed(node.named_children))


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
