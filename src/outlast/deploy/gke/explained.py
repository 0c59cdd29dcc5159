"""Manifests as YAML whose surprising lines carry their reason as a comment."""

from dataclasses import dataclass
from typing import Any

import yaml

Json = dict[str, Any]
_WIDTH = 116


@dataclass(frozen=True, slots=True)
class Why:
    """A value of a manifest, and why it is so; the reason is the comment above its line."""

    value: Any
    reason: str


def plain(document: Any) -> Any:
    """The document without its reasons."""
    if isinstance(document, Why):
        return plain(document.value)
    if isinstance(document, dict):
        return {key: plain(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [plain(value) for value in document]
    return document


def yaml_text(documents: list[Json], *, heading: str = "") -> str:
    """The documents as one YAML file, with comments; `heading` stands at its top."""
    texts = [_one(document) for document in documents]
    return _commented(heading, 0) + "---\n".join(texts)


def _one(document: Json) -> str:
    text = yaml.dump(plain(document), Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    lines = text.splitlines(keepends=True)
    reasons = sorted(_reasons(document, yaml.compose(text, Loader=yaml.SafeLoader)), reverse=True)
    for line, column, reason in reasons:  # from below, so that the lines above keep their numbers
        lines.insert(line, _commented(reason, column))
    return "".join(lines)


def _reasons(document: Any, node: Any) -> list[tuple[int, int, str]]:
    """(line, column, reason) for everything in the document that has one; `node` is its place in the text."""
    if isinstance(document, Why):
        document = document.value
    if isinstance(document, dict):
        found = []
        for (key, value), (key_node, value_node) in zip(document.items(), node.value, strict=True):
            if isinstance(value, Why):
                found.append((key_node.start_mark.line, key_node.start_mark.column, value.reason))
            elif key is None:
                raise TypeError("a manifest has a key None")
            found += _reasons(value, value_node)
        return found
    if isinstance(document, list | tuple):
        found = []
        for value, value_node in zip(document, node.value, strict=True):
            if isinstance(value, Why):  # above the dash
                found.append((value_node.start_mark.line, max(value_node.start_mark.column - 2, 0), value.reason))
            found += _reasons(value, value_node)
        return found
    return []


def _commented(reason: str, column: int) -> str:
    """A reason as lines of comment that begin at a column; a line break in it stays one."""
    room, lines = _WIDTH - column - 2, []
    for part in reason.splitlines():
        lines.append("")
        for word in part.split():
            if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
                lines.append(word)
            else:
                lines[-1] = f"{lines[-1]} {word}".strip()
    return "".join(f"{' ' * column}# {line}\n" for line in lines if line)


class _Dumper(yaml.SafeDumper):
    """Writes a list of plain words in one line, and a variable; what repeats is written again, and is no anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    flat = all(isinstance(one, str | int) for one in data) and sum(len(str(one)) + 2 for one in data) < _WIDTH // 2
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)


def _mapping(dumper: yaml.SafeDumper, data: Json) -> yaml.Node:
    flat = list(data) == ["name", "value"]
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=flat)


_Dumper.add_representer(list, _list)
_Dumper.add_representer(dict, _mapping)
