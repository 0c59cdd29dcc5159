"""The emulated cluster's store: versions, conflicts, deletions, owners, and what watchers hear."""

import threading
from datetime import UTC, datetime

import pytest

from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.store import Store


def _pod(name="p", *, node="n1", labels=None, **meta):
    spec = {"containers": [], "terminationGracePeriodSeconds": 60} | ({"nodeName": node} if node else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, **meta},
        "spec": spec,
        "status": {"phase": "Running"},
    }


def _job(name="j", **meta):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **meta}, "spec": {"backoffLimit": 6}}


def _owned_by(owner, **more):
    return [{"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], **more}]


def _heard(watch):
    events = []
    while (event := watch.next_within(0)) is not None:
        events.append((event.kind, event.object["metadata"]["name"]))
    return events


def test_a_new_object_gets_what_only_a_server_gives():
    store = Store(now=lambda: datetime(2026, 11, 30, 12, 0, 5, 999, tzinfo=UTC))
    made = store.create(_pod(resourceVersion="7", deletionTimestamp="x"))
    meta = made["metadata"]
    assert meta["namespace"] == "default"
    assert meta["creationTimestamp"] == "2026-11-30T12:00:05Z"
    assert meta["generation"] == 1
    assert len(meta["uid"]) == 36
    assert "deletionTimestamp" not in meta
    assert int(meta["resourceVersion"]) == int(store.version)
    assert store.get("Pod", "p") == made == store.get("Pod", "p", "default")


def test_what_is_in_the_store_is_shared_with_nobody():
    store = Store()
    mine = _pod()
    made = store.create(mine)
    watch = store.watch("Pod")
    for one in (mine, made, store.get("Pod", "p"), store.listing("Pod").objects[0], watch.next_within(1).object):
        one["spec"]["nodeName"] = "elsewhere"
    assert store.get("Pod", "p")["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("call", "reason", "message"),
    [
        (lambda s: s.create(_pod()), "AlreadyExists", 'pods "p" already exists'),
        (lambda s: s.get("Pod", "q"), "NotFound", 'pods "q" not found'),
        (lambda s: s.get("Pod", "p", "other"), "NotFound", 'pods "p" not found'),
        (lambda s: s.update(_job()), "NotFound", 'jobs.batch "j" not found'),
        (lambda s: s.update(_pod(resourceVersion="1")), "Conflict", "the object has been modified"),
        (lambda s: s.update(_pod(uid="u")), "Conflict", "UID in precondition: u, UID in object meta: "),
        (lambda s: s.delete("Pod", "p", version="1"), "Conflict", "the object has been modified"),
        (lambda s: s.delete("Pod", "p", uid="u"), "Conflict", "Precondition failed"),
        (lambda s: s.watch("Pod", since="5"), "Expired", "too old resource version: 5 (100)"),
        (lambda s: s.listing("Pod", fields="spec.foo=1"), "BadRequest", "field label not supported: spec.foo"),
    ],
)
def test_what_cannot_be_is_refused_in_the_servers_words(call, reason, message):
    store = Store()
    store.create(_pod())
    before = store.version
    with pytest.raises(Refused) as refused:
        call(store)
    assert refused.value.reason == reason
    assert message in refused.value.message
    assert refused.value.status()["code"] == refused.value.code
    assert store.version == before


def test_an_update_keeps_identity_counts_generations_and_skips_what_changes_nothing():
    store = Store()
    made = store.create(_job())
    same = store.update(made)
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    status = store.update({**made, "status": {"active": 1}})
    assert status["metadata"]["generation"] == 1
    spec = store.update({**status, "spec": {"backoffLimit": 1}, "metadata": {"name": "j", "uid": ""}})
    assert spec["metadata"]["generation"] == 2
    assert spec["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(spec["metadata"]["resourceVersion"]) > int(status["metadata"]["resourceVersion"])


def test_a_dry_run_changes_nothing():
    store = Store()
    made = store.create(_pod())
    watch = store.watch("Pod", since=store.version)
    store.create(_pod("q"), dry_run=True)
    store.update({**made, "spec": {}}, dry_run=True)
    store.delete("Pod", "p", grace_seconds=0, dry_run=True)
    store.delete("Pod", "p", dry_run=True, propagation="Foreground")
    assert store.get("Pod", "p") == made
    assert _heard(watch) == []


def test_a_running_pod_stays_for_its_grace_which_can_only_shrink():
    store = Store(now=lambda: datetime(2026, 11, 30, tzinfo=UTC))
    store.create(_pod())
    first = store.delete("Pod", "p")
    assert first["metadata"]["deletionGracePeriodSeconds"] == 60
    assert first["metadata"]["deletionTimestamp"] == "2026-11-30T00:01:00Z"
    longer = store.delete("Pod", "p", grace_seconds=100)
    assert longer == first
    shorter = store.delete("Pod", "p", grace_seconds=5)
    assert shorter["metadata"]["deletionTimestamp"] == "2026-11-30T00:00:05Z"
    still = store.update({**shorter, "status": {"phase": "Failed"}})
    assert still["metadata"]["deletionGracePeriodSeconds"] == 5
    store.delete("Pod", "p", grace_seconds=0)
    assert store.find("Pod", "p") is None


@pytest.mark.parametrize("pod", [_pod(node=None), _pod() | {"status": {"phase": "Succeeded"}}])
def test_a_pod_that_runs_nowhere_goes_at_once(pod):
    store = Store()
    store.create(pod)
    store.delete("Pod", "p")
    assert store.find("Pod", "p") is None


def test_a_finalizer_holds_an_object_until_it_goes():
    store = Store()
    store.create(_pod(finalizers=["batch.kubernetes.io/job-tracking"]))
    store.delete("Pod", "p", grace_seconds=0)
    held = store.get("Pod", "p")
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    watch = store.watch("Pod", since=store.version)
    store.change("Pod", "p", "default", lambda pod: pod["metadata"].update(finalizers=[]))
    assert _heard(watch) == [("DELETED", "p")]
    assert store.find("Pod", "p") is None


@pytest.mark.parametrize(
    ("propagation", "order"),
    [
        ("Background", [("DELETED", "j"), ("DELETED", "p")]),
        ("Foreground", [("MODIFIED", "j"), ("DELETED", "p"), ("DELETED", "j")]),
        ("Orphan", [("MODIFIED", "p"), ("DELETED", "j")]),
    ],
)
def test_what_an_object_owns_goes_with_it_before_it_or_stays(propagation, order):
    store = Store()
    job = store.create(_job())
    store.create(_pod(node=None, ownerReferences=_owned_by(job)))
    other = store.create(_job("other"))
    store.create(_pod("shared", node=None, ownerReferences=[*_owned_by(job), *_owned_by(other)]))
    watch = store.watch(since=store.version)
    store.delete("Job", "j", propagation=propagation)
    assert [event for event in _heard(watch) if event[1] != "shared"] == order
    assert store.find("Pod", "shared") is not None
    assert store.find("Job", "j") is None


def test_a_generated_name_is_new():
    store = Store()
    names = {
        store.create(_pod(None, generateName="train-") | {"metadata": {"generateName": "train-"}})["metadata"]["name"]
        for _ in range(50)
    }
    assert len(names) == 50
    assert all(name.startswith("train-") and len(name) == 11 for name in names)


def test_lists_are_sorted_and_select():
    store = Store()
    for number, app in enumerate("baab"):
        store.create(_pod(f"p{number}", labels={"app": app}, node=f"n{number % 2}"))

    def names(**how):
        return [one["metadata"]["name"] for one in store.listing("Pod", **how).objects]

    assert names() == ["p0", "p1", "p2", "p3"]
    assert names(namespace="other") == []
    assert names(labels="app=a") == names(labels="app in (a, c)") == names(labels="app!=b,app") == ["p1", "p2"]
    assert names(labels="app notin (a)") == names(labels="app==b") == ["p0", "p3"]
    assert names(labels="!app") == []
    assert names(fields="spec.nodeName=n1,status.phase!=Failed") == ["p1", "p3"]
    assert names(fields="metadata.name=p2", labels="app=a") == ["p2"]


def test_a_watch_hears_the_past_it_asks_for_then_the_present_in_order():
    store = Store()
    store.create(_pod("a"))
    since = store.version
    store.create(_pod("b"))
    with store.watch("Pod", since=since) as later, store.watch("Pod") as all_of_it:
        store.delete("Pod", "a", grace_seconds=0)
        store.create(_job())
        assert _heard(later) == [("ADDED", "b"), ("DELETED", "a")]
        assert _heard(all_of_it) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    store.create(_pod("c"))
    assert list(later) == []


def test_an_object_that_leaves_a_selector_is_deleted_to_its_watcher():
    store = Store()
    store.create(_pod(labels={"app": "a"}))
    watch = store.watch("Pod", labels="app=a")
    store.change("Pod", "p", "", lambda pod: pod["metadata"]["labels"].update(app="b"))
    store.change("Pod", "p", "", lambda pod: pod["metadata"]["labels"].update(app="a"))
    assert _heard(watch) == [("ADDED", "p"), ("DELETED", "p"), ("ADDED", "p")]


def test_a_watch_from_before_the_kept_history_has_expired():
    store = Store(history=3)
    since = store.version
    for number in range(4):
        store.create(_pod(f"p{number}"))
    with pytest.raises(Refused, match="too old resource version"):
        store.watch("Pod", since=since)
    assert len(_heard(store.watch("Pod", since=str(int(since) + 1)))) == 3
    store.compact()
    with pytest.raises(Refused, match="too old"):
        store.watch("Pod", since=str(int(store.version) - 1))
    assert _heard(store.watch("Pod", since=store.version)) == []


def test_of_concurrent_writers_none_is_lost_and_all_are_heard_in_order():
    store = Store()
    store.create(_job(annotations={"count": "0"}))
    watch = store.watch("Job", since=store.version)
    lost = []

    def add_one():
        for _ in range(40):
            while True:
                job = store.get("Job", "j")
                job["metadata"]["annotations"]["count"] = str(int(job["metadata"]["annotations"]["count"]) + 1)
                try:
                    store.update(job)
                    break
                except Refused as refused:
                    lost.append(refused.reason)

    def add_one_by_change():
        for _ in range(40):
            store.change(
                "Job", "j", "", lambda job: job["metadata"]["annotations"].update(
                    count=str(int(job["metadata"]["annotations"]["count"]) + 1)
                )
            )  # fmt: skip

    threads = [threading.Thread(target=work) for work in (add_one, add_one, add_one_by_change, add_one_by_change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(lost) <= {"Conflict"}
    counts, versions = [], []
    while (event := watch.next_within(0)) is not None:
        counts.append(int(event.object["metadata"]["annotations"]["count"]))
        versions.append(int(event.object["metadata"]["resourceVersion"]))
    assert counts == list(range(1, 161))
    assert versions == sorted(set(versions))
