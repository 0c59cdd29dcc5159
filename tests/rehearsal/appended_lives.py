"""Lives that are killed while they append results to a file of JSON lines; each is a fork of this process.

    appended_lives.py cut FOLDER POINT…       a life for each POINT: killed when so many bytes of the file are written
    appended_lives.py calls FOLDER FIRST STEP a life for each FIRST + n · STEP: killed at that call into C
    appended_lives.py storm FOLDER KILLS      four writers at a time, of which one after the other is killed

`cut` leaves a folder FOLDER/POINT for the test to look at. The others check here, and say how many kills there were.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from outlast.items import LeasedItem, Result
from outlast.sinks import jsonl, jsonl_file
from outlast.sinks.jsonl import JsonlSink

CHUNK = 8
RESULTS = [
    Result(f"Bild-{n:03d}-ä🦜", json.dumps({"Tier": "Häher 🦜" * (n % 5), "n": n}, ensure_ascii=False), "1", 1)
    for n in range(200)
]


def nothing(_some: Sequence[Result]) -> None:
    """Nobody wants to know."""


def work(path: Path, results: Sequence[Result], computed: Callable[[Sequence[Result]], None] = nothing) -> None:
    """What a worker does: asks what is there, computes the rest, stores it."""
    sink = JsonlSink(f"jsonl:{path}")
    sink.prepare()
    for first in range(0, len(results), CHUNK):
        chunk = results[first : first + CHUNK]
        known = sink.known([LeasedItem(one.id, "null", one.claim) for one in chunk])
        rest = [one for one in chunk if one.id not in known or known[one.id].version != one.version]
        sink.store(rest)
        computed(rest)
    sink.close()


def life(body: Callable[[], None], errors: Path) -> int:
    """Runs it in a child; returns how it ended, as os.waitpid does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def cut_life(path: Path, point: int) -> None:
    real = os.pwrite

    def cut(handle: int, data: memoryview, start: int) -> int:
        if os.path.samestat(os.fstat(handle), path.stat()) and start <= point < start + len(data):
            real(handle, data[: point - start], start)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(handle, data, start)

    os.pwrite = cut
    work(path, RESULTS)


def cut_at(folder: Path, points: Sequence[int]) -> None:
    for point in points:
        path = folder / str(point) / "results.jsonl"
        path.parent.mkdir(parents=True)
        assert life(partial(cut_life, path, point), path.with_name("first")) == signal.SIGKILL
        path.with_name("left").write_bytes(path.read_bytes())
        assert life(partial(counted_life, path), path.with_name("second")) == 0


def counted_life(path: Path) -> None:
    with path.with_name("computed").open("a") as said:
        work(path, RESULTS, lambda some: said.writelines(f"{one.id}\n" for one in some))
        said.flush()


# --- a kill between any two calls ---------------------------------------------------------------------

OLD = [Result(f"ä{number}", json.dumps("x" * 40 * number), "1", 3) for number in range(12)]
NEW = [Result(one.id, json.dumps(["new", one.id]), "2", 3) for one in OLD]


def kill_at(call: int) -> None:
    """From here on the process is killed just before its call number so much of the sink's into C."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        name = frame.f_code.co_filename
        if event == "c_call" and ("/sinks/" in name or name.endswith("sqlite_files.py")):
            counted += 1
            if counted == call:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def fated_life(path: Path, call: int) -> None:
    sink = JsonlSink(f"jsonl:{path}")
    kill_at(call)
    sink.prepare()
    for first in range(0, len(NEW), 4):
        sink.store(NEW[first : first + 4])
        with path.with_name("stored").open("a") as said:
            said.writelines(f"{one.id}\n" for one in NEW[first : first + 4])
    sink.close()
    sys.setprofile(None)


def check(path: Path, expected: dict[str, set[str]]) -> None:
    """Every line is one result, of one id each, with one of the values that are right; the index says the same."""
    lines = path.read_text().split("\n")
    assert lines.pop() == ""
    found = {said["id"]: json.dumps(said["value"]) for said in map(json.loads, lines)}
    assert len(found) == len(lines), "an id has two lines"
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name] in values, name
    sink = JsonlSink(f"jsonl:{path}")
    assert {one.id: one.value for one in sink.results()} == found
    assert not path.with_name("results.jsonl.torn").exists()
    assert not path.with_name("results.jsonl.rewriting").exists()
    sink.close()


def killed_at_calls(folder: Path, call: int, step: int) -> int:
    kills = 0
    while True:
        path = folder / str(call) / "results.jsonl"
        path.parent.mkdir(parents=True)
        sink = JsonlSink(f"jsonl:{path}")
        sink.prepare()
        sink.store(OLD)
        sink.close()
        ended = life(partial(fated_life, path, call), path.with_name("errors"))
        said = path.with_name("stored")
        new, stored = {one.id: one.value for one in NEW}, said.read_text().split() if said.exists() else []
        after = JsonlSink(f"jsonl:{path}")
        after.prepare()
        check(path, {one.id: {new[one.id]} if one.id in stored else {one.value, new[one.id]} for one in OLD})
        after.store(NEW)
        check(path, {name: {value} for name, value in new.items()})
        after.close()
        if ended == 0:
            assert len(stored) == len(NEW)
            return kills
        assert ended == signal.SIGKILL, path.with_name("errors").read_text()
        kills, call = kills + 1, call + step


# --- many at a time -----------------------------------------------------------------------------------


def storm(folder: Path, kills: int) -> int:
    """Four writers at a time, whose results overlap; whoever is killed is followed by another. On several files."""
    chance, killed, round_number = random.Random(7), 0, 0
    while killed < kills:
        round_number += 1
        path = folder / str(round_number) / "results.jsonl"
        path.parent.mkdir(parents=True)
        killed += one_round(path, chance, kills - killed)
        lines = path.read_bytes().decode().split("\n")
        assert lines.pop() == ""
        assert sorted(json.loads(line)["id"] for line in lines) == sorted(one.id for one in RESULTS)
        sink = JsonlSink(f"jsonl:{path}")
        assert sorted(sink.results(), key=lambda one: one.id) == RESULTS
        sink.close()
    return killed


def one_round(path: Path, chance: random.Random, most: int) -> int:
    """Four lots of work, each done by one life after the other until one comes to its end; returns the kills."""
    living: dict[int, int] = {}
    waiting, killed = [0, 1, 2, 3], 0
    while waiting or living:
        for number in waiting:
            mine = RESULTS[number * 40 : number * 40 + 80]
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    work(path, chance.sample(mine, len(mine)), lambda some: time.sleep(0.002))
                    code = 0
                finally:
                    os._exit(code)
            living[child] = number
        waiting = []
        if killed < most:
            time.sleep(chance.uniform(0.0, 0.03))
            os.kill(chance.choice(list(living)), signal.SIGKILL)
        child, ended = os.waitpid(-1, 0)
        assert ended in (0, signal.SIGKILL), ended
        number = living.pop(child)
        if ended == signal.SIGKILL:
            killed += 1
            waiting = [number]
    return killed


if __name__ == "__main__":
    what, folder, *rest = sys.argv[1:]
    numbers = [int(one) for one in rest]
    if what == "cut":
        cut_at(Path(folder), numbers)
    elif what == "calls":
        jsonl._NEEDLESS_BYTES, jsonl._SMALL_BYTES = 300, 1500  # so that all that happens to large files happens
        print(killed_at_calls(Path(folder), *numbers))
    else:
        jsonl_file._LONGEST_PAUSE_SECONDS = 0.003
        print(storm(Path(folder), *numbers))
