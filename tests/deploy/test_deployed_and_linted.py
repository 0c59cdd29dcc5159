"""`outlast deploy` tells what lint finds: in a manifest that it has patched, and in the program that it deploys."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description_file import Described, description_from

_CLOUD_RUN = """\
apiVersion: run.googleapis.com/v1
kind: Job
metadata: {name: nightly}
spec:
  template:
    spec:
      template:
        spec:
          maxRetries: 3
          containers:
          - image: example/nightly
            command: [outlast, run, --, sh, -c, "python train.py || true"]
            env: [{name: OUTLAST_URL, value: "gs://example-bucket/nightly"}]
"""
_KUBERNETES = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      containers:
        - name: main
          image: trainer:1
          command: [sh, -c, "python train.py; echo done"]
"""
_FROM_ZERO = """\
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(30):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), f"model-{epoch}.pt")
"""
_OURS = """\
import torch, outlast

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = outlast.Job(state={"model": model, "optimizer": optimizer})
for step in job.steps(30):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
"""


def _outlast(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("target", "manifest"), [("cloud-run", _CLOUD_RUN), ("gke", _KUBERNETES)])
def test_a_patch_tells_the_errors_that_it_leaves(target: str, manifest: str) -> None:
    Path("job.yaml").write_text(manifest)
    done = _outlast("deploy", target, "--patch", "job.yaml", "--diff")
    assert done.exit_code == 1, done.output
    assert "outlast: by hand: line " in done.output
    assert "error K034" in done.output
    assert "fix: " in done.output


def test_a_patch_that_leaves_no_error_leaves_with_0() -> None:
    Path("job.yaml").write_text(_KUBERNETES.replace("; echo done", ""))
    done = _outlast("deploy", "gke", "--patch", "job.yaml", "--diff", "--url", "gs://example-bucket/train")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("volumes", "code"),
    [("", 1), ("      volumes: [{name: a, emptyDir: {}}]\n", 1), ("      volumes: [{name: a, nfs: {server: s}}]\n", 0)],
)
def test_checkpoints_that_would_go_with_the_pod_are_told(volumes: str, code: int) -> None:
    Path("job.yaml").write_text(_KUBERNETES.replace("; echo done", "") + volumes)
    done = _outlast("deploy", "gke", "--patch", "job.yaml", "--diff")
    assert done.exit_code == code, done.output
    assert ("nothing in it outlives a pod" in done.output) == (code == 1)


@pytest.mark.parametrize(
    ("target", "manifest", "says"),
    [
        ("gke", _CLOUD_RUN, "outlast deploy cloud-run --patch job.yaml"),
        ("cloud-run", _KUBERNETES, "outlast deploy gke --patch job.yaml"),
        ("cloud-run", "gcloud run jobs deploy x", "outlast lint job.yaml"),
        ("gke", "kind: ConfigMap", "outlast lint job.yaml"),
    ],
)
def test_a_manifest_for_another_platform_is_not_changed(target: str, manifest: str, says: str) -> None:
    Path("job.yaml").write_text(manifest)
    done = _outlast("deploy", target, "--patch", "job.yaml", "--out", "new")
    assert (done.exit_code, Path("new").exists()) == (78, False)
    assert says in str(done.exception) + done.output


def _notes(**settings: str) -> str:
    words = [f"--set={key}={value}" for key, value in settings.items()]
    basic = ["--name", "train", "--source", ".", "--url", "gs://example-bucket/train", "--set=command=python train.py"]
    done = _outlast("deploy", "cloud-run", *basic, "--project", "example-project", "--region", "europe-west4", *words)
    assert done.exit_code == 0, done.output
    return done.output.partition("set -eu")[0]


def test_a_program_that_begins_at_zero_each_time_is_told_before_it_is_deployed() -> None:
    Path("train.py").write_text(_FROM_ZERO)
    assert "train.py:5: warning C010" in _notes()
    Path("train.py").write_text(_OURS)
    assert "train.py" not in _notes()


def test_an_image_without_the_programs_packages_is_told() -> None:
    Path("train.py").write_text(_OURS)
    assert "no package but outlast" in _notes()
    assert "package" not in _notes(requirements="other.txt")
    Path("requirements.txt").write_text("torch\n")
    assert "the packages of requirements.txt" in _notes()


def _built(**settings: list[str] | str) -> str:
    least = {"name": "train", "command": "python train.py", "source": ".", "url": "gs://example-bucket/train"}
    place = {"project": "example-project", "region": "europe-west4"}
    described = Described(description_from({**least, **place, **settings}), Path(), None)
    return next(one.text for one in plan_for(described, Path("files")).files if one.path.name == "Dockerfile")


def test_the_sources_own_requirements_are_installed_unless_others_are_named() -> None:
    assert "requirements.txt" not in _built()
    Path("requirements.txt").write_text("torch\n")
    assert "pip install --no-cache-dir -r /tmp/requirements.txt" in _built()
    assert "requirements.txt" not in _built(packages=["numpy"]), "the description says what is installed"
    assert '"other.txt"' in _built(requirements="other.txt")
