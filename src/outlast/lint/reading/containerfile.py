"""Dockerfiles as stages of instructions with places, by tree-sitter; what the grammar does not know is left out."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import tree_sitter
import tree_sitter_containerfile

from outlast.lint.command_line import Word
from outlast.lint.reading.trees import parse_tree
from outlast.lint.rule import At
from outlast.lint.source import Unreadable

Node = tree_sitter.Node
MOST_CHARACTERS = 1 << 20
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}|(?P<plain>\w+))")
_ESCAPE = re.compile(r"^#\s*escape\s*=\s*`", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `name` in capitals. `text`: what follows it, comments and line breaks after `\\` taken out.

    `words`: of the exec form (a JSON list of texts), None for the shell form. `raw`: `text` with its line breaks, and
    `text_at`: where it begins. `heredocs`: the bodies of `<<EOF`, each with the line that it begins on.
    """

    name: str
    line: int
    column: int
    text: str
    raw: str
    text_at: At
    words: tuple[Word, ...] | None = None
    heredocs: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """From one FROM to the next. `image`: with variables put in where they are known, else None. `name`: of `AS`."""

    number: int
    image: str | None
    name: str | None
    place: At
    instructions: tuple[Instruction, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def last(self, name: str) -> Instruction | None:
        """The one that counts where an instruction may stand several times, such as CMD."""
        return next((one for one in reversed(self.instructions) if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Containerfile:
    """The stages of a file, in their order; the last one is what is built unless another is asked for."""

    stages: tuple[Stage, ...]

    def parent(self, stage: Stage) -> Stage | None:
        """The stage that another begins with; None where that is an image from elsewhere."""
        wanted = (stage.image or "").lower()
        before = self.stages[: stage.number]
        if wanted.isdigit() and int(wanted) < len(before):
            return before[int(wanted)]
        return next((one for one in reversed(before) if one.name is not None and one.name.lower() == wanted), None)

    def line_of(self, stage: Stage) -> tuple[Stage, ...]:
        """A stage and those that it stands on, itself first."""
        found = [stage]
        while (before := self.parent(found[-1])) is not None:
            found.append(before)
        return tuple(found)

    def image_of(self, stage: Stage) -> str | None:
        """The image from elsewhere that a stage stands on in the end."""
        return self.line_of(stage)[-1].image


def read_containerfile(text: str) -> Containerfile:
    """The stages of a Dockerfile. Raises Unreadable for a text without FROM, and for one that is too large."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it has {len(text):,} characters; of a Dockerfile at most {MOST_CHARACTERS:,} are read")
    escape = "`" if _ESCAPE.search("\n".join(text.split("\n", 5)[:5])) else "\\"
    data = _without_inner_comments(text, escape).encode()
    root = parse_tree(data, tree_sitter_containerfile.language())
    found = _staged(list(_instructions(root, data)))
    if not found.stages:
        raise Unreadable("it is no Dockerfile: it has no FROM")
    return found


def _without_inner_comments(text: str, escape: str) -> str:
    """Comments and empty lines between continued lines become continued ones: the grammar takes them for the end.

    The grammar knows the backslash alone, too. Places stay as they are, but for the columns in such comments.
    """
    lines = text.split("\n")
    continued = False
    for number, line in enumerate(lines):
        bare = line.strip()
        if escape != "\\" and _ESCAPE.match(bare):
            lines[number] = "#"  # the grammar knows this line, and the rest is for the backslash from here on
            continue
        if continued and (bare.startswith("#") or not bare):
            lines[number] = "\\"
            continue
        stripped = line.rstrip()
        continued = stripped.endswith(escape) and not bare.startswith("#")
        if continued and escape != "\\":
            lines[number] = f"{stripped[:-1]}\\"
    return "\n".join(lines)


def _instructions(root: Node, data: bytes) -> Iterator[Instruction]:
    for node in root.children:
        if node.type.endswith("_instruction") and node.children:
            yield _instruction(node, data)


def _instruction(node: Node, data: bytes) -> Instruction:
    name = _text(node.children[0]).upper()
    heredocs = tuple(_heredocs(node, data))
    begin = node.children[1].start_byte if len(node.children) > 1 else node.end_byte
    end = node.end_byte
    for child in node.children:
        if child.type == "heredoc_block":
            end = min(end, child.start_byte)
    row, byte = node.children[1].start_point if len(node.children) > 1 else node.end_point
    raw = data[begin:end].decode(errors="replace").rstrip()
    text = raw.replace("\\\n", "").strip()
    line, column = node.start_point
    at = At(row + 1, byte + 1)
    return Instruction(name, line + 1, column + 1, text, raw, at, _exec_form(node, text, at), heredocs)


def _exec_form(node: Node, text: str, at: At) -> tuple[Word, ...] | None:
    """The words of a JSON list of texts; what is not quite one is a shell form, as for Docker."""
    if not text.startswith("["):
        return None
    try:
        made: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(made, list) or not all(isinstance(one, str) for one in made):
        return None
    array = next((child for child in node.children if child.type == "json_string_array"), None)
    nodes = [child for child in array.named_children if child.type == "json_string"] if array is not None else []
    if len(nodes) != len(made):
        return tuple(Word(one, at.line, at.column, one) for one in made)
    places = [child.start_point for child in nodes]
    return tuple(Word(one, row + 1, byte + 1, one) for one, (row, byte) in zip(made, places, strict=True))


def _heredocs(node: Node, data: bytes) -> Iterator[tuple[int, str]]:
    for block in node.children:
        if block.type == "heredoc_block":
            for child in block.children:
                if child.type == "heredoc_content":
                    yield child.start_point.row + 1, data[child.start_byte : child.end_byte].decode(errors="replace")


def _staged(instructions: list[Instruction]) -> Containerfile:
    """ARG before the first FROM is for FROM lines; ENV and ARG inside a stage are that stage's."""
    outer: dict[str, str] = {}
    stages: list[Stage] = []
    rows: list[list[Instruction]] = []
    for one in instructions:
        if one.name == "FROM":
            image, name = _from_parts(one.text)
            known = expand(image, outer)
            rows.append([])
            stages.append(Stage(len(stages), known, name, At(one.line, one.column), ()))
        elif not stages:
            if one.name == "ARG":
                outer.update(_pairs(one, outer))
        else:
            rows[-1].append(one)
    made = []
    for stage, row in zip(stages, rows, strict=True):
        variables: dict[str, str] = {}
        for one in row:
            if one.name in ("ENV", "ARG"):
                variables.update(_pairs(one, {**outer, **variables}))
        made.append(Stage(stage.number, stage.image, stage.name, stage.place, tuple(row), variables))
    return Containerfile(tuple(made))


def _from_parts(text: str) -> tuple[str, str | None]:
    parts = [part for part in text.split() if not part.startswith("--")]
    image = parts[0] if parts else ""
    if len(parts) >= 3 and parts[1].upper() == "AS":
        return image, parts[2]
    return image, None


def _pairs(instruction: Instruction, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`A=1 B="two"`, and the old `ENV A one two`."""
    text = instruction.text
    if instruction.name == "ENV" and "=" not in (text.split(maxsplit=1) or [""])[0]:
        name, _space, value = text.partition(" ")
        value_known = expand(value.strip(), known)
        if name and value_known is not None:
            yield name, value_known
        return
    for part in re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", text):
        name, equals, value = part.partition("=")
        if equals:
            plain = expand(value.strip("\"'"), known)
            if plain is not None:
                yield name, plain


def expand(text: str, known: Mapping[str, str]) -> str | None:
    """A text with its variables put in; None where one is not known."""
    open_ended = False

    def put(found: re.Match[str]) -> str:
        nonlocal open_ended
        value = known.get(found["braced"] or found["plain"], found["default"])
        open_ended |= value is None
        return value or ""

    made = _VARIABLE.sub(put, text)
    return None if open_ended else made


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
