"""NumPy dtypes as JSON values and back, exactly or not at all."""

import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from outlast.ports import Unsupported

DType = np.dtype[Any]

# Where the dtypes that NumPy itself lacks (bfloat16, float8_e4m3fn, int4) come from. Looked up, never imported: a
# checkpoint must not cause an import.
EXTENSION_MODULE = "ml_dtypes"
LONG_DOUBLE = re.compile(r"(c?longdouble)\[(\d+)\]")


def describe_dtype(dtype: DType) -> tuple[str, object]:
    """A dtype's own word, and the JSON value that `load_dtype` makes it from; raises Unsupported.

    The value is None where the word says everything, which is so for all but structured dtypes.
    """
    described = _encode(dtype)
    again = _decode(described)
    # Whatever the rules below overlook ends here, at the save and not at the load.
    if again != dtype or again.char != dtype.char or again.type is not dtype.type or _encode(again) != described:
        raise Unsupported(f"dtype {dtype} cannot be described exactly")
    if isinstance(described, str):
        return described, None
    return str(dtype), described


def load_dtype(word: str, described: object = None) -> DType:
    """The dtype that `describe_dtype` described; raises Unsupported for anything else.

    What it reads comes from storage, so it accepts only what `describe_dtype` could have written.
    """
    if described is None:
        described = word
    try:
        dtype = _decode(described)
        if _encode(dtype) != described:
            raise Unsupported(f"dtype {word!r} means {dtype} here")
    except (TypeError, ValueError, OverflowError) as why:
        raise Unsupported(f"dtype {word!r} is not known here: {why}") from why
    return dtype


def is_extension(dtype: DType) -> bool:
    """Whether the dtype is one that NumPy itself lacks, such as bfloat16."""
    return dtype.type.__module__ == EXTENSION_MODULE


def _encode(dtype: DType) -> object:
    if dtype.metadata is not None:
        raise Unsupported(f"dtype {dtype} carries metadata, which would be lost")
    if dtype.kind == "T":
        raise Unsupported("StringDType arrays keep their text outside the array; use a fixed width such as '<U32'")
    if dtype.hasobject:
        raise Unsupported("it holds Python objects; use a list, or a dtype without 'object'")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _encode(base), "shape": list(shape)}
    if dtype.names is not None:
        return _encode_struct(dtype)
    return _word(dtype)


def _encode_struct(dtype: DType) -> object:
    fields = []
    laid_out: Mapping[str, Any] = dtype.fields or {}
    for name in dtype.names or ():
        field, offset, *title = laid_out[name]
        if title and not isinstance(title[0], str):
            raise Unsupported(f"field {name!r} has a title that is not text")
        fields.append([name, _encode(field), offset, *title])
    return {
        "fields": fields,
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
        "record": dtype.type is np.record,
    }


def _word(dtype: DType) -> str:
    if is_extension(dtype):
        return dtype.name
    if dtype.type.__module__ != "numpy":
        raise Unsupported(f"dtype {dtype} comes from {dtype.type.__module__}, of which nothing is known")
    if dtype.char in "gG":
        if not dtype.isnative:
            raise Unsupported(f"dtype {dtype} is a long double in the byte order of another machine")
        # "<f16" is 80 bits on x86 and 128 on ARM: the digits of its fraction tell them apart.
        return f"{dtype.type.__name__}[{np.finfo(dtype).nmant}]"
    if dtype.kind not in "biufc" or dtype.str.startswith(">"):
        return dtype.str
    # long long and int64 are two types of the same bits; a scalar of the one is not a scalar of the other.
    return dtype.name if np.dtype(dtype.name).char == dtype.char else dtype.type.__name__


def _decode(described: object) -> DType:
    match described:
        case str():
            return _decode_word(described)
        case {"base": base, "shape": list(shape), **rest} if not rest:
            return np.dtype((_decode(base), tuple(shape)))
        case {"fields": list(fields), "itemsize": int(itemsize), "aligned": bool(aligned), "record": bool(record)}:
            return _decode_struct(fields, itemsize, aligned=aligned, record=record)
        case _:
            raise Unsupported(f"{described!r} describes no dtype")


def _decode_struct(fields: list[Any], itemsize: int, *, aligned: bool, record: bool) -> DType:
    layout: Any = {
        "names": [name for name, *_ in fields],
        "formats": [_decode(field) for _, field, *_ in fields],
        "offsets": [offset for _, _, offset, *_ in fields],
        "titles": [title[0] if title else None for _, _, _, *title in fields],
        "itemsize": itemsize,
    }
    dtype = np.dtype(layout, align=aligned)
    return np.dtype((np.record, dtype)) if record else dtype


def _decode_word(word: str) -> DType:
    if match := LONG_DOUBLE.fullmatch(word):
        return np.dtype(match[1])
    extension = getattr(sys.modules.get(EXTENSION_MODULE), word, None)
    if isinstance(extension, type) and issubclass(extension, np.generic):
        return np.dtype(extension)
    dtype: DType = np.dtype(word)
    # longdouble has just been dealt with. Everything else with a name says its byte order or is little-endian.
    return dtype.newbyteorder("<") if sys.byteorder == "big" and word[:1].isalpha() else dtype
