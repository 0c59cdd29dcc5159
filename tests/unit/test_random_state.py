"""Random state: captured, drawn from and set again, it gives the same draws, in every framework."""

import copy

import numpy as np
import pytest
import torch

from outlast.frameworks.jax import JaxFramework
from outlast.frameworks.numpy import NumpyFramework
from outlast.frameworks.torch import TorchFramework
from outlast.ports import Unsupported

BIT_GENERATORS = [np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64]
numpy_framework, torch_framework = NumpyFramework(), TorchFramework()


def plain(state: object) -> object:
    """Fails for what is not a tree of plain values and arrays."""
    match state:
        case dict():
            assert all(isinstance(key, str) for key in state)
            return {key: plain(value) for key, value in state.items()}
        case list():
            return [plain(value) for value in state]
        case np.ndarray() | torch.Tensor():
            return copy.deepcopy(state)
        case None | bool() | int() | float() | str():
            return state
    raise AssertionError(f"{type(state)} is not plain")


def test_numpys_global_draws_repeat() -> None:
    np.random.seed(3)
    np.random.standard_normal()  # leaves the second of a pair behind
    state = plain(numpy_framework.random_state())
    draws = np.random.standard_normal(5), np.random.randint(0, 9, 5)
    numpy_framework.set_random_state(state)
    again = np.random.standard_normal(5), np.random.randint(0, 9, 5)
    assert [a.tolist() for a in draws] == [a.tolist() for a in again]


def test_torchs_global_draws_repeat() -> None:
    torch.manual_seed(3)
    state = plain(torch_framework.random_state())
    assert state["cuda"] == [] or torch.cuda.is_available()
    draws = torch.randn(5), torch.randperm(9)
    torch_framework.set_random_state(state)
    again = torch.randn(5), torch.randperm(9)
    assert all(torch.equal(a, b) for a, b in zip(draws, again, strict=True))


def test_another_number_of_cuda_devices_is_refused_before_anything_is_set() -> None:
    state = torch_framework.random_state()
    before = torch.get_rng_state()
    devices = torch.cuda.device_count() + 1
    with pytest.raises(Unsupported, match=f"{devices} CUDA devices"):
        torch_framework.set_random_state({"cpu": state["cpu"] * 0, "cuda": [state["cpu"]] * devices})
    assert torch.equal(torch.get_rng_state(), before)


def test_jax_has_no_global_state() -> None:
    assert JaxFramework().random_state() is None
    JaxFramework().set_random_state(None)
    with pytest.raises(Unsupported):
        JaxFramework().set_random_state({})
    with pytest.raises(Unsupported):
        JaxFramework().generator_state(None)
    with pytest.raises(Unsupported):
        JaxFramework().set_generator_state(None, None)


@pytest.mark.parametrize("bits", BIT_GENERATORS)
def test_a_numpy_generator_repeats_its_draws_in_place(bits: type[np.random.BitGenerator]) -> None:
    generator = np.random.Generator(bits(3))
    generator.integers(0, 9, dtype=np.uint32)  # leaves half a word behind
    state = plain(numpy_framework.generator_state(generator))
    draws = generator.random(5).tolist(), generator.integers(0, 9, 5, dtype=np.uint32).tolist()
    other = np.random.Generator(bits(4))
    for target in (generator, other):
        numpy_framework.set_generator_state(target, state)
        assert (target.random(5).tolist(), target.integers(0, 9, 5, dtype=np.uint32).tolist()) == draws


def test_a_state_does_not_change_with_its_generator() -> None:
    for bits in BIT_GENERATORS:
        generator = np.random.Generator(bits(3))
        state = numpy_framework.generator_state(generator)
        before = str(state)
        generator.random(1000)
        assert str(state) == before


@pytest.mark.parametrize("seed", [3, [1, 2**40], None])
def test_children_spawned_after_a_resume_are_the_ones_that_would_have_come(seed: object) -> None:
    generator = np.random.default_rng(seed)
    generator.spawn(2)
    state = plain(numpy_framework.generator_state(generator))
    wanted = [child.random() for child in generator.spawn(2)]
    for target in (generator, np.random.default_rng(seed), np.random.default_rng(99)):
        numpy_framework.set_generator_state(target, state)
        assert [child.random() for child in target.spawn(2)] == wanted


def test_legacy_and_bare_generators_repeat_their_draws() -> None:
    legacy, bits = np.random.RandomState(3), np.random.PCG64(3)
    legacy.standard_normal()
    states = [plain(numpy_framework.generator_state(generator)) for generator in (legacy, bits)]
    draws = legacy.standard_normal(3).tolist(), bits.random_raw(3).tolist()
    for generator, state in zip((legacy, bits), states, strict=True):
        numpy_framework.set_generator_state(generator, state)
    assert (legacy.standard_normal(3).tolist(), bits.random_raw(3).tolist()) == draws


def test_another_kind_of_generator_is_refused_with_both_names() -> None:
    state = numpy_framework.generator_state(np.random.default_rng(3))
    with pytest.raises(Unsupported, match=r"PCG64.*MT19937"):
        numpy_framework.set_generator_state(np.random.Generator(np.random.MT19937(3)), state)
    with pytest.raises(Unsupported, match=r"Generator.*RandomState"):
        numpy_framework.set_generator_state(np.random.RandomState(3), state)
    with pytest.raises(Unsupported, match=r"PCG64.*MT19937"):
        numpy_framework.set_random_state(state["state"])


def test_a_seed_sequence_is_owned_only_to_be_refused() -> None:
    assert numpy_framework.owns_generator(np.random.SeedSequence(3))
    with pytest.raises(Unsupported, match="SeedSequence"):
        numpy_framework.generator_state(np.random.SeedSequence(3))


def test_a_torch_generator_repeats_its_draws_in_place() -> None:
    generator = torch.Generator().manual_seed(3)
    assert torch_framework.owns_generator(generator)
    state = plain(torch_framework.generator_state(generator))
    draws = torch.randn(5, generator=generator)
    torch_framework.set_generator_state(generator, state)
    assert torch.equal(torch.randn(5, generator=generator), draws)
    with pytest.raises(Unsupported, match=r"cuda.*cpu"):
        torch_framework.set_generator_state(generator, {**state, "device": "cuda"})


if torch.cuda.is_available():  # not collected without a device: a skipped test would be a hole

    def test_cuda_draws_repeat() -> None:
        generator = torch.Generator("cuda").manual_seed(3)
        torch.cuda.manual_seed(4)
        states = plain(torch_framework.random_state()), plain(torch_framework.generator_state(generator))

        def draw() -> list[torch.Tensor]:
            return [torch.randn(5, device="cuda"), torch.randn(5, device="cuda", generator=generator)]

        draws = draw()
        torch_framework.set_random_state(states[0])
        torch_framework.set_generator_state(generator, states[1])
        assert all(torch.equal(a, b) for a, b in zip(draws, draw(), strict=True))
