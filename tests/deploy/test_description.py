"""The description of a job: what it takes, and what it says about each mistake."""

from pathlib import Path

import pytest

from outlast.deploy.description import Description, Hardware
from outlast.deploy.description_file import KEYS, load_description, read_description
from outlast.errors import SettingsError

_WHOLE = """\
name: train-digits
command: [python, train.py, --fast]
source: .
url: gs://example-bucket/train/digits/
hardware:
  cpu: 8
  memory: 32Gi
  gpu: nvidia-l4
run_time: 2d
timeout: 12h
tasks: 4
region: europe-west4
env:
  SEED: 7
measured:
  save_time: 1.5s
  state_size: 2Gi
kubernetes:
  kind: JobSet
"""


def test_a_description_has_what_its_file_says_and_the_defaults() -> None:
    found = read_description(_WHOLE)
    assert found.command == ("python", "train.py", "--fast")
    assert found.hardware == Hardware(cpu="8", memory="32Gi", gpu="nvidia-l4", gpus=1)
    assert (found.hardware.memory_bytes, found.measured.state_bytes) == (32 << 30, 2 << 30)
    assert (found.run_seconds, found.timeout_seconds, found.retries) == (172800, 43200, None)
    assert (found.bucket, found.prefix, found.mount_path) == ("example-bucket", "train/digits", "/checkpoints")
    assert (found.env, found.kubernetes.kind) == ((("SEED", "7"),), "JobSet")


def test_a_command_may_be_a_line_and_no_shell_runs_it() -> None:
    found = read_description("name: a\nsource: .\nurl: gs://bucket-a\ncommand: python t.py --name 'two words; rm x'")
    assert found.command == ("python", "t.py", "--name", "two words; rm x")


def test_a_batch_needs_no_command_and_no_url() -> None:
    text = "name: a\nimage: i\nbatch: {function: 'm:f', queue: 'sqlite:///q.db', sink: 'sqlite:///r.db', chunk: 8}"
    assert read_description(text).shown_command == ("outlast work sqlite:///q.db m:f --sink sqlite:///r.db --chunk 8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("command:", "comand:", "outlast.yaml:2: comand: 'comand' is not known here; did you mean 'command'?"),
        ("  gpu:", "  gpus_:", "outlast.yaml:8: hardware.gpus_: 'gpus_' is not known here; did you mean 'gpus'?"),
        ("run_time: 2d", "run_time: soon", "outlast.yaml:9: run_time: 'soon' is not a duration"),
        ("tasks: 4", "tasks: 0", "outlast.yaml:11: tasks: '0' is not a whole number of 1 or more"),
        ("tasks: 4", "tasks: [4]", "outlast.yaml:11: tasks: expected a text, found a list"),
        ("tasks: 4", "tasks: 4\ntasks: 5", "outlast.yaml:12: tasks: 'tasks' is there twice"),
        ("tasks: 4", "tasks: 4\nparallelism: 5", "outlast.yaml:12: parallelism: 5 at a time of 4 tasks"),
        ("32Gi", "32GB", "outlast.yaml:7: hardware.memory: '32GB' is no amount; write one such as 32Gi or 512Mi"),
        ("europe-west4", "Europe", "outlast.yaml:12: region: 'Europe' is no region"),
        ("JobSet", "Jobset", "outlast.yaml:19: kubernetes.kind: 'Jobset' is not known here; did you mean 'JobSet'?"),
        ("train-digits", "Train", "outlast.yaml:1: name: 'Train' is no name"),
        ("gs://example-bucket/train/digits/", "gs:///x", "outlast.yaml:4: url: 'gs:///x' names no bucket"),
        ("source: .\n", "", "outlast.yaml: source: give a source"),
        ("name: train-digits\n", "", "outlast.yaml: name: it is missing"),
        ("  SEED", "  1SEED", "env: '1SEED' is no name of a variable"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_with_its_file_line_and_key(old: str, new: str, said: str) -> None:
    assert old in _WHOLE
    with pytest.raises(SettingsError) as caught:
        read_description(_WHOLE.replace(old, new))
    assert said in str(caught.value)


def test_pyproject_describes_a_job_and_its_mistakes_have_lines_too(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\nname = "x"\n\n[tool.outlast]\nname = "train"\nsource = "."\nurl = "gs://bucket-a/x"\n'
        'command = [\n  "python",\n  "train.py",\n]\n# the machine\n[tool.outlast.hardware]\ncpu = 4\nspot = true\n'
    )
    described = load_description(folder=tmp_path)
    assert (described.file, described.folder) == (file, tmp_path)
    assert described.description.command == ("python", "train.py")
    assert described.description.hardware == Hardware(cpu="4", spot=True)
    file.write_text(file.read_text().replace("cpu = 4", "cpus = 4"))
    with pytest.raises(SettingsError, match=r"pyproject.toml:14: hardware.cpus: .* did you mean 'cpu'"):
        load_description(folder=tmp_path)
    file.write_text(file.read_text().replace("cpus = 4", "cpu = 4").replace('"train.py",', '"train.py", 5, [],'))
    with pytest.raises(SettingsError, match=r"pyproject.toml:8: command\[3\]: expected a text, found a list"):
        load_description(folder=tmp_path)


def test_outlast_yaml_comes_before_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.outlast]\nname = "other"\n')
    (tmp_path / "outlast.yaml").write_text(_WHOLE)
    assert load_description(folder=tmp_path).description.name == "train-digits"


def test_an_argument_beats_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    (tmp_path / "outlast.yaml").write_text(_WHOLE)
    arguments = {"tasks": "2", "hardware.gpu": "nvidia-rtx-pro-6000", "command": ["python", "b.py"], "timeout": ""}
    found = load_description(folder=tmp_path, arguments=arguments).description
    assert (found.tasks, found.hardware.gpu, found.command) == (2, "nvidia-rtx-pro-6000", ("python", "b.py"))
    assert (found.timeout_seconds, found.region) == (None, "europe-west4")
    with pytest.raises(SettingsError, match=r"^argument: tasks: 'two' is not a whole number"):
        load_description(folder=tmp_path, arguments={"tasks": "two"})
    with pytest.raises(SettingsError, match="did you mean 'tasks'"):
        load_description(folder=tmp_path, arguments={"taks": "2"})


def test_without_a_file_the_error_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="outlast init"):
        load_description(folder=tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "- a\n- b\n", "a: &a [*a]\n", "name: &n [*n, *n]\n", "{{ .Values.name }}", "name: \x00", "[" * 5000],
)
def test_hostile_files_end_with_an_error_of_ours(text: str, tmp_path: Path) -> None:
    (tmp_path / "outlast.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"outlast\.yaml"):
        load_description(folder=tmp_path)


def test_a_file_that_is_no_text_or_has_no_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.yaml").write_bytes(b"#" * (10 << 20))
    for file in (tmp_path / "binary.yaml", tmp_path / "large.yaml", Path("/dev/zero"), tmp_path):
        with pytest.raises(SettingsError, match="cannot be read"):
            load_description(file)


def test_every_field_can_be_set_in_the_file() -> None:
    """A field that no key reaches would be a setting that nobody can set."""
    tops = {key.partition(".")[0] for key in KEYS}
    fields = set(Description.__dataclass_fields__) - {"run_seconds", "timeout_seconds"} | {"run_time", "timeout"}
    assert tops == fields
