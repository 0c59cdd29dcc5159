"""A kill at any moment of a large write: what a record names is whole, and what was there before is untouched."""

import random
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from lives import VICTIMS, environment

from outlast.stores.directory import DirectoryStore

KILLS = 20
SIZE = 64 << 20


def kill_while_writing(folder: Path, kind: str, after_seconds: float) -> None:
    command = [sys.executable, str(VICTIMS / "large_writes.py"), str(folder), str(SIZE), kind]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(after_seconds)
        assert child.poll() is None
        child.kill()


@pytest.mark.parametrize("kind", ["image", "parts"])
def test_a_kill_while_large_objects_are_written_cuts_none_that_a_record_names(kind: str, tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path / "store"))
    kept = random.Random(0).randbytes(17 << 20)
    store.write("data/kept", [kept])
    chance, named, cut = random.Random(1), 0, 0
    for _ in range(KILLS):
        kill_while_writing(tmp_path / "store", kind, chance.uniform(0.0, 0.4))
        records = {entry.name.removeprefix("records/") for entry in store.list("records")}
        for name in records:
            data = store.read(f"data/{name}")
            assert len(data) == SIZE
            assert str(zlib.crc32(data)).encode() == store.read(f"records/{name}")
            store.delete(f"records/{name}")
            named += 1
        for entry in store.list("data"):
            if entry.name != "data/kept":
                assert entry.bytes <= SIZE
                cut += entry.name.removeprefix("data/") not in records
                store.delete(entry.name)
        assert store.read("data/kept") == kept
    assert named > 0
    assert cut > 0
