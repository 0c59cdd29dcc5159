"""What `outlast deploy gke` writes: valid to the letter, and with the settings that make a job survive."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from outlast.deploy.description import BadSetting
from outlast.deploy.description_file import Described, read_description
from outlast.deploy.gke import pools
from outlast.deploy.gke.explained import Why, yaml_text
from outlast.deploy.gke.grace import choose_grace, needed_seconds, usable_seconds
from outlast.deploy.gke.nodes import ENDING_TAINTS
from outlast.deploy.gke.target import GkeTarget, Options
from outlast.platforms import gke_gpu, gke_spot, gke_tpu, kubernetes, variables
from outlast.platforms.pods import PodPlatform
from outlast.ranks.world import world_in

Json = dict[str, Any]
NEWEST = "1.37.0"
BASE = """
name: train
command: [python, train.py]
image: europe-west4-docker.pkg.dev/example-project/example/train:1
url: gs://example-checkpoints/runs
"""
CLOUD = "project: example-project\nregion: europe-west4\n"
IN_CLUSTER = "kubernetes: {cluster: c1, location: europe-west4-a}\n"
WORK = (
    'batch: {function: "label:label", queue: "postgresql://q@10.0.0.3/w", sink: "postgresql://q@10.0.0.3/w?table=t"}\n'
)
DESCRIPTIONS = {
    "job": BASE,
    "gpu": f"{BASE}{CLOUD}{IN_CLUSTER}hardware: {{gpu: nvidia-l4, gpus: 1}}\nrun_time: 12h\n",
    "spot-gpu-mounted": f"{BASE}access: mount\nhardware: {{gpu: nvidia-l4, gpus: 1, spot: true}}\n"
    "measured: {save_time: 20s, state_size: 9Gi}\nrun_time: 12h\n",
    "flex-start": f"{BASE}hardware: {{gpu: nvidia-h100-80gb, gpus: 8, flex_start: true}}\n"
    "kubernetes: {queue_name: dws}\n",
    "tpu": f"{BASE}hardware: {{tpu: v5e, topology: 2x2, spot: true}}\n",
    "tasks": f"{BASE}tasks: 8\nparallelism: 4\nretries: 3\nrun_time: 2h\n",
    "autopilot": f"{BASE}hardware: {{gpu: nvidia-l4, gpus: 1, spot: true}}\nkubernetes: {{autopilot: true}}\n",
    "batch": f"name: label\nimage: i:1\ntasks: 4\nhardware: {{spot: true}}\n{WORK}",
    "ranks": f"{BASE}hardware: {{gpu: nvidia-l4, gpus: 1}}\nkubernetes: {{nodes: 4}}\nrun_time: 12h\n",
    "slice": f"{BASE}hardware: {{tpu: v5e, topology: 4x4}}\n",
    "always-on": f"name: label\nimage: i:1\ntasks: 3\nkubernetes: {{kind: Deployment}}\n{WORK}",
}
NOT_OF_KUBERNETES = ("JobSet", "PodMonitoring")  # custom resources have no schema there


def target_of(text: str, **options: Any) -> GkeTarget:
    return GkeTarget(Described(read_description(text), Path(), None), Options(**options))


def target(name: str, **options: Any) -> GkeTarget:
    return target_of(DESCRIPTIONS[name], **options)


def manifests(made: GkeTarget) -> list[Json]:
    """All objects of a plan, as its files have them."""
    files = [file for file in made.plan().files if file.path.suffix == ".yaml" and "system" not in file.path.name]
    return [one for file in {file.path: file for file in files}.values() for one in yaml.safe_load_all(file.text)]


def workload(name: str, **options: Any) -> Json:
    return next(one for one in manifests(target(name, **options)) if one["kind"] in ("Job", "JobSet", "Deployment"))


def job_spec(made: Json) -> Json:
    """Of a Job, or of the Job in a JobSet."""
    spec: Json = made["spec"]["replicatedJobs"][0]["template"]["spec"] if made["kind"] == "JobSet" else made["spec"]
    return spec


def pod_of(made: Json) -> Json:
    spec: Json = job_spec(made)["template"]["spec"]
    return spec


def told(made: Json) -> Json:
    return {one["name"]: one.get("value") for one in pod_of(made)["containers"][0]["env"]}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_object_is_valid_to_the_letter(name: str) -> None:
    found = manifests(target(name, node_notices=True, metrics_port=9100))
    assert {"ServiceAccount", "ClusterRole", "PodMonitoring"} <= {one["kind"] for one in found}
    for one in found:
        if one["kind"] == "JobSet":  # what is in it has a schema
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job_spec(one)}
            kubernetes_validate.validate(job, NEWEST, strict=True)
        elif one["kind"] not in NOT_OF_KUBERNETES:
            kubernetes_validate.validate(one, NEWEST, strict=True)


@pytest.mark.parametrize("name", [name for name in DESCRIPTIONS if name != "always-on"])
def test_every_job_ignores_disruptions_first_and_ends_where_a_human_is_needed(name: str) -> None:
    made = workload(name)
    spec = job_spec(made)
    rules = spec["podFailurePolicy"]["rules"]
    disrupted = [
        rule for rule in rules if rule.get("onPodConditions") == [{"type": "DisruptionTarget", "status": "True"}]
    ]
    human = [rule for rule in rules if rule.get("onExitCodes", {}).get("values") == [78]]
    left = [rule for rule in rules if rule.get("onExitCodes", {}).get("values") == [143]]
    assert len(disrupted) == len(human) == len(left) == 1
    assert spec["podReplacementPolicy"] == "Failed"
    assert pod_of(made)["restartPolicy"] == "Never"
    assert human[0]["action"] == "FailJob"
    assert human[0]["onExitCodes"]["containerName"] == pod_of(made)["containers"][0]["name"]
    if made["kind"] == "JobSet":
        assert rules[0] == human[0]
        assert spec["backoffLimit"] == 0
    else:
        assert rules[0] == disrupted[0]
        assert {disrupted[0]["action"], left[0]["action"]} == {"Ignore"}


def test_a_jobset_restarts_all_ranks_after_a_disruption_and_counts_only_failures_of_its_own() -> None:
    policy = workload("ranks")["spec"]["failurePolicy"]
    assert policy["maxRestarts"] >= 6
    assert policy["restartStrategy"] == "BlockingRecreate"
    human, disrupted = policy["rules"]
    # As the controller of Jobs writes it (kubernetes, pod_failure_policy.go).
    message = (
        "Container main for pod default/train-ranks-0-0-x7k2p failed with exit code {} matching FailJob rule at index 0"
    )
    pattern = human["onJobFailureMessagePatterns"][0]
    assert re.fullmatch(pattern, message.format(78))
    assert not re.fullmatch(pattern, message.format(143))
    assert not re.fullmatch(pattern, message.format(178))
    assert (human["action"], disrupted["action"]) == ("FailJobSet", "RestartJobSetAndIgnoreMaxRestarts")
    assert all(re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", rule["name"]) for rule in policy["rules"])
    assert told(workload("ranks"))["MASTER_ADDR"] == "train-ranks-0-0.train"


def test_the_pods_of_a_jobset_are_the_ranks_of_one_job() -> None:
    env = {key: value or "" for key, value in told(workload("ranks")).items()} | {"RANK": "1"}  # the pod's index
    world = world_in(env)
    assert world is not None
    assert (world.rank, world.size, world.address) == (1, int(env["WORLD_SIZE"]), "train-ranks-0-0.train")
    assert world.spans_tasks(int(env[variables.TOLD.tasks]))  # machines of one job, and not tasks of their own


def test_a_slice_of_several_machines_is_as_many_ranks() -> None:
    made = workload("slice")
    assert made["kind"] == "JobSet"
    assert job_spec(made)["completions"] == 4
    assert pod_of(made)["containers"][0]["resources"]["limits"]["google.com/tpu"] == "4"


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_no_pod_tolerates_a_node_that_is_about_to_go(name: str) -> None:
    for one in pod_of(workload(name)).get("tolerations", []):
        assert one["key"]
        assert one["key"] not in ENDING_TAINTS


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_outlast_in_the_pod_reckons_with_the_grace_that_the_pod_has(name: str) -> None:
    made = workload(name)
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", **{key: value for key, value in told(made).items() if value}}
    graces = PodPlatform(gke_spot.FACTS if "spot" in env["OUTLAST_NODE_CLASS"] else kubernetes.FACTS).graces(env)
    assert min(one.seconds for one in graces) == pod_of(made)["terminationGracePeriodSeconds"]


def test_outlast_run_is_the_first_process_and_keeps_an_attempts_limit() -> None:
    for name in DESCRIPTIONS:
        assert pod_of(workload(name))["containers"][0]["command"][:3] == ["outlast", "run", "--"]
    limited = pod_of(workload_of(BASE + "timeout: 12h\n"))["containers"][0]["command"]
    assert limited == ["outlast", "run", "--timeout", "43200s", "--", "python", "train.py"]


@pytest.mark.parametrize("name", [name for name in DESCRIPTIONS if name != "always-on"])
def test_each_pod_knows_which_task_it_is(name: str) -> None:
    made = workload(name)
    last = job_spec(made)["completions"] - 1
    indexed = {"JOB_COMPLETION_INDEX": str(last)} if job_spec(made).get("completionMode") == "Indexed" else {}
    env = {key: value or "of-the-pod" for key, value in told(made).items()}
    identity = PodPlatform(kubernetes.FACTS).identity({**env, **indexed})
    assert (identity.task, identity.tasks) == (last, last + 1)
    assert identity.job == ("label" if name == "batch" else "train")
    assert (identity.execution is None) == (name == "batch")


def test_a_deployment_leaves_with_0_and_says_why_and_a_job_does_not() -> None:
    made = target("always-on")
    text = next(file.text for file in made.plan().files if file.path.name == "deployment.yaml")
    assert re.search(r"# A Deployment starts its pods again.*\n.*OUTLAST_EXIT_CODE, value: '0'", text)
    assert pod_of(workload("always-on"))["restartPolicy"] == "Always"
    assert [one["spec"]["maxUnavailable"] for one in manifests(made) if one["kind"] == "PodDisruptionBudget"] == [1]
    for name in DESCRIPTIONS:
        if name != "always-on":
            assert "OUTLAST_EXIT_CODE" not in told(workload(name))


def test_a_mounted_bucket_has_its_annotation_and_its_account() -> None:
    made = workload("spot-gpu-mounted")
    assert made["spec"]["template"]["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    assert made["spec"]["template"]["metadata"]["annotations"]["gke-gcsfuse/ephemeral-storage-limit"] == "18Gi"
    assert told(made)["OUTLAST_URL"] == "/checkpoints/runs"
    assert pod_of(made)["volumes"][0]["csi"]["volumeAttributes"]["bucketName"] == "example-checkpoints"
    assert pod_of(made)["serviceAccountName"] == "train"
    assert "volumes" not in pod_of(workload("gpu"))
    assert told(workload("gpu"))["OUTLAST_URL"] == "gs://example-checkpoints/runs"


def test_workers_have_a_budget_each_and_their_queue() -> None:
    spec = workload("batch")["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["backoffLimitPerIndex"] >= 6
    assert "work" in pod_of(workload("batch"))["containers"][0]["command"]
    assert workload("tasks")["spec"]["backoffLimitPerIndex"] == 3
    assert told(workload("tasks"))["OUTLAST_TASK_COUNT"] == "8"


def test_selectors_and_tolerations_are_those_of_the_hardware() -> None:
    spot = pod_of(workload("spot-gpu-mounted"))
    assert spot["nodeSelector"] == {
        "cloud.google.com/gke-spot": "true", "cloud.google.com/gke-accelerator": "nvidia-l4",
    }  # fmt: skip
    assert {one["key"] for one in spot["tolerations"]} == {"cloud.google.com/gke-spot", "nvidia.com/gpu"}
    flex = workload("flex-start")
    assert pod_of(flex)["nodeSelector"]["cloud.google.com/gke-flex-start"] == "true"
    assert "cloud.google.com/gke-queued" in {one["key"] for one in pod_of(flex)["tolerations"]}
    assert flex["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "dws"
    tpu = pod_of(workload("tpu"))
    assert tpu["nodeSelector"]["cloud.google.com/gke-tpu-accelerator"] == "tpu-v5-lite-podslice"
    assert tpu["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2"
    assert "tolerations" not in pod_of(workload("autopilot"))


# --- the grace ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "save_seconds", "expected"),
    [
        ((gke_gpu.FACTS,), None, 600),
        ((gke_gpu.FACTS,), 5.0, 30),
        ((gke_gpu.FACTS,), 200.0, 430),
        ((gke_gpu.FACTS,), 4000.0, 3600),
        ((gke_tpu.FACTS,), None, 300),
        ((gke_tpu.FACTS,), 200.0, 300),
        ((kubernetes.FACTS,), 60.0, 150),
        ((gke_spot.FACTS,), None, 15),
        ((gke_spot.FACTS,), 5.0, 15),
        ((gke_spot.FACTS,), 20.0, 105),
        ((gke_spot.FACTS, gke_gpu.FACTS), 20.0, 105),
    ],
)
def test_the_grace_comes_from_the_notice_and_the_save_time(kinds: Any, save_seconds: float, expected: int) -> None:
    assert choose_grace(kinds, save_seconds=save_seconds).seconds == expected


def test_a_save_that_does_not_fit_is_told() -> None:
    fits = choose_grace((gke_gpu.FACTS,), save_seconds=200.0)
    assert fits.warning is None
    assert "does not fit" in (choose_grace((gke_tpu.FACTS,), save_seconds=290.0).warning or "")
    short = choose_grace((gke_spot.FACTS,), save_seconds=20.0, long_shutdown=False)
    assert (short.seconds, short.long_shutdown) == (15, False)
    assert "does not fit" in (short.warning or "")


def test_a_needed_grace_holds_the_save_twice() -> None:
    for save in (0.1, 1.0, 11.0, 60.0, 61.0, 500.0):
        needed = needed_seconds(save)
        assert usable_seconds(needed) >= 2 * save
        assert usable_seconds(needed - 1) < 2 * save


@pytest.mark.parametrize(
    ("kind", "asked"), [(gke_tpu.FACTS, 301), (gke_gpu.FACTS, 3601), (gke_spot.FACTS, 106), (gke_gpu.FACTS, 0)]
)
def test_a_grace_that_is_never_given_is_refused(kind: Any, asked: int) -> None:
    with pytest.raises(BadSetting, match="grace"):
        choose_grace((kind,), save_seconds=None, asked_seconds=asked)


def test_a_long_shutdown_budget_comes_with_its_file_and_where_gcloud_cannot_it_is_said() -> None:
    text = f"{BASE}{CLOUD}{IN_CLUSTER}hardware: {{spot: true}}\nmeasured: {{save_time: 20s}}\n"
    plan = target_of(text).plan()
    config = next(file for file in plan.files if file.path == Path("node-system.yaml"))
    assert yaml.safe_load(config.text) == {
        "kubeletConfig": {"shutdownGracePeriodSeconds": 120, "shutdownGracePeriodCriticalPodsSeconds": 15}
    }
    command = next(step for step in plan.steps if step.name == "node-pool").commands[0].argv
    assert command[command.index("--system-config-from-file") + 1] == "node-system.yaml"
    assert any("1.35.0" in note for note in plan.notes)
    without = target_of(text, long_shutdown=False).plan()
    assert any("too old" in note for note in without.notes)
    assert not any(file.path.name == "node-system.yaml" for file in without.files)


# --- what it costs ------------------------------------------------------------------------------------


def test_the_exposure_is_what_kubernetes_enforces() -> None:
    seconds = workload("gpu")["spec"]["activeDeadlineSeconds"]
    assert seconds > 2 * 12 * 3600
    priced = target_of(DESCRIPTIONS["gpu"] + "price_per_gpu_hour: 0.5\n").exposure
    assert priced.unit_hours == seconds / 3600
    assert f"{seconds / 7200:,.2f} USD" in priced.text
    assert "give run_time" in target("job").exposure.text
    assert "nothing ends it" in target("always-on").exposure.text
    ranks = target("ranks")
    attempts = workload("ranks")["spec"]["failurePolicy"]["maxRestarts"] + 1
    inner = job_spec(workload("ranks"))["activeDeadlineSeconds"]
    assert ranks.exposure.unit_hours == 4 * attempts * inner / 3600
    assert "disruptions" in ranks.exposure.text
    assert all("at worst" in line for line in ranks.plan().exposure)


def test_the_back_off_limit_grows_with_the_interruptions_that_are_expected() -> None:
    def limit(hours: int) -> int:
        text = f"{BASE}hardware: {{spot: true}}\nrun_time: {hours}h\n"
        found: int = workload_of(text)["spec"]["backoffLimit"]
        return found

    assert limit(1) == 7
    assert limit(48) == 14


def workload_of(text: str) -> Json:
    return next(one for one in manifests(target_of(text)) if one["kind"] == "Job")


def test_what_cannot_be_is_refused_by_its_key() -> None:
    for more, key in (
        ("hardware: {gpu: nvidia-l4, gpus: 3}\nkubernetes: {cluster: c1}\n" + CLOUD, "machine_type"),
        ("hardware: {tpu: v5e, topology: big}\n", "topology"),
        ("hardware: {tpu: v99, topology: 2x2}\n", "tpu"),
        ("kubernetes: {cluster: c1}\n", "project"),
        ("tasks: 2\nkubernetes: {nodes: 2}\n", "tasks"),
        ("kubernetes: {nodes: 2, kind: Job}\n", "kind"),
    ):
        with pytest.raises(BadSetting) as refused:
            target_of(BASE + more).plan()
        assert key in refused.value.key


# --- the text ----------------------------------------------------------------------------------------


def test_reasons_stand_above_their_lines_and_change_nothing() -> None:
    made = {"a": Why(1, "first"), "b": [Why({"name": "x", "value": "1"}, "an item " * 30), {"c": Why([1, 2], "deep")}]}
    text = yaml_text([made, {"d": 1}], heading="all of it")
    assert list(yaml.safe_load_all(text)) == [{"a": 1, "b": [{"name": "x", "value": "1"}, {"c": [1, 2]}]}, {"d": 1}]
    lines = text.splitlines()
    assert lines[0] == "# all of it"
    assert lines[lines.index("a: 1") - 1] == "# first"
    assert lines[lines.index("- c: [1, 2]") - 1].strip() == "# deep"
    assert max(map(len, lines)) <= 120


def test_a_pool_is_empty_until_pods_wait_and_has_the_taint_that_they_tolerate() -> None:
    cluster = pools.Cluster("c1", "europe-west4-a", "example-project")
    for name, words in {
        "spot-gpu-mounted": ("--spot", "--node-taints cloud.google.com/gke-spot=true:NoSchedule", "g2-standard-8"),
        "flex-start": ("--flex-start", "--reservation-affinity none", "--enable-queued-provisioning", "a3-highgpu-8g"),
        "slice": ("--tpu-topology 4x4", "--max-nodes 4", "ct5lp-hightpu-4t"),
    }.items():
        command = " ".join(pools.create_command("p", cluster, target(name).nodes, most_nodes=2))
        assert "--num-nodes 0" in command
        assert "--workload-metadata GKE_METADATA" in command
        for word in words:
            assert word in command


def test_where_numbers_are_collected_outlast_answers_unless_the_program_does() -> None:
    asked = workload(next(iter(DESCRIPTIONS)), metrics_port=9100)
    assert told(asked)["OUTLAST_METRICS_PORT"] == "0.0.0.0:9100"
    assert pod_of(asked)["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 9100}]
    own = DESCRIPTIONS[next(iter(DESCRIPTIONS))] + 'env: {OUTLAST_METRICS_PORT: ""}\n'
    (made,) = [one for one in manifests(target_of(own, metrics_port=9100)) if one["kind"] in ("Job", "JobSet")]
    names = [one["name"] for one in pod_of(made)["containers"][0]["env"]]
    assert names.count("OUTLAST_METRICS_PORT") == 1
    assert told(made)["OUTLAST_METRICS_PORT"] == ""
