"""Two processes that save one state together, each its half of every tensor, as FSDP2 leaves it to them.

    python -m benchmarks.ranks REQUEST RANK

is one of them. A figure is that of the slower one; memory and bytes are those of each.
"""

import json
import os
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path

from benchmarks.one_run import Request, answer

STATE = "2 ranks"
SIZE = 2
CASES = ("outlast background", "outlast blocking", "dcp", "dcp-async", "dcp-async-kept", "orbax-jax")
_TOGETHER_SECONDS = 120


def measure_ranks(request: Request) -> dict[str, float]:
    """Has all ranks do their part of a request; raises what the first that failed has said."""
    meeting = f"{request.folder}/meeting-{uuid.uuid4().hex}"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ranks", request.to_json(), str(rank)],
            stdout=subprocess.PIPE,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(SIZE), "LOCAL_WORLD_SIZE": str(SIZE),
                 "MEETING": meeting, "TORCHELASTIC_RUN_ID": meeting},
        )
        for rank in range(SIZE)
    ]  # fmt: skip
    said = [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in ranks]
    for one in said:
        if "fails" in one:
            raise RuntimeError(one["fails"])
    return {name: max(one["figures"][name] for one in said) for name in said[0]["figures"]}


def measure_one(request: Request, rank: int) -> dict[str, float]:
    """One rank's part."""
    import torch.distributed as dist

    dist.init_process_group(
        "gloo",
        store=dist.FileStore(os.environ["MEETING"], SIZE),
        rank=rank,
        world_size=SIZE,
        timeout=timedelta(seconds=_TOGETHER_SECONDS),
    )
    from benchmarks.half_states import HalfState

    state = HalfState(request.scale, rank, SIZE)
    folder = Path(request.folder)
    if request.action == "ranks limits":
        from benchmarks.limits import limits_of

        state.fill()
        own = folder / f"rank-{rank}"
        own.mkdir()
        return limits_of(state, own, meanwhile=dist.barrier)
    from benchmarks.rank_savers import RANK_SAVERS

    saver = RANK_SAVERS[request.case](rank)
    if request.action == "ranks restore":
        from benchmarks.restoring import measure_restore

        figures = measure_restore(saver, state, folder, warm=request.warm, changes=1, full_bytes=state.bytes)
    else:
        from benchmarks.saving import measure_saves

        state.fill()
        figures = measure_saves(saver, state, folder, step_seconds=request.step_seconds, running=False)
    dist.barrier()
    return figures


if __name__ == "__main__":
    answer(lambda: measure_one(Request(**json.loads(sys.argv[1])), int(sys.argv[2])))
    os._exit(0)  # a peer's threads may wait for the others
