"""FSDP2 in real processes (gloo): one joint checkpoint of all parts, which any number of ranks goes on from."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ranked_lives import Ended, Launches, RankServer

FSDP = """
import json
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

size, how = int(os.environ["WORLD_SIZE"]), os.environ.get("HOW", "")
dist.init_process_group("gloo", init_method="file://" + os.environ["TRACE"] + "-meeting", rank=rank, world_size=size)
torch.set_num_threads(1)
torch.manual_seed(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 6)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(2))
        self.register_buffer("mean", torch.zeros(6))
        self.head = torch.nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight
        self.gain = torch.nn.Parameter(torch.ones(1))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        if self.training:
            self.mean.lerp_(x.detach().mean(0).to(self.mean.dtype), 0.1)
        return self.head(x - self.mean.to(x.dtype)) * self.gain

model = Net()
if how != "plain":
    names = ("replica", "shard")
    hybrid = how == "hybrid"
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=names) if hybrid else init_device_mesh("cpu", (size,))
    options = {"mesh": mesh, "reshard_after_forward": how != "gathered"}
    if how == "mixed":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
job = outlast.Job(
    url, state={"model": model, "optimizer": optimizer}, every=outlast.Steps(4), name="fsdp",
    saving=os.environ.get("SAVING", "auto"),
)
say("from", job.resumed_from or 0)

def whole(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value

def digest():
    state = {name: whole(one) for name, one in model.state_dict().items()}
    for number, one in optimizer.state_dict()["state"].items():
        state.update({f"{number}.{name}": whole(value) for name, value in one.items()})
    return json.dumps({name: one.double().flatten().tolist() for name, one in sorted(state.items())})

say("begins", digest())
model.eval()
with torch.no_grad():
    say("logits", json.dumps(whole(model(torch.arange(11))).double().tolist()))
model.train()
for step in job.steps(int(os.environ.get("STEPS", "12"))):
    generator = torch.Generator().manual_seed(step * 100 + (rank if how == "own" else 0))
    for _ in range(2):  # gradients are gathered over two passes
        tokens = torch.randint(0, 11, (16,), generator=generator)
        torch.nn.functional.cross_entropy(model(tokens), tokens.roll(1)).backward()
    optimizer.step()
    optimizer.zero_grad()
    if how == "gathered" and step % 2:
        model(tokens)  # what it gathers stands at the border
    say("did", step + 1)
    time.sleep(float(os.environ.get("SLEEP", "0")))
say("result", digest())
os._exit(0) if how == "hard" else dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RankServer]:
    with RankServer("torch", "torch.distributed.fsdp", "torch.optim", "outlast.frameworks.torch") as server:
        yield server


def only(ended: Ended, word: str) -> str:
    """What every rank said after a word, which is the same."""
    found = {line.split(" ", 1)[1] for said in ended.said for line in said if line.startswith(f"{word} ")}
    assert ended.codes == [0] * len(ended.codes), ended.errors
    assert len(found) == 1, ended.errors
    return found.pop()


@pytest.fixture(scope="module")
def saved(server: RankServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Launches, str, str]:
    """A run of 4 ranks with 12 steps, its result, and the logits after it."""
    launches = Launches(server, tmp_path_factory.mktemp("sharded"))
    result = only(launches.run(FSDP, 4), "result")
    again = launches.run(FSDP, 4)
    assert only(again, "begins") == result
    return launches, result, only(again, "logits")


@pytest.mark.parametrize(("size", "how"), [(2, ""), (1, ""), (1, "plain"), (2, "plain"), (4, "hybrid")])
def test_any_number_of_ranks_goes_on_from_what_four_have_saved(
    size: int, how: str, saved: tuple[Launches, str, str]
) -> None:
    launches, result, logits = saved
    ended = launches.run(FSDP, size, HOW=how)
    assert only(ended, "from") == "12"
    assert only(ended, "begins") == result
    assert only(ended, "logits") == logits


@pytest.mark.parametrize("how", ["", "gathered", "mixed"])
def test_a_run_whose_ranks_are_killed_ends_as_one_that_is_not(how: str, server: RankServer, tmp_path: Path) -> None:
    expected = only(Launches(server, tmp_path / "whole").run(FSDP, 2, HOW=how), "result")
    launches = Launches(server, tmp_path / "killed")
    for number, word in ((1, signal.SIGKILL), (0, signal.SIGTERM)):
        saving = "lazy" if how == "" else "auto"
        ended = launches.run(FSDP, 2, kills=[(number, 0.25, word)], HOW=how, SLEEP="0.05", SAVING=saving)
        assert not ended.hung, ended.errors
    assert launches.commits()
    ended = launches.run(FSDP, 2, HOW=how)
    assert int(only(ended, "from")) > 0
    assert only(ended, "result") == expected


def test_what_one_process_saved_is_divided_among_several(server: RankServer, tmp_path: Path) -> None:
    launches = Launches(server, tmp_path)
    result = only(launches.run(FSDP, 1, HOW="plain"), "result")
    ended = launches.run(FSDP, 3)
    assert only(ended, "from") == "12"
    assert only(ended, "begins") == result
