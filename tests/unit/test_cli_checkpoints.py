"""`outlast checkpoints`: prune and export, their tables and their codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from jobs_in_process import data_of, resume, save_at
from safetensors.numpy import load_file

import outlast
from outlast.cli.main import main


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name[1:13]) for path in folder.glob("j/run-*/task-0/commits/*.json"))


def test_prune_says_what_it_would_do_and_does_it_when_told(store: Path) -> None:
    save_at(store, [1, 2, 3, 4, 5])
    said = run("checkpoints", "prune", store, "--keep", 2)
    assert said.exit_code == 0, said.output
    assert said.output.count("would be deleted") == 3
    assert "nothing was deleted" in said.output
    planned = json.loads(run("checkpoints", "prune", store, "--keep", 2, "--json").output)
    assert [one["verdict"] for one in planned["checkpoints"]].count("would be deleted") == 3
    assert steps(store) == [1, 2, 3, 4, 5]
    done = run("checkpoints", "prune", store, "--keep", 2, "--yes", "--json")
    found: dict[str, Any] = json.loads(done.output)
    assert found["applied"] is True
    assert [one["verdict"] for one in found["checkpoints"]].count("deleted") == 3
    assert found["freed_bytes"] > 0
    assert steps(store) == [4, 5]
    assert resume(store) == (5, 5)


def test_prune_keeps_pinned_best_and_every_nth(store: Path) -> None:
    state = {"n": 0}
    job = outlast.Job(store, state=state, name="j", every="1h", keep=100)
    for step in range(1, 9):
        job._session.progress.completed = state["n"] = step
        job.log(loss=abs(step - 3))
        job.save(pin=step == 2)
    run("checkpoints", "prune", store, "--keep", 1, "--every", 5, "--best", "loss", "--yes")
    assert steps(store) == [2, 3, 5, 8]


def test_prune_by_a_number_that_nobody_logged_deletes_nothing_and_says_which_there_are(store: Path) -> None:
    job = outlast.Job(store, state={"n": 0}, name="j", every="1h", keep=100)
    for step in (1, 2, 3):
        job._session.progress.completed = step
        job.log(loss=step)
        job.save()
    refused = run("checkpoints", "prune", store, "--keep", 1, "--best", "los", "--yes")
    assert refused.exit_code == 78
    assert steps(store) == [1, 2, 3]


def test_a_job_that_keeps_the_best_by_a_number_that_nobody_logged_retires_nothing_and_says_so(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = outlast.Job(store, state={"n": 0}, name="j", every="1h", keep=outlast.Keep(last=1, best="los"))
    for step in (1, 2, 3):
        job._session.progress.completed = step
        job.log(loss=step)
        job.save()
    assert steps(store) == [1, 2, 3]
    assert capsys.readouterr().err.count("there are: loss") == 1


def test_two_checkpoints_of_one_step_count_as_one(store: Path) -> None:
    save_at(store, [1, 2, 3, 3], keep=2)
    assert steps(store) == [2, 3]


def test_prune_never_deletes_the_last_that_verifies_and_names_the_bad(store: Path) -> None:
    records = save_at(store, [1, 2, 3])
    data_of(records[-1]).write_bytes(b"damaged")
    done = run("checkpoints", "prune", store, "--keep", 1, "--yes")
    assert done.exit_code == 1
    assert f"bad: {records[-1].relative_to(store)}" in done.output
    assert steps(store) == [2, 3]
    assert resume(store)[0] == 2


def test_prune_leaves_what_a_rollback_set_aside_unless_asked(store: Path) -> None:
    save_at(store, [1, 2, 3])
    resume(store, resume=1)
    run("checkpoints", "prune", store, "--keep", 1, "--yes")
    assert steps(store) == [1, 2, 3]
    run("checkpoints", "prune", store, "--keep", 1, "--set-aside", "--yes")
    assert steps(store) == [1]


def arrays(folder: Path, name: str = "j", **more: Any) -> None:
    job = outlast.Job(folder, state={"w": np.arange(5.0), "it's": np.ones(2), **more}, name=name, random_state=False)
    job.save()


def test_export_writes_the_tensors_by_key_path_or_by_their_own_names(store: Path, tmp_path: Path) -> None:
    arrays(store, nested={"a": [np.zeros(3), np.ones(3)], "o'clock": np.full(2, 7.0)})
    whole, part = tmp_path / "whole.safetensors", tmp_path / "part.safetensors"
    assert run("checkpoints", "export", store, whole).exit_code == 0
    nested = {"state['nested']['a'][0]", "state['nested']['a'][1]", """state['nested']["o'clock"]"""}
    assert set(load_file(whole)) == {*nested, "state['w']", """state["it's"]"""}
    assert run("checkpoints", "export", store, part, "--part", "nested").exit_code == 0
    loaded = load_file(part)
    assert sorted(loaded) == ["a.0", "a.1", "o'clock"]
    np.testing.assert_array_equal(loaded["o'clock"], [7.0, 7.0])


def test_export_refuses_two_tensors_of_one_name_a_part_that_is_not_there_and_a_file_that_is(
    store: Path, tmp_path: Path
) -> None:
    arrays(store, p={"a.b": np.ones(1), "a": {"b": np.zeros(1)}})
    target = tmp_path / "x.safetensors"
    twice = run("checkpoints", "export", store, target, "--part", "p")
    assert twice.exit_code == 78
    assert run("checkpoints", "export", store, target, "--part", "nothing").exit_code == 78
    assert not target.exists()
    target.write_bytes(b"mine")
    assert run("checkpoints", "export", store, target).exit_code == 78
    assert target.read_bytes() == b"mine"
    assert run("checkpoints", "export", store, target, "--force").exit_code == 0


def test_export_of_a_damaged_checkpoint_leaves_no_file(store: Path, tmp_path: Path) -> None:
    [record] = save_at(store, [1])
    data_of(record).write_bytes(b"damaged")
    failed = run("checkpoints", "export", store, tmp_path / "x")
    assert failed.exit_code == 1
    assert "--step takes one" in failed.output
    assert list(tmp_path.iterdir()) == []


def test_show_and_export_ask_which_of_several_tasks_is_meant(store: Path, tmp_path: Path) -> None:
    arrays(store, "one")
    arrays(store, "two")
    for words in (("show", store), ("export", store, tmp_path / "x")):
        asked = run("checkpoints", *words)
        assert asked.exit_code == 78
    assert run("checkpoints", "show", store, "--job", "one").exit_code == 0


@pytest.mark.parametrize("command", ["prune", "export"])
def test_a_folder_that_is_no_store_is_refused_with_78(command: str, tmp_path: Path) -> None:
    words = [tmp_path, tmp_path / "x"] if command == "export" else [tmp_path]
    assert run("checkpoints", command, *words).exit_code == 78
