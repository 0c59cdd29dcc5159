"""A copy that overlaps with training is the state at the border, or is known not to be."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from outlast.frameworks.torch_lazy import LazyCopy
from outlast.state.parts import Progress, UserState

SIZE = 300  # 300 x 300 floats are large enough to be copied lazily


class Training:
    def __init__(self, optimizer: str = "AdamW", **settings: Any) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.BatchNorm1d(SIZE))
        self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), lr=0.1, **settings)
        self.ema = torch.zeros(SIZE, SIZE)
        self.step()
        self.state = UserState({"model": self.model, "optimizer": self.optimizer, "ema": self.ema, "n": np.zeros(9)})
        found = self.state.lazy_copy()
        assert found is not None
        self.framework, self.lazy = found
        self.go = threading.Event()

    @property
    def weight(self) -> torch.Tensor:
        return self.model[0].weight

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.rand(4, SIZE)).square().sum().backward()
        self.optimizer.step()

    def begin(self) -> None:
        """A snapshot at the border: its lazy share is copied once `go` is set."""
        snapshot = self.state.snapshot(Progress())
        offsets = [sum(snapshot.table.sizes[:index]) for index in range(len(snapshot.table.sizes))]
        self.wanted = b"".join(bytes(snapshot.data(index)) for index in range(len(offsets)))
        self.buffer = memoryview(bytearray(snapshot.bytes))
        at_once, self.later = snapshot.split_lazily(self.framework, self.lazy.places())
        at_once.copy_into(self.buffer, offsets)
        leaves = [leaf for pile in self.later.piles for leaf in pile.leaves]
        values = [value for pile in self.later.piles for value in pile.values]
        copies = [self.buffer[offsets[leaf] : offsets[leaf] + snapshot.table.sizes[leaf]] for leaf in leaves]
        self.names = {snapshot.table.names[leaf] for leaf in leaves}

        def copy() -> None:
            self.go.wait(10)
            self.later.copy_into(self.buffer, offsets)

        self.lazy.start(values, copies, copy)


@pytest.fixture
def training() -> Iterator[Training]:
    made = Training()
    yield made
    made.go.set()
    made.lazy.close()


def test_only_parameters_and_optimizer_state_wait(training: Training) -> None:
    training.begin()
    assert training.names == {
        "state['model'].state_dict()['0.weight']",
        "state['optimizer'].state_dict()['state'][0]['exp_avg']",
        "state['optimizer'].state_dict()['state'][0]['exp_avg_sq']",
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "AdamW"},
        {"optimizer": "AdamW", "foreach": True},
        {"optimizer": "AdamW", "fused": True},
        {"optimizer": "SGD", "momentum": 0.9},
        {"optimizer": "RMSprop"},
        {"optimizer": "Adagrad"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_a_step_waits_for_the_copy_which_is_that_of_the_border(settings: dict[str, Any]) -> None:
    training = Training(**settings)
    training.begin()
    before = training.weight.detach().clone()
    stepping = threading.Thread(target=training.step)
    stepping.start()
    stepping.join(0.2)
    assert stepping.is_alive()  # forward and backward are done, the update is not
    assert torch.equal(training.weight, before)
    training.go.set()
    stepping.join()
    assert training.lazy.result()
    assert training.buffer == training.wanted
    assert not torch.equal(training.weight, before)
    training.lazy.close()


def forward(training: Training) -> None:
    training.model(torch.rand(4, SIZE)).sum().backward()


HARMLESS: dict[str, Callable[[Training], object]] = {
    "running statistics move": forward,
    "an average is updated in place": lambda training: training.ema.lerp_(training.weight.detach(), 0.5),
    "other memory": lambda training: setattr(training.weight, "data", training.weight.data * 2),
    "gradients": lambda training: training.optimizer.zero_grad(),
}
HARMFUL: dict[str, Callable[[Training], object]] = {
    "in place": lambda training: training.weight.detach().mul_(2),
    "through data": lambda training: training.weight.data.mul_(2),
    "through NumPy": lambda training: np.multiply(
        training.weight.detach().numpy(), 2, out=training.weight.detach().numpy()
    ),
    "an average put in place": lambda training: training.weight.data.copy_(training.ema),
    "a moment": lambda training: training.optimizer.state[training.weight]["exp_avg"].data.add_(1),
    "an update without a step": lambda training: torch._fused_adamw_(
        [training.weight.data],
        [torch.ones_like(training.weight)],
        *[[training.optimizer.state[training.weight][name]] for name in ("exp_avg", "exp_avg_sq")],
        [],
        [torch.tensor(1.0)],
        lr=0.1,
        beta1=0.9,
        beta2=0.9,
        weight_decay=0.0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_was_copied_at_once_may_change(training: Training, name: str) -> None:
    training.begin()
    HARMLESS[name](training)
    training.go.set()
    assert training.lazy.result()
    assert training.buffer == training.wanted


@pytest.mark.parametrize("name", HARMFUL)
def test_a_change_between_border_and_copy_is_told(training: Training, name: str) -> None:
    training.begin()
    HARMFUL[name](training)
    training.go.set()
    assert not training.lazy.result()
    training.begin()
    assert training.lazy.result()  # the next one is good again
    assert training.buffer == training.wanted


def test_a_change_during_the_copy_is_told_wherever_it_is(training: Training) -> None:
    real = LazyCopy.start

    def start(lazy: LazyCopy, values: Any, copies: Any, copy: Callable[[], None]) -> None:
        def torn() -> None:
            copy()
            training.weight.detach().numpy()[7, 11] += 1  # no sample is there

        real(lazy, values, copies, torn)

    training.lazy.start = start.__get__(training.lazy)
    training.begin()
    training.go.set()
    assert not training.lazy.result()


def test_a_change_after_the_copy_does_not_matter(training: Training) -> None:
    training.go.set()
    training.begin()
    assert training.lazy.result()
    training.weight.data.mul_(2)
    assert training.lazy.result()
    assert training.buffer == training.wanted


def test_what_the_copy_raises_is_told_and_fails_no_step(training: Training) -> None:
    def broken() -> None:
        raise OSError("no memory")

    training.lazy.start([], [], broken)
    training.step()
    with pytest.raises(OSError, match="no memory"):
        training.lazy.result()
    training.go.set()
    training.begin()  # raises no more


def test_the_hooks_go_with_close(training: Training) -> None:
    training.lazy.close()
    assert not training.optimizer._optimizer_step_pre_hooks


def test_without_an_optimizer_nothing_waits() -> None:
    assert UserState({"model": torch.nn.Linear(2, 2)}).lazy_copy() is None
