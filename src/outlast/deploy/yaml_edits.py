"""Changes single values in a YAML text and leaves every other character alone: comments, order, quotes, blank lines.

The places come from the nodes of PyYAML. Each change is checked: the new text must load to the old data with just that
change, else SettingsError tells what to write by hand (aliases, merged keys and odd layouts end there).
"""

import copy
import difflib
from typing import Any

import yaml

from outlast.errors import SettingsError
from outlast.yaml_keys import parse_documents

Path = tuple[str | int, ...]


def load_documents(text: str, file: str) -> list[Any]:
    """The data of each document. Raises SettingsError with the line for what is no YAML, or too much of it."""
    try:
        return [_load(node) for node in parse_documents(text, file)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: this cannot be read: {error}") from error


def set_in(text: str, path: Path, value: object, *, document: int = 0, file: str = "the manifest") -> str:
    """The text with the value at `path`; the mappings on the way are made where they are missing."""
    if not path:
        raise ValueError("a path names at least one key")
    node, found = _deepest(parse_documents(text, file)[document], path)
    if found == len(path):
        changed = _replaced(text, node, value)
    else:
        for name in reversed(path[found + 1 :]):
            value = {name: value}
        changed = _with_key(text, node, path[found], value)
    return _checked(text, changed, path[: found + 1], value, document=document, file=file)


def add_to(
    text: str, path: Path, item: object, *, first: bool = False, document: int = 0, file: str = "the manifest"
) -> str:
    """The text with one more item in the list at `path`, at its end unless `first`; the list is made if missing."""
    node, found = _deepest(parse_documents(text, file)[document], path)
    if found < len(path) or not isinstance(node, yaml.SequenceNode) or not node.value:
        return set_in(text, path, [item], document=document, file=file)
    items = [*_load(node)]
    items.insert(0 if first else len(items), item)
    said = _flow(item)
    changed = _in_flow(text, node, said, first) if node.flow_style else _in_block(text, node, item, first)
    return _checked(text, changed, path, items, document=document, file=file)


def remove_in(text: str, path: Path, *, document: int = 0, file: str = "the manifest") -> str:
    """The text without the key, or the item of a list, at `path`."""
    parent, found = _deepest(parse_documents(text, file)[document], path[:-1])
    if found < len(path) - 1 or path[-1] not in _children(parent):
        return text
    changed = _without(text, parent, path[-1])
    rest = _load(parent)
    del rest[path[-1]]
    return _checked(text, changed, path[:-1], rest, document=document, file=file)


def unified_diff(old: str, new: str, file: str) -> str:
    """What changed, as `diff -u` shows it; "" for nothing."""
    was, is_now = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(was, is_now, fromfile=f"a/{file}", tofile=f"b/{file}")
    )


# --- finding ----------------------------------------------------------------------------------------


def _load(node: yaml.Node) -> Any:
    # Constructing changes a node with merged keys.
    return yaml.SafeLoader("").construct_document(copy.deepcopy(node))


def _deepest(node: yaml.Node, path: Path) -> tuple[yaml.Node, int]:
    """The node that the longest known part of the path leads to, and how long that part is."""
    for depth, name in enumerate(path):
        children = _children(node)
        if name not in children:
            return node, depth
        node = children[name][1]
    return node, len(path)


def _children(node: yaml.Node) -> dict[str | int, tuple[yaml.Node, yaml.Node]]:
    """What a node holds, by key or number: (where it begins, its value)."""
    if isinstance(node, yaml.MappingNode):
        return {str(name.value): (name, value) for name, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return {place: (value, value) for place, value in enumerate(node.value)}
    return {}


def _end(text: str, node: yaml.Node) -> int:
    """Where the text of a node really ends: a block's end mark stands behind the comments that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(last, tuple) and last[1].start_mark.index < last[0].end_mark.index:
            return _line_end(text, int(last[0].end_mark.index))  # an alias: its node stands elsewhere
        node = last[1] if isinstance(last, tuple) else last
    end = int(node.end_mark.index)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        end = int(node.start_mark.index) + len(text[node.start_mark.index : end].rstrip())
    return end


def _line_end(text: str, index: int) -> int:
    found = text.find("\n", index)
    return len(text) if found < 0 else found


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


# --- changing ---------------------------------------------------------------------------------------


def _replaced(text: str, node: yaml.Node, value: object) -> str:
    start, end = int(node.start_mark.index), _end(text, node)
    if isinstance(node, yaml.ScalarNode) and start == end:  # `key:` with nothing behind it
        return _behind_colon(text, start, value, _column_of_line(text, start))
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        if isinstance(value, dict | list) and value:
            line = _line_start(text, start)
            # A list may stand as far left as its key; a mapping may not.
            deeper = 2 * (
                isinstance(value, dict) and isinstance(node, yaml.SequenceNode) and not text[line:start].strip()
            )
            said = _block(value, int(node.start_mark.column) + deeper).lstrip().replace("\n", _newline(text))
            return text[:start] + " " * deeper + said + text[end:]
        start = len(text[:start].rstrip())  # behind the colon or the dash
        return f"{text[:start]} {_flow(value)}{text[end:]}"
    return text[:start] + _flow(value) + text[end:]


def _with_key(text: str, node: yaml.Node, name: str | int, value: object) -> str:
    if isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~"):
        column = _column_of_line(text, int(node.start_mark.index))
        bare = text[: node.start_mark.index] + text[_end(text, node) :]
        return _behind_colon(bare, int(node.start_mark.index), {name: value}, column)
    if not isinstance(node, yaml.MappingNode) or any(key.tag.endswith(":merge") for key, _ in node.value):
        return text  # refused by the check
    if node.flow_style:
        return _in_flow(text, node, _flow({name: value})[1:-1], False)
    return _inserted(text, _line_end(text, _end(text, node)), _block({name: value}, int(node.start_mark.column)))


def _behind_colon(text: str, index: int, value: object, column: int) -> str:
    if isinstance(value, dict) and value:
        return _inserted(text, _line_end(text, index), _block(value, column + 2))
    if isinstance(value, list) and value:
        return _inserted(text, _line_end(text, index), _block(value, column))
    return f"{text[:index]} {_flow(value)}{text[index:]}"


def _in_flow(text: str, node: yaml.CollectionNode, said: str, first: bool) -> str:
    if first and node.value:
        start = int(node.start_mark.index) + 1
        return f"{text[:start]}{said}, {text[start:].lstrip(' ')}"
    last = node.value[-1] if node.value else None
    if last is None:
        start = int(node.start_mark.index) + 1
        return f"{text[:start]}{said}{text[int(node.end_mark.index) - 1 :]}"
    end = _end(text, last[1] if isinstance(last, tuple) else last)
    return f"{text[:end]}, {said}{text[end:]}"


def _in_block(text: str, node: yaml.CollectionNode, item: object, first: bool) -> str:
    said, newline = _block([item], int(node.start_mark.column)), _newline(text)
    if first:
        start = _line_start(text, int(node.start_mark.index))
        return f"{text[:start]}{newline.join(said.splitlines())}{newline}{text[start:]}"
    return _inserted(text, _line_end(text, _end(text, node)), said)


def _without(text: str, parent: yaml.Node, name: str | int) -> str:
    children = _children(parent)
    begins, value = children[name]
    if isinstance(parent, yaml.CollectionNode) and parent.flow_style:
        names = list(children)
        place = names.index(name)
        if place + 1 < len(names):
            return text[: begins.start_mark.index] + text[children[names[place + 1]][0].start_mark.index :]
        start = _end(text, children[names[place - 1]][1]) if place else int(begins.start_mark.index)
        return text[:start] + text[_end(text, value) :]
    start = _line_start(text, int(begins.start_mark.index))
    return text[:start] + text[min(_line_end(text, _end(text, value)) + 1, len(text)) :]


def _inserted(text: str, index: int, said: str) -> str:
    newline = _newline(text)
    index -= text[:index].endswith("\r")
    return f"{text[:index]}{newline}{newline.join(said.splitlines())}{text[index:]}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _column_of_line(text: str, index: int) -> int:
    """Where the key of the line begins, behind the dashes of lists."""
    line = text[_line_start(text, index) : index]
    return len(line) - len(line.lstrip(" -"))


def _flow(value: object) -> str:
    said = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return said.removesuffix("\n").removesuffix("\n...")


def _block(value: object, column: int) -> str:
    said = yaml.safe_dump(value, default_flow_style=False, sort_keys=False, width=10**6, allow_unicode=True)
    return "\n".join(f"{' ' * column}{line}" for line in said.splitlines())


# --- the check --------------------------------------------------------------------------------------


def _checked(old: str, new: str, path: Path, value: object, *, document: int, file: str) -> str:
    said = ".".join(str(name) for name in path)
    try:
        wanted = _with_value(load_documents(old, file), (document, *path), value)
        found = load_documents(new, file)
    except (SettingsError, KeyError, IndexError, TypeError):
        found = wanted = []
    if found and _same(found, wanted, {}):
        return new
    raise SettingsError(f"{file}: {said} cannot be changed in place there; write it by hand: {said} is to be {value!r}")


def _with_value(documents: list[Any], path: Path, value: object) -> list[Any]:
    place: Any = documents
    for name in path[:-1]:
        place[name] = {} if place[name] is None else copy.copy(place[name])  # an alias of it elsewhere stays
        place = place[name]
    place[path[-1]] = value
    return documents


def _same(one: object, other: object, seen: dict[tuple[int, int], bool]) -> bool:
    """Equal, also in kind, and in time that aliases of aliases do not multiply."""
    if type(one) is not type(other):
        return False
    key = (id(one), id(other))
    if key in seen:
        return seen[key]
    seen[key] = True
    if isinstance(one, dict) and isinstance(other, dict):
        same = list(map(str, one)) == list(map(str, other)) and all(_same(one[k], other.get(k), seen) for k in one)
    elif isinstance(one, list) and isinstance(other, list):
        same = len(one) == len(other) and all(_same(*pair, seen) for pair in zip(one, other, strict=True))
    else:
        same = one == other
    seen[key] = same
    return same
