"""`outlast deploy gke --patch`: a manifest that exists gets what survival needs, and every other character stays."""

import contextlib
import difflib
import re
import time
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.deploy.description_file import read_description
from outlast.deploy.gke.patching import patch
from outlast.deploy.patched import Patched
from outlast.errors import SettingsError

Json = dict[str, Any]
TEAM = """\
# the team's training jobs
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}   # leave me
data: {a: "1"}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train   # weekly
spec:
  backoffLimit: 0
  podFailurePolicy:
    rules:
    - action: FailJob   # bugs
      onExitCodes:
        operator: NotIn
        values: [75]
  template:
    spec:
      restartPolicy: OnFailure  # hm
      terminationGracePeriodSeconds: 7200
      tolerations:
        - operator: Exists
        - {key: nvidia.com/gpu, operator: Exists}   # the pool's
        - key: cloud.google.com/impending-node-termination
          operator: Exists
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers:
        - {name: sidecar, image: "s:1"}
        - name: main
          image: x:1
          command: ["sh", "-c",
             "exec python train.py"]  # here
          env:
            - name: OUTLAST_EXIT_CODE
              value: "0"
            - name: LR   # tuned
              value: '1e-3'
          resources: {limits: {nvidia.com/gpu: 1}}
          volumeMounts: [{name: b, mountPath: /ckpt}]
      volumes:
        - name: b
          csi:
            driver: gcsfuse.csi.storage.gke.io
            volumeAttributes: {bucketName: example-checkpoints}
"""
NIGHTLY = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 1 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: c, image: "x:1"}
"""
RANKS = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: ranks}
spec:
  failurePolicy:
    maxRestarts: 0   # one loss
  replicatedJobs:
  - name: w
    template:
      spec:
        completions: 2
        parallelism: 2
        template:
          spec:
            restartPolicy: Never
            nodeSelector:
              cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
            containers:
            - name: c
              image: x:1
              command:
              - python
              # the script
              - train.py
"""
PYTORCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pt}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template: &pod
        spec:
          nodeSelector: {cloud.google.com/gke-spot: "true"}
          containers:
          - name: pytorch
            image: x:1
            command: [torchrun, train.py]
"""
ALL = "---\n".join([TEAM, NIGHTLY, RANKS, PYTORCH])


@pytest.fixture(scope="module")
def made() -> Patched:
    """All of them, patched."""
    return patched(ALL)


def patched(text: str, description: str | None = None) -> Patched:
    return patch(text, "jobs.yaml", None if description is None else read_description(description))


def document(text: str, kind: str) -> Json:
    return next(one for one in yaml.safe_load_all(text) if one["kind"] == kind)


def container(pod: Json, name: str) -> Json:
    return next(one for one in pod["spec"]["containers"] if one["name"] == name)


def told(pod: Json, name: str) -> Json:
    return {one["name"]: one.get("value") for one in container(pod, name).get("env", [])}


def test_a_job_gets_what_survival_needs(made: Patched) -> None:
    job = document(made.text, "Job")
    kubernetes_validate.validate(job, "1.37.0", strict=True)
    spec, pod = job["spec"], job["spec"]["template"]
    actions = [
        (rule["action"], str(rule.get("onExitCodes", {}).get("values"))) for rule in spec["podFailurePolicy"]["rules"]
    ]
    assert actions == [("Ignore", "None"), ("FailJob", "[78]"), ("Ignore", "[143]"), ("FailJob", "[75]")]
    assert [rule["onExitCodes"].get("containerName") for rule in spec["podFailurePolicy"]["rules"][1:3]] == ["main"] * 2
    assert (spec["podReplacementPolicy"], spec["backoffLimit"]) == ("Failed", 6)
    assert (pod["spec"]["restartPolicy"], pod["spec"]["terminationGracePeriodSeconds"]) == ("Never", 600)
    assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert pod["metadata"]["annotations"] == {"gke-gcsfuse/volumes": "true"}
    assert container(pod, "main")["command"] == ["outlast", "run", "--", "sh", "-c", "exec python train.py"]
    assert told(pod, "main")["OUTLAST_EXIT_CODE"] == "143"
    assert told(pod, "main")["OUTLAST_NODE_CLASS"] == "gke-gpu"
    assert told(pod, "main")["OUTLAST_POD_GRACE"] == "600"
    assert "env" not in container(pod, "sidecar")


def test_every_other_character_stays(made: Patched) -> None:
    lines = [line for line in difflib.ndiff(ALL.splitlines(), made.text.splitlines()) if line.startswith("- ")]
    gone = [line[2:].strip() for line in lines]
    assert gone == [
        "backoffLimit: 0",
        "restartPolicy: OnFailure  # hm",
        "terminationGracePeriodSeconds: 7200",
        "- operator: Exists",
        "- key: cloud.google.com/impending-node-termination",
        "operator: Exists",
        'command: ["sh", "-c",',
        'value: "0"',
        '- {name: c, image: "x:1"}',
        "maxRestarts: 0   # one loss",
        "restartPolicy: OnFailure",
        "command: [torchrun, train.py]",
    ]
    for comment in re.findall(r"#.*", ALL):
        assert comment in made.text
    assert document(made.text, "ConfigMap") == document(ALL, "ConfigMap")


def test_what_is_patched_is_not_patched_again(made: Patched) -> None:
    assert made.changes
    again = patched(made.text)
    assert (again.text, again.changes) == (made.text, ())


def test_a_cron_job_has_one_run_at_a_time() -> None:
    made = patched(NIGHTLY)
    cron = document(made.text, "CronJob")
    kubernetes_validate.validate(cron, "1.37.0", strict=True)
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    job = cron["spec"]["jobTemplate"]["spec"]
    assert job["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    assert "terminationGracePeriodSeconds" not in job["template"]["spec"]
    assert any("entry point is not in the manifest" in said for said in made.by_hand)


def test_ranks_of_a_jobset_restart_together_at_no_cost() -> None:
    made = document(patched(RANKS).text, "JobSet")["spec"]
    assert made["failurePolicy"]["maxRestarts"] == 6
    assert made["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
    actions = [rule["action"] for rule in made["failurePolicy"]["rules"]]
    assert actions == ["FailJobSet", "RestartJobSetAndIgnoreMaxRestarts"]
    job = made["replicatedJobs"][0]["template"]["spec"]
    kubernetes_validate.validate(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job}, "1.37.0", strict=True
    )
    assert {rule["action"] for rule in job["podFailurePolicy"]["rules"]} == {"FailJob"}
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["terminationGracePeriodSeconds"] == 300
    assert job["template"]["spec"]["containers"][0]["command"] == ["outlast", "run", "--", "python", "train.py"]


def test_a_pytorch_job_restarts_by_the_exit_code_and_retries_the_storage_inside() -> None:
    replica = document(patched(PYTORCH).text, "PyTorchJob")["spec"]["pytorchReplicaSpecs"]["Master"]
    assert replica["restartPolicy"] == "ExitCode"
    pod = replica["template"]
    assert container(pod, "pytorch")["command"] == ["outlast", "run", "--retries", "3", "--", "torchrun", "train.py"]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 15
    assert "restartPolicy" not in pod["spec"]
    assert "podFailurePolicy" not in replica


def test_who_tolerated_everything_tolerates_what_such_nodes_have() -> None:
    text = PYTORCH.replace(
        "          containers:", "          tolerations: [{operator: Exists}]\n          containers:"
    )
    pod = document(patched(text).text, "PyTorchJob")["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert [one["key"] for one in pod["tolerations"]] == ["cloud.google.com/gke-spot"]
    plain = NIGHTLY.replace(
        "          containers:", "          tolerations: [{operator: Exists}]\n          containers:"
    )
    job = document(patched(plain).text, "CronJob")["spec"]["jobTemplate"]["spec"]
    assert "tolerations" not in job["template"]["spec"]


@pytest.mark.parametrize(
    ("label", "told_class"),
    [
        ('gke-spot: "true"', "gke-spot"),
        ('gke-spot: "false"', "kubernetes"),
        ('gke-preemptible: "true"', "gke-spot"),
        ("gke-provisioning: spot", "gke-spot"),
        ("gke-provisioning: preemptible", "gke-spot"),
        ("gke-provisioning: standard", "kubernetes"),
    ],
)
def test_the_kind_of_node_is_read_as_the_node_itself_is(label: str, told_class: str) -> None:
    made = document(patched(PYTORCH.replace('gke-spot: "true"', label)).text, "PyTorchJob")
    replica = made["spec"]["pytorchReplicaSpecs"]["Master"]
    assert told(replica["template"], "pytorch")["OUTLAST_NODE_CLASS"] == told_class


@pytest.mark.parametrize(("present", "expected"), [(25, 25), (105, 105), (600, 15)])
def test_a_grace_that_a_spot_pool_can_give_stays(present: int, expected: int) -> None:
    grace = f"          terminationGracePeriodSeconds: {present}\n          containers:"
    pod = document(patched(PYTORCH.replace("          containers:", grace)).text, "PyTorchJob")
    spec = pod["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == expected


def test_the_description_says_where_checkpoints_are_and_how_long_a_save_takes() -> None:
    description = "name: t\ncommand: [x]\nimage: i\nurl: gs://example-checkpoints/t\nmeasured: {save_time: 200s}\n"
    made = patched(TEAM.replace("7200", "60"), description)
    pod = document(made.text, "Job")["spec"]["template"]
    assert told(pod, "main")["OUTLAST_URL"] == "gs://example-checkpoints/t"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 430
    enough = patched(TEAM.replace("7200", "900"), description)
    assert document(enough.text, "Job")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 900
    short = patched(PYTORCH, description)
    assert any("does not fit" in said for said in short.by_hand)


def test_rules_in_another_order_are_put_in_theirs() -> None:
    last = "        values: [75]\n"
    rule = "    - action: Ignore\n      onPodConditions: [{type: DisruptionTarget, status: 'True'}]\n"
    text = TEAM.replace(last, last + rule)
    rules = document(patched(text).text, "Job")["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "FailJob", "Ignore", "FailJob"]
    assert len([rule for rule in rules if "onPodConditions" in rule]) == 1


def test_items_of_a_list_are_patched_too() -> None:
    inner = "\n".join(f"    {line}" for line in NIGHTLY.splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n  -\n{inner}\n"
    assert yaml.safe_load(patched(text).text)["items"][0]["spec"]["concurrencyPolicy"] == "Forbid"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Service\n", "there is no Job"),
        ("", "there is no Job"),
        ("kind: Job\nspec: {{ .Values.spec }}\n", "jobs.yaml:"),
        ("kind: [Job\n", "jobs.yaml:"),
        ("just text\n", "there is no Job"),
        ("kind: Job\nspec: 3\n", None),
        ("kind: Job\n", None),
        ("kind: JobSet\nspec: {replicatedJobs: [3, {template: {spec: {template: x}}}]}\n", None),
        ("kind: Job\nspec: {template: {spec: {containers: [3], tolerations: 4, volumes: [5]}}}\n", None),
    ],
)
def test_what_cannot_be_patched_is_told_and_never_a_crash(text: str, said: str | None) -> None:
    if said is not None:
        with pytest.raises(SettingsError, match=re.escape(said)):
            patched(text)
    else:
        list(yaml.safe_load_all(patched(text).text))


def test_hostile_manifests_end_soon() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]\n" for b, c in zip("abcdefgh", "bcdefghi", strict=True)
    )
    many = "kind: List\nitems:\n- &job {kind: Job}\n" + "- *job\n" * 5000
    nested = "kind: List\nitems: &l\n- {kind: List, items: [{kind: List, items: []}]}\n"
    bombed = (
        f"{bomb}kind: Job\nspec: {{template: {{spec: {{containers: [{{}}], tolerations: *i, restartPolicy: *i}}}}}}\n"
    )
    for text in (f"kind: Job\n{bomb}", bombed, many, nested, "[" * 5000, "kind: Job\nspec: &s {template: *s}\n"):
        started = time.monotonic()
        with contextlib.suppress(SettingsError):
            patched(text)
        assert time.monotonic() - started < 20


def test_what_an_alias_shares_is_told_and_left() -> None:
    text = PYTORCH + "    Worker:\n      replicas: 3\n      template: *pod\n"
    made = patched(text)
    assert made.by_hand
    assert yaml.safe_load(made.text)["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] == "ExitCode"


_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
_KEYS = st.sampled_from(
    ["spec", "template", "containers", "podFailurePolicy", "rules", "env", "name", "command", "tolerations", "metadata"]
)
_ANY = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))


@settings(max_examples=30, deadline=None)
@given(_ANY, st.sampled_from(["Job", "JobSet", "CronJob", "PyTorchJob"]))
def test_no_shape_of_a_manifest_is_a_crash(spec: Any, kind: str) -> None:
    text = yaml.safe_dump({"kind": kind, "spec": spec})
    try:
        made = patched(text)
    except SettingsError:
        return
    list(yaml.safe_load_all(made.text))
