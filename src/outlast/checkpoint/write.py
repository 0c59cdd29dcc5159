"""Persisting a snapshot: data first, read back and verified; the commit record is made here and written last."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.read import verify_data
from outlast.checkpoint.record import CommitRecord, DataFile, LeafRecord, Piece
from outlast.checkpoint.sealed import digest
from outlast.checkpoint.tensors import lay_out
from outlast.clock import Clock, iso_utc
from outlast.ports import Store
from outlast.state.snapshot import Leaf, Snapshot, raw_spec, tree_bytes

TREE_LEAF = "@tree"


@dataclass(frozen=True, slots=True)
class SaveDetails:
    """What a commit record says beside the data."""

    name: CommitName
    claim: str
    pinned: bool
    metrics: Mapping[str, float]


def persist(store: Store, place: TaskPlace, snapshot: Snapshot, details: SaveDetails, clock: Clock) -> CommitRecord:
    """Writes a snapshot's data, durable and verified, and returns the record that would commit it.

    Raises StoreUnreachable or CheckpointCorrupt; nothing counts until the record is created.
    """
    began = clock.monotonic_seconds()
    tree = memoryview(tree_bytes(snapshot.tree))
    leaves = (*snapshot.leaves, Leaf(TREE_LEAF, raw_spec(tree), tree))
    layout = lay_out(leaves)
    file = DataFile(place.data_file(details.name, rank=0, token=secrets.token_hex(6)), layout.bytes)
    store.write(file.name, [layout.header, *(leaves[index].data for index in layout.order)])
    records = tuple(_leaf_record(leaf, offset) for leaf, offset in zip(leaves, layout.offsets, strict=True))
    record = CommitRecord(
        job=place.job,
        run=place.run,
        task=place.index,
        step=details.name.step,
        attempt=details.name.attempt,
        sequence=details.name.sequence,
        claim=details.claim,
        saved_at=iso_utc(clock.wall_seconds()),
        seconds=round(clock.monotonic_seconds() - began, 6),
        total_bytes=layout.bytes,
        written_bytes=layout.bytes,
        files=(file,),
        leaves=records,
        trees=(len(leaves) - 1,),
        pinned=details.pinned,
        metrics=details.metrics,
    )
    verify_data(store, record)
    return record


def _leaf_record(leaf: Leaf, offset: int) -> LeafRecord:
    pieces = (Piece(0, offset, len(leaf.data), digest(leaf.data)),) if len(leaf.data) else ()
    return LeafRecord(leaf.name, leaf.spec, pieces)
