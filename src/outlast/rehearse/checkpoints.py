"""Final checkpoints of outlast Jobs, read from a rehearsal's store as documents, to be compared leaf by leaf.

Only the user's parts are compared. The random state of a library that the program never seeds differs in any two runs
and need not matter; where it matters, parts or results differ too.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.read import OpenCheckpoint, open_image
from outlast.checkpoint.record import load_record
from outlast.checkpoint.survey import tasks_in
from outlast.checkpoint.tensors import NUMBER_CODES
from outlast.errors import CheckpointCorrupt, ObjectMissing
from outlast.ports import Store
from outlast.registry import open_store
from outlast.rehearse.documents import Document, Numbers


def final_checkpoints(store_dir: Path) -> dict[str, Document]:
    """The newest checkpoint of each task below a rehearsal's folder of stores; one that is bad is a text."""
    found: dict[str, Document] = {}
    for folder in sorted(path for path in store_dir.iterdir() if path.is_dir()):
        store = open_store(str(folder))
        for place in tasks_in(store, all_runs=True):
            counted = read_lineage(store, place).counted
            if not counted:
                continue
            try:
                found[place.folder] = _of_all_ranks(store, place.commit(counted[0]))
            except (CheckpointCorrupt, ObjectMissing) as error:
                found[place.folder] = {"step": f"the newest checkpoint does not verify: {error}"}
    return found


def _of_all_ranks(store: Store, name: str) -> Document:
    record = load_record(store, name)
    found: Document = {"step": record.step}
    for image in record.images:
        with open_image(store, record, image.rank) as opened:
            of_rank = _parts(opened)
        whose = f"rank {image.rank}: " if image.rank else ""
        found.update((f"{whose}{path}", value) for path, value in of_rank.items())
    return found


def _parts(opened: OpenCheckpoint) -> Document:
    leaves: Document = {}
    for name, node in opened.tree["parts"].items():
        _walk(opened, node, f"state[{name!r}]", leaves)
    return leaves


def _walk(opened: OpenCheckpoint, node: Any, path: str, leaves: Document) -> None:
    if isinstance(node, list):
        leaves[path] = f"list of {len(node)}"
        for index, item in enumerate(node):
            _walk(opened, item, f"{path}[{index}]", leaves)
    elif isinstance(node, dict) and "leaf" in node:
        leaves[path] = _array(opened, node["leaf"])
    elif isinstance(node, dict):
        leaves[path] = f"{node.get('$', 'dict')} of {len(node)}"
        for key, item in node.items():
            if key != "$":
                _walk(opened, item, f"{path}[{key!r}]" if "$" not in node else f"{path}.{key}", leaves)
    elif isinstance(node, int | float) and not isinstance(node, bool):
        leaves[path] = node
    else:
        leaves[path] = json.dumps(node)


def _array(opened: OpenCheckpoint, index: int) -> Numbers | bytes:
    data, spec = bytes(opened.read_leaf(index)), opened.specs[index]
    code = NUMBER_CODES.get(spec.dtype) if spec.framework != "raw" else None
    return Numbers(data, code) if code else f"{spec.dtype}{list(spec.shape)} ".encode() + data


def pair_tasks(
    expected: Mapping[str, Document], actual: Mapping[str, Document]
) -> list[tuple[str, Document, Document | None]]:
    """Which checkpoint of one store answers which of the other: (task path, expected, actual or None).

    The run's own name in `<job>/<run>/task-<index>` may be another one in each store, so tasks without an equal
    path are paired by job and index, in order.
    """
    free = {path: leaves for path, leaves in actual.items() if path not in expected}
    pairs: list[tuple[str, Document, Document | None]] = []
    for path, leaves in sorted(expected.items()):
        found = path if path in actual else next((one for one in sorted(free) if _place(one) == _place(path)), None)
        pairs.append((path, leaves, actual[found] if found is not None else None))
        if found is not None:
            free.pop(found, None)
    return pairs


def _place(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return parts[0], parts[-1]
