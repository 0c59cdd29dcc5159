"""A resume in the middle of a DataLoader yields what the uninterrupted one would have, loading nothing twice."""

import random
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.utils import data

from outlast.frameworks.torch import TorchFramework

framework = TorchFramework()
SIZE = 23


class Noisy(data.Dataset):
    """Draws from the global generators at each load, as augmentation does, and counts loads."""

    def __init__(self) -> None:
        self.loads = 0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.loads += 1
        random.random()
        return index, int(torch.randint(10**6, ()))


class Stream(data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        yield from torch.randperm(SIZE).tolist()


class Restless(data.Sampler):
    """Draws two batches at a time from global random state, the later ones after loading has drawn from it."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(3):
            yield from [[random.randrange(SIZE) for _ in range(4)] for _ in range(2)]


Make = Callable[[], data.DataLoader]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


SKIPPED: dict[str, Make] = {
    "in order": lambda: data.DataLoader(Noisy(), 4),
    "shuffle": lambda: data.DataLoader(Noisy(), 4, shuffle=True),
    "shuffle, generator": lambda: data.DataLoader(Noisy(), 4, shuffle=True, generator=seeded()),
    "shuffle, drop_last": lambda: data.DataLoader(Noisy(), 4, shuffle=True, drop_last=True),
    "replacement": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.RandomSampler(range(SIZE), replacement=True, num_samples=100)
    ),
    "replacement, generator": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.RandomSampler(range(SIZE), replacement=True, num_samples=100, generator=seeded())
    ),
    "several permutations, generator": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.RandomSampler(range(SIZE), num_samples=70, generator=seeded())
    ),
    "weighted": lambda: data.DataLoader(Noisy(), 4, sampler=data.WeightedRandomSampler(torch.arange(1.0, SIZE), 40)),
    "subset, generator": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.SubsetRandomSampler(range(20), generator=seeded())
    ),
    "batch_size None": lambda: data.DataLoader(Noisy(), batch_size=None, shuffle=True),
    "batch sampler of torch": lambda: data.DataLoader(
        Noisy(), batch_sampler=data.BatchSampler(data.RandomSampler(range(SIZE), generator=seeded()), 4, True)
    ),
    "list of batches": lambda: data.DataLoader(Noisy(), batch_sampler=[[3, 1], [2], [5, 9], [7]]),
}
DRAWN: dict[str, Make] = {
    "sampler of the user": lambda: data.DataLoader(Noisy(), batch_sampler=Restless()),
    "iterable": lambda: data.DataLoader(Stream(), 4),
    "workers": lambda: data.DataLoader(Noisy(), 4, shuffle=True, num_workers=2),
    "default generator by name": lambda: data.DataLoader(Noisy(), 4, shuffle=True, generator=torch.default_generator),
}
ALL = SKIPPED | DRAWN


def global_state() -> tuple[object, ...]:
    return random.getstate(), torch.get_rng_state()


def set_global_state(state: tuple[object, ...]) -> None:
    random.setstate(state[0])
    torch.set_rng_state(state[1])


def generator_states(loader: data.DataLoader) -> list[object]:
    return [framework.generator_state(generator) for generator in framework.loader_generators(loader)]


def set_generator_states(loader: data.DataLoader, states: list[object]) -> None:
    for generator, state in zip(framework.loader_generators(loader), states, strict=True):
        framework.set_generator_state(generator, state)


def plain(batch: object) -> object:
    return (
        batch.tolist()
        if isinstance(batch, torch.Tensor)
        else [plain(part) for part in batch]
        if isinstance(batch, list | tuple)
        else batch
    )


def run_uninterrupted(make: Make, stop: int) -> tuple[object, ...]:
    """States at iter() and after `stop` batches; the batches after it; states at the end."""
    torch.manual_seed(1)
    random.seed(1)
    loader = make()
    start = global_state(), generator_states(loader)
    iterator = iter(loader)
    for _ in range(stop):
        next(iterator)
    middle = global_state(), generator_states(loader)
    rest = [plain(batch) for batch in iterator]
    return start, middle, rest, (global_state(), generator_states(loader))


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where another test has loaded it
@pytest.mark.parametrize("stop", [0, 1, 3])
@pytest.mark.parametrize("label", ALL)
def test_a_resumed_loader_yields_what_the_uninterrupted_one_would_have(label: str, stop: int) -> None:
    start, middle, rest, end = run_uninterrupted(ALL[label], stop)
    torch.manual_seed(99)
    random.seed(99)
    loader = ALL[label]()
    set_generator_states(loader, start[1])
    set_global_state(start[0])
    iterator = iter(loader)
    skipped = framework.skip_batches(loader, iterator, stop)
    assert skipped == (stop if label in SKIPPED else 0)
    for _ in range(stop - skipped):
        next(iterator)
    if label in SKIPPED:
        assert loader.dataset.loads == 0
        assert str(generator_states(loader)) == str(middle[1])
        assert all(
            torch.equal(a["state"], b["state"]) for a, b in zip(generator_states(loader), middle[1], strict=True)
        )
    set_global_state(middle[0])
    assert [plain(batch) for batch in iterator] == rest
    assert random.getstate() == end[0][0]
    assert torch.equal(torch.get_rng_state(), end[0][1])


def test_only_a_fresh_iterator_is_advanced() -> None:
    loader = SKIPPED["in order"]()
    iterator = iter(loader)
    next(iterator)
    assert framework.skip_batches(loader, iterator, 2) == 0
    assert plain(next(iterator))[0] == [4, 5, 6, 7]
    assert framework.skip_batches(loader, (batch for batch in loader), 2) == 0


def test_no_more_is_skipped_than_there_is() -> None:
    loader = SKIPPED["list of batches"]()
    iterator = iter(loader)
    assert framework.skip_batches(loader, iterator, 9) == 4
    assert list(iterator) == []


def test_the_count_of_batches_yielded_goes_on() -> None:
    loader = SKIPPED["shuffle"]()
    iterator = iter(loader)
    framework.skip_batches(loader, iterator, 3)
    next(iterator)
    assert iterator._num_yielded == 4


def test_each_generator_is_named_once() -> None:
    generator, other = seeded(), seeded()
    shuffled = data.DataLoader(range(9), shuffle=True, generator=generator)
    assert framework.loader_generators(shuffled) == [generator]
    batches = data.BatchSampler(data.RandomSampler(range(9), generator=other), 2, drop_last=False)
    assert framework.loader_generators(data.DataLoader(range(9), batch_sampler=batches, generator=generator)) == [
        generator,
        other,
    ]
    assert framework.loader_generators(data.DataLoader(range(9))) == []
