"""Server-side apply on the emulated API server: who owns a field, what conflicts, and what goes when it is left out."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.emulate.kubernetes import field_sets, patching
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.verbs import How, Verbs, populate


@pytest.fixture
def verbs():
    store = Store(now=lambda: datetime(2026, 11, 30, tzinfo=UTC))
    populate(store)
    return Verbs(store)


def _config(*, labels=None, **spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}
    meta = {"name": "j"} | ({"labels": labels} if labels else {})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}} | spec}


def _apply(verbs, config, manager="mine", *, force=False, **more):
    return verbs.apply("Job", "j", config, how=How(manager=manager, force=force), **more)


def _owned(job):
    return {
        (one["manager"], one["operation"]): field_sets.decode(one["fieldsV1"])
        for one in job["metadata"]["managedFields"]
    }


def test_the_first_apply_makes_the_object_and_owns_what_it_says_but_no_defaults(verbs):
    job = _apply(verbs, _config(backoffLimit=2))
    paths = _owned(job)["mine", "Apply"]
    assert ("f:spec", "f:backoffLimit") in paths
    assert ("f:spec", "f:completions") not in paths
    assert job["spec"]["completions"] == 1
    again = _apply(verbs, _config(backoffLimit=2))
    assert again["metadata"]["resourceVersion"] == job["metadata"]["resourceVersion"]


def test_a_field_of_another_writer_conflicts_unless_it_is_equal_or_taken_by_force(verbs):
    _apply(verbs, _config(backoffLimit=2))
    patch = {"spec": {"backoffLimit": 5}}
    verbs.patch("Job", "j", patch, patching.merge, how=How(manager="kubectl-patch"))
    with pytest.raises(Refused) as refused:
        _apply(verbs, _config(backoffLimit=2))
    assert refused.value.code == 409
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-patch" using batch/v1: .spec.backoffLimit'
    )
    assert refused.value.details["causes"][0]["field"] == ".spec.backoffLimit"
    shared = _apply(verbs, _config(backoffLimit=5))
    assert ("f:spec", "f:backoffLimit") in _owned(shared)["mine", "Apply"] & _owned(shared)["kubectl-patch", "Update"]
    forced = _apply(verbs, _config(backoffLimit=7), force=True)
    assert forced["spec"]["backoffLimit"] == 7
    assert ("kubectl-patch", "Update") not in _owned(forced)


def test_what_an_apply_no_longer_says_goes_unless_somebody_else_owns_it(verbs):
    _apply(verbs, _config(labels={"a": "1", "b": "2"}, ttlSecondsAfterFinished=60))
    verbs.patch("Job", "j", {"metadata": {"labels": {"b": "3"}}}, patching.merge, how=How(manager="other"))
    job = _apply(verbs, _config(labels={"a": "1"}))
    assert job["metadata"]["labels"] == {"a": "1", "b": "3"}
    assert "ttlSecondsAfterFinished" not in job["spec"]
    job = _apply(verbs, _config())
    assert job["metadata"]["labels"] == {"b": "3"}


def test_elements_of_keyed_lists_are_owned_one_by_one(verbs):
    config = _config(suspend=True)
    pod = config["spec"]["template"]["spec"]
    pod["tolerations"] = [{"key": "a", "operator": "Exists"}]
    _apply(verbs, config)
    metadata = {"finalizers": ["x/mine"], "ownerReferences": [_owner("u1")]}
    verbs.apply("ConfigMap", "c", {"metadata": metadata, "data": {"a": "1"}}, how=How(manager="one"))
    metadata = {"finalizers": ["x/yours"], "ownerReferences": [_owner("u2")]}
    both = verbs.apply("ConfigMap", "c", {"metadata": metadata, "data": {"b": "2"}}, how=How(manager="two"))
    assert both["data"] == {"a": "1", "b": "2"}
    assert both["metadata"]["finalizers"] == ["x/mine", "x/yours"]
    left = verbs.apply("ConfigMap", "c", {"data": {"a": "1"}}, how=How(manager="one"))
    assert left["metadata"]["finalizers"] == ["x/yours"]
    assert [one["uid"] for one in left["metadata"]["ownerReferences"]] == ["u2"]
    assert left["data"] == {"a": "1", "b": "2"}


def test_an_element_stays_while_another_writer_owns_something_in_it(verbs):
    config = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    verbs.apply("Pod", "p", config, how=How(manager="one"))
    image = {"spec": {"containers": [{"name": "main", "image": "x:2"}]}}
    verbs.patch("Pod", "p", image, patching.strategic, how=How(manager="kubectl-set"))
    with pytest.raises(Refused, match=r'conflict with "kubectl-set" .*containers\[name="main"\]\.image'):
        verbs.apply("Pod", "p", config, how=How(manager="one"))
    left = verbs.apply("Pod", "p", {"metadata": {"labels": {"a": "b"}}}, how=How(manager="one"))
    assert [(one["name"], one["image"]) for one in left["spec"]["containers"]] == [("main", "x:2")]


def _owner(uid):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}


def test_status_is_applied_through_its_own_door(verbs):
    _apply(verbs, _config())
    status = {"status": {"ready": 1}, "spec": {"parallelism": 9}}
    job = _apply(verbs, status, "controller", subresource="status")
    assert job["status"] == {"ready": 1}
    assert job["spec"]["parallelism"] == 1
    assert _owned(job)["controller", "Apply"] == {("f:status", "f:ready")}
    with pytest.raises(Refused, match="not found"):
        verbs.apply("Job", "other", {"status": {}}, subresource="status", how=How(manager="c"))


@pytest.mark.parametrize(
    ("config", "how", "message"),
    [
        (_config(), How(), "fieldManager: Required value"),
        (_config() | {"metadata": {"name": "k"}}, How(manager="m"), "does not match the one on the URL"),
        (_config() | {"metadata": {"managedFields": [{}]}}, How(manager="m"), "metadata.managedFields must be nil"),
        (_config(backofLimit=1), How(manager="m", field_validation="Strict"), 'unknown field "spec.backofLimit"'),
        (_config(backoffLimit=-1), How(manager="m"), "must be greater than or equal to 0"),
    ],
)
def test_what_apply_refuses(verbs, config, how, message):
    with pytest.raises(Refused) as refused:
        verbs.apply("Job", "j", config, how=how)
    assert message in refused.value.message
    assert verbs.store.find("Job", "j") is None


_PLAIN = st.integers(0, 3) | st.sampled_from(["a", "b"])
_MAPS = st.recursive(_PLAIN, lambda inner: st.dictionaries(st.sampled_from(["p", "q", "selector"]), inner, max_size=3))
_ELEMENT = st.fixed_dictionaries({"name": st.sampled_from("xyz"), "n": _MAPS})
_OBJECTS = st.fixed_dictionaries(
    {
        "spec": st.dictionaries(st.sampled_from(["p", "q"]), _MAPS, max_size=3),
        "env": st.lists(_ELEMENT, max_size=3, unique_by=lambda one: one["name"]),
        "args": st.lists(_MAPS, max_size=3),
        "finalizers": st.lists(_PLAIN, max_size=3, unique=True),
    }
)


@settings(max_examples=50)
@given(_OBJECTS)
def test_sets_of_fields_survive_their_written_form(made):
    paths = field_sets.fields_of(made)
    assert field_sets.decode(field_sets.encode(paths)) == paths
    assert all(field_sets.value_at(made, path) is not None for path in paths)
    for path in sorted(paths, key=len):
        field_sets.remove(made, path)
    assert not any(made.values())


def test_no_door_leads_around_a_clusters_own_check():
    def also(made):
        if "affinity" in made.get("spec", {}).get("template", {}).get("spec", {}):
            raise Refused(403, "Forbidden", "not done here")

    store = Store()
    populate(store)
    verbs = Verbs(store, also=also)
    config = _config(suspend=True)
    bad = _config(suspend=True)
    bad["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {}}
    for make in (verbs.create, lambda kind, body: verbs.apply(kind, "j", body, how=How(manager="m"))):
        with pytest.raises(Refused, match="not done here"):
            make("Job", bad)
    made = verbs.create("Job", config)
    for change in (
        lambda: verbs.patch("Job", "j", {"spec": bad["spec"]}, patching.merge),
        lambda: verbs.replace("Job", "j", bad),
        lambda: verbs.apply("Job", "j", bad, how=How(manager="m")),
    ):
        with pytest.raises(Refused, match="not done here"):
            change()
    assert store.get("Job", "j") == made
