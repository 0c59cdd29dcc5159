"""The head of a data file: safetensors, as its own library reads it, with the data on a 4 KiB border.

Format: https://github.com/huggingface/safetensors#format (8 bytes of header length, a JSON header that may end in
spaces, then the tensors without gaps). Dtypes that safetensors lacks are written as plain bytes; what they really
are stands in the checkpoint's table of leaves.
"""

import json
import math

from outlast.ports import ArraySpec

ALIGNMENT_BYTES = 4096
_METADATA = '"__metadata__":{"format":"outlast","version":"2"}'

# Ours to theirs, with the size of an element in bytes. Names are NumPy's, torch's and JAX's alike.
_DTYPES = {
    "float64": ("F64", 8),
    "int64": ("I64", 8),
    "uint64": ("U64", 8),
    "float32": ("F32", 4),
    "int32": ("I32", 4),
    "uint32": ("U32", 4),
    "bfloat16": ("BF16", 2),
    "float16": ("F16", 2),
    "int16": ("I16", 2),
    "uint16": ("U16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}
# The same as letters of the struct module, "bf" for bfloat16; dtypes without a letter are left out.
NUMBER_CODES = {
    "float64": "d", "float32": "f", "float16": "e", "bfloat16": "bf", "bool": "B",
    "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B",
}  # fmt: skip


def stored_as(spec: ArraySpec, size: int) -> tuple[str, int, list[int]]:
    """How a leaf of so many bytes is written: dtype of safetensors, bytes of an element, shape."""
    known = _DTYPES.get(spec.dtype)
    if known and math.prod(spec.shape) * known[1] == size:
        return known[0], known[1], list(spec.shape)
    return "U8", 1, [size]


def entry(name: str, dtype: str, shape: list[int], start: int, end: int) -> str:
    """A tensor's entry in the header; `start` and `end` count from the first byte of data."""
    value = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    return f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}"


def header(entries: list[str], *, room: int = 0) -> bytes:
    """The head of a file, a multiple of 4 KiB long; `room` asks for so many bytes at least."""
    text = ("{" + ",".join([_METADATA, *entries]) + "}").encode()
    length = max(8 + len(text), room)
    text = text.ljust(length + -length % ALIGNMENT_BYTES - 8)
    return len(text).to_bytes(8, "little") + text
