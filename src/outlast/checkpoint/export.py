"""A checkpoint as one plain safetensors file, for tools that know nothing of outlast."""

import ast
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from outlast.checkpoint.read import open_checkpoint
from outlast.checkpoint.record import LeafPlace
from outlast.checkpoint.tensors import entry, header, stored_as
from outlast.errors import SettingsError
from outlast.ports import Store

_KEY = re.compile(r"""\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\[(-?\d+)\]|\.([A-Za-z_]\w*)""")
_STATE_DICT = ".state_dict()"


def export_file(
    store: Store, commit: str, target: Path, *, part: str | None = None, progress: Callable[[int, int], None]
) -> int:
    """Writes the tensors of a checkpoint to a new file, each verified as it is read; returns how many.

    Of a checkpoint of several ranks they are rank 0's, and the whole of those that are divided among the ranks.

    `commit` is the name of its record. Names are the key paths, or with `part` what comes after the part's own (the
    keys of its state_dict). `progress` is told the bytes done and the bytes in all. The file appears whole or not at
    all. Raises SettingsError for a part that is not there, CheckpointCorrupt, ObjectMissing, StoreUnreachable, OSError.
    """
    with open_checkpoint(store, commit) as opened:
        arrays = [one for index in range(len(opened.leaves)) if (one := opened.whole(index)) is not None]
        leaves = [leaf for leaf, _ in arrays]
        found = list(_chosen(leaves, part))
        chosen = dict(found)
        if not chosen:
            raise SettingsError(f"the checkpoint has no tensors in part {part!r}")
        if len(chosen) < len(found):
            twice = next(name for name in chosen if [one for one, _ in found].count(name) > 1)
            raise SettingsError(f"two tensors of part {part!r} would be named {twice!r}; export without a part")
        order = sorted(chosen.values(), key=lambda index: -_stored(leaves[index])[1])
        names = {index: name for name, index in chosen.items()}
        entries, position = [], 0
        for index in order:
            dtype, _, shape = _stored(leaves[index])
            end = position + leaves[index].bytes
            entries.append(entry(names[index], dtype, shape, position, end))
            position = end
        unfinished = target.with_name(f".{target.name}-{secrets.token_hex(6)}")
        try:
            with unfinished.open("xb") as file:
                file.write(header(entries))
                done = 0
                for index in order:
                    done += file.write(arrays[index][1]())
                    progress(done, position)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(target)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
    return len(order)


def _chosen(leaves: Sequence[LeafPlace], part: str | None) -> Iterator[tuple[str, int]]:
    """(name in the file, index) of each leaf that is wanted; the random state is nobody else's business."""
    root = None if part is None else f"state[{part!r}]"
    for index, leaf in enumerate(leaves):
        if not leaf.name.startswith("state["):
            continue
        if root is None:
            yield leaf.name, index
        elif leaf.name.startswith((f"{root}.", f"{root}[")) or leaf.name == root:
            yield _short(leaf.name[len(root) :]) or part or "", index


def _short(path: str) -> str:
    """`.state_dict()['layers.0.weight']` as `layers.0.weight`, `['a'][0]` as `a.0`."""
    found = _KEY.findall(path.removeprefix(_STATE_DICT))
    keys = [str(ast.literal_eval(quoted)) if quoted else number or name for quoted, number, name in found]
    return ".".join(keys)


def _stored(leaf: LeafPlace) -> tuple[str, int, list[int]]:
    return stored_as(leaf.spec, leaf.bytes)
