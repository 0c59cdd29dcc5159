"""Deployments among full disks, edited records, tools that hang or say odd things, and things of other people."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outlast.cli.deploy_gke import current_context
from outlast.deploy import tools as tools_module
from outlast.deploy.apply import Applying, write_file
from outlast.deploy.description_file import read_description
from outlast.deploy.plan import Command, Made, Plan, Probe, Step, WrittenFile, shell_script, teardown_script
from outlast.deploy.record import opened, record_path
from outlast.deploy.sources import digest_of
from outlast.deploy.teardown import tear_down
from outlast.deploy.tools import Answer, InstalledTools, says_it_is_there
from outlast.deploy.yaml_edits import add_to, set_in
from outlast.errors import DeploymentStopped, SettingsError


@dataclass
class Cloud:
    """What is there; `refused` may not be made, and fails half way."""

    there: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def ask(self, argv: Sequence[str]) -> Answer:
        return Answer(0, "", "") if argv[1] in self.there else Answer(1, "", "ERROR: NOT_FOUND")

    def run(self, argv: Sequence[str]) -> int:
        if argv[1] in self.refused:
            return 1
        (self.there.add if argv[0] == "make" else self.there.remove)(argv[1])
        return 0

    def pause(self) -> None:
        pass


def _thing(name: str, *, place: str = "here") -> Step:
    probe, undo = Probe(("is", name, place)), (Command(("remove", name, place)),)
    made = Made(kind="bucket", name=name, probe=probe, undo=undo)
    return Step(name=name, why="it is needed", commands=(Command(("make", name, place)),), makes=(made,))


def _plan(*steps: Step) -> Plan:
    return Plan(target="somewhere", name="train", steps=steps)


def _apply(cloud: Cloud, folder: Path, *steps: Step) -> None:
    with opened(folder, "somewhere", "train") as record:
        Applying(_plan(*steps), record, cloud, folder, lambda _: None).run()


def _removed(cloud: Cloud, folder: Path) -> tuple[str, ...]:
    with opened(folder, "somewhere", "train") as record:
        return tear_down(record, cloud, lambda _: None).removed


def test_what_somebody_else_made_after_we_were_refused_is_theirs(tmp_path: Path) -> None:
    cloud = Cloud(refused={"data"})
    with pytest.raises(DeploymentStopped):
        _apply(cloud, tmp_path, _thing("data"))
    cloud.there.add("data")  # the administrator makes it, and puts work into it
    _apply(cloud, tmp_path, _thing("data"))
    assert _removed(cloud, tmp_path) == ()
    assert cloud.there == {"data"}


def test_a_thing_of_one_name_in_another_place_is_another_thing(tmp_path: Path) -> None:
    cloud = Cloud()
    _apply(cloud, tmp_path, _thing("data", place="project-a"))
    with opened(tmp_path, "somewhere", "train") as record:
        assert record.owns(_thing("data", place="project-a").makes[0]) is not None
        assert record.owns(_thing("data", place="project-b").makes[0]) is None
        record.intends("data", _thing("data", place="project-b").makes[0])
        assert len(record.owned()) == 2


@pytest.mark.parametrize(
    "said",
    [
        "error: exec: executable gke-gcloud-auth-plugin not found",
        "ERROR: gcloud crashed (FileNotFoundError): [Errno 2] No such file or directory",
        'error: context "of the team" does not exist',
        "error: current-context was not found in the kubeconfig",
        "ERROR: (gcloud.run.jobs.describe) PERMISSION_DENIED on train-404 in not-found-project",
        "Permission 'run.jobs.get' denied on resource (or it may not exist): 404",
        "ERROR: (gcloud.run) Your default credentials were not found",
        "ERROR: (gcloud) The configuration [work] does not exist.",
        "RESOURCE_EXHAUSTED: Quota exceeded for quota metric of 404123",
        "the answer took 14045 ms",
        "train-404 in not-found-project: 502 Bad Gateway",
        "",
    ],
)
def test_a_tool_that_could_not_look_has_not_said_that_a_thing_is_gone(said: str) -> None:
    probe = Probe(("gcloud", "run", "jobs", "describe", "train-404", "--project", "not-found-project"))
    with pytest.raises(DeploymentStopped, match="cannot be told"):
        says_it_is_there(probe, Answer(1, "", said))
    with pytest.raises(DeploymentStopped, match="cannot be told"):
        says_it_is_there(probe, Answer(127, "", "gcloud: command not found"))


@pytest.mark.parametrize(
    "said",
    [
        'Error from server (NotFound): jobs.batch "train-404" not found',
        "ERROR: (gcloud.storage.buckets.describe) gs://train-404 not found: 404.",
        "ERROR: (gcloud.run.jobs.describe) Cannot find job [train-404]",
        (
            "NOT_FOUND: Requested entity was not found. This command is authenticated as me using the credentials in "
            "/a/key.json, specified by the [auth/credential_file_override] property"
        ),
        "ERROR: (gcloud.storage.ls) One or more URLs matched no objects.",
    ],
)
def test_a_service_that_looked_and_found_nothing_is_believed(said: str) -> None:
    assert not says_it_is_there(Probe(("gcloud", "describe", "train-404")), Answer(1, "", said))


def test_a_full_disk_leaves_a_record_that_can_be_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud()
    _apply(cloud, tmp_path, _thing("a"))
    write, room = os.write, [20]

    def full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: room[0]]
        room[0] -= len(part)
        return write(descriptor, part)

    before = record_path(tmp_path, "somewhere", "train").read_bytes()
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DeploymentStopped, match="No space left"):
        _apply(cloud, tmp_path, _thing("b"))
    monkeypatch.undo()
    assert record_path(tmp_path, "somewhere", "train").read_bytes() == before
    assert cloud.there == {"a"}
    assert _removed(cloud, tmp_path) == ("bucket a",)


@pytest.mark.parametrize(
    "line",
    ["5", "null", "[]", "{}", '{"event": "made"}', '{"event": "made", "step": "a", "thing": {"kind": 1}}', '"text"']
    + [
        json.dumps({"event": "made", "step": "a", "thing": {
            "kind": "x", "name": "y", "probe": None, "listing": None, "undo": [{"argv": argv, "may_fail": False}],
            "holds": None, "why_kept": None}})
        for argv in ("rm -rf x", [], [1], None)
    ],
)  # fmt: skip
def test_a_record_edited_by_hand_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    _apply(Cloud(), tmp_path, _thing("a"))
    path = record_path(tmp_path, "somewhere", "train")
    number = len(path.read_text().splitlines()) + 1
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(SettingsError, match=f":{number}: outlast has not written this line"):
        _removed(Cloud(), tmp_path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "file in the way"])
def test_a_record_that_cannot_be_one_is_told(kind: str, tmp_path: Path) -> None:
    path = record_path(tmp_path, "somewhere", "train")
    if kind == "file in the way":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
        path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(SettingsError, match="the record of what is made"):
        _removed(Cloud(), tmp_path)


def test_a_file_that_cannot_be_written_leaves_no_half(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").mkdir()
    (tmp_path / "job.yaml" / "x").touch()
    with pytest.raises(SettingsError, match="cannot write"):
        write_file(WrittenFile(path=Path("job.yaml"), text="a\n"), tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["job.yaml"]


def test_a_question_that_hangs_ends_and_odd_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools_module, "_LONGEST_ANSWER_SECONDS", 0.3)
    asked = InstalledTools(tmp_path)
    assert asked.ask(["sleep", "60"]).code == 124
    monkeypatch.undo()
    odd = "import os; os.write(1, b'\\xff\\n'); os.write(2, b'\\xfe'); os._exit(3)"
    assert asked.ask([sys.executable, "-c", odd]) == Answer(3, "\ufffd\n", "\ufffd")
    assert asked.ask(["echo", "a\0b"]).code == 127


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028"])
def test_no_word_of_a_plan_becomes_a_command_of_its_script(end: str, tmp_path: Path) -> None:
    evil = f"x{end}touch hacked{end}#'\"`touch hacked`$(touch hacked)"
    made = Made(kind=evil, name=evil, holds=evil, undo=(Command(("true", evil)),))
    file = WrittenFile(path=Path("a.yaml"), text=evil + "\nEND_OF_FILE\ntouch hacked\n")
    step = Step(name=evil, why=evil, files=(file,), commands=(Command(("true", evil)),), makes=(made,))
    plan = Plan(target="somewhere", name=evil, steps=(step,), notes=(evil,), exposure=(evil,))
    for script in (shell_script(plan, folder="made"), shell_script(plan), teardown_script(plan)):
        (tmp_path / "run.sh").write_text(script, newline="")
        for shell in ("sh", "bash"):
            subprocess.run([shell, tmp_path / "run.sh"], cwd=tmp_path, check=True)
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["a.yaml", "made", "run.sh"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image", "--help"),
        ("image", "x\ntouch hacked"),
        ("image", "a b"),
        ("currency", "USD\ntouch hacked"),
        ("currency", ""),
        ("url", "gs://bucket-x/*"),
        ("url", "gs://bucket-x/a[b]"),
        ("url", "gs://bucket-x/../other"),
        ("url", "gs://bucket-x/a\nb"),
        ("tasks", "9" * 5000),
        ("command", ["a\0b"]),
    ],
)
def test_a_setting_that_would_be_read_as_something_else_is_refused_with_its_key(key: str, value: object) -> None:
    described = {"name": "train", "command": ["python"], "image": "train", "url": "gs://bucket-x/run", key: value}
    with pytest.raises(SettingsError, match=f": {key}: "):
        read_description(json.dumps(described))


def test_a_source_with_an_impossible_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such folder"):
        digest_of(tmp_path / ("x" * 300))


def test_a_manifest_with_dos_line_ends_keeps_them_everywhere() -> None:
    old = "a:\r\n  b: 1\r\nc:\r\n- d: 1\r\ne: null\r\n"
    new = set_in(old, ("a", "x", "y"), {"z": [1, 2], "w": 3})
    new = add_to(new, ("c",), {"f": 1, "g": 2}, first=True)
    new = add_to(new, ("c",), {"h": 1, "i": 2})
    new = set_in(new, ("e",), {"j": 1, "k": [{"l": 1, "m": 2}]})
    new = set_in(new, ("c", 0), {"n": 1, "o": 2})
    assert new.count("\n") == new.count("\r\n")


def test_the_cluster_of_an_applied_plan_is_the_one_that_was_current_then(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    asked = InstalledTools(tmp_path)
    program.write_text("#!/bin/sh\necho team-cluster\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        assert current_context(asked) == "team-cluster"
        program.write_text("#!/bin/sh\necho 'error: current-context is not set' >&2; exit 1\n")
        with pytest.raises(SettingsError, match=r"is not set.*give --context"):
            current_context(asked)
