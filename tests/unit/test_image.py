"""The image of a checkpoint: a whole safetensors file, cut into pieces without gaps, the same however it is made."""

import itertools
import json
import mmap
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

from outlast.checkpoint.buffer import ImageBuffer, free_memory_bytes
from outlast.checkpoint.image import CopiedImage, Image, LiveImage, lay_out, size_of
from outlast.ports import ArraySpec
from outlast.state.snapshot import LeafTable, Pile, Snapshot

ITEM_BYTES = {"float64": 8, "float32": 4, "uint8": 1, "bool": 1, "<M8[ns]": 8}
leaf_shapes = st.lists(
    st.tuples(st.sampled_from(sorted(ITEM_BYTES)), st.lists(st.integers(0, 40), min_size=1, max_size=3)), max_size=30
)


def snapshot_of(shapes: list[tuple[str, list[int]]], tree: object = None) -> Snapshot:
    names, specs, contents = [], [], []
    for number, (dtype, shape) in enumerate(shapes):
        size = ITEM_BYTES[dtype]
        for length in shape:
            size *= length
        names.append(f"state['é{number}']")
        specs.append(ArraySpec("numpy", dtype, tuple(shape)))
        contents.append(
            bytes((number + byte) % 2 if dtype == "bool" else (number * 7 + byte) % 251 for byte in range(size))
        )
    table = LeafTable(tuple(names), tuple(specs), tuple(map(len, contents)))
    return Snapshot({"parts": tree}, table, [Pile(None, tuple(range(len(names))), contents)])


def whole(image: Image) -> bytes:
    return b"".join(image.views(0, size_of(image)))


@settings(max_examples=60, deadline=None)
@given(leaf_shapes, st.text(max_size=300))
def test_an_image_is_a_safetensors_file_and_its_pieces_are_all_of_it(
    shapes: list[tuple[str, list[int]]], tree: str
) -> None:
    snapshot = snapshot_of(shapes, tree)
    layout = lay_out(snapshot.table)
    image = LiveImage(layout, snapshot)
    data = whole(image)
    assert len(data) == size_of(image)
    assert layout.head_bytes % 4096 == 0
    loaded = load(data)
    assert json.loads(loaded["@tree"].tobytes()) == {"parts": tree}
    for index, leaf in enumerate(snapshot.leaves):
        assert loaded[leaf.name].tobytes() == leaf.data
        offset = layout.offsets[index]
        assert data[offset : offset + len(leaf.data)] == leaf.data
    pieces = layout.all_pieces(image.tree)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == len(data)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(pieces))
    assert all(start < end for start, end in pieces)
    assert b"".join(b"".join(image.views(*piece)) for piece in pieces) == data


@settings(max_examples=30, deadline=None)
@given(leaf_shapes)
def test_a_copied_image_is_the_live_one(shapes: list[tuple[str, list[int]]]) -> None:
    snapshot = snapshot_of(shapes)
    layout = lay_out(snapshot.table)
    memory = ImageBuffer().take(layout, snapshot)
    copied = CopiedImage(layout, memory, snapshot.tree)
    assert whole(copied) == whole(LiveImage(layout, snapshot))


def test_everything_but_the_tree_keeps_its_place_when_the_tree_grows() -> None:
    small, large = snapshot_of([("float32", [9])], ""), snapshot_of([("float32", [9])], "x" * 100_000)
    layout = lay_out(small.table)
    assert lay_out(large.table).offsets == layout.offsets
    head, larger = (len(layout.head(one)) for one in (b"{}", b"x" * 10**9))
    assert head == larger == layout.head_bytes


def test_large_leaves_are_cut_small_ones_gathered_and_no_piece_holds_parts_of_two_large_ones() -> None:
    sizes = (3 << 20, 100, 200, 5 << 20, 300)
    specs = tuple(ArraySpec("numpy", "uint8", (size,)) for size in sizes)
    layout = lay_out(LeafTable(tuple("abcde"), specs, sizes))
    leaf_pieces = [piece for piece in layout.pieces if layout.head_bytes <= piece[0] < layout.leaves_at]
    assert [end - start for start, end in leaf_pieces] == [1 << 20] * 3 + [300] + [1 << 20] * 5 + [300]


def test_many_small_leaves_make_no_more_pieces_than_a_record_can_bear() -> None:
    count = 20_000
    specs = tuple(ArraySpec("numpy", "uint8", (1000,)) for _ in range(count))
    layout = lay_out(LeafTable(tuple(map(str, range(count))), specs, (1000,) * count))
    assert len(layout.pieces) < 5000


def test_a_buffer_is_used_again_and_grows_when_it_must() -> None:
    buffer = ImageBuffer()
    buffer.reserve(1)
    before = buffer.bytes
    buffer.reserve(before)
    assert buffer.bytes == before
    buffer.reserve(before + 1)
    assert buffer.bytes > before


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_the_memory_of_a_buffer_is_the_machines_until_it_is_touched() -> None:
    buffer = ImageBuffer()
    before = resident_bytes()
    buffer.reserve(64 << 20)
    assert resident_bytes() - before < 16 << 20
    wishes = iter([True, False])
    buffer.touch(lambda: next(wishes))
    assert resident_bytes() - before < 32 << 20
    buffer.touch(lambda: True)
    assert resident_bytes() - before > 60 << 20


GIB = 1 << 30
MEMINFO = f"MemTotal: {100 * GIB // 1024} kB\nMemFree: 1 kB\nMemAvailable: {50 * GIB // 1024} kB\n"


def planted(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_free_memory_is_what_the_machine_has_less_a_twentieth(tmp_path: Path) -> None:
    free = free_memory_bytes(planted(tmp_path, {"proc/meminfo": MEMINFO}))
    assert free == pytest.approx(45 * GIB, rel=1e-6)


def test_the_narrowest_of_the_cgroups_above_the_process_decides(tmp_path: Path) -> None:
    above, own = "sys/fs/cgroup/slurm", "sys/fs/cgroup/slurm/job/step"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/slurm/job/step\n",
        f"{own}/memory.max": "max",
        f"{own}/memory.current": "5",
        f"{above}/memory.max": str(20 * GIB),
        f"{above}/memory.current": str(12 * GIB),
        f"{above}/memory.stat": f"anon 5\ninactive_file {2 * GIB}\nactive_file 0\n",
    }
    assert free_memory_bytes(planted(tmp_path, files)) == 19 * GIB - 12 * GIB + 2 * GIB


def test_a_container_of_cgroup_v1_is_seen_at_its_mount_though_its_path_is_the_hosts(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "9:cpu:/docker/ab\n4:memory:/docker/ab\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(10 * GIB),
        "sys/fs/cgroup/memory/memory.usage_in_bytes": str(9 * GIB),
    }
    assert free_memory_bytes(planted(tmp_path, files)) == int(9.5 * GIB) - 9 * GIB


def test_what_the_process_once_had_and_will_want_again_is_not_free(tmp_path: Path) -> None:
    status = f"VmHWM:\t{9 * GIB // 1024} kB\nVmRSS:\t{4 * GIB // 1024} kB\n"
    free = free_memory_bytes(planted(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/status": status}))
    assert free == pytest.approx(40 * GIB, rel=1e-6)


def test_where_nobody_can_tell_there_is_no_answer(tmp_path: Path) -> None:
    assert free_memory_bytes(tmp_path) is None


def test_the_head_says_its_own_length() -> None:
    layout = lay_out(snapshot_of([("float64", [4])]).table)
    [length] = struct.unpack("<Q", layout.head(b"{}")[:8])
    assert length + 8 == layout.head_bytes


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_wide_elements_are_aligned_to_themselves(dtype: str) -> None:
    snapshot = snapshot_of([("bool", [3]), (dtype, [5]), ("uint8", [7])])
    layout = lay_out(snapshot.table)
    width = 1 if dtype.startswith("<") else ITEM_BYTES[dtype]
    assert layout.offsets[1] % width == 0
