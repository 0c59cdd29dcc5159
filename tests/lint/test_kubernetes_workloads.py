"""Pods are found wherever a manifest holds them; patches and templates keep what they do not say."""

import time
from pathlib import Path

import pytest

from outlast.lint.known import Known
from outlast.lint.kubernetes.cases import cases_of
from outlast.lint.kubernetes.checking import check, check_manifest
from outlast.lint.kubernetes.manifest import read_manifest
from outlast.lint.source import Kind, Source, Unreadable

GPU = '{name: main, image: example/trainer:1, command: [python, train.py], resources: {limits: {nvidia.com/gpu: "1"}}}'
POD = f"{{metadata: {{labels: {{a: b}}}}, spec: {{restartPolicy: Never, containers: [{GPU}]}}}}"


def _object(version, kind, spec):
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: tune}}\nspec: {spec}\n"


LEADER = "{name: leader, template: {spec: {template: POD}}}"
WORKER = "{name: worker, replicas: 2, template: {spec: {parallelism: 4, completions: 4, template: POD}}}"
RAY_WORKERS = "{groupName: gpu, replicas: 2, template: POD}"
# kind, spec, the parts that its pods are, how many there are at once, whether it ends
SOURCES = [
    ("batch/v1", "Job", f"{{parallelism: 3, completions: 2, template: {POD}}}", [("", 2)], True),
    ("batch/v1", "CronJob", f"{{schedule: '@daily', jobTemplate: {{spec: {{template: {POD}}}}}}}", [("", 1)], True),
    ("batch/v1beta1", "CronJob", f"{{jobTemplate: {{spec: {{template: {POD}}}}}}}", [("", 1)], True),
    ("apps/v1", "Deployment", f"{{replicas: 4, template: {POD}}}", [("", 4)], False),
    ("apps/v1", "StatefulSet", f"{{template: {POD}}}", [("", 1)], False),
    ("apps/v1", "DaemonSet", f"{{template: {POD}}}", [("", None)], False),
    ("extensions/v1beta1", "Deployment", f"{{template: {POD}}}", [("", 1)], False),
    ("v1", "ReplicationController", f"{{template: {POD}}}", [("", 1)], False),
    (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        f"{{replicatedJobs: [{LEADER}, {WORKER}]}}",
        [("leader", 1), ("worker", 8)],
        True,
    ),
    (
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        "{template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: POD}}}]}}}",
        [("node", 1)],
        True,
    ),
    (
        "kubeflow.org/v1",
        "PyTorchJob",
        "{pytorchReplicaSpecs: {Master: {template: POD}, Worker: {replicas: 3, template: POD}}}",
        [("Master", 1), ("Worker", 3)],
        True,
    ),
    ("kubeflow.org/v1", "XGBoostJob", "{xgbReplicaSpecs: {Worker: {template: POD}}}", [("Worker", 1)], True),
    (
        "ray.io/v1",
        "RayJob",
        f"{{rayClusterSpec: {{headGroupSpec: {{template: POD}}, workerGroupSpecs: [{RAY_WORKERS}]}}}}",
        [("head", 1), ("gpu", 2)],
        True,
    ),
    ("ray.io/v1", "RayCluster", "{headGroupSpec: {template: POD}}", [("head", 1)], False),
    ("ray.io/v1", "RayService", "{rayClusterConfig: {headGroupSpec: {template: POD}}}", [("head", 1)], False),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "{leaderWorkerTemplate: {workerTemplate: POD}}",
        [("workerTemplate", None)],
        False,
    ),
    ("batch.volcano.sh/v1alpha1", "Job", "{tasks: [{name: w, replicas: 2, template: POD}]}", [("w", 2)], True),
]


@pytest.mark.parametrize(("version", "kind", "spec", "parts", "ends"), SOURCES, ids=lambda value: str(value)[:24])
def test_pods_are_found_in_every_kind_that_makes_some(version, kind, spec, parts, ends):
    cases = list(cases_of(read_manifest(_object(version, kind, spec.replace("POD", POD))), Known()))
    assert [(one.pods.part, one.pods.count) for one in cases] == parts
    assert all(one.evidence.gpu and one.evidence.trains and one.whole for one in cases)
    assert {one.workload.ends for one in cases} == {ends}


@pytest.mark.parametrize(("policy", "ends"), [("Never", True), ("OnFailure", True), ("Always", False), (None, False)])
def test_a_bare_pod_ends_unless_it_is_always_restarted(policy, ends):
    given = f"restartPolicy: {policy}, " if policy else ""
    made = read_manifest(_object("v1", "Pod", f"{{{given}containers: [{GPU}]}}"))
    assert [one.ends for one in made.workloads] == [ends]


def test_objects_in_lists_wrappers_and_further_documents_are_found():
    job = f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, spec: {{template: {POD}}}}}"
    text = (
        f"apiVersion: v1\nkind: List\nitems: [{job}]\n---\n"
        f"apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nspec: {{components: [{{template: {job}}}]}}\n"
        f"---\n{job}\n---\n# nothing\n---\n[{job}]\n"
    )
    assert [one.name for one in read_manifest(text).workloads] == ["Job a"] * 4


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: run.googleapis.com/v1\nkind: Job\nspec: {template: {spec: {}}}\n",
        "name: build\non: [push]\njobs: {test: {runs-on: ubuntu-latest}}\n",
        "- a\n- b\n",
        "just text\n",
        "",
        "apiVersion: batch/v1\nkind: Job\n",
        "apiVersion: batch/v1\nkind: Job\nspec:\n",
        "apiVersion: batch/v1\nkind: [Job]\nspec: [1, 2]\n",
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: {a: 1}}\n",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: [1]}\n",
        "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [text, {name: a}], volumes: text}}}\n",
    ],
)
def test_what_is_no_workload_or_hardly_one_has_no_finding(text):
    assert list(check(Source(Path("x.yaml"), text, Kind.YAML))) == []


PATCHES = [
    "spec: {backoffLimit: 1, template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}}}",
    "spec: {template: {spec: {nodeSelector: {cloud.google.com/gke-spot: 'true'}}}}",
    f"$patch: replace\nspec: {{template: {POD}}}",
]


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_keeps_what_it_does_not_say(patch):
    made = read_manifest(f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: tune}}\n{patch}\n")
    assert [one.rule.id for one in check_manifest(made, Known()) if one.rule.id != "CR031"] == []


def test_a_patch_that_says_something_wrong_is_told():
    text = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: tune}\nspec:\n  template:\n    spec:\n      tolerations:\n"
        "        - key: cloud.google.com/impending-node-termination\n          operator: Exists\n"
    )
    found = list(check_manifest(read_manifest(text), Known()))
    assert [(one.rule.id, one.line) for one in found] == [("K014", 8)]


UNKNOWN = [
    "backoffLimit: {{ .Values.limit }}\n  podReplacementPolicy: Failed\n  template: " + POD,
    "podFailurePolicy: {{ toYaml .Values.policy }}\n  template: " + POD,
    "template: ${TEMPLATE}",
    'backoffLimit: $LIMIT\n  podReplacementPolicy: Failed\n  template: {spec: "${POD}"}',
    "podFailurePolicy: ${POLICY}\n  template: " + POD.replace("Never", "$RESTART"),
]


@pytest.mark.parametrize("spec", UNKNOWN)
def test_what_a_template_fills_in_later_is_not_judged(spec):
    made = read_manifest(f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: tune}}\nspec:\n  {spec}\n")
    assert [one.rule.id for one in check_manifest(made, Known()) if one.rule.id not in ("K017", "CR031")] == []


EVIDENCE = [
    ("nodeSelector: {cloud.google.com/gke-spot: 'true'}", {"spot", "on_gke", "gke_spot"}),
    ("nodeSelector: {cloud.google.com/gke-spot: 'false'}", {"on_gke"}),
    ("nodeSelector: {eks.amazonaws.com/capacityType: SPOT}", {"spot"}),
    ("nodeSelector: {karpenter.sh/capacity-type: on-demand}", set()),
    ("nodeSelector: {cloud.google.com/gke-flex-start: 'true'}", {"flex_start", "on_gke"}),
    ("nodeSelector: {cloud.google.com/gke-tpu-topology: 2x4}", {"tpu", "on_gke", "accelerator"}),
    ("nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}", {"gpu", "on_gke", "accelerator"}),
    ("tolerations: [{key: cloud.google.com/gke-spot, operator: Exists}]", {"on_gke"}),
    ("volumes: [{name: b, csi: {driver: gcsfuse.csi.storage.gke.io}}]", {"on_gke"}),
    ("nodeSelector: {node.kubernetes.io/instance-type: c5.large}", set()),
]


@pytest.mark.parametrize(("fields", "said"), EVIDENCE)
def test_a_manifest_gives_away_its_nodes(fields, said):
    pod = f"{{restartPolicy: Never, {fields}, containers: [{{name: a, image: b, command: [./work]}}]}}"
    (case,) = cases_of(read_manifest(_object("batch/v1", "Job", f"{{template: {{spec: {pod}}}}}")), Known())
    names = ("spot", "gke_spot", "flex_start", "tpu", "gpu", "accelerator", "on_gke", "trains")
    assert {name for name in names if getattr(case.evidence, name)} == said


WORK = [
    ("[python, train.py]", "trains"),
    ("[python, -m, maxtext.train, config.yml]", "trains"),
    ("[bash, -c, 'cd /app && torchrun --nproc-per-node=8 main.py']", "trains"),
    ("[python, Gemma3LLMTrain.py]", "trains"),
    ("[python, fine_tune.py]", "trains"),
    ("[python, main.py, --epochs=3]", "trains"),
    ("[python, constraints.py]", ""),
    ("[python, serve_trained_model.py]", ""),
    ("[/manager, --leader-elect]", ""),
    ("[sleep, infinity]", "idles"),
    ("[sh, -c, 'nvidia-smi && sleep 60']", "idles"),
    ("[bash, -c, 'echo go; python work.py']", ""),
    ("[celery, -A, app, worker]", "works"),
    ("[python, worker.py]", "works"),
]


@pytest.mark.parametrize(("command", "said"), WORK)
def test_a_command_tells_what_work_it_does(command, said):
    pod = f"{{containers: [{{name: a, image: b, command: {command}}}]}}"
    (case,) = cases_of(read_manifest(_object("apps/v1", "Deployment", f"{{template: {{spec: {pod}}}}}")), Known())
    assert [name for name in ("trains", "idles", "works") if getattr(case.evidence, name)] == ([said] if said else [])


@pytest.mark.parametrize(
    "text",
    [
        "kind: Job\napiVersion: batch/v1\nspec: &a {template: *a}\n",
        "apiVersion: batch/v1\nkind: Job\nspec: " + "[" * 5000,
        "apiVersion: batch/v1\nkind: Job\nspec:\n  {{- toYaml .Values.spec | nindent 2 }}\n",
    ],
)
def test_a_hostile_text_is_refused_in_time(text):
    with pytest.raises(Unreadable):
        list(check(Source(Path("x.yaml"), text, Kind.YAML)))


def _documents(count, text):
    return "---\n".join([text] * count)


BUDGET = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {minAvailable: 1}\n"
MOUNT, VOLUME = "{name: v, mountPath: /s}", "{name: w}"
LARGE = [
    _documents(1000, _object("batch/v1", "Job", f"{{template: {{spec: {{containers: [{GPU}]}}}}}}")),
    _documents(3000, BUDGET),
    _object(
        "v1",
        "Pod",
        f"{{containers: [{{name: a, image: b, command: [/s/run.sh, --checkpoint-dir=/s/x], volumeMounts: "
        f"[{', '.join([MOUNT] * 5000)}]}}], volumes: [{', '.join([VOLUME] * 5000)}]}}",
    ),
    *(
        _object("v1", "Pod", f"{{restartPolicy: Never, containers: [{{image: b, command: [bash, -c, '{text}']}}]}}")
        for text in (
            "${" * 50_000,
            "{{" * 50_000,
            "<a" * 50_000,
            "a | " * 5_000 + "b",
            "(" * 20_000,
            "python train.py; " * 2_000,
            "train.py --checkpoint-dir /x " * 5_000,
            "x: SIGTERM " + "-" * 20_000,
        )
    ),
    _object("batch/v1", "Job", f"{{backoffLimit: {'9' * 5000}, template: {POD}}}"),
    _object(
        "v1", "Pod", f"{{containers: [{{lifecycle: {{preStop: {{exec: {{command: [sleep, '{'9' * 5000}']}}}}}}}}]}}"
    ),
]


@pytest.mark.parametrize("text", LARGE, ids=range(len(LARGE)))
def test_a_large_or_strange_manifest_is_looked_at_in_time(text):
    started = time.process_time()
    list(check(Source(Path("x.yaml"), text, Kind.YAML)))
    assert time.process_time() - started < 10
