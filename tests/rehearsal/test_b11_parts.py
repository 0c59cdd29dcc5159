"""B11: weights, moments and schedules all come back, and a part that would not is refused by its name."""

from pathlib import Path

import pytest
from driving import run

SGD = """
import os
import numpy as np
import outlast
rng = np.random.default_rng(1)
data, truth = rng.normal(size=(64, 8)), rng.normal(size=8)
weights, momentum = np.zeros(8), np.zeros(8)
rate = {"now": 0.1}
job = outlast.Job(state={"weights": weights}, every="1h")
LATE
for step in job.steps(100):
    if step == 50 and job.attempt == 0 and not os.environ.get("STRAIGHT"):
        job.save()
    if step == 51 and job.attempt == 0 and not os.environ.get("STRAIGHT"):
        os._exit(9)
    batch = rng.permutation(64)[:16]
    gradient = data[batch].T @ (data[batch] @ weights - data[batch] @ truth) / 16
    momentum *= 0.9
    momentum += gradient
    weights -= rate["now"] * momentum
    rate["now"] *= 0.97
print(job.resumed_from, weights.tobytes().hex(), momentum.tobytes().hex(), rate["now"].hex())
"""
ALL = 'job.register("momentum", momentum); job.register("rate", rate); job.register("rng", rng)'


def test_sgd_with_momentum_and_a_decaying_rate_is_bit_equal_after_a_resume(tmp_path: Path) -> None:
    program = SGD.replace("LATE", ALL)
    straight = run(program, tmp_path / "straight", env={"STRAIGHT": "1"})
    assert run(program, tmp_path / "cut").code == 9
    resumed = run(program, tmp_path / "cut")
    assert resumed.code == 0
    assert resumed.out.split()[0] == "51"
    assert resumed.out.split()[1:] == straight.out.split()[1:]


CHANGES = {
    "a missing part": (ALL, ALL.replace('job.register("rate", rate);', ""), "the program has no part 'rate'"),
    "an extra part": (ALL, ALL + '; job.register("more", {})', "the checkpoint has no part 'more'"),
    "a misspelt part": (ALL, ALL.replace('"momentum"', '"momentun"'), "'momentum'"),
    "a misspelt nested array": (
        ALL + '; job.register("net", {"layer": {"bias": np.zeros(3)}})',
        ALL + '; job.register("net", {"layer": {"bais": np.zeros(3)}})',
        "state['net']['layer']['bais']",
    ),
    "a nested array that is gone": (
        ALL + '; job.register("net", [np.zeros(3)])',
        ALL + '; job.register("net", [np.zeros(3), np.zeros(2)])',
        "state['net'][1]",
    ),
    "another shape": (ALL, ALL.replace(" momentum)", " np.zeros(9))"), "state['momentum']"),
    "another dtype": (ALL, ALL.replace(" momentum)", " np.zeros(8, 'f4'))"), "state['momentum']"),
    "another kind of generator": (ALL, ALL.replace(" rng)", " np.zeros(3))"), "state['rng']"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_would_not_come_back_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    first, second, named = CHANGES[kind]
    assert run(SGD.replace("LATE", first), tmp_path).code == 9
    refused = run(SGD.replace("LATE", second), tmp_path)
    assert (refused.code, refused.out) == (78, "")
    assert named in refused.err
    assert run(SGD.replace("LATE", first), tmp_path).out.split()[0] == "51"


def test_parts_may_differ_where_that_is_allowed(tmp_path: Path) -> None:
    assert run(SGD.replace("LATE", ALL), tmp_path).code == 9
    changed = ALL.replace('job.register("rate", rate);', 'job.register("more", {});')
    allowed = SGD.replace("LATE", changed).replace('"1h"', '"1h", allow_missing=["more"], allow_extra=["rate"]')
    ended = run(allowed, tmp_path)
    assert (ended.code, ended.out.split()[0]) == (0, "51")


def test_a_part_after_the_first_step_is_refused(tmp_path: Path) -> None:
    late = SGD.replace("LATE", "").replace("    momentum *= 0.9", "    job.register('momentum', momentum)")
    ended = run(late, tmp_path)
    assert ended.code == 1
    assert "LoopMisused: register('momentum') comes after the first step" in ended.err


TORCH = """
import hashlib, os
import torch
import outlast
torch.set_num_threads(1)
torch.manual_seed(3)
model = torch.nn.Sequential(
    torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)
)
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.7)
state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
job = outlast.Job(state=state, every="1h")
for step in job.steps(60):
    if step == 30 and not os.environ.get("STRAIGHT") and job.attempt == 0:
        job.save()
    if step == 33 and not os.environ.get("STRAIGHT") and job.attempt == 0:
        os._exit(9)
    loss = (model(torch.randn(12, 6)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
running = hashlib.sha256()
for one in (*model.state_dict().values(), *optimizer.state[model[0].weight].values()):
    running.update(torch.as_tensor(one).numpy().tobytes())
print(job.resumed_from, running.hexdigest(), scheduler.get_last_lr())
"""


def test_a_torch_model_with_optimizer_schedule_and_dropout_is_bit_equal(tmp_path: Path) -> None:
    straight = run(TORCH, tmp_path / "straight", env={"STRAIGHT": "1"})
    assert run(TORCH, tmp_path / "cut").code == 9
    resumed = run(TORCH, tmp_path / "cut")
    assert resumed.out.split()[0] == "31", resumed.err
    assert resumed.out.split()[1:] == straight.out.split()[1:]
