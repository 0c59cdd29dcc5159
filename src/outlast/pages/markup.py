"""HTML and SVG put together from elements; text is escaped unless it is markup already."""

import html
import re
import unicodedata
from collections.abc import Iterable

_VOID = {"meta", "link", "br"}
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")  # what programs colour their output with
_JOINERS = "\u200c\u200d"  # part of words in some scripts, and of emoji; they reorder nothing
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
LONGEST_NAME, LONGEST_LINE = 300, 2000


class Markup(str):
    """Text that is markup. Only this module makes it, and the one who wrote it out as a constant."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | int | float | None) -> Markup:
    """An element. Children that are no markup are escaped; None is left out, as child and as attribute.

    Attributes are written with `_` for `-`, and one at the end where Python would not let the name stand: `class_`.
    Raises ValueError for what is no name, so that no name can come from outside.
    """
    written = "".join(
        f' {_checked(key.rstrip("_").replace("_", "-"))}="{html.escape(_number(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = join(*children)
    if name in _VOID:
        return Markup(f"<{_checked(name)}{written}>")
    return Markup(f"<{_checked(name)}{written}>{inner}</{name}>")


def join(*children: Child) -> Markup:
    """Children one after the other, each escaped unless it is markup."""
    return Markup("".join(_escaped(child) for child in children))


def _escaped(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return html.escape(str(child), quote=True)
    return "".join(_escaped(one) for one in child)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an element or attribute")
    return name


def _number(value: str | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def foreign(text: str, *, longest: int = LONGEST_LINE, element: str = "bdi") -> Markup:
    """Text from outside (a path, a program's output, an error) so that it does no harm to what stands around it.

    Its writing direction ends with it; characters that control anything are shown as escapes; it is cut at `longest`
    characters, with the number of those that are left out.
    """
    return tag(element, harmless(text, longest=longest), class_="foreign")


def harmless(text: str, *, longest: int = LONGEST_LINE) -> str:
    """The text as one line without anything that controls: colours go, the rest is shown as escapes, the end is cut.

    What it returns can be written as UTF-8, whatever bytes a file name was made of.
    """
    left_out = len(text) - longest
    kept = text[:longest] if left_out > 0 else text
    shown = "".join(_shown(one) for one in _COLOURS.sub("", kept))
    return f"{shown}… ({left_out:,} more characters)" if left_out > 0 else shown


def _shown(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if unicodedata.category(character) == "Zs":  # a wide or a narrow space
        return " "
    return character.encode("unicode_escape", "surrogatepass").decode()
