"""`outlast sink`: what it does, says and leaves with."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Ended

from outlast.cli.main import main
from outlast.items import Draft, LeasedItem, Result
from outlast.registry import open_queue, open_sink

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Ended:
    return CliRunner().invoke(main, list(words))


def test_a_sink_without_parts_cannot_be_compacted() -> None:
    said = run("sink", "compact", "sqlite:///results.db?table=labels")
    assert said.exit_code == 78
    assert "nothing to compact" in said.stderr


@pytest.mark.parametrize("target", ["sqlite:///new.db?table=labels", "jsonl:new.jsonl", "parquet:new", "new"])
def test_results_are_copied_to_a_sink_of_another_kind_and_known_there(target: str) -> None:
    old = open_sink("sqlite:///results.db?table=labels")
    old.prepare()
    names = [f"item-{number}" for number in range(30 if target == "new" else 2500)]
    old.store([Result(name, '{"label": "Ä"}', "1", 3) for name in names])
    for _ in range(2):  # the second time nothing changes
        said = run("sink", "copy", old.url, target, "--json")
        assert (said.exit_code, json.loads(said.stdout)) == (
            0,
            {"copied": len(names), "versions": [{"version": "1", "results": len(names)}]},
        )
    run("sink", "compact", target)
    new = open_sink(target)
    assert {one.id: one.value for one in new.results()} == dict.fromkeys(names, '{"label": "Ä"}')
    known = new.known([LeasedItem(names[-1], "1", 5), LeasedItem("another", "1", 1)])
    assert {name: one.version for name, one in known.items()} == {names[-1]: "1"}


def test_a_sink_that_is_not_there_is_not_copied() -> None:
    for source in (
        "sqlite:///typo.db?table=labels",
        "sqlite:///new.db",
        "jsonl:typo.jsonl",
        "parquet:typo",
        "parquet:typo/deeper",
        "typo",
    ):
        said = run("sink", "copy", source, "sqlite:///new.db")
        assert said.exit_code == 78
        assert said.stderr.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_a_copy_says_which_versions_it_copied() -> None:
    old = open_sink("jsonl:a")
    old.prepare()
    old.store([Result(f"i{n}", "1", version, 1) for n, version in enumerate(["v1", "v1", None])])
    assert run("sink", "copy", "jsonl:a", "jsonl:b").stdout == (
        "3 results copied: 2 of version v1, 1 without a version\n"
    )
    said = run("sink", "copy", "jsonl:a", "jsonl:./a")
    assert said.exit_code == 78
    assert "FROM 'jsonl:a' and TO 'jsonl:./a' are the same" in said.stderr


def test_a_table_that_is_not_there_is_told_with_those_that_are() -> None:
    for table in ("feats", "labels"):
        open_sink(f"sqlite:///results.db?table={table}").prepare()
    open_queue("sqlite:///results.db").publish([Draft("a", "1")])
    said = run("sink", "copy", "sqlite:///results.db?table=feat", "jsonl:new.jsonl")
    assert said.exit_code == 78
    assert "there is no table feat (?table=); there is feats, labels" in said.stderr
    assert run("sink", "copy", "sqlite:///results.db?table=FEATS", "jsonl:new.jsonl").exit_code == 0
