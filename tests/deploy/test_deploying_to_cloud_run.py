"""`outlast deploy cloud-run` against a world of gcloud: made once, whatever kills it; removed, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.gcloud_world import FLAGS, TABLE, gcloud_in, world_in
from outlast.installed_sdk import InstalledSdk

_DESCRIPTION = """\
name: train-digits
command: [python, train.py]
source: app
url: gs://example-bucket/train-digits
hardware: {gpu: nvidia-l4}
run_time: 2d
project: example-project
region: europe-west4
"""
_EMPTY = {"apis": 5}  # what is left of each kind after a teardown


class Desk:
    """The command in a folder of its own, with a gcloud of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cloud = folder / "here", folder / "cloud"
        (self.folder / "app").mkdir(parents=True)
        (self.folder / "app" / "train.py").write_text("print(1)\n")
        (self.folder / "outlast.yaml").write_text(_DESCRIPTION)
        program = gcloud_in(self.cloud)
        self.environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}

    def outlast(self, *words: str, code: int = 0) -> str:
        """What the command prints, both outputs; a test fails when it leaves with another code."""
        left_with, said = self.run(*words)
        assert left_with == code, f"{left_with}:\n{said}"
        return said

    def run(self, *words: str) -> tuple[int, str]:
        command = [sys.executable, "-c", "from outlast.cli.main import main; main()", "deploy", "cloud-run", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def there(self) -> dict[str, int]:
        """How many of each kind are there."""
        world = world_in(self.cloud)
        return {kind: len(found) for kind, found in world.items() if kind != "calls" and found}

    @property
    def calls(self) -> list[str]:
        found: list[str] = world_in(self.cloud).get("calls", [])
        return found

    def kill_at(self, moment: str) -> None:
        (self.cloud / "KILL").write_text(moment)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


_ALL = {
    "apis": 5, "buckets": 1, "accounts": 2, "bindings": 4, "repositories": 1, "objects": 1, "images": 1, "jobs": 1,
    "executions": 1,
}  # fmt: skip


def test_apply_makes_everything_and_teardown_removes_it_the_image_too(desk: Desk) -> None:
    said = desk.outlast("--apply", "--yes", "--price", "0.67")
    assert "84 GPU hours" in said
    assert "56.28 USD" in said
    assert desk.there() == _ALL
    again = desk.outlast("--apply", "--yes", "--no-execute")
    assert desk.there() == _ALL
    assert [one for one in desk.calls if "jobs replace" in one] == ["run jobs replace job.yaml"] * 2, again
    removed = desk.outlast("--teardown", "--yes")
    assert "bucket gs://example-bucket, with all checkpoints and results in train-digits" in removed
    assert "what was made of the kind API stays" in removed
    assert desk.there() == _EMPTY
    assert "nothing that deployments of train-digits made is left" in desk.outlast("--teardown", "--yes")


def test_a_job_that_somebody_else_gave_the_same_name_is_neither_replaced_nor_removed(desk: Desk) -> None:
    theirs = {"train-digits": "apiVersion: run.googleapis.com/v1\nkind: Job\nmetadata:\n  name: train-digits\n"}
    (desk.cloud / "world.json").write_text(json.dumps({"jobs": theirs}))
    said = desk.outlast("--apply", "--yes", code=1)
    assert "that no deployment of outlast made; it was left as it is" in said
    desk.outlast("--teardown", "--yes")
    assert world_in(desk.cloud)["jobs"] == theirs
    (desk.cloud / "world.json").write_text("{}")
    desk.outlast("--apply", "--yes", "--no-execute")
    shutil.rmtree(desk.folder / ".outlast-deploy")  # as on another machine, which has no record of it
    desk.outlast("--apply", "--yes", "--no-execute")


def test_apply_is_killed_at_every_change_and_goes_on_and_so_is_the_teardown(desk: Desk) -> None:
    """SIGKILL before a change, after the next one, and so on; each run goes on where the last was killed."""
    kills = 0
    for command, least in (("--apply", 13), ("--teardown", 11)):
        begun = len(desk.calls)
        while True:
            changes = len(desk.calls)
            again = bool(desk.calls) and "jobs replace" in desk.calls[-1]  # which runs each time
            desk.kill_at(f"{changes + 1}{'+' if again else ''}" if again or kills % 2 else f"{changes}+")
            if desk.run(command, "--yes")[0] == 0:
                break
            assert not (desk.cloud / "KILL").exists(), "it ended, but not by the kill"
            assert len(desk.calls) == changes + 1 + again
            kills += 1
        (desk.cloud / "KILL").unlink(missing_ok=True)
        assert len(desk.calls) - begun >= least
        made = [one for one in desk.calls if "jobs replace" not in one]
        assert len(made) == len(set(made)), "something was done twice"
        assert desk.there() == (_ALL if command == "--apply" else _EMPTY)
    assert kills > 20


def test_what_was_there_before_stays_and_what_others_put_into_the_bucket_keeps_it(desk: Desk) -> None:
    world = '{"accounts": {"train-digits-build@example-project.iam.gserviceaccount.com": true}}'
    (desk.cloud / "world.json").write_text(world)
    desk.outlast("--apply", "--yes")
    changed = world_in(desk.cloud)
    changed["objects"]["gs://example-bucket/train-digits/run-1/a"] = True
    changed["objects"]["gs://example-bucket/of-a-colleague"] = True

    (desk.cloud / "world.json").write_text(json.dumps(changed))
    said = desk.outlast("--teardown", "--yes", code=1)
    assert "1 could not be removed: bucket gs://example-bucket" in said
    assert desk.there() == {"apis": 5, "accounts": 1, "buckets": 1, "objects": 1}
    assert "gs://example-bucket/of-a-colleague" in world_in(desk.cloud)["objects"]


def test_the_bucket_can_be_kept(desk: Desk) -> None:
    desk.outlast("--apply", "--yes")
    desk.outlast("--teardown", "--yes", "--keep-bucket")
    assert desk.there() == {"apis": 5, "buckets": 1}
    desk.outlast("--teardown", "--yes")
    assert desk.there() == _EMPTY


def test_nothing_is_spent_or_removed_where_nobody_can_be_asked(desk: Desk) -> None:
    said = desk.outlast("--apply", code=78)
    assert "--apply asks first, and nobody can answer here; give --yes" in said
    assert "84 GPU hours" in said, "what it would cost is said all the same"
    assert desk.there() == {}
    desk.outlast("--apply", "--yes", "--no-execute")
    assert "executions" not in desk.there()
    before = desk.there()
    assert "--teardown asks first" in desk.outlast("--teardown", code=78)
    assert desk.there() == before


def test_a_flag_that_the_installed_sdk_lacks_stops_it_before_anything_is_made(desk: Desk) -> None:
    table = desk.cloud / TABLE
    table.write_text(table.read_text().replace("--soft-delete-duration", "--soft"))
    said = desk.outlast("--apply", "--yes", code=78)
    assert "--soft-delete-duration is not listed in the SDK installed here (999.0.0)" in said
    assert desk.there() == {}


def test_the_printed_script_does_the_same_as_apply(desk: Desk) -> None:
    script = desk.outlast()
    done = subprocess.run(
        ["sh"], input=script, cwd=desk.folder, env=desk.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert desk.there() == _ALL


def test_the_written_files_do_the_same_and_are_never_written_over(desk: Desk) -> None:
    desk.outlast("--out", "made")
    made = desk.folder / "made"
    names = {path.name for path in made.iterdir()}
    assert names == {"job.yaml", "cloudbuild.yaml", "gcloudignore", "deploy.sh", "teardown.sh"}
    assert (desk.folder / "app" / "Dockerfile").read_text().endswith('CMD ["python", "train.py"]\n')
    subprocess.run([made / "deploy.sh"], env=desk.environment, capture_output=True, check=True)
    assert desk.there() == _ALL
    desk.outlast("--out", "made")
    (made / "job.yaml").write_text("mine\n")
    assert "left as it is" in desk.outlast("--out", "made", code=78)
    assert (made / "job.yaml").read_text() == "mine\n"


def test_a_dockerfile_that_somebody_changed_is_used_as_it_is(desk: Desk) -> None:
    desk.outlast("--out", "made")
    file = desk.folder / "app" / "Dockerfile"
    file.write_text(file.read_text() + "# mine\n")
    mine = file.read_text()
    desk.outlast("--out", "made-2", "--set", "python=3.13")
    assert file.read_text() == mine


def test_the_image_of_the_same_sources_is_built_once_and_of_others_anew(desk: Desk) -> None:
    desk.outlast("--apply", "--yes", "--no-execute")
    desk.outlast("--apply", "--yes", "--no-execute")
    assert desk.there()["images"] == 1
    (desk.folder / "app" / "train.py").write_text("print(2)\n")
    desk.outlast("--apply", "--yes", "--no-execute")
    assert desk.there()["images"] == 2
    desk.outlast("--teardown", "--yes")
    assert desk.there() == _EMPTY


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
def test_the_fake_takes_no_flag_and_no_command_that_the_real_one_lacks() -> None:
    sdk = InstalledSdk()
    unknown: dict[str, Any] = {}
    for command, (flags, _, _) in FLAGS.items():
        found = sdk.command(command.split())
        lacking = flags if found is None else {flag for flag in flags if not found.has(flag)}
        if lacking or found is None:
            unknown[command] = lacking
    assert unknown == {}
