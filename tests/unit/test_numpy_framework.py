"""What is special about NumPy: odd dtypes and strides, memory maps, generators of many kinds."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as nps

from outlast.frameworks.numpy import NumpyFramework
from outlast.frameworks.numpy_dtypes import describe_dtype, load_dtype
from outlast.ports import ArraySpec, Unsupported

framework = NumpyFramework()

PLAIN = nps.scalar_dtypes() | nps.byte_string_dtypes() | nps.unicode_string_dtypes()
ANY_DTYPE = PLAIN | nps.array_dtypes(PLAIN, max_size=3) | nps.nested_dtypes(PLAIN, max_itemsize=200)


@settings(max_examples=150, deadline=None)
@given(dtype=ANY_DTYPE)
def test_any_dtype_survives_json(dtype: np.dtype) -> None:
    if dtype.subdtype is not None:
        return  # an array takes the shape of such a dtype as its own
    word, fields = describe_dtype(dtype)
    again = load_dtype(word, json.loads(json.dumps(fields)))
    assert (again, again.str, again.char, again.itemsize) == (dtype, dtype.str, dtype.char, dtype.itemsize)


@settings(max_examples=150, deadline=None)
@given(array=nps.arrays(PLAIN, nps.array_shapes(min_dims=0, min_side=0, max_dims=3)))
def test_any_array_comes_back_in_bits_also_into_strides(array: np.ndarray) -> None:
    data = framework.buffer(array)
    assert bytes(data) == array.tobytes()
    target = np.ndarray(array.shape[::-1], array.dtype).T
    framework.fill(target, data)
    assert target.tobytes() == array.tobytes()


def test_padding_and_overlapping_fields_come_back_in_bits() -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [1, 2], "itemsize": 9})
    array = np.frombuffer(bytes(range(36)), dtype)[::2]
    made = framework.make(framework.spec(array), framework.buffer(array), None)
    assert made.tobytes() == bytes(range(9)) + bytes(range(18, 27))


def test_a_contiguous_array_is_not_copied() -> None:
    array = np.zeros(4, "M8[s]")
    view = framework.buffer(array)
    array[1] = np.datetime64(1, "s")
    assert view[8] == 1


def test_a_memory_map_is_filled_in_place_and_made_as_an_array(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(bytes(16))
    mapped = np.memmap(tmp_path / "m", "f4", "r+", shape=(2, 2))
    framework.fill(mapped, memoryview(np.arange(4, dtype="f4").tobytes()))
    mapped.flush()
    assert np.fromfile(tmp_path / "m", "f4").tolist() == [0, 1, 2, 3]
    made = framework.make(framework.spec(mapped), framework.buffer(mapped), mapped)
    assert type(made) is np.ndarray
    assert not framework.writable(np.memmap(tmp_path / "m", "f4", "r"))


def test_arrays_whose_elements_share_memory_are_not_filled() -> None:
    window = np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8))
    assert window.flags.writeable
    assert not framework.writable(window)
    assert not framework.writable(np.broadcast_to(np.zeros(3), (2, 3)))
    assert framework.writable(np.zeros((3, 4))[::-2, 1::2])


def test_long_doubles_of_another_machine_are_refused() -> None:
    word = framework.spec(np.zeros(1, np.longdouble)).dtype
    bits = np.finfo(np.longdouble).nmant
    assert word == f"longdouble[{bits}]"
    with pytest.raises(Unsupported):
        framework.make(
            ArraySpec("numpy", "longdouble[112]" if bits != 112 else "longdouble[63]", (1,)),
            memoryview(bytes(16)),
            None,
        )


def test_objects_cannot_be_smuggled_in_as_bytes() -> None:
    fields = {"fields": [["a", "|O", 0]], "itemsize": 8, "aligned": False, "record": False}
    with pytest.raises(Unsupported):
        framework.make(ArraySpec("numpy", "[('a', 'O')]", (1,), {"fields": fields}), memoryview(bytes(8)), None)


@pytest.mark.parametrize(
    "fields",
    [
        {"base": "float64"},
        {"fields": "ab", "itemsize": 8, "aligned": False, "record": False},
        {"fields": [["a", "int32", -4]], "itemsize": 4, "aligned": False, "record": False},
        {"fields": [["a"]], "itemsize": 4, "aligned": False, "record": False},
        {"fields": [["a", "int32", 10**30]], "itemsize": 4, "aligned": False, "record": False},
        ["float64"],
        7,
    ],
)
def test_nonsense_describes_no_dtype(fields: object) -> None:
    with pytest.raises(Unsupported):
        load_dtype("struct", fields)


def test_a_dtype_of_another_package_is_looked_up_but_never_imported() -> None:
    code = (
        "import sys; from outlast.frameworks.numpy import NumpyFramework; from outlast.ports import *\n"
        "try: NumpyFramework().make(ArraySpec('numpy', 'bfloat16', (1,)), memoryview(b'ab'), None)\n"
        "except Unsupported as why: print(why, {'ml_dtypes', 'torch', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bfloat16" in done.stdout
    assert "set()" in done.stdout


def test_a_number_gone_wrong_is_found_inside_a_structure() -> None:
    array = np.zeros(2, [("a", "i4"), ("b", [("c", "f4", (2,))])])
    assert framework.is_finite(array)
    array["b"]["c"][1, 1] = np.nan
    assert not framework.is_finite(array)
    assert framework.is_finite(np.array(["NaT"], "M8[s]"))


def test_signalling_nans_are_found_without_a_warning() -> None:
    import ml_dtypes

    assert not framework.is_finite(np.array([0x7F800001], "<u4").view("<f4"))
    assert not framework.is_finite(np.array([1, np.nan], ml_dtypes.bfloat16))
    assert framework.is_finite(np.array([1, 2], ml_dtypes.int4))


def test_a_view_and_its_array_have_one_key_whoever_may_write() -> None:
    array = np.arange(6.0)
    frozen = array[:]
    frozen.flags.writeable = False
    assert framework.alias_key(array) == framework.alias_key(frozen)
    assert framework.alias_key(array) != framework.alias_key(array.view("i8"))
    assert framework.alias_key(array) != framework.alias_key(array[1:])
