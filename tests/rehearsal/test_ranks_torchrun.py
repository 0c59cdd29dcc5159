"""Several processes under the real torchrun, with gloo and DistributedDataParallel: notices, codes, results.

X16: torchrun kills what is left of its workers after a time of its own, and reports 1 whatever they left with.
"""

import json
import signal
import sys
from pathlib import Path

import pytest
from supervised import Supervised

from outlast.checkpoint.survey import survey, tasks_in
from outlast.stores.directory import DirectoryStore

torch = pytest.importorskip("torch")

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
DDP = """
import json, os, sys, time
import torch
import torch.distributed as dist
import outlast

def say(*words):  # in one write: torchrun's workers share a pipe, and print would mix their lines
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.AdamW(model.parameters())
job = outlast.Job(state={"model": model, "optimizer": optimizer}, name="ddp", every=outlast.Steps(5))
if job.resumed_from is None:
    torch.manual_seed(100 + rank)  # each rank draws its own batches
say("from", rank, job.resumed_from)
for step in job.steps(int(os.environ.get("STEPS", "40"))):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(float(os.environ.get("SLEEP", "0")))
    say("did", rank, step + 1)
    exec(os.environ.get("IN_STEP", ""))
total = sum(float(one.detach().double().sum()) for one in model.parameters())
say("result", rank, repr(total), float(torch.rand(())))
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes that import torch at once take their time on a busy machine."""
    monkeypatch.setattr("supervised.LONGEST_WAIT_SECONDS", 120.0)


def start(tmp_path: Path, store: str, *, retries: int = 0, **env: str) -> Supervised:
    script = tmp_path / "ddp.py"
    script.write_text(DDP)
    variables = {"OUTLAST_URL": str(tmp_path / store), "OMP_NUM_THREADS": "1", **env}
    return Supervised("--grace", "60s", "--retries", str(retries), "--", *TORCHRUN, str(script), env=variables)


def said(run: Supervised, word: str) -> list[str]:
    return sorted(line for _, line in run.out if line.startswith(f"{word} "))


def checkpoints(store: Path) -> list[int]:
    opened = DirectoryStore(str(store))
    [place] = tasks_in(opened)
    return [one.name.step for one in survey(opened, place) if one.verified]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.first
@pytest.mark.serial
def test_ddp_under_torchrun_stops_at_one_step_leaves_with_143_and_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    with start(tmp_path, "whole") as run:
        assert run.leave() == 0, run.lines()
        whole = said(run, "result")
    assert len(whole) == 2
    with start(tmp_path, "cut", SLEEP="0.1") as run:
        run.wait_for("did 1 7")
        run.send(signal.SIGTERM)
        assert run.leave() == 143, run.lines()
        done = {int(line.split()[2]) for line in said(run, "did")}
    assert max(done) in checkpoints(tmp_path / "cut")
    with start(tmp_path, "cut") as run:
        assert run.leave() == 0, run.lines()
        assert said(run, "from") == [f"from {rank} {max(done)}" for rank in range(2)]
        assert said(run, "result") == whole


@pytest.mark.first
@pytest.mark.serial
def test_a_rank_that_is_killed_in_a_collective_is_left_and_the_retry_goes_on(tmp_path: Path) -> None:
    with start(tmp_path, "whole") as run:
        assert run.leave() == 0, run.lines()
        whole = said(run, "result")
    dies = "job.attempt == 0 and step == 12 and rank == 1 and os.kill(os.getpid(), 9)"
    with start(tmp_path, "killed", retries=1, IN_STEP=dies) as run:
        assert run.leave() == 0, run.lines()
        assert said(run, "from") == ["from 0 10", "from 0 None", "from 1 10", "from 1 None"], run.out
        assert any("rank 1 is gone" in line and "exit code 143" in line for line in run.lines()), run.lines()
        assert said(run, "result") == whole


@pytest.mark.first
@pytest.mark.serial
def test_what_needs_a_human_is_78_through_torchrun_and_is_not_tried_again(tmp_path: Path) -> None:
    with start(tmp_path, "store", retries=3, IN_STEP="job.state.update(new=1)") as run:
        assert run.leave() == 78, run.lines()
    assert not any("attempt 2 starts" in line for line in run.lines())


@pytest.mark.first
@pytest.mark.serial
def test_x16_one_slow_rank_does_not_use_up_the_time_of_the_others(tmp_path: Path) -> None:
    """torchrun gives 6 s for all of its workers; one is in a step that does not end."""
    slow = "if step == 7 and rank == 1:\n    print('rank 1 naps', flush=True)\n    time.sleep(60)"
    with start(tmp_path, "store", IN_STEP=slow, TORCH_ELASTIC_SHUTDOWN_TIMEOUT="6") as run:
        run.wait_for("rank 1 naps")
        sent_at = run.send(signal.SIGTERM)
        assert run.leave() == 143, run.lines()
    stopped = [json.loads(line) for path in (tmp_path / "store").rglob("*.jsonl") for line in _lines(path)]
    ended = [one for one in stopped if one["event"] == "Stopped"]
    assert len(ended) == 2, "each rank has left by itself and said so"
    assert all(one["monotonic"] - sent_at < 6 for one in ended), "torchrun would have killed it"
    assert 5 in checkpoints(tmp_path / "store")
