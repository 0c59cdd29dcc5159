"""Edits of YAML: one value changes, and every other character stays."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.deploy.yaml_edits import add_to, load_documents, remove_in, set_in, unified_diff
from outlast.errors import SettingsError

_JOB = """\
# the nightly job
apiVersion: batch/v1
kind: Job
metadata:
    name: "train"   # quoted
    labels:

spec:
    template:
        spec:
            restartPolicy: Never
            containers:
            - name: main
              resources: {limits: {cpu: '8'}}
              args: ["--a", b]
              command:
                - sh
                - -c
                - |
                  python x

            # the volumes follow
            tolerations: []
    # about the back-off
    backoffLimit: 0   # never again
---
kind: Other
"""
_POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("path", "value", "removed", "added"),
    [
        (("spec", "backoffLimit"), 6, ["    backoffLimit: 0   # never again"], ["    backoffLimit: 6   # never again"]),
        (("metadata", "name"), "other", ['    name: "train"   # quoted'], ["    name: other   # quoted"]),
        (("metadata", "labels", "a"), "1", [], ["      a: '1'"]),
        (("metadata", "annotations", "a.b/c"), "true", [], ["    annotations:", "      a.b/c: 'true'"]),
        (
            (*_POD, "containers", 0, "resources", "limits", "memory"),
            "32Gi",
            ["              resources: {limits: {cpu: '8'}}"],
            ["              resources: {limits: {cpu: '8', memory: 32Gi}}"],
        ),
        ((*_POD, "containers", 0, "env"), [{"name": "A"}], [], ["              env:", "              - name: A"]),
        ((*_POD, "volumes"), [{"a": {}}], [], ["            volumes:", "            - a: {}"]),
        ((*_POD, "tolerations"), [1], ["            tolerations: []"], ["            tolerations: [1]"]),
        ((*_POD, "containers", 0, "command", 0), "bash", ["                - sh"], ["                - bash"]),
    ],
)  # fmt: skip
def test_setting_a_value_changes_its_own_lines_only(
    path: tuple[str | int, ...], value: object, removed: list[str], added: list[str]
) -> None:
    changed = set_in(_JOB, path, value)
    place: Any = load_documents(changed, "x")[0]
    for name in path:
        place = place[name]
    assert place == value
    lines = unified_diff(_JOB, changed, "job.yaml").splitlines()[2:]
    assert [line[1:] for line in lines if line.startswith("-")] == removed
    assert [line[1:] for line in lines if line.startswith("+")] == added


def test_items_are_added_at_either_end_of_a_list_in_its_own_style() -> None:
    command = (*_POD, "containers", 0, "command")
    assert "                  python x\n                - y\n\n" in add_to(_JOB, command, "y")
    assert "              command:\n                - y\n                - sh\n" in add_to(
        _JOB, command, "y", first=True
    )
    args = (*_POD, "containers", 0, "args")
    assert '["--a", b, c]' in add_to(_JOB, args, "c")
    assert '[c, "--a", b]' in add_to(_JOB, args, "c", first=True)
    assert "tolerations: [{key: a}]" in add_to(_JOB, (*_POD, "tolerations"), {"key": "a"})
    assert load_documents(add_to(_JOB, (*_POD, "made"), 1), "x")[0]["spec"]["template"]["spec"]["made"] == [1]


def test_the_other_documents_stay() -> None:
    changed = set_in(_JOB, ("metadata", "name"), "x", document=1)
    assert changed.startswith(_JOB)
    assert load_documents(changed, "x")[1] == {"kind": "Other", "metadata": {"name": "x"}}


def test_keys_and_items_are_removed_with_their_lines() -> None:
    assert remove_in(_JOB, ("spec", "backoffLimit")) == _JOB.replace("    backoffLimit: 0   # never again\n", "")
    command = (*_POD, "containers", 0, "command")
    assert remove_in(_JOB, (*command, 0)) == _JOB.replace("                - sh\n", "")
    assert '["--a"]' in remove_in(_JOB, (*_POD, "containers", 0, "args", 1))
    assert "[b]" in remove_in(_JOB, (*_POD, "containers", 0, "args", 0))
    assert remove_in(_JOB, ("spec", "nothing")) == _JOB


def test_a_mapping_may_end_with_an_alias() -> None:
    text = "x: &x {a: 1}\nb:\n  c: *x  # shared\nd: 1\n"
    assert set_in(text, ("b", "e"), 2) == "x: &x {a: 1}\nb:\n  c: *x  # shared\n  e: 2\nd: 1\n"


def test_line_endings_of_windows_stay() -> None:
    text = "a: 1\r\nb:\r\n  c: 2\r\n"
    assert set_in(text, ("b", "d"), 3) == "a: 1\r\nb:\r\n  c: 2\r\n  d: 3\r\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: &x {b: 1}\nc: *x\n", ("c", "b")),  # would change a too
        ("x: &x {a: 1}\nc:\n  <<: *x\n  d: {}\n", ("c", "e")),
        ("a: &x 1\nb: *x\n", ("a",)),  # the anchor would go
        ("a: text\n", ("a", "b")),
        ("a: [1]\n", ("a", 5)),
        ("- a\n", ("b",)),
    ],
)
def test_what_cannot_be_changed_alone_is_refused_with_what_to_write(text: str, path: tuple[str | int, ...]) -> None:
    with pytest.raises(SettingsError, match="write it by hand"):
        set_in(text, path, 7)


@pytest.mark.parametrize("text", ["{{ if x }}\na: 1", "a: [", "[" * 5000, "a: !!timestamp 2020-99-99"])
def test_what_is_no_yaml_is_told(text: str) -> None:
    with pytest.raises(SettingsError, match=r"this is no YAML|cannot be read|cannot be changed"):
        set_in(text, ("b",), 1, file="job.yaml")


def test_aliases_of_aliases_cost_no_time() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert set_in(f"{bomb}b: 1\n", ("b",), 2).endswith("b: 2\n")


_LEAVES = st.one_of(
    st.integers(), st.booleans(), st.text(alphabet="ab: #-'\n\"", max_size=6), st.builds(dict), st.builds(list)
)
_NAMES = st.text(alphabet="abc", min_size=1, max_size=3)
_DATA = st.dictionaries(
    _NAMES,
    st.recursive(
        _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=12
    ),
    min_size=1,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(data=_DATA, flow=st.sampled_from([None, False, True]), choose=st.data())
def test_whatever_a_dumper_wrote_can_be_changed(data: dict[str, Any], flow: bool | None, choose: st.DataObject) -> None:
    """PyYAML writes them in its three styles; any mapping in it takes a new key, and any value another."""
    text = yaml.safe_dump(data, default_flow_style=flow, sort_keys=False)
    path: tuple[str | int, ...] = ()
    place: Any = data
    while isinstance(place, dict | list) and place and (not path or choose.draw(st.booleans())):
        name = choose.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        path, place = (*path, name), place[name]
    value = choose.draw(st.sampled_from([5, "x: y", {"new": 1}, [1]]))
    changed = yaml.safe_load(set_in(text, path, value))
    for name in path:
        changed = changed[name]
    assert changed == value
    if isinstance(place, dict):
        assert yaml.safe_load(set_in(text, (*path, "added"), value)) is not None
