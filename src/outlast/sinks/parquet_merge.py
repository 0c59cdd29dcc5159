"""Rows of any number, in bounded memory: sorted by id, and of each id only the one that counts."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from outlast.errors import SinkUnreachable

_BY_ID = [("id", "ascending"), ("claim", "descending")]
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class MergePlan:
    """How much is in memory at a time.

    Rows are sorted in runs of `run_bytes`, which are kept in temporary files, unless there is only one. At most
    `runs_at_once` are merged at a time, each read in blocks of about `block_bytes`. A table of `run_bytes` is there
    three times while it is sorted, and a block costs about three times its bytes while it is merged, so the defaults
    need some 100 to 250 MB, whatever there is to merge. Measured with 6,000,000 rows (2026-11-30): runs twice as large
    needed 120 MB more and were no faster; blocks four times as large needed 4 MB more for each run and were a tenth
    faster.
    """

    run_bytes: int = 32 << 20
    runs_at_once: int = 128
    block_bytes: int = 256 << 10
    gather_tables: int = 512  # small tables are joined when there are so many, since each one costs some kilobytes


def merged(oldest: Iterator[Any], younger: Iterable[Any], plan: MergePlan | None = None) -> Iterator[Any]:
    """Tables of rows in the order of their ids, one row per id: the highest claim, of equal ones the youngest.

    `oldest` is such an iterator itself; the tables of `younger` come in order of age, each with one row per id. All
    younger ones are read before the first table is returned. Raises SinkUnreachable when the temporary folder is full.
    """
    plan = plan or MergePlan()
    with ExitStack() as files:
        runs: list[Iterator[Any]] = [oldest]
        gathered = _Gathered(plan)
        for table in younger:
            if gathered.add(table):
                runs.append(_spilled(iter([gathered.take()]), plan, files))
        if gathered.bytes:
            runs.append(_blocks(gathered.take(), plan))
        while len(runs) > plan.runs_at_once:
            groups = [runs[at : at + plan.runs_at_once] for at in range(0, len(runs), plan.runs_at_once)]
            runs = [_spilled(_merged_runs(group), plan, files) for group in groups]
        yield from _merged_runs(runs)


class _Gathered:
    """Tables until they are a run, the youngest first: so the stable sort leaves it in front of its equals."""

    def __init__(self, plan: MergePlan) -> None:
        self._plan = plan
        self.bytes = 0
        self._joined: list[Any] = []
        self._small: list[Any] = []

    def add(self, table: Any) -> bool:
        """Whether there is enough for a run."""
        self._small.append(table)
        self.bytes += table.nbytes
        if len(self._small) >= self._plan.gather_tables:
            self._join()
        return self.bytes >= self._plan.run_bytes

    def take(self) -> Any:
        self._join()
        joined, self._joined, self.bytes = self._joined, [], 0
        return winners(joined[::-1])

    def _join(self) -> None:
        if self._small:
            self._joined.append(pa.concat_tables(self._small[::-1]).combine_chunks())
            self._small = []


def winners(youngest_first: Sequence[Any]) -> Any:
    """Of all rows the one of each id that counts, in the order of the ids."""
    table = pa.concat_tables(youngest_first).combine_chunks()
    # A stable sort, as pyarrow.compute.sort_indices promises.
    table = table.take(pc.sort_indices(table, sort_keys=_BY_ID)).combine_chunks()
    if len(table) < 2:
        return table
    ids = table["id"].chunk(0)
    differs = pc.not_equal(ids[1:], ids[:-1])
    if differs.true_count == len(differs):
        return table
    return table.filter(pa.concat_arrays([pa.array([True]), differs])).combine_chunks()


def _merged_runs(runs: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Runs, the oldest first, as one: always so much of each that nothing smaller can follow."""
    heads = [head for run in reversed(runs) if (head := _Head(run)).advance()]
    while heads:
        if len(heads) == 1:
            yield heads[0].rest()
            heads = [head for head in heads if head.advance()]
            continue
        border = min(head.last for head in heads)
        taken = [piece for head in heads if len(piece := head.up_to(border))]
        yield taken[0] if len(taken) == 1 else winners(taken)
        heads = [head for head in heads if not head.is_empty or head.advance()]


class _Head:
    """The block of a run that is being merged. Its ids are unique and rise."""

    def __init__(self, run: Iterator[Any]) -> None:
        self._run = run
        self._block: Any = None
        self._ids: Any = None
        self._at = 0
        self.last = ""

    def advance(self) -> bool:
        """On to the next block; False at the end of the run."""
        self._block = next((block for block in self._run if len(block)), None)
        if self._block is None:
            return False
        self._ids, self._at = self._block["id"], 0
        self.last = self._ids[-1].as_py()
        return True

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._block)

    def rest(self) -> Any:
        at, self._at = self._at, len(self._block)
        return self._block.slice(at)

    def up_to(self, border: str) -> Any:
        """The rows of this block with ids up to and including the border."""
        if self.last <= border:
            return self.rest()
        low, high = self._at, len(self._block)
        while low < high:
            middle = (low + high) // 2
            if self._ids[middle].as_py() <= border:
                low = middle + 1
            else:
                high = middle
        at, self._at = self._at, low
        return self._block.slice(at, low - at)


def _blocks(table: Any, plan: MergePlan) -> Iterator[Any]:
    rows = max(1, len(table) * plan.block_bytes // max(table.nbytes, 1))
    for at in range(0, len(table), rows):
        yield table.slice(at, rows)


def _spilled(tables: Iterator[Any], plan: MergePlan, files: ExitStack) -> Iterator[Any]:
    """A run that lies in a temporary file, which has no name: nothing of it outlives the process."""
    with _room():
        file = files.enter_context(tempfile.TemporaryFile(prefix="outlast-"))  # noqa: SIM115 - closed with the rest
    _write(tables, plan, file)
    return _read(file)


def _write(tables: Iterator[Any], plan: MergePlan, file: IO[bytes]) -> None:
    writer = None
    for table in tables:
        with _room():
            writer = writer or pa.ipc.new_stream(file, table.schema, options=_COMPRESSED)
            for block in _blocks(table, plan):
                writer.write_table(block)
    with _room():
        if writer is not None:
            writer.close()
        file.flush()


def _read(file: IO[bytes]) -> Iterator[Any]:
    file.seek(0)
    with _room():
        reader = pa.ipc.open_stream(file)
    while True:
        with _room():
            batch = next(reader, None)
        if batch is None:
            return
        yield pa.Table.from_batches([batch])


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SinkUnreachable(
            f"cannot sort results in the temporary folder {tempfile.gettempdir()}: {error}; it needs room for about "
            "all of them (TMPDIR names another one); nothing was changed"
        ) from error
