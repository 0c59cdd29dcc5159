"""What deploy writes survives its own lint: every file of every kind of job, with no error and no warning."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from test_gke_manifests import DESCRIPTIONS, target

from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description_file import Argument, Described, description_from
from outlast.deploy.plan import WrittenFile
from outlast.lint.linting import lint
from outlast.lint.rule import INFO
from outlast.lint.settings import LintSettings

_COMMON: dict[str, Argument] = {
    "name": "train", "command": ["python", "train.py"], "source": ".", "url": "gs://example-bucket/a",
    "project": "example-project", "region": "europe-west4",
}  # fmt: skip
_ON_CLOUD_RUN: dict[str, dict[str, Argument]] = {
    "plain": {},
    "gpu": {"hardware.gpu": "nvidia-l4", "run_time": "20h"},
    "tasks": {"tasks": "8"},
    "native": {"access": "native", "hardware.gpu": "nvidia-l4"},
    "image": {"image": "europe-west4-docker.pkg.dev/example-project/jobs/train:1"},
}


def _warned_of(files: Iterable[WrittenFile], folder: Path) -> list[str]:
    files = list(files)
    assert files
    for file in files:
        path = folder / file.path.name
        path.write_text(file.text)
    linted = lint([folder], LintSettings())
    assert linted.files > 0
    assert linted.skipped == ()
    return [
        f"{one.path.name}:{one.line} {one.rule.id} {one.message}" for one in linted.findings if one.severity != INFO
    ]


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_what_is_written_for_gke_survives_lint(tmp_path: Path, name: str) -> None:
    assert _warned_of(target(name, node_notices=True, metrics_port=9100).plan().files, tmp_path) == []


@pytest.mark.parametrize("name", _ON_CLOUD_RUN)
def test_what_is_written_for_cloud_run_survives_lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_text("print('training')\n")
    (tmp_path / "linted").mkdir()
    monkeypatch.chdir(tmp_path / "source")
    asked = {**_COMMON, **_ON_CLOUD_RUN[name]}
    if "image" in _ON_CLOUD_RUN[name]:
        del asked["source"]
    described = Described(description_from(asked), Path(), None)
    assert _warned_of(plan_for(described, Path("files")).files, tmp_path / "linted") == []
