"""A value of every kind that an array framework's adapter promises to restore, or to refuse."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

Sample = Callable[[], object]

WORDS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
TORCH_WORDS = [
    *WORDS,
    *("uint64", "int64", "float64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu"),
]
JAX_WORDS = [*WORDS, "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]

# A quiet NaN with a payload, a signalling one, minus zero, infinity.
FLOAT32_BITS = np.array([0x7FC00123, 0x7F800001, 0x80000000, 0xFF800000], "<u4")
STRUCT = np.dtype([("id", "<i4"), ("inner", [("x", ">f8"), ("text", "S3", (2, 3))])], align=True)

SAMPLES: dict[str, dict[str, Sample]] = {
    "numpy": {
        **{word: lambda word=word: np.arange(6).astype(word).reshape(2, 3) for word in np.typecodes["AllInteger"]},
        **{word: lambda word=word: np.linspace(-1, 1, 6).astype(word) for word in np.typecodes["AllFloat"]},
        "nan payloads": lambda: FLOAT32_BITS.view("<f4"),
        "big-endian": lambda: np.arange(3, dtype=">f4"),
        "bool": lambda: np.array([True, False]),
        "datetime": lambda: np.array(["2024-02-29", "NaT"], "M8[ns]"),
        "big-endian datetime": lambda: np.array(["2024-02-29"], ">M8[25s]"),
        "timedelta": lambda: np.array([1, -1], "m8"),
        "text": lambda: np.array(["é\0x", ""], "U5"),
        "bytes": lambda: np.array([b"a\0b", b""], "S3"),
        "opaque": lambda: np.frombuffer(b"abcdef", "V3"),
        "structure": lambda: np.frombuffer(bytes(range(80)), STRUCT),
        "titles and overlap": lambda: np.ones(
            2, {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 1], "titles": ["A", None], "itemsize": 9}
        ),
        "bfloat16": lambda: np.arange(3).astype(ml_dtypes.bfloat16),
        "float8": lambda: np.arange(3).astype(ml_dtypes.float8_e4m3fn),
        "int4": lambda: np.arange(-3, 3).astype(ml_dtypes.int4),
        "0-d": lambda: np.array(3.5),
        "empty": lambda: np.zeros((0, 3), "f4"),
        "zero-width text": lambda: np.ndarray((3,), "U0"),
        "strided": lambda: np.arange(12).reshape(3, 4)[::-1, ::2],
        "fortran": lambda: np.asfortranarray(np.arange(6).reshape(2, 3)),
        "read-only": lambda: np.frombuffer(b"abcdefgh", "<f8"),
        "broadcast": lambda: np.broadcast_to(np.arange(3), (2, 3)),
        "scalar": lambda: np.float16(1.5),
        "bfloat16 scalar": lambda: ml_dtypes.bfloat16(1.5),
        "long long scalar": lambda: np.longlong(3),
        "bool scalar": lambda: np.True_,
        "datetime scalar": lambda: np.datetime64("2024-02-29T01", "h"),
        "text scalar": lambda: np.str_("a\0\ud800"),
        "empty text scalar": lambda: np.str_(""),
        "bytes scalar": lambda: np.bytes_(b"a\0"),
        "opaque scalar": lambda: np.void(b"ab\0"),
        "structure scalar": lambda: np.frombuffer(bytes(range(40)), STRUCT)[0],
        "record scalar": lambda: np.ones(2, np.dtype((np.record, [("a", "i4")])))[0],
    },
    "torch": {
        **{word: lambda word=word: torch.arange(6).reshape(2, 3).to(getattr(torch, word)) for word in TORCH_WORDS},
        "nan payloads": lambda: torch.from_numpy(FLOAT32_BITS.view("<f4").copy()),
        "0-d": lambda: torch.tensor(2.5),
        "empty": lambda: torch.zeros(0, 3),
        "strided": lambda: torch.arange(12).reshape(3, 4)[:, ::2],
        "channels last": lambda: torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "expanded": lambda: torch.arange(3).expand(2, 3),
        "conjugate": lambda: torch.tensor([1 + 2j, 3j]).conj(),
        "negative": lambda: torch.tensor([1 + 2j, 3j]).conj().imag,
        "requires grad": lambda: torch.ones(3, requires_grad=True),
        "parameter": lambda: torch.nn.Parameter(torch.ones(2, 2)),
        "frozen parameter": lambda: torch.nn.Parameter(torch.ones(2, 2), requires_grad=False),
        "integer parameter": lambda: torch.nn.Parameter(torch.arange(3), requires_grad=False),
    },
    "jax": {
        **{word: lambda word=word: jnp.arange(6).reshape(2, 3).astype(word) for word in JAX_WORDS},
        "nan payloads": lambda: jax.device_put(FLOAT32_BITS.view("<f4")),
        "0-d": lambda: jnp.float32(2.5),
        "empty": lambda: jnp.zeros((0, 3)),
        "weak number": lambda: jnp.asarray(-0.0),
        "weak array": lambda: jnp.full((2, 3), 1),
        "committed": lambda: jax.device_put(jnp.arange(3), jax.devices()[0]),
        "key": lambda: jax.random.key(3),
        "keys": lambda: jax.random.split(jax.random.key(3, impl="rbg"), (2, 2)),
    },
}
UNSUPPORTED: dict[str, dict[str, Sample]] = {
    "numpy": {
        "objects": lambda: np.array([{}], object),
        "objects in a field": lambda: np.zeros(2, [("a", "O")]),
        "masked": lambda: np.ma.masked_array([1, 2], [0, 1]),
        "records": lambda: np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
        "metadata": lambda: np.zeros(2, np.dtype("f8", metadata={"unit": "m"})),
        "char": lambda: np.zeros(2, "c"),
        "foreign long double": lambda: np.zeros(2, np.dtype("g").newbyteorder()),
        **(
            {"StringDType": lambda: np.array(["a"], np.dtypes.StringDType())}
            if hasattr(np.dtypes, "StringDType")
            else {}
        ),
    },
    "torch": {
        "sparse": lambda: torch.eye(2).to_sparse(),
        "meta": lambda: torch.empty(2, device="meta"),
        "graph": lambda: torch.ones(2, requires_grad=True) * 2,
        "subclass": lambda: torch.ones(2).as_subclass(type("Mine", (torch.Tensor,), {})),
        "packed": lambda: torch.zeros(2, dtype=torch.uint8).view(torch.bits8),
        "lazy parameter": lambda: torch.nn.LazyLinear(2).weight,
    },
    "jax": {"deleted": lambda: _deleted(jnp.arange(3))},
}


def _deleted(array: jax.Array) -> jax.Array:
    array.delete()
    return array
