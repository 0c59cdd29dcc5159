"""What the emulated Cloud Run API takes and refuses, and how its logs are read; over HTTP, without gcloud."""

import contextlib
import copy
import hashlib
import http.client
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast.cli.emulate import emulate
from outlast.emulate.cloud_run import calls, dockerfiles, messages
from outlast.emulate.cloud_run.images import Image
from outlast.emulate.cloud_run.server import CloudRun
from outlast.emulate.label_selectors import label_selector
from outlast.errors import SettingsError

_API = "/apis/run.googleapis.com/v1/namespaces/demo"
_TASK = ("spec", "template", "spec", "template", "spec")
_CONTAINER = (*_TASK, "containers", 0)
_MEMORY = [{"name": "m", "emptyDir": {}}]
_IMAGE = (*_CONTAINER, "image")
_TOO_MANY = [{"name": f"V{n}", "value": "x"} for n in range(1001)]
_GPU = {"run.googleapis.com/accelerator": "nvidia-l4"}


class Client:
    """Asks the emulator."""

    def __init__(self, cloud: CloudRun) -> None:
        self.cloud = cloud
        self._address = cloud.url.removeprefix("http://")

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        raw = body if isinstance(body, bytes | None) else json.dumps(body)
        with contextlib.closing(http.client.HTTPConnection(self._address)) as connection:
            connection.request(method, path, raw, {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("image")
    images = {f"example/{name}": Image(folder, (name,)) for name in ("true", "false")}
    images["example/empty"] = Image(folder)
    buckets = {"my-bucket": tmp_path_factory.mktemp("bucket")}
    with CloudRun(folder=folder, images=images, buckets=buckets) as cloud:
        yield Client(cloud)


def _job(name: str = "train") -> dict[str, Any]:
    task = {"containers": [{"image": "example/true"}]}
    return {
        "apiVersion": "run.googleapis.com/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"template": {"spec": task}}}},
    }


def _with(job: dict[str, Any], where: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    job = copy.deepcopy(job)
    target: Any = job
    for step in where[:-1]:
        target = target[step] if isinstance(step, int) else target.setdefault(step, {})
    target[where[-1]] = value
    return job


def _gpu(**more: Any) -> dict[str, Any]:
    job = _with(_job(), (*_TASK, "nodeSelector"), _GPU)
    job = _with(job, (*_CONTAINER, "resources", "limits"), {"nvidia.com/gpu": "1", **more.pop("limits", {})})
    for name, value in more.items():
        job = _with(job, (*_TASK, name), value)
    return job


def _preview(job: dict[str, Any]) -> dict[str, Any]:
    return _with(job, ("metadata", "annotations"), {"run.googleapis.com/launch-stage": "BETA"})


_REFUSED = {
    "an unknown field": (
        _with(_job(), (*_TASK, "timeoutSecs"), 5),
        (
            "Invalid JSON payload received. Unknown name \"timeoutSecs\" at 'job.spec.template.spec.template.spec': "
            "Cannot find field."
        ),
    ),
    "a field of another kind": (_with(_job(), (*_TASK, "restartPolicy"), "Never"), 'Unknown name "restartPolicy"'),
    "a number that is a word": (
        _with(_job(), (*_TASK, "maxRetries"), "lots"),
        "Invalid value at 'job.spec.template.spec.template.spec.max_retries' (TYPE_INT32), \"lots\"",
    ),
    "a duration": (_with(_job(), (*_TASK, "timeoutSeconds"), "300s"), "(TYPE_INT64)"),
    "a text that is a number": (_with(_job(), (*_CONTAINER, "args"), [5]), "containers[0].args[0]' (TYPE_STRING), 5"),
    "an object that is a list": (_with(_job(), ("spec", "template"), []), "Invalid value at 'job.spec.template'"),
    "too large a number": (_with(_job(), (*_TASK, "maxRetries"), 1 << 40), "(TYPE_INT32)"),
    "no kind": (_with(_job(), ("kind",), "Service"), "kind: should be Job"),
    "a bad name": (_job("Train_1"), "metadata.name"),
    "another namespace": (_with(_job(), ("metadata", "namespace"), "other"), "metadata.namespace"),
    "11 retries": (_with(_job(), (*_TASK, "maxRetries"), 11), "maxRetries: should be between 0 and 10"),
    "less than no retries": (_with(_job(), (*_TASK, "maxRetries"), -1), "maxRetries"),
    "no tasks": (_with(_job(), ("spec", "template", "spec", "taskCount"), 0), "taskCount"),
    "more at a time than tasks": (_with(_job(), ("spec", "template", "spec", "parallelism"), 2), "parallelism"),
    "more than a week": (_with(_job(), (*_TASK, "timeoutSeconds"), 604801), "between 1 and 604800"),
    "no time": (_with(_job(), (*_TASK, "timeoutSeconds"), "0"), "timeoutSeconds"),
    "a GPU for more than 12 hours": (_preview(_gpu(timeoutSeconds=43201)), "between 1 and 43200"),
    "a GPU for 12 hours without the preview": (_gpu(timeoutSeconds=43200), "launch stage"),
    "a GPU with few CPUs": (_gpu(limits={"cpu": "2", "memory": "8Gi"}), "at least 4 CPUs"),
    "a GPU with little memory": (_gpu(limits={"cpu": "4", "memory": "4Gi"}), "at least 8Gi"),
    "two GPUs": (_gpu(limits={"nvidia.com/gpu": "2"}), "should be 0 or 1"),
    "an accelerator without a GPU": (_with(_job(), (*_TASK, "nodeSelector"), _GPU), "nodeSelector"),
    "an unknown accelerator": (_with(_job(), (*_TASK, "nodeSelector"), {**_GPU, "zone": "a"}), "'zone'"),
    "memory beyond the CPUs": (
        _with(_job(), (*_CONTAINER, "resources", "limits"), {"memory": "8Gi"}),
        (
            "resources.limits.memory: Invalid value specified for memory. For 1.0 CPU, memory must be between 512Mi "
            "and 4Gi inclusive."
        ),
    ),
    "three CPUs": (_with(_job(), (*_CONTAINER, "resources", "limits"), {"cpu": "3"}), "specified for cpu"),
    "no amount of memory": (_with(_job(), (*_CONTAINER, "resources", "limits"), {"memory": "much"}), "for memory"),
    "a reserved variable": (
        _with(_job(), (*_CONTAINER, "env"), [{"name": "CLOUD_RUN_TASK_INDEX", "value": "5"}]),
        "The following reserved env names were provided: CLOUD_RUN_TASK_INDEX.",
    ),
    "a variable twice": (_with(_job(), (*_CONTAINER, "env"), [{"name": "A"}, {"name": "A"}]), "there twice"),
    "1001 variables": (_with(_job(), (*_CONTAINER, "env"), _TOO_MANY), "at most 1000"),
    "no container": (_with(_job(), (*_TASK, "containers"), []), "1 to 10 containers"),
    "no such image": (_with(_job(), _IMAGE, "example/other"), "Image 'example/other' not found"),
    "no command": (_with(_job(), _IMAGE, "example/empty"), "has no command"),
    "a volume that is not there": (
        _with(_job(), (*_CONTAINER, "volumeMounts"), [{"name": "v", "mountPath": "/v"}]),
        "there is no volume 'v'",
    ),
    **{
        f"a volume {what}": (
            _with(_with(_job(), (*_TASK, "volumes"), _MEMORY), (*_CONTAINER, "volumeMounts"), mounts),
            words,
        )
        for what, mounts, words in (
            ("at no path", [{"name": "m", "mountPath": "data"}], "mountPath: should be an absolute path"),
            ("at the root", [{"name": "m", "mountPath": "/"}], "mountPath: should be an absolute path"),
            ("over processes", [{"name": "m", "mountPath": "/proc/x"}], "nothing can be mounted at /proc/x"),
            ("that leads out", [{"name": "m", "mountPath": "/m", "subPath": "a/../../b"}], "leads out of the volume"),
            ("in another", [{"name": "m", "mountPath": "/m"}, {"name": "m", "mountPath": "/m/n"}], "mounted below it"),
        )
    },
    "an unknown annotation": (
        _with(_job(), ("spec", "template", "metadata", "annotations"), {"run.googleapis.com/gpu-zonal": "x"}),
        "gpu-zonal",
    ),
}
_BUCKET = {"csi": {"driver": "gcsfuse.run.googleapis.com", "volumeAttributes": {"bucketName": "other"}}, "name": "v"}
_NOT_EMULATED = {
    "two containers": (*_TASK, "containers"),
    "a probe": (*_CONTAINER, "startupProbe"),
    "a secret": (*_CONTAINER, "env"),
    "an NFS volume": (*_TASK, "volumes"),
    "a bucket without a folder": (*_TASK, "volumes"),
    "a folder of a bucket": (*_TASK, "volumes"),
    "Cloud SQL": ("spec", "template", "metadata", "annotations"),
}
_NOT_EMULATED_VALUES: dict[str, Any] = {
    "two containers": [{"image": "example/true"}] * 2,
    "a probe": {"tcpSocket": {"port": 80}},
    "a secret": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "latest"}}}],
    "an NFS volume": [{"name": "v", "nfs": {"server": "s", "path": "/"}}],
    "a bucket without a folder": [_BUCKET],
    "a folder of a bucket": [_with(_BUCKET, ("csi", "volumeAttributes", "mountOptions"), "implicit-dirs,only-dir=a")],
    "Cloud SQL": {"run.googleapis.com/cloudsql-instances": "demo:us-central1:db"},
}


@pytest.mark.parametrize("case", _REFUSED)
def test_what_cloud_run_does_not_take_is_refused_in_its_own_words(client: Client, case: str) -> None:
    document, words = _REFUSED[case]
    status, answer = client.ask("POST", f"{_API}/jobs", document)
    assert (status, answer["error"]["code"], answer["error"]["status"]) == (400, 400, "INVALID_ARGUMENT"), answer
    assert words in answer["error"]["message"]
    assert client.ask("GET", f"{_API}/jobs")[1]["items"] == []


@pytest.mark.parametrize("case", _NOT_EMULATED)
def test_what_the_emulator_cannot_do_is_refused_as_such(client: Client, case: str) -> None:
    document = _with(_job(), _NOT_EMULATED[case], _NOT_EMULATED_VALUES[case])
    status, answer = client.ask("POST", f"{_API}/jobs", document)
    assert (status, answer["error"]["status"]) == (400, "UNIMPLEMENTED"), answer
    assert answer["error"]["message"].startswith("outlast emulate cloud-run: ")


def test_a_job_has_the_platform_s_defaults_and_generations(client: Client) -> None:
    status, made = client.ask("POST", f"{_API}/jobs", _job())
    task = made["spec"]["template"]["spec"]["template"]["spec"]
    assert status == 200
    assert (task["maxRetries"], task["timeoutSeconds"]) == (3, "600")
    assert task["containers"][0]["resources"]["limits"] == {"cpu": "1000m", "memory": "512Mi"}
    assert made["spec"]["template"]["spec"]["taskCount"] == 1
    assert made["status"]["observedGeneration"] == made["metadata"]["generation"] == 1

    assert client.ask("POST", f"{_API}/jobs", _job())[0] == 409
    # What was read can be written back, and is no change; another number of retries is one.
    assert client.ask("PUT", f"{_API}/jobs/train", made)[1]["metadata"]["generation"] == 1
    status, answer = client.ask("PUT", f"{_API}/jobs/train", made)
    assert (status, answer["error"]["status"]) == (409, "ABORTED"), "the version that was read is no more"
    changed = client.ask("PUT", f"{_API}/jobs/train", _with(_job(), (*_TASK, "maxRetries"), 0))[1]
    assert changed["metadata"]["generation"] == changed["status"]["observedGeneration"] == 2

    assert client.ask("DELETE", f"{_API}/jobs/train")[0] == 200
    status, answer = client.ask("GET", f"{_API}/jobs/train")
    assert status == 404
    assert answer["error"]["message"].startswith("Resource 'train' of kind 'JOB' in region 'us-central1'")


@pytest.mark.parametrize(("image", "ready"), [("example/true", "True"), ("example/false", "False")])
def test_a_job_that_is_deployed_with_a_token_runs_at_once(client: Client, image: str, ready: str) -> None:
    job = _with(_with(_job(), _IMAGE, image), (*_TASK, "maxRetries"), 0)
    job = _with(job, ("spec", "runExecutionToken"), "first")
    made = client.ask("POST", f"{_API}/jobs", job)[1]
    assert made["status"]["latestCreatedExecution"]["name"] == "train-first"
    assert client.cloud.execution("train-first").wait(20)
    shown = client.ask("GET", f"{_API}/jobs/train")[1]["status"]
    assert shown["conditions"][0]["status"] == ready
    # The same token once more starts nothing.
    assert client.ask("PUT", f"{_API}/jobs/train", job)[1]["status"]["executionCount"] == 1
    client.ask("DELETE", f"{_API}/jobs/train")
    assert client.ask("GET", f"{_API}/executions")[1]["items"] == []


def test_a_gpu_task_of_12_hours_is_taken_with_the_preview(client: Client) -> None:
    job = _preview(_gpu(timeoutSeconds="43200"))
    annotation = {"run.googleapis.com/gpu-zonal-redundancy-disabled": "true"}
    job = _with(job, ("spec", "template", "metadata", "annotations"), annotation)
    status, made = client.ask("POST", f"{_API}/jobs", job)
    assert status == 200, made
    assert client.ask("DELETE", f"{_API}/jobs/train")[0] == 200


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"taskCount": 0}, "overrides.taskCount"),
        ({"timeoutSeconds": 604801}, "overrides.timeoutSeconds"),
        ({"containerOverrides": [{"name": "other"}]}, "no container 'other'"),
        ({"containerOverrides": [{"env": [{"name": "PORT", "value": "1"}]}]}, "reserved env names"),
        ({"containerOverrides": [{"args": ["a"], "clearArgs": True}]}, "clearArgs"),
        ({"maxRetries": 5}, 'Unknown name "maxRetries"'),
    ],
)
def test_overrides_are_as_strict(client: Client, overrides: dict[str, Any], words: str) -> None:
    client.ask("POST", f"{_API}/jobs", _job())
    status, answer = client.ask("POST", f"{_API}/jobs/train:run", {"overrides": overrides})
    assert status == 400
    assert words in answer["error"]["message"]
    client.ask("DELETE", f"{_API}/jobs/train")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", f"{_API}/jobs", b"{", 400),
        ("POST", f"{_API}/jobs", b'{"spec": NaN}', 400),
        ("POST", f"{_API}/jobs", b'{"metadata": {"name": "a", "labels": {"a": "\\ud800"}}}', 400),
        ("POST", f"{_API}/jobs", b'{"spec":' * 100_000, 400),
        ("GET", f"{_API}/jobs?pretty=1", None, 400),
        ("GET", f"{_API}/jobs?limit=many", None, 400),
        ("GET", f"{_API}/tasks?labelSelector=a=b=c", None, 400),
        ("POST", "/v2/entries:list", {"filter": "a ="}, 400),
        ("POST", "/v2/entries:list", {"filter": "NOT " * 5000 + "a"}, 400),
        ("POST", "/v2/entries:list", {"orderBy": "severity"}, 400),
        ("POST", f"{_API}/jobs/nothing:run", {}, 404),
        ("GET", f"{_API}/tasks/nothing", None, 404),
        ("POST", f"{_API}/executions/nothing:cancel", {}, 404),
        ("POST", "/emulator/maintenance", {}, 404),
        ("POST", "/emulator/crash", {"execution": "nothing"}, 404),
        ("GET", "/apis/serving.knative.dev/v1/namespaces/demo/services", None, 400),
        ("PATCH", f"{_API}/jobs/train", {}, 400),
    ],
)
def test_other_requests_are_refused_in_google_s_form(
    client: Client, method: str, path: str, body: Any, code: int
) -> None:
    status, answer = client.ask(method, path, body)
    assert (status, answer["error"]["code"]) == (code, code), answer


def test_a_mistyped_event_is_told_those_that_there_are(client: Client) -> None:
    status, answer = client.ask("POST", "/emulator/maintenence", {})
    assert status == 400
    assert answer["error"]["message"].endswith("there are /emulator, /emulator/maintenance, /emulator/crash.")


def test_lists_come_in_pages(client: Client) -> None:
    for name in ("a", "b", "c"):
        client.ask("POST", f"{_API}/jobs", _job(name))
    first = client.ask("GET", f"{_API}/jobs?limit=2")[1]
    second = client.ask("GET", f"{_API}/jobs?limit=2&continue={first['metadata']['continue']}")[1]
    assert [job["metadata"]["name"] for job in first["items"] + second["items"]] == ["a", "b", "c"]
    assert "continue" not in second["metadata"]
    for name in ("a", "b", "c"):
        client.ask("DELETE", f"{_API}/jobs/{name}")


def test_each_region_has_its_own_jobs_and_the_host_without_a_region_lists_all(client: Client) -> None:
    def at(region: str) -> str:
        return f"http://{region}{calls.RUN_HOST}{_API}/jobs"

    for region in ("us-central1-", "europe-west4-"):
        assert client.ask("POST", at(region), _job())[0] == 200
    assert client.ask("POST", at("europe-west4-"), _job())[0] == 409
    found = client.ask("GET", at("europe-west4-"))[1]["items"]
    assert [job["metadata"]["labels"]["cloud.googleapis.com/location"] for job in found] == ["europe-west4"]
    assert len(client.ask("GET", at(""))[1]["items"]) == 2
    assert "in region 'europe-west4'" in client.ask("GET", at("europe-west4-") + "/other")[1]["error"]["message"]
    for region in ("us-central1-", "europe-west4-"):
        client.ask("DELETE", at(region) + "/train")


def test_what_is_not_exercised_is_said(client: Client) -> None:
    said = " ".join(client.ask("GET", "/emulator")[1]["notExercised"])
    assert all(word in said for word in ("buckets", "memory", "GPU", "image", "network"))
    assert client.ask("GET", "/emulator")[1]["notExercised"] == list(client.cloud.not_exercised)


def test_a_bucket_inside_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="lies in that of an image"):
        CloudRun(folder=tmp_path, buckets={"b": tmp_path / "bucket"})


def test_the_command_serves_until_sigterm_and_says_how_gcloud_is_led_there(tmp_path: Path) -> None:
    outlast = [str(Path(sys.executable).with_name("outlast")), "emulate", "cloud-run"]
    options = ["--image", "example/task=sleep 60", "--folder", str(tmp_path), "--project", "mine", "--speed", "60"]
    with subprocess.Popen([*outlast, *options], stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().split()[-1]
        exports = dict(serving.stdout.readline().removeprefix("export ").strip().split("=", 1) for _ in range(15))
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        connection.request(
            "POST", _API.replace("demo", "mine") + "/jobs", json.dumps(_with(_job(), _IMAGE, "example/task"))
        )
        assert connection.getresponse().status == 200
        connection.close()
        assert Path(exports["CLOUDSDK_CONFIG"]).is_dir()
        serving.terminate()
        assert serving.wait(20) == 0
    assert exports["CLOUDSDK_PROXY_PORT"] == url.rpartition(":")[2]
    assert exports["CLOUDSDK_CORE_PROJECT"] == "mine"
    assert not Path(exports["CLOUDSDK_CONFIG"]).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cloud-run --image task", "'task' is not NAME=COMMAND"),
        ("cloud-run --image task=a'b", "No closing quotation"),
        ("gke --nodes gpu=0", "'gpu=0' is no KIND or KIND=N"),
        ("aws-imds --speed nan", "nan is no number of seconds"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(words: str, said: str) -> None:
    done = CliRunner().invoke(emulate, words.split())
    assert (done.exit_code, said in done.output) == (2, True), done.output


# --- deploying from sources -------------------------------------------------------------------------

_DOCKERFILE = """
# syntax=docker/dockerfile:1
FROM python:3.12 AS build
CMD ["never"]
from python:3.12-slim
WORKDIR /mnt/
WORKDIR app
ENV A=1 B="two words"
env C three words
RUN pip install \\
    numpy
COPY . .
ENTRYPOINT [ "outlast", "run", "--" ]
CMD ["python", \\
     "task.py"]
"""


def test_a_dockerfile_says_how_its_image_starts() -> None:
    start = dockerfiles.read_start(_DOCKERFILE)
    assert (start.entry_point, start.arguments) == (("outlast", "run", "--"), ("python", "task.py"))
    assert str(start.working_folder) == "/mnt/app"
    assert start.environment == {"A": "1", "B": "two words", "C": "three words"}
    # Single quotes are no JSON: this is the shell form, in which sh gets the signals.
    assert dockerfiles.read_start("CMD ['python', 'task.py']").arguments == ("/bin/sh", "-c", "['python', 'task.py']")
    assert dockerfiles.read_start("CMD python task.py").arguments == ("/bin/sh", "-c", "python task.py")
    assert dockerfiles.read_start("FROM python").arguments == ()


def _archive(dockerfile: str | None, data: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as packed:
        packed.writestr("data", data)
        if dockerfile is not None:
            packed.writestr("Dockerfile", dockerfile)
    return held.getvalue()


def _build(client: Client, archive: bytes) -> tuple[int, Any]:
    """Uploads an archive as gcloud does, quotes of the boundary included, and has an image built of it."""
    parts = (b'Content-Type: application/json\n\n{"size": "1"}', b"Content-Type: application/zip\n\n" + archive)
    body = b"".join(b"--==x==\n" + part + b"\n" for part in parts) + b"--==x==--"
    path = "/upload/storage/v1/b/run-sources-demo-us-central1/o?name=jobs%2Fa.zip&uploadType=multipart"
    status, stored = client.ask("POST", path, body, content_type="multipart/related; boundary='==x=='")
    assert (status, stored["size"]) == (200, str(len(archive)))
    source = {"bucket": stored["bucket"], "object": stored["name"], "generation": "1"}
    request = {"storageSource": source, "imageUri": "example/built", "dockerBuild": {}}
    return client.ask("POST", "/v2/projects/demo/locations/us-central1/builds:submit", request)


def test_an_image_is_built_of_sources_and_starts_as_its_dockerfile_says(client: Client) -> None:
    data = b"\r\n\n--\r" * 50 + os.urandom(5000) + b"\n"
    dockerfile = 'FROM busybox\nWORKDIR /app\nENV SAID=hello\nCMD ["sh", "-c", "echo $SAID; pwd; sha256sum data"]'
    status, answer = _build(client, _archive(dockerfile, data))
    assert status == 200, answer
    build = answer["buildOperation"]["metadata"]["build"]
    operation = client.ask("GET", f"/v1/projects/demo/locations/us-central1/operations/{build['id']}")[1]
    assert (operation["done"], operation["response"]["status"]) == (True, "SUCCESS")
    image = f"example/built@{operation['response']['results']['images'][0]['digest']}"
    client.cloud.deploy(_with(_job("built"), _IMAGE, image))
    execution = client.cloud.execute("built")
    assert execution.wait(20)
    lines = [one["textPayload"] for one in client.cloud.log_entries() if execution.name in str(one)]
    assert lines[:3] == ["hello", "/app", f"{hashlib.sha256(data).hexdigest()}  data"]
    client.ask("DELETE", f"{_API}/jobs/built")


@pytest.mark.parametrize("dockerfile", [None, "FROM python"])
def test_sources_that_say_no_command_are_refused(client: Client, dockerfile: str | None) -> None:
    assert _build(client, _archive(dockerfile, b""))[0] == 400
    assert _build(client, b"no archive")[0] == 400


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("run.googleapis.com/job = train,run.googleapis.com/runningState in (Failed, Cancelled)", True),
        ("run.googleapis.com/job=other", False),
        ("run.googleapis.com/runningState notin (Failed)", False),
        ("run.googleapis.com/job!=other,!other", True),
    ],
)
def test_selectors_of_labels(selector: str, selected: bool) -> None:
    labels = {"run.googleapis.com/job": "train", "run.googleapis.com/runningState": "Failed"}
    assert label_selector(selector)(labels) is selected


def test_every_message_names_messages_that_exist() -> None:
    scalars = {"TYPE_STRING", "TYPE_INT32", "TYPE_INT64", "TYPE_BOOL", "map of texts"}
    named = {
        field[0] if isinstance(field, list) else field for kind in messages.MESSAGES.values() for field in kind.values()
    }
    assert named - scalars <= set(messages.MESSAGES)
