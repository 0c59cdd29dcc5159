"""Parts of the emulated API server: patches, rows of tables, quantities, logs, and bodies in protobuf."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from outlast.emulate import rfc3339
from outlast.emulate.kubernetes import patching, protobuf_bodies, tables
from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.pod_logs import LogBook
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.service_account import ServiceAccount
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.verbs import Verbs, populate
from outlast.emulate.quantities import amount

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


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
    assert amount(text) == Decimal(number)


@pytest.mark.parametrize("text", ["1K", "much", "", "1 Gi", "1e9999", "NaN", "1Gi2", "٣"])
def test_what_is_no_quantity_is_refused_wherever_a_pod_names_one(text):
    with pytest.raises(ValueError, match="is no quantity"):
        amount(text)
    store = Store()
    populate(store)
    container = {"name": "main", "image": "x", "resources": {"limits": {"memory": text}}}
    with pytest.raises(Refused, match="quantities must match"):
        Verbs(store).create("Pod", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})


@pytest.mark.parametrize("text", ["2026-99-30T12:00:00Z", "2026-11-30T12:00:00", "2026-11-30", "now"])
def test_what_is_no_time_is_refused_wherever_an_object_names_one(text):
    with pytest.raises(ValueError, match=r"month must be|no time as RFC 3339"):
        rfc3339.parsed(text)
    store = Store()
    populate(store)
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    with pytest.raises(Refused, match="parsing time"):
        Verbs(store).create("Event", {"metadata": {"name": "e"}, "involvedObject": about, "lastTimestamp": text})


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/version", True),
        ("/apis/batch/v1", True),
        ("/api/v1/nodes/n", True),
        ("/api/v1/namespaces/default/pods", True),
        ("/api/v1/namespaces/default/pods/log", True),  # a pod of that name
        ("/api/v1/namespaces/default/pods/p/log", False),
        ("/api/v1/namespaces/default/secrets", False),
        ("/api/v1/namespaces/pods", False),
        ("/apis/batch/v1/namespaces/default/jobs", False),
        ("/apis/batch/v1/jobs", False),
        ("/api/v1/services", False),
    ],
)
def test_a_pods_account_may_read_nodes_and_pods_and_what_a_server_says_of_itself(path, allowed, tmp_path):
    account, heard = ServiceAccount(tmp_path / "account", may_read=True), []

    async def serve(scope, receive, send):
        heard.append(scope["path"])

    async def nothing(_=None):
        pass

    token = (tmp_path / "account" / "token").read_bytes()
    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"authorization", b"Bearer " + token)]}
    asyncio.run(account.guard(serve)(scope, nothing, nothing))
    assert heard == ([path] if allowed else [])


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
