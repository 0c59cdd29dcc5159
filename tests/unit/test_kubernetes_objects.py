"""The emulated API server's verbs without HTTP: what it fills in, refuses, lets change, and how it prints it."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from outlast.emulate.kubernetes import patching, protobuf_bodies, tables
from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.pod_logs import LogBook
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.quantities import amount
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.verbs import How, Verbs, populate

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def verbs():
    store = Store(now=lambda: NOW)
    populate(store)
    return Verbs(store)


def _job(**spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "python:3.11"}]}
    return {"metadata": {"name": "train"}, "spec": {"template": {"spec": pod | spec.pop("pod", {})}} | spec}


def _pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "python:3.11"}]} | spec}


def _policy(**rule):
    return {"podFailurePolicy": {"rules": [{"action": "Ignore"} | rule]}}


def _container(**fields):
    return {"containers": [{"name": "main", "image": "python:3.11"} | fields]}


def _limits(**amounts):
    return _container(resources=amounts)


def _term(operator, *values):
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}]}


AT_POD = "spec.template.spec"
AT_RULE = "spec.podFailurePolicy.rules[0]"
TARGET = {"onPodConditions": [{"type": "DisruptionTarget"}]}

# A job that differs from a good one, and what is said of it.
REFUSED_JOBS = [
    ({"backoffLimit": -1}, "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"),
    ({"completionMode": "indexed"}, 'spec.completionMode: Unsupported value: "indexed": supported values: "Indexed", '),
    (
        {"completionMode": "Indexed", "parallelism": 2},
        "spec.completions: Required value: when completion mode is Indexed",
    ),
    ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
    (
        {"completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 1},
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
    ),
    (
        {"completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 3, "backoffLimitPerIndex": 1},
        "spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
    ),
    (
        {"completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": [{"succeededCount": 3}]}},
        "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of",
    ),
    (
        {"managedBy": "me"},
        'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
    ),
    ({"podReplacementPolicy": "Never"}, "spec.podReplacementPolicy: Unsupported value"),
    (
        _policy(**TARGET) | {"podReplacementPolicy": "TerminatingOrFailed"},
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
    ),
    (
        _policy(**TARGET) | {"pod": {"restartPolicy": "OnFailure"}},
        f'{AT_POD}.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is spec',
    ),
    (_policy(action="Retry", **TARGET), f'{AT_RULE}.action: Unsupported value: "Retry"'),
    (_policy(action="FailIndex", **TARGET), f"{AT_RULE}.action: Invalid value"),
    (_policy(), f"{AT_RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
    (
        _policy(onExitCodes={"operator": "In", "values": [0]}),
        f"{AT_RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
    ),
    (_policy(onExitCodes={"operator": "In", "values": [5, 3]}), f"{AT_RULE}.onExitCodes.values: Invalid value: [5,3]"),
    (_policy(onExitCodes={"operator": "In", "values": [3, 3]}), f"{AT_RULE}.onExitCodes.values[1]: Duplicate value: 3"),
    (
        _policy(onExitCodes={"operator": "In", "values": [3], "containerName": "mian"}),
        f'{AT_RULE}.onExitCodes.containerName: Invalid value: "mian": must be one of the container or initContainer',
    ),
    ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector: Invalid value"),
    ({"template": {}}, f"{AT_POD}.containers: Required value"),
    ({"pod": {"restartPolicy": "Sometimes"}}, f'{AT_POD}.restartPolicy: Unsupported value: "Sometimes"'),
    ({"pod": {"terminationGracePeriodSeconds": -1}}, f"{AT_POD}.terminationGracePeriodSeconds: Invalid value: -1"),
    ({"pod": {"activeDeadlineSeconds": 0}}, f"{AT_POD}.activeDeadlineSeconds: Invalid value: 0: must be between 1 and"),
    ({"pod": _container(image="")}, f"{AT_POD}.containers[0].image: Required value"),
    (
        {"pod": _container(name="Main")},
        f'{AT_POD}.containers[0].name: Invalid value: "Main": a lowercase RFC 1123 label',
    ),
    ({"pod": {"containers": [{"image": "x"}]}}, f"{AT_POD}.containers[0].name: Required value"),
    ({"pod": _container(imagePullPolicy="Ever")}, f"{AT_POD}.containers[0].imagePullPolicy: Unsupported value"),
    (
        {"pod": _container(volumeMounts=[{"name": "data", "mountPath": "/data"}])},
        f'{AT_POD}.containers[0].volumeMounts[0].name: Not found: "data"',
    ),
    (
        {"pod": _limits(limits={"cpu": "1"}, requests={"cpu": "2"})},
        f'{AT_POD}.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        {"pod": _limits(requests={"nvidia.com/gpu": "1"})},
        "resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    ({"pod": _limits(limits={"nvidia.com/gpu": "0.5"})}, "resources.limits[nvidia.com/gpu]: Invalid value"),
    ({"pod": _limits(limits={"gpu": "1"})}, "must be a standard resource for containers"),
    (
        {"pod": _container(livenessProbe={})},
        f"{AT_POD}.containers[0].livenessProbe: Required value: must specify a hand",
    ),
    (
        {
            "pod": _container(
                env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
            )
        },
        'env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        {"pod": {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]}},
        f"{AT_POD}.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    (
        {"pod": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
        f"{AT_POD}.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
    ),
    (
        {
            "pod": {
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _term("Above", "5")}}
            }
        },
        'nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: "Above": not a valid selector operator',
    ),
    (
        {
            "pod": {
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _term("Gt", "5", "6")}}
            }
        },
        "matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
    ),
    ({"pod": {"nodeSelector": {"a": "b c"}}}, f'{AT_POD}.nodeSelector: Invalid value: "b c": a valid label must be'),
]


@pytest.mark.parametrize(("difference", "message"), REFUSED_JOBS, ids=[said[:60] for _, said in REFUSED_JOBS])
def test_a_job_that_a_server_refuses_is_refused_with_the_field_and_the_reason(verbs, difference, message):
    with pytest.raises(Refused) as refused:
        verbs.create("Job", _job(**copied(difference)))
    assert refused.value.code == 422
    assert message in refused.value.message
    assert refused.value.message.startswith('Job.batch "train" is invalid: ')
    assert verbs.store.listing("Job").objects == []


def test_all_that_is_wrong_is_told_at_once(verbs):
    with pytest.raises(Refused) as refused:
        verbs.create("Job", _job(backoffLimit=-1, parallelism=-2))
    assert refused.value.message == (
        'Job.batch "train" is invalid: [spec.parallelism: Invalid value: -2: must be greater than or equal to 0, '
        "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0]"
    )
    causes = refused.value.status()["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.parallelism", "spec.backoffLimit"]


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (
            "Pod",
            _pod(serviceAccountName="robot"),
            'error looking up service account default/robot: serviceaccount "robot"',
        ),
        ("Pod", _pod(priorityClassName="high"), "no PriorityClass with name high was found"),
        ("Pod", _pod(priority=7), "the integer value of priority (7) must not be provided in pod spec"),
        (
            "PriorityClass",
            {"metadata": {"name": "x"}, "value": 2_000_000_000},
            "maximum allowed value of a user defined",
        ),
        ("ConfigMap", {"metadata": {"name": "a" * 254}}, "must be no more than 253 characters"),
        ("ConfigMap", {"metadata": {"name": "c"}, "data": {"a/b": "c"}}, "a valid config key must consist of"),
        ("ConfigMap", {"metadata": {}}, "metadata.name: Required value: name or generateName is required"),
        (
            "ConfigMap",
            {"metadata": {"name": "c", "resourceVersion": "1"}},
            "resourceVersion should not be set on objects",
        ),
        ("ConfigMap", {"metadata": {"name": "c", "labels": {"a": "b "}}}, "metadata.labels: Invalid value"),
        ("ConfigMap", {"kind": "Secret", "metadata": {"name": "c"}}, "the kind in the data (Secret) does not match"),
        (
            "ConfigMap",
            {"apiVersion": "v2", "metadata": {"name": "c"}},
            "the API version in the data (v2) does not match",
        ),
        ("Node", {"metadata": {"name": "n", "namespace": "default"}}, "namespace can not be set on a cluster-scoped"),
        (
            "Node",
            {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            "spec.taints[1]: Duplicate value",
        ),
        (
            "PodDisruptionBudget",
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": "50%"}},
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (
            "DaemonSet",
            {
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"spec": {"containers": [{"name": "m", "image": "x"}]}},
                },
            },
            "`selector` does not match template `labels`",
        ),
        ("PersistentVolumeClaim", {"metadata": {"name": "c"}, "spec": {}}, "spec.accessModes: Required value"),
    ],
)
def test_what_admission_and_the_other_kinds_refuse(verbs, kind, body, message):
    before = verbs.store.version
    with pytest.raises(Refused) as refused:
        verbs.create(kind, copied(body))
    assert message in refused.value.message
    assert verbs.store.version == before


def test_a_job_gets_the_servers_defaults_and_its_own_selector(verbs):
    job = verbs.create("Job", _job(completions=4))
    uid, spec = job["metadata"]["uid"], job["spec"]
    assert {
        name: spec[name] for name in ("parallelism", "completions", "backoffLimit", "completionMode", "suspend")
    } == {
        "parallelism": 1,
        "completions": 4,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
    }
    assert spec["podReplacementPolicy"] == "TerminatingOrFailed"
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["job-name"] == "train"
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 30
    assert pod["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    only_parallel = verbs.create("Job", _job(parallelism=2) | {"metadata": {"generateName": "work-"}})
    assert "completions" not in only_parallel["spec"]
    name = only_parallel["metadata"]["name"]
    assert only_parallel["spec"]["template"]["metadata"]["labels"]["job-name"] == name
    policy = verbs.create("Job", _job(**_policy(**TARGET)) | {"metadata": {"name": "third"}})["spec"]
    assert policy["podReplacementPolicy"] == "Failed"
    assert policy["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_a_pod_gets_an_account_a_priority_and_the_usual_tolerations(verbs):
    pod = verbs.create("Pod", _pod(**_limits(limits={"cpu": 1, "memory": "1Gi"})) | {"status": {"phase": "Running"}})
    assert pod["spec"]["serviceAccountName"] == "default"
    assert pod["spec"]["priority"] == 0
    assert [one["tolerationSeconds"] for one in pod["spec"]["tolerations"]] == [300, 300]
    assert pod["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    system = verbs.create("Pod", _pod(priorityClassName="system-node-critical"), "kube-system")
    assert system["spec"]["priority"] == 2_000_001_000
    again = verbs.replace("Pod", "p", copied(pod))
    assert again["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}, "spec.template: Invalid value"),
        ({"spec": {"completions": 9}}, "spec.completions: Invalid value: 9: field is immutable"),
        ({"spec": {"completionMode": "Indexed"}}, "spec.completionMode: Invalid value"),
        ({"spec": {"podFailurePolicy": {"rules": []}}}, "spec.podFailurePolicy: Invalid value"),
        ({"metadata": {"name": "other"}}, "does not match the name on the URL"),
        ({"metadata": {"resourceVersion": "1"}}, "the object has been modified"),
        ({"spec": None}, "spec.template.spec.containers: Required value"),
    ],
)
def test_what_may_not_change_in_a_job_stays(verbs, patch, message):
    job = verbs.create("Job", _job(completions=2))
    with pytest.raises(Refused) as refused:
        verbs.patch("Job", "train", patch, patching.merge)
    assert message in refused.value.message
    assert verbs.store.get("Job", "train") == job


def test_a_suspended_jobs_pods_may_still_be_sent_elsewhere(verbs):
    verbs.create("Job", _job(suspend=True, completions=2, completionMode="Indexed"))
    change = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "spot"}}}}}
    assert verbs.patch("Job", "train", change, patching.merge)["metadata"]["generation"] == 2
    elastic = verbs.patch("Job", "train", {"spec": {"completions": 3, "parallelism": 3}}, patching.merge)
    assert elastic["spec"]["completions"] == 3
    verbs.patch("Job", "train", {"spec": {"suspend": False}}, patching.merge)
    with pytest.raises(Refused, match="field is immutable"):
        verbs.patch("Job", "train", {"spec": {"template": {"spec": {"nodeSelector": None}}}}, patching.merge)


def test_spec_and_status_are_written_through_different_doors(verbs):
    verbs.create("Job", _job())
    through_main = verbs.patch("Job", "train", {"status": {"succeeded": 1}, "spec": {"parallelism": 2}}, patching.merge)
    assert "status" not in through_main
    assert through_main["spec"]["parallelism"] == 2
    both = {"status": {"succeeded": 1}, "spec": {"parallelism": 3}}
    through_status = verbs.patch("Job", "train", both, patching.merge, subresource="status")
    assert through_status["status"] == {"succeeded": 1}
    assert through_status["spec"]["parallelism"] == 2


def test_a_patch_that_meets_another_writer_is_tried_again_on_the_newer_object(verbs):
    verbs.create("ConfigMap", {"metadata": {"name": "c"}, "data": {"n": "0"}})
    meddled = []

    def meddle(old, patch):
        if len(meddled) < 3:
            meddled.append(
                verbs.store.change("ConfigMap", "c", "", lambda made: made["data"].update(n=str(len(meddled) + 1)))
            )
        return patching.merge(old, patch)

    made = verbs.patch("ConfigMap", "c", {"data": {"mine": "1"}}, meddle)
    assert made["data"] == {"n": "3", "mine": "1"}


def test_an_unknown_field_in_a_patch_is_refused_if_asked_to_be_strict(verbs):
    verbs.create("Job", _job())
    with pytest.raises(Refused) as refused:
        verbs.patch("Job", "train", {"spec": {"backofLimit": 1}}, patching.merge, how=How(field_validation="Strict"))
    assert refused.value.message.endswith('strict decoding error: unknown field "spec.backofLimit"')
    told = []
    verbs.patch("Job", "train", {"spec": {"backofLimit": 1}}, patching.merge, warnings=told)
    assert told == ['unknown field "spec.backofLimit"']


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        (
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]},
            {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]},
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b"}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "tty": True}]},
            {"containers": [{"name": "b"}, {"name": "a", "tty": True}]},
        ),
        ({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}, {"finalizers": ["a", "b", "c"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        (
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
        ),
        ({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}),
    ],
)
def test_a_strategic_patch_merges_lists_of_named_things(old, patch, new):
    before = copied(old)
    assert patching.strategic(old, patch) == new
    assert old == before


@pytest.mark.parametrize(
    ("patch", "new"),
    [
        ([{"op": "add", "path": "/a~1b/-", "value": 3}], {"a/b": [1, 2, 3]}),
        ([{"op": "add", "path": "/a~1b/0", "value": 0}], {"a/b": [0, 1, 2]}),
        ([{"op": "replace", "path": "/a~1b/1", "value": 9}], {"a/b": [1, 9]}),
        ([{"op": "remove", "path": "/a~1b/0"}], {"a/b": [2]}),
        ([{"op": "move", "from": "/a~1b", "path": "/c"}], {"c": [1, 2]}),
        ([{"op": "copy", "from": "/a~1b/0", "path": "/c"}], {"a/b": [1, 2], "c": 1}),
        ([{"op": "test", "path": "/a~1b/0", "value": 1}], {"a/b": [1, 2]}),
        ([{"op": "test", "path": "/a~1b/0", "value": 5}], None),
        ([{"op": "remove", "path": "/x"}], None),
        ([{"op": "replace", "path": "/a~1b/2", "value": 9}], None),
        ([{"op": "add", "path": "/x/y", "value": 9}], None),
        ([{"op": "spin", "path": "/a"}], None),
        ({"op": "remove"}, None),
    ],
)
def test_a_json_patch_is_done_whole_or_refused(patch, new):
    old = {"a/b": [1, 2]}
    if new is None:
        with pytest.raises(Refused):
            patching.operations(old, patch)
    else:
        assert patching.operations(old, patch) == new
    assert old == {"a/b": [1, 2]}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (9000, "150m"),
     (3 * 3600, "3h"), (3 * 3600 + 300, "3h5m"), (8 * 3600 + 60, "8h"), (49 * 3600, "2d1h"), (10 * 86400, "10d"),
     (800 * 86400, "2y70d")],
)  # fmt: skip
def test_ages_are_printed_as_kubectl_prints_them(seconds, text):
    assert tables.duration(seconds) == text


@pytest.mark.parametrize(
    ("status", "deleted", "shown"),
    [
        ({"phase": "Pending"}, False, "Pending"),
        ({"phase": "Failed", "reason": "Terminated"}, False, "Terminated"),
        ({"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}, True, "Terminating"),
        ({"phase": "Failed", "reason": "Terminated"}, True, "Terminated"),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            },
            False,
            "CrashLoopBackOff",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]},
            False,
            "ExitCode:3",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"reason": "Error"}}}]},
            False,
            "Error",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [{"name": "first", "state": {"running": {}}}]},
            False,
            "Init:0/1",
        ),
    ],
)
def test_the_status_of_a_pod_is_told_as_kubectl_does(status, deleted, shown):
    meta = {"name": "p"} | ({"deletionTimestamp": "2026-11-30T12:00:00Z"} if deleted else {})
    spec = {"containers": [{"name": "main"}], "initContainers": [{"name": "first"}]}
    assert tables.pod_status({"metadata": meta, "spec": spec, "status": status}, NOW) == shown


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", "1"), ("500m", "0.5"), ("2Gi", str(2**31)), ("1e3", "1000"), ("1k", "1000"), ("1E", "1e18")],
)
def test_quantities(text, number):
    from decimal import Decimal

    assert amount(text) == Decimal(number)


def test_a_log_keeps_its_newest_lines_and_that_of_the_run_before():
    book, woken = LogBook(most_bytes=40), []
    stop = book.listen(lambda: woken.append(1))
    book.start("u", "main")
    for number in range(10):
        book.write("u", "main", f"line {number}", at=NOW + timedelta(seconds=number))
    first = book.find("u", "main")
    lines, after, ended = book.after(first, 0)
    assert [line.text for line in lines] == [f"line {number}" for number in range(5, 10)]
    assert (after, ended) == (10, False)
    assert book.find("u", "main", previous=True) is None
    book.start("u", "main")
    assert book.after(first, after) == ([], 10, True)
    assert book.find("u", "main", previous=True) is first
    stop()
    count = len(woken)
    assert count == 12
    book.forget("u")
    assert book.find("u", "main") is None
    assert len(woken) == count


def test_a_protobuf_body_that_is_not_known_is_refused_and_never_half_read():
    with pytest.raises(Refused, match="kubectl apply -f"):
        protobuf_bodies.decoded(b"k8s\x00\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x00")
    body = base64.b64decode("azhzAAoPCgJ2MRIJQ29uZmlnTWFwEhsKEQoBYxIAGgAiACoAMgA4AEIAEgYKAWESAWIaACIA")
    assert protobuf_bodies.decoded(body)["metadata"] == {"name": "c"}
    for cut in range(5, len(body) - 4):
        try:
            made = protobuf_bodies.decoded(body[:cut])
        except Refused:
            continue
        assert made.get("data", {"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    ("kind", "body", "patch", "message"),
    [
        ("PriorityClass", {"value": 5}, {"value": 6}, "value: Forbidden: may not be changed in an update."),
        ("Secret", {"data": {}}, {"type": "other"}, "type: Invalid value"),
        (
            "ConfigMap",
            {"data": {"a": "b"}, "immutable": True},
            {"data": {"a": "c"}},
            "data: Forbidden: field is immutable",
        ),
        ("ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"immutable": False}, "immutable: Forbidden"),
        (
            "PersistentVolumeClaim",
            {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
            {"spec": {"storageClassName": "fast"}},
            "spec: Forbidden: spec is immutable after creation except resources.requests",
        ),
        ("Pod", {"spec": _pod()["spec"]}, {"spec": {"nodeName": "n"}}, "pod updates may not change fields other than"),
        (
            "Pod",
            {"spec": _pod(tolerations=[{"operator": "Exists"}])["spec"]},
            {"spec": {"tolerations": []}},
            "pod updates",
        ),
    ],
)
def test_what_may_not_change_in_other_kinds(verbs, kind, body, patch, message):
    made = verbs.create(kind, {"metadata": {"name": "one"}} | copied(body))
    with pytest.raises(Refused) as refused:
        verbs.patch(kind, "one", patch, patching.merge)
    assert message in refused.value.message
    assert verbs.store.get(kind, "one", made["metadata"].get("namespace", "")) == made


def test_an_object_that_is_going_gets_no_new_finalizer(verbs):
    verbs.create("ConfigMap", {"metadata": {"name": "c", "finalizers": ["a/b"]}})
    verbs.delete("ConfigMap", "c")
    with pytest.raises(Refused, match="no new finalizers can be added if the object is being deleted"):
        verbs.patch("ConfigMap", "c", {"metadata": {"finalizers": ["a/b", "c/d"]}}, patching.merge)
    verbs.patch("ConfigMap", "c", {"metadata": {"finalizers": []}}, patching.merge)
    assert verbs.store.find("ConfigMap", "c", "default") is None


def test_a_pod_that_a_controller_made_without_defaults_can_be_labelled(verbs):
    verbs.store.create({"apiVersion": "v1", "kind": "Pod", **_pod(nodeName="n"), "status": {"phase": "Running"}})
    made = verbs.patch("Pod", "p", {"metadata": {"labels": {"a": "b"}}}, patching.merge)
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["status"] == {"phase": "Running"}
