"""One full-size run of a queue: millions of ids published, a share of them done before, drained by several processes.

    python -m benchmarks.full_size_queue                     20,000,000 ids, 10 % done before, 8 workers
    python -m benchmarks.full_size_queue --items 200000      a try

Items take no time, so that all of the time is the queue's, the sink's and the worker's. Prints and writes as JSON how
long each part took, the memory of each process over time, and the sizes of the files; leaves 1 if a result is missing,
double or computed anew, or if a process needed more and more memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import outlast
from benchmarks.batch.contender import payload_of, value_of
from outlast.items import Result
from outlast.registry import open_sink

_DONE_BEFORE = "done before"
_STORED_AT_ONCE = 5000
_LOOK_SECONDS = 0.1
_SAMPLE_SECONDS = 1.0
_LINE_SECONDS = 15.0
_MOST_GROWTH = 1.10  # of the highest memory in the first tenth of a part's time, settling left out, to the last tenth
_SETTLING_SHARE = 0.1
_GROWTH_BYTES = 96 << 20  # less than this is none: SQLite's page cache fills once, and takes 64 MiB


@dataclass(frozen=True, slots=True)
class Asked:
    """What to do. `folder` holds the files of SQLite URLs."""

    items: int
    done_every: int
    workers: int
    chunk: int
    queue: str
    sink: str
    folder: Path
    scattered: bool = False

    def id_of(self, number: int) -> str:
        """In order, as from a listing, or scattered, as hashes are: an index then changes in all places at once."""
        where = f"{zlib.crc32(number.to_bytes(8, 'little')):08x}" if self.scattered else "images"
        return f"{where}/{number:010d}"

    def done_before(self, number: int) -> bool:
        return bool(self.done_every) and number % self.done_every == 0


@dataclass(slots=True)
class Part:
    """A stretch of the run: its processes' memory, and the sizes of the files, sampled each second."""

    name: str
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    files_left: dict[str, int] = field(default_factory=dict)
    memory: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    files: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def sample(self, processes: "dict[str, subprocess.Popen[str]]", folder: Path) -> None:
        now = time.monotonic() - self.began
        for name, process in processes.items():
            if (bytes_ := resident_bytes(process.pid)) is not None:
                self.memory.setdefault(name, []).append((round(now, 1), bytes_))
        self.files.append((round(now, 1), sizes_in(folder)))

    def end(self, folder: Path) -> None:
        """Its processes have ended."""
        self.seconds = time.monotonic() - self.began
        self.files_left = sizes_in(folder)

    def growth(self) -> dict[str, tuple[int, int]]:
        """By process: the highest memory in the first tenth of its time once it has settled, and in the last tenth."""
        found = {}
        for name, samples in self.memory.items():
            length = samples[-1][0]
            start, tenth = _SETTLING_SHARE * length, 0.1 * length
            early = [size for at, size in samples if start <= at <= start + tenth] or [samples[0][1]]
            late = [size for at, size in samples if at >= length - tenth]
            found[name] = (max(early), max(late))
        return found

    def grew(self) -> list[str]:
        """Those processes that needed more and more."""
        return [
            name
            for name, (early, late) in self.growth().items()
            if late > _MOST_GROWTH * early and late - early > _GROWTH_BYTES
        ]


def sizes_in(folder: Path) -> dict[str, int]:
    """Bytes of SQLite's files, by name."""
    found = {}
    for path in sorted(folder.glob("*.db*")):
        with suppress(FileNotFoundError):  # SQLite removes its log at the end
            found[path.name] = path.stat().st_size
    return found


def resident_bytes(pid: int) -> int | None:
    """Anonymous memory of a process (what it shares with others or with files is not its own); None: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), None)


# --- what the processes do ----------------------------------------------------------------------------


def _publish(asked: Asked) -> dict[str, int]:
    queue = outlast.Queue(asked.queue)
    names = (asked.id_of(number) for number in range(asked.items))
    published = queue.publish((name, payload_of(name)) for name in names)
    queue.close()
    return {"new": published.new, "already": published.already, "rejected": len(published.rejected)}


def _work(asked: Asked) -> dict[str, int]:
    @outlast.batch(asked.queue, sink=asked.sink, chunk=asked.chunk)
    def infer(items):
        return [value_of(item.id) for item in items]

    drained = infer.run()
    return {"computed": drained.computed, "known": drained.known, "failed": drained.failed, "dead": drained.dead}


def _store_before(asked: Asked) -> int:
    """Results of an earlier run, of which the queue knows nothing."""
    sink = open_sink(asked.sink)
    sink.prepare()
    stored, some = 0, []
    for number in range(0, asked.items, asked.done_every or asked.items + 1):
        if not asked.done_before(number):
            continue
        some.append(Result(asked.id_of(number), json.dumps({"label": _DONE_BEFORE}), None, 1))
        if len(some) == _STORED_AT_ONCE:
            sink.store(some)
            stored, some = stored + len(some), []
    if some:
        sink.store(some)
    sink.close()
    return stored + len(some)


def _wrong_results(asked: Asked) -> dict[str, int]:
    """Counts results that are missing, too many, wrong, or computed although they were there."""
    seen = anew = wrong = 0
    sink = open_sink(asked.sink)
    for result in sink.results():
        number, value = int(result.id.rpartition("/")[2]), json.loads(result.value)
        seen += 1
        if asked.done_before(number):
            anew += value != {"label": _DONE_BEFORE}
        else:
            wrong += value != value_of(result.id)
    sink.close()
    return {"missing": max(asked.items - seen, 0), "too_many": max(seen - asked.items, 0), "wrong": wrong, "anew": anew}


_ROLES = {"publish": _publish, "work": _work}

# --- the run ------------------------------------------------------------------------------------------


def _started(role: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.full_size_queue", *sys.argv[1:], "--role", role]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).resolve().parents[1])


def _run_part(name: str, asked: Asked, roles: dict[str, str]) -> tuple[Part, list[dict[str, int]]]:
    """Starts the processes and samples them until all have ended; raises RuntimeError if one left with an error."""
    part, processes = Part(name), {one: _started(role) for one, role in roles.items()}
    progress, sampled, said = outlast.Queue(asked.queue), 0.0, 0.0
    try:
        while any(process.poll() is None for process in processes.values()):
            now = time.monotonic() - part.began
            if now - sampled >= _SAMPLE_SECONDS or not part.files:
                sampled = now
                part.sample(processes, asked.folder)
            if now - said >= _LINE_SECONDS:
                said = now
                _say(f"{name}: {now:.0f} s, {progress.stats()}, files {_sizes(part.files[-1][1])}")
            time.sleep(_LOOK_SECONDS)
        part.end(asked.folder)
        outputs = [process.communicate()[0] for process in processes.values()]
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
        progress.close()
    if codes := {one: process.returncode for one, process in processes.items() if process.returncode}:
        raise RuntimeError(f"{name}: processes left with {codes}")
    return part, [json.loads(output.splitlines()[-1]) for output in outputs]


def _run(asked: Asked) -> tuple[dict[str, object], list[str]]:
    """The report, and what is wrong."""
    document: dict[str, object] = {
        "items": asked.items,
        "workers": asked.workers,
        "chunk": asked.chunk,
        "scattered": asked.scattered,
    }
    began = time.monotonic()
    document["done_before"] = stored = _store_before(asked)
    _say(f"stored {stored:,} results of an earlier run in {time.monotonic() - began:.1f} s")
    publishing, published = _run_part("publish", asked, {"publisher": "publish"})
    _say_part(publishing, asked)
    roles = {f"worker {number}": "work" for number in range(asked.workers)}
    draining, drained = _run_part("drain", asked, roles)
    _say_part(draining, asked)
    wrong = _wrong_results(asked)
    document |= {"published": published[0], "drained": drained, "wrong": wrong}
    document["parts"] = {
        part.name: {
            "seconds": part.seconds,
            "memory": part.memory,
            "growth": part.growth(),
            "files": part.files,
            "files_left": part.files_left,
        }
        for part in (publishing, draining)
    }
    return document, [*_complaints(asked, document, drained), *(_memory_complaints(publishing, draining))]


def _complaints(asked: Asked, document: dict[str, object], drained: list[dict[str, int]]) -> Iterator[str]:
    total = {key: sum(one[key] for one in drained) for key in drained[0]}
    known, before = total["known"], document["done_before"]
    _say(f"computed {total['computed']:,}, known {known:,}, failed {total['failed']}, dead {total['dead']}")
    queue = outlast.Queue(asked.queue)
    stats = queue.stats()
    queue.close()
    if (stats.ready, stats.leased, stats.done, stats.dead) != (0, 0, asked.items, 0):
        yield f"the queue says {stats}"
    if known != before or total["computed"] != asked.items - known:
        yield f"{known} were known, and {before} were done before; {total['computed']} were computed"
    if any(dict(document["wrong"]).values()):
        yield f"results: {document['wrong']}"


def _memory_complaints(*parts: Part) -> Iterator[str]:
    for part in parts:
        for name in part.grew():
            early, late = part.growth()[name]
            yield f"{part.name}: {name} needed {_mib(early)} early and {_mib(late)} late"


def _say_part(part: Part, asked: Asked) -> None:
    rate = asked.items / part.seconds
    each = 1e6 * part.seconds / asked.items
    _say(f"{part.name}: {part.seconds:.1f} s, {rate:,.0f} items/s, {each:.1f} µs per item")
    for name, (early, late) in part.growth().items():
        peak = max(size for _, size in part.memory[name])
        _say(f"  {name}: {_mib(early)} early, {_mib(late)} late, {_mib(peak)} at most")
    most: dict[str, int] = {}
    for _, sizes in part.files:
        most = {name: max(most.get(name, 0), sizes.get(name, 0)) for name in {**most, **sizes}}
    left = sum(part.files_left.values())
    _say(f"  files at most: {_sizes(most)}; left {_mib(left)}, {left / asked.items:.0f} bytes per item")


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {_mib(size)}" for name, size in sizes.items()) or "none"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_size_queue", description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=20_000_000)
    parser.add_argument("--done", type=float, default=0.1, help="share of the items that have a result before")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--scattered", action="store_true", help="ids like hashes, not in order")
    parser.add_argument("--folder", type=Path, help="for the files (default: a temporary folder, removed at the end)")
    parser.add_argument("--queue", help="its URL, of an empty queue (default: SQLite in the folder)")
    parser.add_argument("--sink", help="its URL, of an empty sink (default: the same SQLite file)")
    parser.add_argument("--out", type=Path, default=Path("build/bench/full-size-queue.json"))
    parser.add_argument("--role", choices=tuple(_ROLES), help=argparse.SUPPRESS)
    return parser.parse_args()


def _asked(chosen: argparse.Namespace, folder: Path) -> Asked:
    own = f"sqlite:///{folder.resolve()}/work.db"
    every = round(1 / chosen.done) if chosen.done else 0
    queue, sink = chosen.queue or own, chosen.sink or own
    return Asked(chosen.items, every, chosen.workers, chosen.chunk, queue, sink, folder, chosen.scattered)


def main() -> None:
    """The whole run, or as a child one role of it, whose answer is the last line of its output."""
    chosen = _options()
    if chosen.role:
        print(json.dumps(_ROLES[chosen.role](_asked(chosen, chosen.folder))))
        return
    with tempfile.TemporaryDirectory(prefix="outlast-full-size-") as temporary:
        if chosen.folder is None:
            sys.argv += ["--folder", temporary]
            chosen.folder = Path(temporary)
        chosen.folder.mkdir(parents=True, exist_ok=True)
        document, complaints = _run(_asked(chosen, chosen.folder))
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    document |= {"complaints": complaints, "cores": os.cpu_count()}
    chosen.out.write_text(json.dumps(document))
    for complaint in complaints:
        _say(f"WRONG: {complaint}")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
