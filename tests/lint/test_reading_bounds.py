"""Readers by tree-sitter end in time, and at a depth that they can go down to."""

from collections.abc import Callable

import pytest

from outlast.lint.reading import trees
from outlast.lint.reading.containerfile import read_containerfile
from outlast.lint.reading.hcl import read_terraform
from outlast.lint.reading.shell import read_shell
from outlast.lint.source import Unreadable


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_shell, "python train.py --epochs 3\n" * 2_000),
        (read_terraform, 'resource "a" "b" {\n  c = [1, 2]\n}\n' * 2_000),
        (read_containerfile, "FROM python:3.12\n" + "RUN pip install example\n" * 2_000),
    ],
)
def test_a_text_that_takes_too_long_is_given_up(
    read: Callable[[str], object], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(text)
    monkeypatch.setattr(trees, "_MOST_SECONDS", -1.0)
    with pytest.raises(Unreadable, match="takes too long"):
        read(text)


@pytest.mark.parametrize(
    ("read", "text"), [(read_shell, "( " * 300 + "true" + " )" * 300), (read_terraform, "a {\n" * 300 + "}\n" * 300)]
)
def test_what_is_nested_deeper_than_a_reader_goes_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(Unreadable, match="nested more than"):
        read(text)
