"""YAML as lint reads it: every value has its place, what is absent is falsy, no text can end the process."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.lint.reading.yaml_nodes import read_yaml
from outlast.lint.source import Unreadable

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


def test_every_value_knows_its_line_and_column() -> None:
    (first, second) = read_yaml("kind: Job\nspec:\n  - name: 'a'\n    value: 3\n---\nkind: |\n  two\n  lines\n")
    value = first["spec"].elements[0]["value"]
    assert (value.line, value.column, value.number, value.key, value.key_line) == (4, 12, 3, "value", 4)
    assert (second["kind"].line, second["kind"].text) == (6, "two\nlines\n")


def test_what_is_absent_is_falsy_at_any_depth_and_stands_where_its_parent_does() -> None:
    (node,) = read_yaml("a:\n  b: 1\n")
    missing = node["a"]["x"]["y"]
    assert not missing
    assert not missing.is_set
    assert (missing.line, missing.key) == (2, "y")
    assert node.at("a", "b").number == 1


def test_null_is_there_and_not_set() -> None:
    (node,) = read_yaml("a:\nb: null\nc: ''\n")
    assert [bool(node[name]) for name in "abc"] == [True, True, True]
    assert [node[name].is_set for name in "abc"] == [False, False, True]


@pytest.mark.parametrize(
    "text", ["{{ .Values.retries }}", "${RETRIES}", "$RETRIES", "$(RETRIES)", "<your-value>", "%RETRIES%", "1$SUFFIX"]
)
def test_what_somebody_fills_in_later_is_unknown(text: str) -> None:
    (node,) = read_yaml(f"retries: '{text}'\nother: plain\n")
    assert node["retries"].is_unknown
    assert node["retries"].number is None
    assert not node["other"].is_unknown


def test_merged_keys_are_read_and_give_way_to_own_ones() -> None:
    (node,) = read_yaml("x: &x {a: 1, b: 2}\ny: &y {c: 3}\nz:\n  <<: [*x, *y]\n  b: 5\n")
    assert [node["z"][name].number for name in "abc"] == [1, 5, 3]


def test_a_repeated_key_has_its_last_value_as_the_platforms_tools_read_it() -> None:
    (node,) = read_yaml("a: 1\na: 2\n")
    assert node["a"].number == 2


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        (BOMB, "aliases expand to, more than", None),
        ("a: 1\nb: &b\n  - *b\n", "a part of", 2),
        ("a: [1, 2\n", "no YAML", 2),
        ("a: b\n\tc: d\n", "tab", 2),
        ("{{- if .Values.gpu }}\na: b\n{{- end }}\n", "not rendered", 1),
        ("run: ${{ x }}\nnot a key\nb: 1\n", "no YAML", 3),
        ("a: \x01\n", "no YAML", None),
        ("[" * 50_000, "no", None),
        ("- " * 50_000, "levels deep", 1),
        ("".join(f"{' ' * n}a:\n" for n in range(2_000)), "levels deep", 101),
        ("a: !!binary |\n  " + "{" * 50_000, "", None),
    ],
    ids=["bomb", "cycle", "open", "tab", "template", "ci", "control", "brackets", "dashes", "stairs", "binary"],
)
def test_a_text_that_cannot_be_read_says_why_and_where(text: str, why: str, line: int | None) -> None:
    if not why:
        assert read_yaml(text)
        return
    with pytest.raises(Unreadable, match=why) as caught:
        read_yaml(text)
    assert line is None or caught.value.line == line


def test_no_nesting_ends_the_process() -> None:
    program = """
import sys
from outlast.lint.reading.yaml_nodes import read_yaml
from outlast.lint.source import Unreadable
for opening in ("[", "{a: ", "- ", "? ", "[{a: ", "- - ? "):
    try:
        read_yaml(opening * 200_000)
    except Unreadable:
        continue
    sys.exit(1)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_yaml(text)
    except Unreadable:
        return
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
    assert all(1 <= one.line <= lines + 1 for document in found for one in document.walk())
