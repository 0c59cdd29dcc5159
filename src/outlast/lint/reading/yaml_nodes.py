"""YAML with places: every value knows its line, and what is missing or cannot be known is said, not guessed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import yaml

from outlast.lint.source import Unreadable

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_NODES = 200_000
"""A text that expands to more is refused: aliases of aliases grow without bound (the "billion laughs")."""
_DEEPEST = 100
# A value that some tool fills in before the platform sees it: Helm and Jinja, shells, Terraform, envsubst, CI.
_PLACEHOLDER = re.compile(r"\$[A-Za-z_]\w*|<[A-Za-z][\w .-]*>|%[A-Z_]+%|@@\w+@@")
_BRACKETS = (("{{", "}}"), ("${", "}"), ("$(", ")"))
_TEMPLATED = re.compile(r"(?<!\$)\{\{")  # `${{ }}` of a CI service stands in YAML that is whole without it
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"

NodeKind = Literal["map", "list", "scalar", "missing"]


@dataclass(frozen=True, slots=True)
class Node:
    """One value, or the absence of one; `node["spec"]["template"]` never raises, and a missing node is falsy.

    `line`, `column`: where it stands; for a missing one, where its parent does. `text`: a scalar as written, without
    quotes; `quoted`: whether it had some. `end_line`: the last line of a map or list. `key_line`: that of its key.
    """

    kind: NodeKind
    line: int
    column: int
    text: str = ""
    tag: str = ""
    quoted: bool = False
    end_line: int = 0
    key: str = ""
    key_line: int = 0
    fields: dict[str, "Node"] = field(default_factory=dict, repr=False)
    elements: tuple["Node", ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return self.kind != "missing"

    def __getitem__(self, name: str) -> "Node":
        found = self.fields.get(name)
        return found if found is not None else Node("missing", self.line, self.column, key=name)

    def at(self, *names: str) -> "Node":
        """The node below several keys."""
        found = self
        for name in names:
            found = found[name]
        return found

    def __iter__(self) -> Iterator["Node"]:
        return iter(self.elements)

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    @property
    def is_null(self) -> bool:
        """Whether it is there, but says nothing: `key:` alone, or `null`. Most APIs take that for unset."""
        return self.kind == "scalar" and self.tag == _NULL

    @property
    def is_set(self) -> bool:
        """Whether it is there and not null."""
        return bool(self) and not self.is_null

    @property
    def is_unknown(self) -> bool:
        """Whether somebody else fills the value in: a template's placeholder, a shell's or CI's variable."""
        return self.kind == "scalar" and (_has_brackets(self.text) or _PLACEHOLDER.search(self.text) is not None)

    @property
    def number(self) -> int | None:
        """A whole number, quoted or not; None for all else, and for what is not known."""
        return int(self.text) if self.kind == "scalar" and _INTEGER.fullmatch(self.text) else None

    @property
    def truth(self) -> bool | None:
        """True or False, quoted or not; None for all else."""
        return {"true": True, "false": False}.get(self.text.lower()) if self.kind == "scalar" else None

    @property
    def texts(self) -> list[str]:
        """A list's scalars, as text."""
        return [one.text for one in self.elements if one.kind == "scalar"]

    @property
    def several(self) -> tuple["Node", ...]:
        """A list's elements, or a map as the only one: what may stand once or several times."""
        return self.elements if self.kind == "list" else (self,) if self.kind == "map" else ()

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, in their order."""
        yield self
        for one in (*self.fields.values(), *self.elements):
            yield from one.walk()


def _has_brackets(text: str) -> bool:
    """Whether something stands between a placeholder's brackets; an expression for it would look n * n times."""
    for opening, closing in _BRACKETS:
        start = text.find(opening)
        if start >= 0 and text.rfind(closing) > start:
            return True
    return False


@dataclass(slots=True)
class _Growth:
    """Counts what a text expands to, and refuses what grows without bound."""

    made: int = 0
    open: set[int] = field(default_factory=set)

    def enter(self, node: yaml.Node, depth: int) -> None:
        line = node.start_mark.line + 1
        self.made += 1
        if self.made > MOST_NODES:
            raise Unreadable(f"it has, or its aliases expand to, more than {MOST_NODES:,} values", line)
        if depth > _DEEPEST:
            raise Unreadable(f"it is nested more than {_DEEPEST} levels deep", line)
        if id(node) in self.open:
            raise Unreadable("an alias refers to a value that it is a part of", line)
        self.open.add(id(node))


def read_yaml(text: str) -> tuple[Node, ...]:
    """The documents of a text, empty ones left out. Raises Unreadable when it is no YAML."""
    growth, documents = _Growth(), list[Node]()
    try:
        _check_depth(text)
        for one in yaml.compose_all(text, Loader=_LOADER):  # one by one: a text of a million documents ends early
            if one is not None:
                documents.append(_convert(one, growth, 0))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = " ".join(part for part in (error.context, error.problem) if part)
        _refuse_template(text)
        raise Unreadable(f"it is no YAML: {told}", mark.line + 1 if mark is not None else None) from error
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(f"it is no YAML: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise Unreadable("it is nested too deeply") from error
    return tuple(documents)


def _check_depth(text: str) -> None:
    """The composer recurses for each level, and in C that ends the process; the parser's events do not."""
    indents = (len(line) - len(line.lstrip(" -?")) for line in text.splitlines())
    if text.count("[") + text.count("{") < _DEEPEST and max(indents, default=0) < _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise Unreadable(
                f"it is nested more than {_DEEPEST} levels deep",
                event.start_mark.line + 1 if event.start_mark else None,
            )


def _refuse_template(text: str) -> None:
    found = _TEMPLATED.search(text)
    if found is not None:
        why = "it is a template that was not rendered: lint what `helm template` (or your tool) makes of it"
        raise Unreadable(why, text.count("\n", 0, found.start()) + 1)


def _convert(node: yaml.Node, growth: _Growth, depth: int, key: yaml.Node | None = None) -> Node:
    growth.enter(node, depth)
    mark, end = node.start_mark, node.end_mark
    kind: NodeKind = "scalar"
    text, quoted = "", False
    fields: dict[str, Node] = {}
    elements: tuple[Node, ...] = ()
    if _is_unrendered(node):
        text = "{{...}}"
    elif isinstance(node, yaml.MappingNode):
        kind, fields = "map", _fields(node, growth, depth)
    elif isinstance(node, yaml.SequenceNode):
        kind, elements = "list", tuple(_convert(one, growth, depth + 1) for one in node.value)
    elif isinstance(node, yaml.ScalarNode):
        text, quoted = str(node.value), node.style in ("'", '"')
    growth.open.discard(id(node))
    return Node(
        kind,
        mark.line + 1,
        mark.column + 1,
        text=text,
        tag=node.tag,
        quoted=quoted,
        end_line=max(mark.line + 1, end.line + (1 if end.column else 0)),
        key="" if key is None else str(key.value),
        key_line=mark.line + 1 if key is None else key.start_mark.line + 1,
        fields=fields,
        elements=elements,
    )


def _is_unrendered(node: yaml.Node) -> bool:
    """Whether it is a template's `{{ value }}` without quotes, which YAML takes for a map whose key is a map."""
    if not isinstance(node, yaml.MappingNode) or not node.flow_style or len(node.value) != 1:
        return False
    return isinstance(node.value[0][0], yaml.MappingNode)


def _fields(node: yaml.MappingNode, growth: _Growth, depth: int) -> dict[str, Node]:
    """A mapping's own keys win over merged ones (`<<: *defaults`), as in YAML 1.1."""
    own: dict[str, Node] = {}
    merged: dict[str, Node] = {}
    for key, value in node.value:
        if key.tag == _MERGE:
            for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                for name, found in _convert(one, growth, depth + 1).fields.items():
                    merged.setdefault(name, found)
        elif isinstance(key, yaml.ScalarNode):
            own[key.value] = _convert(value, growth, depth + 1, key)
    return {**merged, **own}
