"""Writes large objects, names each in a record once it is whole, and drops the one before, until it is killed.

large_writes.py FOLDER BYTES KIND, where KIND is "image" (one aligned buffer) or "parts" (many small ones).
"""

import itertools
import mmap
import os
import sys
import zlib

from outlast.stores.directory import DirectoryStore


def main(folder: str, size: int, kind: str) -> None:
    image = memoryview(mmap.mmap(-1, size))
    for start in range(0, size, 1 << 20):
        image[start : start + (1 << 20)] = os.urandom(4096) * 256
    part = size if kind == "image" else 50_000
    store = DirectoryStore(folder)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in itertools.count():
        image[:4] = number.to_bytes(4, "big")
        name = f"{os.getpid()}-{number}"
        store.write(f"data/{name}", (image[start : start + part] for start in range(0, size, part)))
        store.create(f"records/{name}", str(zlib.crc32(image)).encode())
        if number:
            before = f"{os.getpid()}-{number - 1}"
            store.delete(f"records/{before}")
            store.delete(f"data/{before}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
