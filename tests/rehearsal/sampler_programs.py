"""SAMPLER of the field reports in each way that people draw their data: 3 epochs of 20 items, one draw for each.

Each program takes the settings of its Job and `here`, which it calls at the top of an epoch, inside each step and
below the batches, and returns the list (epoch, item, draw). All randomness is seeded before the Job is made.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from outlast import Job

EPOCHS, ITEMS = 3, 20
Here = Callable[[Job, str, int], None]
Program = Callable[[dict[str, Any], Here], list[Any]]


def _epochs(job: Job, here: Here, loader_of: Callable[[], Any], draw: Callable[[], float]) -> list[Any]:
    seen = job.state["seen"]
    for epoch in job.epochs(EPOCHS):
        loader = loader_of()
        here(job, "top", epoch)
        for batch in job.batches(loader):
            here(job, "step", len(seen))
            seen.append((epoch, int(batch), draw()))
        here(job, "below", epoch)
        seen[-1] = (*seen[-1][:3], draw())  # evaluation below the batches draws too
    return list(seen)


def shuffled_list(settings: dict[str, Any], here: Here) -> list[Any]:
    random.seed(1)
    job = Job(**settings, state={"seen": []})

    def order() -> list[int]:
        items = list(range(ITEMS))
        random.shuffle(items)
        return items

    return _epochs(job, here, order, random.random)


def own_random(settings: dict[str, Any], here: Here) -> list[Any]:
    rng = random.Random(4)
    job = Job(**settings, state={"seen": [], "rng": rng})
    return _epochs(job, here, lambda: rng.sample(range(ITEMS), ITEMS), rng.random)


def generator_function(settings: dict[str, Any], here: Here) -> list[Any]:
    random.seed(1)
    job = Job(**settings, state={"seen": []})

    def items() -> Iterator[int]:
        for _ in range(ITEMS):
            yield random.randrange(1000)

    return _epochs(job, here, items, random.random)


class Deck:
    """A loader of the user's own, with state_dict: knows its position, and shuffles when a pass begins."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.dealt = 0

    def __iter__(self) -> Iterator[int]:
        self.order = self.order or random.sample(range(ITEMS), ITEMS)
        while self.dealt < len(self.order):
            self.dealt += 1
            yield self.order[self.dealt - 1]
        self.order, self.dealt = [], 0

    def state_dict(self) -> dict[str, Any]:
        return {"order": list(self.order), "dealt": self.dealt}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.order, self.dealt = list(state_dict["order"]), state_dict["dealt"]


def deck_in_the_state(settings: dict[str, Any], here: Here) -> list[Any]:
    random.seed(1)
    deck = Deck()
    job = Job(**settings, state={"seen": [], "deck": deck})
    return _epochs(job, here, lambda: deck, random.random)


def deck_beside_the_state(settings: dict[str, Any], here: Here) -> list[Any]:
    random.seed(1)
    deck = Deck()
    job = Job(**settings, state={"seen": []})
    return _epochs(job, here, lambda: deck, random.random)


def own_order_in_steps(settings: dict[str, Any], here: Here) -> list[Any]:
    random.seed(1)
    seen: list[Any] = []
    order: list[int] = []
    job = Job(**settings, state={"seen": seen, "order": order})
    for step in job.steps(EPOCHS * ITEMS):
        if step % ITEMS == 0:
            order[:] = random.sample(range(ITEMS), ITEMS)
        here(job, "step", step)
        seen.append((step // ITEMS, order[step % ITEMS], random.random()))
    return list(seen)


def numpy_generator(settings: dict[str, Any], here: Here) -> list[Any]:
    import numpy as np

    rng = np.random.default_rng(3)
    job = Job(**settings, state={"seen": [], "rng": rng})
    return _epochs(job, here, lambda: rng.permutation(ITEMS), rng.random)


def numpy_global(settings: dict[str, Any], here: Here) -> list[Any]:
    import numpy as np

    np.random.seed(3)
    job = Job(**settings, state={"seen": []})
    return _epochs(job, here, lambda: np.random.permutation(ITEMS), np.random.random)


def torch_loader(*, own: bool, inside: bool = False, workers: int = 0, stateful: bool = False) -> Program:
    """A shuffling DataLoader, with a generator of its own or not; generator or stateful loader inside the state."""

    def program(settings: dict[str, Any], here: Here) -> list[Any]:
        import torch
        from torch.utils import data

        kind: Any = data.DataLoader
        if stateful:
            from torchdata.stateful_dataloader import StatefulDataLoader

            kind = StatefulDataLoader
        torch.manual_seed(1)
        generator = torch.Generator().manual_seed(5) if own else None
        loader = kind(range(ITEMS), shuffle=True, generator=generator, num_workers=workers)
        state: dict[str, Any] = {"seen": []}
        if inside:
            state |= {"loader": loader} if stateful else {"generator": generator}
        job = Job(**settings, state=state)
        return _epochs(job, here, lambda: loader, lambda: float(torch.rand(())))

    return program


PROGRAMS: dict[str, Program] = {
    "shuffled list": shuffled_list,
    "random.Random in the state": own_random,
    "generator function": generator_function,
    "own loader in the state": deck_in_the_state,
    "own loader beside the state": deck_beside_the_state,
    "own order in job.steps": own_order_in_steps,
    "numpy Generator": numpy_generator,
    "numpy global": numpy_global,
    "DataLoader": torch_loader(own=False),
    "DataLoader, own generator": torch_loader(own=True),
    "DataLoader, generator in the state": torch_loader(own=True, inside=True),
    "StatefulDataLoader in the state": torch_loader(own=False, inside=True, stateful=True),
    "StatefulDataLoader beside the state": torch_loader(own=False, stateful=True),
    "DataLoader, 2 workers": torch_loader(own=False, workers=2),
    "DataLoader, own generator, 2 workers": torch_loader(own=True, workers=2),
    "StatefulDataLoader in the state, 2 workers": torch_loader(own=False, inside=True, stateful=True, workers=2),
    "StatefulDataLoader beside the state, 2 workers": torch_loader(own=False, stateful=True, workers=2),
}
