"""Small JSON records that carry their own digest, so that a damaged one is known for what it is."""

import json
from collections.abc import Mapping
from typing import Any

import xxhash

from outlast.errors import CheckpointCorrupt
from outlast.ports import Bytes, Store, read_whole

DIGEST = "xxh3_128"


# Of format 1, in which a leaf takes some 300 bytes, this is enough for a million and more.
LARGEST_RECORD_BYTES = 512 << 20


def digest(data: Bytes) -> str:
    """XXH3, 128 bits, in hex: fast enough to check everything always; it guards against damage, not malice."""
    return xxhash.xxh3_128_hexdigest(data)


def seal(record: Mapping[str, Any]) -> bytes:
    """A record as JSON with its digest."""
    body = _canonical(record)
    return b'{"digest":"' + f"{DIGEST}:{digest(body)}".encode() + b'","record":' + body + b"}\n"


def unseal(data: bytes, *, name: str) -> dict[str, Any]:
    """The record; raises CheckpointCorrupt saying what is wrong with it."""
    try:
        outer = json.loads(data)
        record, expected = outer["record"], outer["digest"]
        found = f"{DIGEST}:{digest(_canonical(record))}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointCorrupt(f"{name} is not a whole record ({len(data)} bytes)") from error
    if found != expected or not isinstance(record, dict):
        raise CheckpointCorrupt(f"{name} was changed since it was written: its digest does not fit")
    return record


def load_sealed(store: Store, name: str) -> dict[str, Any]:
    """A sealed record of a store; raises ObjectMissing, CheckpointCorrupt, StoreUnreachable."""
    with store.open(name) as opened:
        if opened.bytes > LARGEST_RECORD_BYTES:
            raise CheckpointCorrupt(f"{name} has {opened.bytes} bytes, far more than any record")
        return unseal(read_whole(opened), name=name)


def _canonical(record: object) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
