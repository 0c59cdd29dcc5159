"""Pages: whatever comes from outside is text and nothing else, and nothing is asked of any other place."""

import base64
import hashlib
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.pages.document import whole_page
from outlast.pages.markup import Markup, foreign, harmless, join, tag

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    '" onload="alert(3)',
    "</title></style></pre><b>",
    "a&lt;b &amp; c",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_escaped_as_child_and_as_attribute(text: str) -> None:
    shown = tag("p", text, title=text)
    assert set(re.findall(r"<[^>]*?[ >]", shown)) == {"<p ", "</p>"}
    assert "<" not in shown[2:-4].replace("&lt;", "")
    assert shown.count('"') == 2


def test_markup_stands_as_it_is_and_none_is_left_out() -> None:
    assert tag("p", tag("b", "x<"), None, [1, [None, "&"]]) == "<p><b>x&lt;</b>1&amp;</p>"
    assert join("<", Markup("<br>")) == "&lt;<br>"
    assert tag("meta", http_equiv="a", class_=None) == '<meta http-equiv="a">'
    assert tag("rect", x=0.123456789, class_="bar") == '<rect x="0.1235" class="bar"></rect>'


def test_a_name_from_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="no name"):
        tag("p", **{'x="" onload': "1"})
    with pytest.raises(ValueError, match="no name"):
        tag("script>")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31merror\x1b[0m: no", "error: no"),
        ("\x1b]0;title\x07\x9b2J", "\\x1b]0;title\\x07\\x9b2J"),
        ("one\ntwo\r\t\x00", "one\\ntwo\\r\\t\\x00"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("שלום مرحبا", "שלום مرحبا"),
        ("\udcff.bin", "\\udcff.bin"),
        ("👩\u200d🔬 1\u202f000\u2028\ufeff", "👩\u200d🔬 1 000\\u2028\\ufeff"),
        ("x" * 10_240, "x" * 2000 + "… (8,240 more characters)"),
    ],
)
def test_what_controls_is_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert harmless(text) == shown
    assert foreign("a" + text, longest=2001).startswith('<bdi class="foreign">a')  # its direction ends with it


@given(st.text(st.characters(), max_size=80))
def test_any_text_can_be_written_and_holds_one_line(text: str) -> None:
    shown = harmless(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert all(one.isprintable() or one in "\u200c\u200d" for one in shown)
    assert re.findall(r"<[^>]*>", foreign(text)) == ['<bdi class="foreign">', "</bdi>"]


def test_a_page_allows_its_own_style_and_nothing_else() -> None:
    page = whole_page("</title><script>", tag("p", "x"))
    (style,) = re.findall("<style>(.*?)</style>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src &#x27;sha256-{digest}&#x27;" in page
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r"<script|javascript:|https?:|@import|unsafe|\bstyle=|\bon[a-z]+=", page, re.I)
    assert re.findall(r"url\(([^)]*)\)", page) == ["#lost", "#unsaved"]
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert set(page) <= set(string.printable)
