"""The data file: safetensors, as its own library reads it, with the data on a 4 KiB border.

Format: https://github.com/huggingface/safetensors#format (8 bytes of header length, a JSON header that may end in
spaces, then the tensors without gaps). Dtypes that safetensors lacks are written as plain bytes; what they really
are stands in the commit record.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.ports import ArraySpec
from outlast.state.snapshot import Leaf

ALIGNMENT_BYTES = 4096

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


@dataclass(frozen=True, slots=True)
class DataLayout:
    """Where each leaf lies in the file. `order` is the order of writing; `offsets` is by leaf index."""

    header: bytes
    order: tuple[int, ...]
    offsets: tuple[int, ...]
    bytes: int


def lay_out(leaves: Sequence[Leaf]) -> DataLayout:
    """The layout of a data file. Wide elements come first, so that each tensor is aligned to its element."""
    order = sorted(range(len(leaves)), key=lambda index: -_stored_as(leaves[index])[1])
    table: dict[str, object] = {"__metadata__": {"format": "outlast", "version": "1"}}
    ends = [0] * len(leaves)
    position = 0
    for index in order:
        leaf = leaves[index]
        dtype, _, shape = _stored_as(leaf)
        table[leaf.name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [position, position + len(leaf.data)],
        }
        ends[index] = position
        position += len(leaf.data)
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-(8 + len(header)) % ALIGNMENT_BYTES)
    start = 8 + len(header)
    return DataLayout(
        header=len(header).to_bytes(8, "little") + header,
        order=tuple(order),
        offsets=tuple(start + end for end in ends),
        bytes=start + position,
    )


def _stored_as(leaf: Leaf) -> tuple[str, int, list[int]]:
    spec: ArraySpec = leaf.spec
    known = _DTYPES.get(spec.dtype)
    if known and math.prod(spec.shape) * known[1] == len(leaf.data):
        return known[0], known[1], list(spec.shape)
    return "U8", 1, [len(leaf.data)]
