"""Plans: what is there is not made twice, a kill loses nothing, a teardown removes what was made and nothing else."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outlast.deploy.apply import Applying, write_file
from outlast.deploy.plan import NAME, Command, Listing, Made, Plan, Probe, Step, WrittenFile, shell_script
from outlast.deploy.record import Record, opened, record_path
from outlast.deploy.teardown import Removal, tear_down, what_to_remove
from outlast.deploy.tools import Answer, says_it_is_there
from outlast.errors import DeploymentStopped, SettingsError


def _says(errors: str) -> bool:
    return says_it_is_there(Probe(("gcloud", "describe")), Answer(1, "", errors))


@pytest.mark.parametrize(
    "errors",
    [
        "ERROR: (gcloud.storage.buckets.describe) gs://example not found: 404.",
        "ERROR: (gcloud.artifacts) NOT_FOUND: Requested entity was not found.",
        "ERROR: (gcloud.run.jobs.describe) Cannot find job [train]",
        "ERROR: (gcloud.container) ResponseError: code=404, message=gone",
        "ERROR: HTTPError 404: no such policy",
        "ERROR: (gcloud.storage.ls) One or more URLs matched no objects.",
        'Error from server (NotFound): jobs.batch "train" not found',
    ],
)
def test_a_tool_that_says_so_is_believed_that_a_thing_is_not_there(errors: str) -> None:
    assert not _says(errors)


@pytest.mark.parametrize(
    "errors",
    [
        "ERROR: (gcloud.run.jobs.describe) PERMISSION_DENIED: Permission denied on project 104041.",
        "ERROR: (gcloud.storage.buckets.describe) HTTPError 403: no access to project images-404.",
        "ERROR: gcloud crashed (ConnectionError): port 4040",
    ],
)
def test_a_404_in_a_name_or_a_number_is_not_taken_for_absence(errors: str) -> None:
    """A teardown would forget what is still there, and still billed."""
    with pytest.raises(DeploymentStopped, match="cannot be told what is there"):
        _says(errors)


class Killed(BaseException):
    """SIGKILL: nothing of the program runs any more."""


@dataclass
class World:
    """What is there, changed by `make KIND NAME`, `start`, `remove KIND NAME`; asked by `is KIND NAME`, `list`."""

    there: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    fails: dict[str, int] = field(default_factory=dict)
    kill_at: float | None = None  # the number of a change, counted from 0: killed before it, or with .5 after it
    changes: float = 0
    blind: bool = False

    def ask(self, argv: Sequence[str]) -> Answer:
        if self.blind:
            return Answer(1, "", "PERMISSION_DENIED")
        if argv[0] == "list":
            return Answer(0, "".join(f"{one}\n" for one in sorted(self.there) if one.startswith("run-")), "")
        there = argv[1] in self.there
        return Answer(0, "", "") if there else Answer(1, "", "ERROR: NOT_FOUND: no such thing")

    def run(self, argv: Sequence[str]) -> int:
        line = " ".join(argv)
        self._dies(0)
        self.calls.append(line)
        if self.fails.get(line, 0) > 0:
            self.fails[line] -= 1
            return 1
        if argv[0] == "make":
            assert argv[1] not in self.there, f"{argv[1]} made twice"
            self.there.add(argv[1])
        elif argv[0] == "start":
            self.there.add(f"run-{len(self.there)}")
        else:
            self.there.remove(argv[1])
        self._dies(0.5)
        self.changes += 1
        return 0

    def _dies(self, when: float) -> None:
        if self.kill_at is not None and self.changes + when == self.kill_at:
            self.kill_at = None
            raise Killed

    def pause(self) -> None:
        self.calls.append("pause")


def _step(name: str) -> Step:
    made = Made(
        kind="thing", name=name, probe=Probe(("is", name)), undo=(Command(("remove", name)),), holds="all your work"
    )
    return Step(name=name, why=f"the job needs {name}", commands=(Command(("make", name), 2),), makes=(made,))


_EXECUTION = Made(kind="execution", name="of train", listing=Listing(("list",)), undo=(Command(("remove", NAME)),))
_START = Step(name="start", why="to run", commands=(Command(("start",)),), makes=(_EXECUTION,), spends=True)
_PLAN = Plan(target="somewhere", name="train", steps=(_step("a"), _step("b"), _step("c"), _START))


def _apply(world: World, folder: Path, plan: Plan = _PLAN) -> list[str]:
    told: list[str] = []
    with opened(folder, plan.target, plan.name) as record:
        Applying(plan, record, world, folder, told.append).run()
    return told


def _tear_down(world: World, folder: Path, **options: tuple[str, ...]) -> Removal:
    with opened(folder, "somewhere", "train") as record:
        return tear_down(record, world, lambda _: None, **options)


def test_a_plan_makes_what_is_missing_and_its_teardown_removes_just_that(tmp_path: Path) -> None:
    world = World({"b", "foreign"})
    told = _apply(world, tmp_path)
    assert world.there == {"a", "b", "c", "foreign", "run-4"}
    assert any("b was there before" in line for line in told)
    removal = _tear_down(world, tmp_path)
    assert removal.removed == ("execution run-4", "thing c", "thing a")
    assert world.there == {"b", "foreign"}
    assert _tear_down(world, tmp_path) == Removal((), (), ())


@pytest.mark.parametrize("kill_at", [number / 2 for number in range(8)])
@pytest.mark.parametrize("go_on", [True, False])
def test_a_kill_anywhere_makes_nothing_twice_and_leaves_nothing_behind(
    kill_at: float, go_on: bool, tmp_path: Path
) -> None:
    world = World({"foreign"}, kill_at=kill_at)
    with pytest.raises(Killed):
        _apply(world, tmp_path)
    if go_on:
        _apply(world, tmp_path)
        assert {"a", "b", "c"} < world.there
        assert len([one for one in world.there if one.startswith("run-")]) == 1
    _tear_down(world, tmp_path)
    assert world.there == {"foreign"}


@pytest.mark.parametrize("kill_at", [4 + number / 2 for number in range(8)])
def test_a_teardown_that_is_killed_goes_on_when_it_runs_again(kill_at: float, tmp_path: Path) -> None:
    world = World({"foreign"})
    _apply(world, tmp_path)
    world.kill_at = kill_at
    with pytest.raises(Killed):
        _tear_down(world, tmp_path)
    _tear_down(world, tmp_path)
    assert world.there == {"foreign"}


def test_each_deployment_starts_once_and_the_next_starts_anew(tmp_path: Path) -> None:
    world = World()
    _apply(world, tmp_path)
    _apply(world, tmp_path)
    assert sorted(one for one in world.there if one.startswith("run-")) == ["run-3", "run-4"]
    assert world.calls.count("make a") == 1
    _tear_down(world, tmp_path)
    assert world.there == set()


def test_the_first_failure_stops_and_says_what_was_done_and_how_to_go_on(tmp_path: Path) -> None:
    world = World(fails={"make b": 2})
    with pytest.raises(DeploymentStopped) as caught:
        _apply(world, tmp_path)
    said = str(caught.value)
    assert "step b: make b left with 1; done before it: a." in said
    assert "--teardown" in said
    assert world.there == {"a"}
    assert world.calls.count("pause") == 1
    _apply(world, tmp_path)
    assert {"a", "b", "c"} < world.there


def test_a_service_that_will_not_say_what_is_there_stops_before_anything_is_made(tmp_path: Path) -> None:
    world = World(blind=True)
    with pytest.raises(DeploymentStopped, match="it cannot be told what is there: is a left with 1: PERMISSION_DENIED"):
        _apply(world, tmp_path)
    assert world.calls == []


def test_a_teardown_goes_on_after_what_cannot_be_removed_and_tries_it_again_next_time(tmp_path: Path) -> None:
    world = World()
    _apply(world, tmp_path)
    world.fails["remove b"] = 1
    assert _tear_down(world, tmp_path).failed == ("thing b",)
    assert world.there == {"b"}
    assert _tear_down(world, tmp_path).removed == ("thing b",)


def test_what_is_kept_stays_in_the_record(tmp_path: Path) -> None:
    world = World()
    _apply(world, tmp_path)
    assert _tear_down(world, tmp_path, keep=("thing",)).kept == ("thing c", "thing b", "thing a")
    assert world.there == {"a", "b", "c"}
    assert _tear_down(world, tmp_path).removed == ("thing c", "thing b", "thing a")


@pytest.mark.parametrize("torn", [b'{"event": "ma', b"\xff\xff", b'{"event": "removed", "step": "a", "thi'])
def test_a_torn_line_costs_nothing(torn: bytes, tmp_path: Path) -> None:
    world = World()
    _apply(world, tmp_path)
    with record_path(tmp_path, "somewhere", "train").open("ab") as file:
        file.write(torn)
    with opened(tmp_path, "somewhere", "train") as record:
        assert [one.made.name for one in what_to_remove(record)] == ["run-3", "c", "b", "a"]
        record.intends("d", _step("d").makes[0])
    with opened(tmp_path, "somewhere", "train") as record:
        assert [one.made.name for one in record.owned()] == ["a", "b", "c", "run-3", "d"]


def test_two_deployments_of_a_job_at_once_are_refused(tmp_path: Path) -> None:
    def second() -> Record:
        with opened(tmp_path, "somewhere", "train") as record:
            return record

    with opened(tmp_path, "somewhere", "train"), pytest.raises(SettingsError, match="is under way"):
        second()
    second()


def test_a_script_of_the_plan_runs_as_it_is_whatever_the_words(tmp_path: Path) -> None:
    file = WrittenFile(path=Path("note.txt"), text="it's $HOME\nEND_OF_FILE\n")
    command = Command(("printf", "%s", "two words; $HOME 'x'"))
    step = Step(name="a", why="it's needed", files=(file,), commands=(command, Command(("cat", "note.txt"))))
    plan = Plan(target="somewhere", name="train", steps=(step,), notes=("a note",))
    script = shell_script(plan, folder="some where")
    done = subprocess.run(["sh"], input=script, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "two words; $HOME 'x'it's $HOME\nEND_OF_FILE\n"
    beside = tmp_path / "some where" / "deploy.sh"
    beside.write_text(shell_script(plan))
    assert subprocess.run(["sh", beside], capture_output=True, text=True, check=True).stdout == done.stdout


def test_a_file_with_another_text_is_left_as_it_is(tmp_path: Path) -> None:
    file = WrittenFile(path=Path("made/job.yaml"), text="ours\n", executable=True)
    written = write_file(file, tmp_path, over=False)
    assert written.stat().st_mode & 0o111
    write_file(file, tmp_path, over=False)
    written.write_text("theirs\n")
    with pytest.raises(SettingsError, match="left as it is"):
        write_file(file, tmp_path, over=False)
    assert [one.name for one in written.parent.iterdir()] == ["job.yaml"]
