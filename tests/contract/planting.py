"""A store into which somebody else puts things, and what must not change meanwhile."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from one_attempt import Life
from outlast.checkpoint.places import CommitName
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.sealed import digest, seal, unseal

DEEP = b"[" * 200_000
NEWER = CommitName(9, 0, 9)  # than the three good ones


class Planter:
    """A store with good checkpoints of steps 1, 2 and 3, the newest of which serves as pattern for forgeries."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder / "store", folder / "outside"
        self.outside.mkdir()
        (self.outside / "precious").write_bytes(b"precious")
        life = Life(self.root, keep=Keep(last=3))
        for step in (1, 2, 3):
            life.save(step)
        self.place, self.last = life.place, life.last
        self.task = self.root / life.place.folder
        self.newer = self.root / self.place.commit(NEWER)

    def forge(self, change: Callable[[dict[str, Any]], None], name: CommitName = NEWER) -> None:
        """A record with a fitting digest, and a fitting name unless `change` says otherwise."""
        good = self.root / self.place.commit(self.last)
        record = unseal(good.read_bytes(), name="good")
        record.update(step=name.step, attempt=name.attempt, sequence=name.sequence)
        change(record)
        (self.root / self.place.commit(name)).write_bytes(seal(record))

    def forge_image(self, leaves: bytes, tree: bytes) -> None:
        """A record whose image is these bytes as table and tree, digests and sizes right."""

        def change(record: dict[str, Any]) -> None:
            name = f"{self.place.data}/{NEWER.text.removesuffix('.json')}-r0000-{'0' * 12}.safetensors"
            data = leaves + tree
            (self.root / name).write_bytes(data)
            record["files"] = [{"name": name, "bytes": len(data)}]
            record["images"] = [
                {
                    "rank": 0,
                    "data_at": 0,
                    "leaves": [0, len(leaves)],
                    "tree": [len(leaves), len(tree)],
                    "pieces": [[0, 0, len(data), digest(data)]],
                }
            ]

        self.forge(change)

    def forge_tree(self, tree: bytes) -> None:
        """A record without leaves whose tree is these bytes."""
        self.forge_image(b"[]", tree)

    def forge_leaf(self, change: Callable[[list[Any]], None]) -> None:
        """A record whose one leaf is the first four bytes of the image, but for a change to its row in the table."""
        row = ["state['blob']", "raw", "uint8", [4], {}, 0, 4]
        change(row)
        self.forge_image(json.dumps([row]).encode(), b'{"parts":{},"loop":{},"random":null}')


class SideEffect:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def outside(planter: Planter) -> list[tuple[str, bytes | None]]:
    return [(path.name, path.read_bytes() if path.is_file() else None) for path in sorted(planter.outside.rglob("*"))]
