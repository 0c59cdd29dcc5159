"""Dockerfiles are read as Docker reads them: stages, variables, forms, places; and within bounds."""

import contextlib
import time

import pytest

from outlast.lint.reading.containerfile import expand, read_containerfile
from outlast.lint.source import Unreadable


def test_stages_stand_on_each_other_by_name_and_number() -> None:
    file = read_containerfile(
        'ARG TAG=3.11-slim\nFROM python:${TAG} AS Base\nENTRYPOINT ["python"]\n'
        'FROM --platform=linux/amd64 base AS mid\nFROM 1\nCMD ["x"]\n'
    )
    final = file.stages[-1]
    assert [stage.number for stage in file.line_of(final)] == [2, 1, 0]
    assert file.image_of(final) == "python:3.11-slim"


def test_a_comment_or_an_empty_line_inside_a_continued_line_does_not_end_it() -> None:
    file = read_containerfile(
        "FROM debian\nRUN a && \\\n    # a word\n\n    b && \\\n  c\nCMD python \\\n  # why\n  x.py\n"
    )
    assert [one.name for one in file.stages[0].instructions] == ["RUN", "CMD"]
    command = file.stages[0].last("CMD")
    assert command is not None
    assert command.text.split() == ["python", "x.py"]
    assert command.line == 7


def test_the_exec_form_is_what_is_json_and_nothing_else() -> None:
    file = read_containerfile(
        'FROM debian\nCMD ["a", "b \\u0041"]\nCMD [\'a\']\nCMD ["a",]\nCMD a ["b"]\nENTRYPOINT [ "x" ]\nCMD [1]\n'
    )
    words = [[w.text for w in one.words] if one.words is not None else None for one in file.stages[0].instructions]
    assert words == [["a", "b A"], None, None, None, ["x"], None]
    first = file.stages[0].instructions[0]
    assert first.words is not None
    assert [(word.line, word.column) for word in first.words] == [(2, 6), (2, 11)]


def test_variables_are_put_in_where_they_are_known() -> None:
    file = read_containerfile('ARG A=1\nFROM x:$A\nENV B=2 C="two words"\nENV D old form\nARG E=$B-${F:-none}\n')
    assert file.stages[0].image == "x:1"
    assert file.stages[0].variables == {"B": "2", "C": "two words", "D": "old form", "E": "2-none"}
    assert read_containerfile("ARG A\nFROM $A\n").stages[0].image is None
    assert expand("${A:-b}", {}) == "b"


def test_here_documents_keep_their_text_and_line() -> None:
    file = read_containerfile('FROM debian\nCOPY <<EOF /run.sh\n#!/bin/sh\nexec "$@"\nEOF\nRUN <<EOF\napt\nEOF\n')
    copy = file.stages[0].instructions[0]
    assert copy.heredocs == ((3, '#!/bin/sh\nexec "$@"\n'),)


def test_a_backquote_may_be_the_escape() -> None:
    file = read_containerfile("# escape=`\nFROM debian\nCMD python `\n  x.py\n")
    command = file.stages[0].last("CMD")
    assert command is not None
    assert command.text.split() == ["python", "x.py"]


@pytest.mark.parametrize("text", ["", "RUN x\n", "{{ template }}\n", "apiVersion: v1\nkind: Pod\n", "\x01\x02"])
def test_what_has_no_from_is_no_dockerfile(text: str) -> None:
    with pytest.raises(Unreadable):
        read_containerfile(text)


@pytest.mark.parametrize(
    "text",
    [
        "FROM x\nRUN " + "a && \\\n" * 20_000 + "b\n",
        "FROM x\nCMD " + "[" * 50_000 + "\n",
        "FROM x\n" + 'CMD ["a"]\n' * 20_000,
        "FROM x AS x\n" * 2_000,
        "FROM x\nENV " + " ".join(f"A{n}=$A{n - 1}$A{n - 1}" for n in range(1, 60)) + "\n",
        "FROM x\nCMD " + "a" * 900_000 + "\n",
    ],
    ids=range(6),
)
def test_hostile_dockerfiles_are_read_in_bounded_time(text: str) -> None:
    begin = time.process_time()
    with contextlib.suppress(Unreadable):
        read_containerfile(text)
    assert time.process_time() - begin < 10
