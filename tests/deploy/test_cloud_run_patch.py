"""`deploy cloud-run --patch`: what survival needs changes, and every other line stays as it was."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from outlast.deploy.cloud_run.patch import patch
from outlast.deploy.description_file import description_from, read_description
from outlast.errors import SettingsError

_JOB = """\
# Our nightly training.
apiVersion: run.googleapis.com/v1
kind: Job
metadata:
  name: nightly   # asked for by finance
spec:
  template:
    spec:
      template:
        spec:
          maxRetries: 0
          containers:
          - image: example/nightly
            command: ["python", "train.py"]

            resources:
              limits: {cpu: '8', memory: 32Gi, nvidia.com/gpu: '1'}
"""
_GOOD = """\
apiVersion: run.googleapis.com/v1
kind: Job
metadata: {name: good, annotations: {run.googleapis.com/launch-stage: BETA}}
spec: {template: {spec: {template: {spec: {maxRetries: 5, timeoutSeconds: '43200', containers: [{image: i, command:
  [outlast, run, --], args: [python, t.py], env: [{name: OUTLAST_URL, value: 'gs://example-bucket/x'}],
  resources: {limits: {nvidia.com/gpu: '1'}}}]}}}}}
"""


def _described(**settings: str) -> object:
    return description_from({"name": "a", "command": ["x"], "image": "i", "url": "gs://example-bucket/n", **settings})


def _changes(old: str, new: str) -> tuple[list[str], list[str]]:
    import difflib

    lines = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] in "+-"]
    return [line[2:] for line in lines if line[0] == "-"], [line[2:] for line in lines if line[0] == "+"]


def test_a_manifest_gets_what_survival_needs_and_nothing_else() -> None:
    found = patch(_JOB, "job.yaml", _described(run_time="2d"))
    removed, added = _changes(_JOB, found.text)
    assert removed == ["          maxRetries: 0", '            command: ["python", "train.py"]']
    assert added == [
        "  annotations:",
        "    run.googleapis.com/launch-stage: BETA",
        "          maxRetries: 6",
        '            command: [outlast, run, --, "python", "train.py"]',
        "            volumeMounts:",
        "            - name: checkpoints",
        "              mountPath: /checkpoints",
        "            env:",
        "            - name: OUTLAST_URL",
        "              value: /checkpoints/n",
        "          timeoutSeconds: '43200'",
        "          volumes:",
        "          - name: checkpoints",
        "            csi:",
        "              driver: gcsfuse.run.googleapis.com",
        "              readOnly: false",
        "              volumeAttributes:",
        "                bucketName: example-bucket",
    ]
    assert found.by_hand == ()
    again = patch(found.text, "job.yaml", _described(run_time="2d"))
    assert (again.text, again.changes, again.by_hand) == (found.text, (), ())


def test_a_manifest_that_survives_stays_as_it_is() -> None:
    found = patch(_GOOD, "job.yaml", None)
    assert (found.text, found.changes, found.by_hand) == (_GOOD, (), ())


def test_limits_are_kept_to() -> None:
    text = _GOOD.replace("43200", "604800").replace("maxRetries: 5", "maxRetries: 11")
    assert _changes(text, patch(text, "job.yaml").text)[1] == [
        _GOOD.splitlines()[3].replace("maxRetries: 5", "maxRetries: 10").replace("'43200'", "'43200'")
    ]


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ('[sh, -c, "python t.py --a 1"]', "[outlast, run, --, sh, -c, exec python t.py --a 1]"),
        ('[sh, -c, "exec python t.py"]', '[outlast, run, --, sh, -c, "exec python t.py"]'),
        ('["outlast", "run", "--", "x"]', '["outlast", "run", "--", "x"]'),
    ],
)
def test_process_1_hears_and_hands_on(command: str, becomes: str) -> None:
    text = _GOOD.replace("[outlast, run, --], args: [python, t.py]", command).replace("command:\n  ", "command: ")
    assert f"command: {becomes}" in patch(text, "job.yaml").text


@pytest.mark.parametrize("script", ["cd x && python t.py", "python t.py | tee log", "A=1 python t.py", "a; b", "x 'y"])
def test_a_script_of_several_commands_is_told_and_left_alone(script: str) -> None:
    text = _GOOD.replace("[outlast, run, --], args: [python, t.py]", f'[sh, -c, "{script}"]')
    found = patch(text, "job.yaml")
    assert found.text == text
    assert "put `exec` before the last command" in found.by_hand[0]


def test_what_only_the_author_can_change_is_told() -> None:
    text = _JOB.replace('            command: ["python", "train.py"]\n', "")
    found = patch(text, "job.yaml")
    assert any("Dockerfile" in one for one in found.by_hand)
    assert any("--url" in one for one in found.by_hand)
    memory = _GOOD.replace("gs://example-bucket/x", "/data/x")
    assert "which no bucket is mounted at" in patch(memory, "job.yaml").by_hand[0]


@pytest.mark.parametrize(
    "text", ["kind: Job\napiVersion: batch/v1\n", "a: [", "- 1\n", "apiVersion: run.googleapis.com/v1\nkind: Job\n"]
)
def test_what_is_no_job_of_cloud_run_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"job\.yaml"):
        patch(text, "job.yaml")


def test_the_diff_of_the_command_is_one_that_patch_takes(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(_JOB)
    command = [sys.executable, "-c", "from outlast.cli.main import main; main()", "deploy", "cloud-run"]
    words = ["--patch", "job.yaml", "--url", "gs://example-bucket/n"]
    done = subprocess.run([*command, *words, "--diff"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "maxRetries: each interruption uses one up" in done.stderr
    assert (tmp_path / "job.yaml").read_text() == _JOB
    out = subprocess.run([*command, *words, "--out", "new"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "wrote new/job.yaml" in out.stderr
    subprocess.run(["git", "apply", "-"], input=done.stdout, cwd=tmp_path, text=True, check=True)
    assert (tmp_path / "job.yaml").read_text() == (tmp_path / "new" / "job.yaml").read_text() != _JOB


@pytest.mark.parametrize(
    "odd", ["x", "[x]", "[{csi: x}]", "[{csi: {volumeAttributes: }}]", "[{name: [a]}]", "[[a]]", "5"]
)
@pytest.mark.parametrize("key", ["volumes", "volumeMounts", "env", "command"])
def test_what_stands_where_a_list_of_maps_belongs_is_patched_around_or_told(key: str, odd: str) -> None:
    container = f"{{image: a{f', {key}: {odd}' if key != 'volumes' else ''}}}"
    volumes = f", volumes: {odd}" if key == "volumes" else ""
    text = (
        "apiVersion: run.googleapis.com/v1\nkind: Job\nmetadata: {name: a}\n"
        f"spec: {{template: {{spec: {{template: {{spec: {{containers: [{container}]{volumes}}}}}}}}}}}\n"
    )
    for described in (None, read_description("{name: a, command: [a], image: a, url: gs://bucket-x/run}")):
        try:
            found = patch(text, "job.yaml", described)
        except SettingsError:
            continue
        assert list(yaml.safe_load_all(found.text))


@pytest.mark.parametrize(
    ("url", "lasts"), [("/mnt/a", True), ("/mnt/a/run", True), ("/mnt/a-old", False), ("/mnt", False)]
)
def test_a_folder_outlives_the_attempt_only_at_or_below_the_mount(url: str, lasts: bool) -> None:
    volume = "{name: kept, csi: {driver: gcsfuse.run.googleapis.com, volumeAttributes: {bucketName: example-bucket}}}"
    mounted = _GOOD.replace("gs://example-bucket/x", url).replace(
        "resources:", "volumeMounts: [{name: kept, mountPath: /mnt/a}], resources:"
    )
    mounted = mounted.replace("containers: [", f"volumes: [{volume}], containers: [")
    told = patch(mounted, "job.yaml").by_hand
    assert any("which no bucket is mounted at" in one for one in told) is not lasts
