"""A whole page in one file: nothing is asked of any other place, and no script runs."""

import base64
import hashlib
from pathlib import Path

from outlast.pages.markup import Child, Markup, harmless, tag
from outlast.pages.style import STYLE

# The icon is an empty one: without it, browsers ask the server for one.
_NO_ICON = "data:,"
_GENERATOR = tag("meta", name="generator", content="outlast")
_HEAD_BYTES = 200


def whole_page(title: str, *body: Child) -> str:
    """The page as text, to be written as UTF-8. `title` may come from outside.

    Its policy allows our own style by its digest, and nothing else: should markup get in all the same, it can load,
    send and run nothing (CSP Level 3; style attributes and scripts are refused with the rest).
    """
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        _GENERATOR,
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href=_NO_ICON),
        tag("title", harmless(title, longest=200)),
        tag("style", Markup(STYLE)),
    )
    page = tag("html", head, tag("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def is_a_page(path: Path) -> bool:
    """Whether a file is a page that outlast made; raises OSError where it cannot be read."""
    if path.suffix != ".html" or not path.is_file():
        return False
    with path.open("rb") as file:
        return _GENERATOR.encode() in file.read(_HEAD_BYTES)
