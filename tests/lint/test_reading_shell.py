"""Shell scripts are read as bash reads them, with the places of their words, and within bounds."""

import time
from contextlib import suppress

import pytest

from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.statements import Form, Script
from outlast.lint.source import Unreadable


def _words(script: Script) -> list[list[str | None]]:
    return [[word.text for word in command.words] for _, command in script.commands()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d\\\"e\" f\\ g $'h\\ti'", ["a", "b c", 'd"e', "f g", "h\ti"]),
        ("a \\\n  --b=1 \\\n  c", ["a", "--b=1", "c"]),
        ("R=us; a --region=$R \"x-${R}\" '$R'", ["a", "--region=us", "x-us", "$R"]),
        ("T=${T:-168h}\na $T", ["a", "168h"]),
        ('F="--gpu 1"\na $F "$F"', ["a", "--gpu", "1", "--gpu 1"]),
        ("A=(--gpu 1)\nA+=(--x)\na ${A[@]} z", ["a", "--gpu", "1", "--x", "z"]),
        ('a "$(b)x" $(c)', ["a", None, None]),
        ("if x; then R=1; else R=2; fi\na $R", ["a", None]),
        ("R=1\nR=2\na $R", ["a", None]),
        ("for R in 1 2; do a $R; done", ["a", None]),
        ("read R\na $R", ["a", None]),
        ("a - <<EOF --region x\nEOF\n", ["a", "-", "--region", "x"]),
        ("C='a b'\n$C c", ["a", "b", "c"]),
        ('C=(a "b c")\n"${C[@]}" d', ["a", "b c", "d"]),
        ("R=$R\na $R", ["a", None]),
    ],
)
def test_words_are_what_the_program_gets(text: str, words: list[str | None]) -> None:
    assert words in _words(read_shell(text))


@pytest.mark.parametrize("text", ['"$@"', '"${command[@]}"', "$RUN a", '"$RUN" a'])
def test_a_command_whose_program_is_open_is_still_one(text: str) -> None:
    [(_, command)] = read_shell(text).commands()
    assert command.words[0].text is None
    assert command.program is None


def test_a_word_knows_its_place_in_characters() -> None:
    [_, (_, command)] = read_shell('echo ä; gcloud run "jobs" \\\n   --image="ü$X"').commands()
    places = [(word.line, word.column) for word in command.words]
    assert places == [(1, 9), (1, 16), (1, 20), (2, 4)]
    assert command.words[-1].text is None
    assert command.words[-1].prefix == "--image=ü"


@pytest.mark.parametrize("text", ['a "$@"', "a $*", 'a "${MORE[@]}"', "A=(x)\nif y; then A+=(z); fi\na ${A[@]}"])
def test_a_command_that_may_have_more_words_says_so(text: str) -> None:
    [command] = [command for _, command in read_shell(text).commands() if command.program == "a"]
    assert not command.complete


@pytest.mark.parametrize(
    ("text", "form", "parts"),
    [
        ("a | b | c", Form.PIPELINE, ["a", "b", "c"]),
        ("a && b", Form.AND, ["a", "b"]),
        ("a || true", Form.OR, ["a", "true"]),
        ("(a; b)", Form.SUBSHELL, ["a", "b"]),
        ("{ a; b; }", Form.GROUP, ["a", "b"]),
        ("cat <<EOF | a\nx\nEOF\n", Form.PIPELINE, ["cat", "a"]),
        ("cat <<EOF || a\nx\nEOF\n", Form.OR, ["cat", "a"]),
    ],
)
def test_a_statement_has_its_commands_in_order(text: str, form: Form, parts: list[str]) -> None:
    [statement] = read_shell(text).statements
    assert statement.form is form
    assert [one.command.program for one in statement.parts if one.command] == parts


def test_an_if_has_conditions_and_bodies_in_turn() -> None:
    [statement] = read_shell("if a; then b; c; elif d; then e; else f; fi").statements
    assert [[one.command.program for one in group.parts if one.command] for group in statement.parts] == [
        ["a"],
        ["b", "c"],
        ["d"],
        ["e"],
        ["f"],
    ]


def test_background_negation_functions_and_traps_are_seen() -> None:
    script = read_shell("f() { trap 'kill $P' TERM; }\npython train.py &\n! g\nwait $!\n")
    function, run, negated, _ = script.statements
    assert (function.form, function.name) == (Form.FUNCTION, "f")
    assert run.background
    assert negated.negated
    assert ["trap", "kill $P", "TERM"] in _words(script)


def test_a_here_document_keeps_its_text_and_its_place() -> None:
    script = read_shell("x() {\n\tcat > job.yaml <<-'EOF'\n\t\ta: $B\n\tEOF\n}\n")
    [document] = [one for statement in script.walk() for one in statement.heredocs]
    assert (document.text, document.line, document.expands) == ("a: $B\n", 3, False)
    assert document.shift[0] == 2
    [(_, command)] = script.commands()
    assert command.program == "cat"


def test_lines_that_the_grammar_joins_are_two_commands() -> None:
    script = read_shell('FOO=1 BAR=2\n: "$FOO"\n')
    assert [one.form for one in script.statements] == [Form.ASSIGNMENT, Form.COMMAND]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "$(" * 5000,
        "if a; then " * 3000,
        '"$(' * 3000,
        "a | " * 50_000,
        "a | " * 3_000,
        "<<E\n" * 3_000,
        "{ " * 20_000,
        "'" * 99_999,
    ],
)
def test_a_hostile_script_ends_soon(text: str) -> None:
    start = time.process_time()
    with suppress(Unreadable):
        list(read_shell(text).walk())
    assert time.process_time() - start < 20


def test_values_of_values_do_not_grow_without_bound() -> None:
    text = "A0=aaaaaaaaaa\n" + "".join(f'A{n + 1}="$A{n}$A{n}$A{n}$A{n}"\n' for n in range(40)) + 'x "$A40"\n'
    assert _words(read_shell(text)) == [["x", None]]
