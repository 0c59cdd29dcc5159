"""X07: after a resume the ranks divide the samples of an epoch as before: each is seen once, by one of them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ranked_lives import Launches, RankServer

SAMPLES, EPOCHS = 24, 3  # of the program, too
PROGRAM = """
import torch
from torch.utils.data import DataLoader, DistributedSampler

size = int(os.environ["WORLD_SIZE"])
torch.manual_seed(5)
sampler = DistributedSampler(range(24), num_replicas=size, rank=rank, seed=3)
loader = DataLoader(range(24), batch_size=2, sampler=sampler)
state = {"seen": []}
job = outlast.Job(url, state=state, name="divided", every="0s", saving="blocking")
for epoch in job.epochs(3):
    sampler.set_epoch(epoch)
    for batch in job.batches(loader):
        state["seen"] += [[epoch, int(one)] for one in batch]
        if job.attempt == 0 and job.step == int(os.environ["STOP"]) and rank == 1:
            os._exit(9)
for epoch, one in state["seen"]:
    say("seen", epoch * 1000 + one)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RankServer]:
    with RankServer("torch.utils.data", "outlast.frameworks.torch") as server:
        yield server


@pytest.mark.parametrize("stop", [1, 6, 9, 12])
def test_x07_each_sample_is_seen_once_by_one_rank_after_a_rank_was_lost(
    stop: int, server: RankServer, tmp_path: Path
) -> None:
    launches = Launches(server, tmp_path)
    assert launches.run(PROGRAM, 2, STOP=str(stop)).codes == [143, 9]
    ended = launches.run(PROGRAM, 2, STOP="-1")
    assert ended.codes == [0, 0], ended.errors
    seen = [ended.numbers(rank, "seen") for rank in range(2)]
    assert Counter(seen[0] + seen[1]) == Counter(
        epoch * 1000 + one for epoch in range(EPOCHS) for one in range(SAMPLES)
    )
    whole = launches.folder / "whole"
    undisturbed = Launches(server, whole).run(PROGRAM, 2, STOP="-1")
    assert [undisturbed.numbers(rank, "seen") for rank in range(2)] == seen
