"""What every array framework's adapter promises, whatever the framework."""

import json
import threading
from collections import namedtuple

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from framework_samples import SAMPLES, UNSUPPORTED, Sample

from outlast.ports import ArraySpec, Framework, Unsupported
from outlast.registry import FRAMEWORKS, framework_named


def cases(table: dict[str, dict[str, Sample]]) -> list[object]:
    return [
        pytest.param(name, make, id=f"{name}-{label}")
        for name, samples in table.items()
        for label, make in samples.items()
    ]


def through_json(spec: ArraySpec) -> ArraySpec:
    shape, extra = json.loads(json.dumps([spec.shape, dict(spec.extra)]))
    return ArraySpec(spec.framework, spec.dtype, tuple(shape), extra)


@pytest.fixture(params=list(FRAMEWORKS))
def framework(request: pytest.FixtureRequest) -> Framework:
    return framework_named(request.param)


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
def test_a_value_comes_back_equal_in_type_and_bits(name: str, sample: Sample) -> None:
    framework, value = framework_named(name), sample()
    assert framework.owns(value)
    data = framework.buffer(value)
    assert (data.ndim, data.format) == (1, "B")
    made = framework.make(through_json(framework.spec(value)), memoryview(bytes(data)), None)
    assert (made.dtype, made.shape) == (value.dtype, value.shape)
    assert framework.spec(made) == framework.spec(value)
    assert bytes(framework.buffer(made)) == bytes(data)
    assert type(made) is type(value)


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
def test_a_made_value_shares_no_memory_and_can_be_filled(name: str, sample: Sample) -> None:
    framework, value = framework_named(name), sample()
    data = bytearray(framework.buffer(value))
    made = framework.make(framework.spec(value), memoryview(data), value)
    before = bytes(data)
    data[:] = bytes(len(data))
    assert bytes(framework.buffer(made)) == before
    assert framework.writable(made) or name == "jax" or isinstance(made, np.generic)
    if not isinstance(made, np.generic):
        assert framework.alias_key(made) != framework.alias_key(value)


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
@pytest.mark.parametrize("kind", ["fit", "unaligned", "read-only"])
def test_an_adopted_value_is_the_value_that_make_makes(name: str, sample: Sample, kind: str) -> None:
    framework, value = framework_named(name), sample()
    wanted = bytes(framework.buffer(value))
    memory = memoryview(bytearray(b"x" + wanted))[1:] if kind == "unaligned" else memoryview(bytearray(wanted))
    spec = through_json(framework.spec(value))
    made = framework.adopt(spec, memoryview(wanted) if kind == "read-only" else memory, value)
    assert framework.spec(made) == framework.spec(value)
    assert bytes(framework.buffer(made)) == wanted
    assert type(made) is type(value)
    assert framework.writable(made) or name == "jax" or isinstance(made, np.generic)


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
def test_the_length_is_known_without_a_look_at_the_values(name: str, sample: Sample) -> None:
    framework, value = framework_named(name), sample()
    assert framework.nbytes(value) == len(framework.buffer(value))


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
def test_a_target_is_the_memory_of_the_value(name: str, sample: Sample) -> None:
    framework, value = framework_named(name), sample()
    target = framework.target(value) if framework.writable(value) else None
    if target is None:
        return
    wanted = bytes(reversed(framework.buffer(value)))
    if value.dtype == torch.bool:
        wanted = bytes(byte & 1 for byte in wanted)
    target[:] = wanted
    framework.filled(value)
    assert bytes(framework.buffer(value)) == wanted


@pytest.mark.parametrize("name", list(FRAMEWORKS))
@pytest.mark.parametrize("shift", [0, 1])
def test_many_values_are_copied_as_buffer_gives_them(name: str, shift: int) -> None:
    framework, values = framework_named(name), [make() for make in SAMPLES[name].values()]
    wanted = [bytes(framework.buffer(value)) for value in values]
    offsets = [shift]
    for data in wanted:
        offsets.append(-(-(offsets[-1] + len(data)) // 16) * 16 + shift)
    buffer = bytearray(b"\xa5" * offsets[-1])
    views = framework.views(memoryview(buffer), [framework.spec(value) for value in values], offsets[:-1])
    framework.copy_many(views, values)
    for offset, data, end in zip(offsets, wanted, offsets[1:], strict=False):
        assert buffer[offset : offset + len(data)] == data
        assert set(buffer[offset + len(data) : end]) <= {0xA5}


@pytest.mark.parametrize("name", list(FRAMEWORKS))
def test_facts_are_equal_exactly_where_the_specs_are(name: str) -> None:
    framework = framework_named(name)
    values = [value for make in SAMPLES[name].values() if not isinstance(value := make(), np.generic)]
    assert framework.facts(values) == framework.facts(list(values))
    assert framework.places(values) == framework.places(list(values))
    for first in values:
        for second in values:
            if framework.spec(first) != framework.spec(second):
                assert framework.facts([first]) != framework.facts([second])


def test_large_values_are_copied_in_pieces_by_two_threads() -> None:
    size = 20 * 1024 * 1024 // 4 + 3
    cases = {
        "numpy": [np.arange(size, dtype="f4"), np.arange(2 * size, dtype="f4")[::2], np.ones(3), np.arange(size)],
        "torch": [torch.arange(size), torch.arange(size).view(-1, 1).expand(-1, 2).t(), torch.ones(3)],
    }
    for name, values in cases.items():
        framework = framework_named(name)
        wanted = [framework.buffer(value) for value in values]
        offsets = [sum(len(data) for data in wanted[:index]) for index in range(len(wanted))]
        buffer = memoryview(bytearray(sum(map(len, wanted))))
        framework.copy_many(framework.views(buffer, [framework.spec(value) for value in values], offsets), values)
        assert buffer == b"".join(wanted)


def test_large_values_are_copied_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    test_large_values_are_copied_in_pieces_by_two_threads()


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
def test_a_writable_value_is_filled_in_place(name: str, sample: Sample) -> None:
    framework, target = framework_named(name), sample()
    if not framework.writable(target):
        return
    key, wanted = framework.alias_key(target), bytes(reversed(framework.buffer(target)))
    if target.dtype == torch.bool:
        wanted = bytes(byte & 1 for byte in wanted)
    framework.fill(target, memoryview(wanted))
    assert bytes(framework.buffer(target)) == wanted
    assert framework.alias_key(target) == key
    if wanted:
        with pytest.raises(ValueError, match="bytes given"):
            framework.fill(target, memoryview(wanted + b"x"))


@pytest.mark.parametrize(("name", "sample"), cases(UNSUPPORTED))
def test_what_cannot_come_back_is_refused_with_a_reason(name: str, sample: Sample) -> None:
    framework, value = framework_named(name), sample()
    assert framework.owns(value)
    with pytest.raises(Unsupported, match=r"\w"):
        framework.spec(value)


@pytest.mark.parametrize(("name", "sample"), cases(SAMPLES))
def test_bytes_of_another_length_are_refused(name: str, sample: Sample) -> None:
    framework, value = framework_named(name), sample()
    spec = framework.spec(value)
    if spec.extra.get("scalar") and spec.dtype.startswith(("<U", "|S")):
        return  # the bytes alone make these
    with pytest.raises(Unsupported):
        framework.make(spec, memoryview(bytes(framework.buffer(value)) + b"x"), None)


@pytest.mark.parametrize("word", ["O", "object", "f8,i4", "no such", "", "float63", "__name__"])
def test_a_dtype_that_a_save_could_not_have_written_is_refused(framework: Framework, word: str) -> None:
    spec = ArraySpec(framework.name, word, (1,), {"device": "cpu"})
    with pytest.raises(Unsupported):
        framework.make(spec, memoryview(bytes(8)), None)


def arrays_of(framework: Framework, numbers: list[float]) -> object:
    return {"numpy": np.array, "torch": torch.tensor, "jax": jnp.array}[framework.name](numbers)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf"), complex(0, float("nan"))])
def test_one_number_gone_wrong_is_found(framework: Framework, wrong: float) -> None:
    assert not framework.is_finite(arrays_of(framework, [1.0, wrong, 2.0]))


@pytest.mark.parametrize("numbers", [[], [1.0, -3e38, 3e38], [1, 2], [True], [1j]])
def test_finite_numbers_and_none_at_all_are_finite(framework: Framework, numbers: list[float]) -> None:
    assert framework.is_finite(arrays_of(framework, numbers))


def test_two_names_for_one_array_have_one_key_and_a_copy_another(framework: Framework) -> None:
    value = arrays_of(framework, [[1.0, 2.0], [3.0, 4.0]])
    assert framework.alias_key(value) == framework.alias_key(value)
    others = [value.reshape(-1), value.T, value[:1], arrays_of(framework, [[1.0, 2.0], [3.0, 4.0]])]
    assert framework.alias_key(value) not in [framework.alias_key(other) for other in others]
    empty = [arrays_of(framework, []), arrays_of(framework, [])]
    assert framework.alias_key(empty[0]) != framework.alias_key(empty[1])


@pytest.mark.parametrize("name", list(FRAMEWORKS))
def test_each_value_has_one_owner(name: str) -> None:
    for other in FRAMEWORKS:
        sample = next(iter(SAMPLES[other].values()))()
        assert framework_named(name).owns(sample) == (name == other)


@pytest.mark.parametrize("value", [1, 1.5, True, 1j, "a", b"a", None, [1.0], (1,), {"a": 1}, float, object()])
def test_plain_values_belong_to_no_framework(framework: Framework, value: object) -> None:
    assert not framework.owns(value)
    assert not framework.owns_generator(value)
    assert not framework.owns_tree(value)
    assert framework.loader_generators(value) == []
    assert framework.skip_batches(value, iter([1, 2]), 1) == 0


def test_plain_containers_stay_the_engines(framework: Framework) -> None:
    point = namedtuple("point", "x y")(1, np.zeros(2))
    for value in ([np.zeros(2)], {"a": torch.zeros(2)}, (jnp.zeros(2),), point, None):
        assert not framework.owns_tree(value)


def test_no_container_but_its_own_is_taken_apart(framework: Framework) -> None:
    if framework.name == "jax":
        return
    with pytest.raises(Unsupported):
        framework.tree_leaves([1])
    with pytest.raises(Unsupported):
        framework.tree_rebuild([1], [1])
