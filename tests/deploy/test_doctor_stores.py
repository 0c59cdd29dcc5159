"""The doctor writes and deletes a real object, in real servers; and reads the save time from a real journal."""

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from doctor_desk import CLOUD_RUN, GKE, Desk, answers

from outlast.deploy.doctor.buckets import try_store
from outlast.errors import StoreUnreachable
from rehearsal.driving import SOURCE
from service import servers


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_bucket_is_written_to_and_left_as_it_was(scheme: str) -> None:
    url = servers.fresh_url(scheme)
    with mock.patch.dict(os.environ, servers.environment_of(scheme)):
        found = try_store(url, account="trainer@example-project.iam.gserviceaccount.com")
        beyond = try_store(f"{scheme}://no-such-bucket/x")
    assert found.state == "ok", found
    assert "as you" in found.why
    assert "the job will do it as trainer@" in found.why
    assert servers.store_at(url, **servers.environment_of(scheme)).list("") == []
    assert beyond.state == "bad", beyond
    assert "no-such-bucket" in beyond.why


class _Away:
    """A store whose service does not answer, after all patience."""

    def __init__(self, url: str) -> None:
        pass

    def create(self, name: str, data: bytes) -> None:
        raise StoreUnreachable("the service does not answer")


def test_a_bucket_server_that_is_away_is_unknown_and_a_folder_that_refuses_is_bad() -> None:
    with mock.patch("outlast.deploy.doctor.buckets.open_store", _Away):
        bucket, folder = try_store("gs://outlast-test/x"), try_store("/checkpoints")
    assert (bucket.state, folder.state) == ("unknown", "bad")
    assert bucket.mend == "gcloud storage buckets describe gs://outlast-test"


def test_without_credentials_nobody_knows_and_the_login_is_told(tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path), "NO_GCE_CHECK": "true"}
    with mock.patch.dict(os.environ, bare, clear=True):
        found = try_store("gs://outlast-test/x")
    assert (found.state, found.mend) == ("unknown", "gcloud auth application-default login")


def test_a_folder_is_written_to_and_not_left_behind(tmp_path: Path) -> None:
    assert try_store(str(tmp_path / "new" / "store")).state == "ok"
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "there").mkdir()
    assert try_store(str(tmp_path / "there")).state == "ok"
    assert list((tmp_path / "there").iterdir()) == []


def test_a_file_where_the_folder_should_be_is_bad(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert try_store(str(tmp_path / "file")).state == "bad"
    assert try_store(str(tmp_path / "file" / "below")).state == "bad"


def test_a_url_that_makes_no_sense_is_bad() -> None:
    assert try_store("ftp://host/x").state == "bad"


# --- save time ---------------------------------------------------------------------------------------

_JOB = """
import os, signal
import outlast

job = outlast.Job("store", state={"n": bytes(2_000_000)}, every=outlast.Steps(2), name="train-digits")
for step in job.steps(9):
    if step == 5:
        os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose journal tells of saves."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.py").write_text(_JOB)
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "job.py"], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 143, done.stderr
    return folder / "store"


def test_a_save_that_the_journal_measured_is_held_against_the_grace(tmp_path: Path, saved: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud", "cluster"))
    quick = desk.checked("save time", CLOUD_RUN.format(url=saved))
    assert quick.state == "ok"
    assert "final saves in" in quick.why
    assert "of a grace of 10 s" in quick.why


def test_a_save_that_does_not_fit_is_bad_with_advice_on_the_interval(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud"))
    slow = desk.checked("save time", CLOUD_RUN.format(url=tmp_path / "none").replace("3s", "9s"))
    assert slow.state == "bad"
    assert slow.mend == f"outlast interval {tmp_path / 'none'} --final-save 9s"
    assert "save more often" in slow.why


def test_what_was_measured_beats_what_the_description_says(tmp_path: Path, saved: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud"))
    text = CLOUD_RUN.format(url=saved).replace("3s", "9s")
    assert desk.checked("save time", text).state == "ok"


def test_a_save_time_that_nobody_knows_is_found_out_by_a_rehearsal(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud"))
    text = CLOUD_RUN.format(url=tmp_path / "none").replace("measured: {save_time: 3s}\n", "")
    found = desk.checked("save time", text)
    assert found.state == "unknown"
    assert found.mend == "outlast rehearse --platform cloud-run -- python train.py"


def test_a_pods_grace_is_the_one_that_deploy_chooses(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud", "cluster"))
    text = GKE.format(url=tmp_path / "none")
    assert desk.checked("save time", text.replace("3s", "5min")).state == "ok"
    assert desk.checked("save time", text.replace("3s", "3590s")).state == "bad"
    asked = text.replace("cluster: training", "cluster: training, grace: 20s").replace("3s", "18s")
    assert desk.checked("save time", asked).state == "bad"


def test_a_description_without_a_platform_is_told_that_only_its_store_is_looked_at(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk")
    found = desk.examined(f"name: x\ncommand: [a]\nsource: .\nurl: {tmp_path / 'store'}\n")
    assert {name: one.state for name, one in found.items()} == {
        "platform": "unknown", "store write": "ok", "save time": "unknown",
    }  # fmt: skip
