"""Random state: the global generators of the program's libraries, and the generators that stand in its state.

The state at a border is not all that a resume needs. Code at the top of an epoch, and `iter(loader)`, draw the
order of the data; they run again when an epoch is resumed in the middle, and must draw the same order.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.ports import Framework
from outlast.state.shape import Ground

PYTHON = "python"


@dataclass(frozen=True, slots=True)
class RandomState:
    """Random state at one moment, as trees of plain values and arrays that are safe to keep.

    `libraries` by name (PYTHON, "numpy", "torch"); `generators` by key path; `loader` in the loader's own order.
    """

    libraries: Mapping[str, Any]
    generators: Mapping[str, Any]
    loader: tuple[Any, ...] = ()

    def as_tree(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"libraries": self.libraries, "generators": self.generators, "loader": self.loader}

    @property
    def of_loader(self) -> "RandomState":
        """The part that stands in the data loader."""
        return RandomState({}, {}, self.loader)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "RandomState":
        return cls(tree["libraries"], tree["generators"], tuple(tree["loader"]))


@dataclass(slots=True)
class Randomness:
    """Reads and sets random state. With `libraries=False` only the generators in the user's state are handled."""

    ground: Ground
    libraries: bool = True

    def read(self, frameworks: Iterable[Framework], loader: object | None = None) -> RandomState:
        """The random state now, with that of the generators inside a data loader."""
        frameworks = list(frameworks)
        libraries: dict[str, Any] = {}
        if self.libraries:
            libraries[PYTHON] = random.getstate()
            for framework in frameworks:
                state = framework.random_state()
                if state is not None:
                    libraries[framework.name] = state
        return RandomState(
            libraries,
            {path: _state_of(framework, one) for path, (framework, one) in self.ground.generators.items()},
            tuple(_state_of(framework, one) for framework, one in _loader_generators(frameworks, loader)),
        )

    def set(self, state: RandomState, frameworks: Iterable[Framework], loader: object | None = None) -> list[str]:
        """Sets it all back. Returns the libraries that the checkpoint knows and the program has not imported."""
        frameworks = list(frameworks)
        by_name = {framework.name: framework for framework in frameworks}
        missing = []
        for name, saved in state.libraries.items() if self.libraries else ():
            if name == PYTHON:
                random.setstate(saved)
            elif name in by_name:
                by_name[name].set_random_state(saved)
            else:
                missing.append(name)
        for path, saved in state.generators.items():
            if path in self.ground.generators:
                _set_state(*self.ground.generators[path], saved)
        for (framework, one), saved in zip(_loader_generators(frameworks, loader), state.loader, strict=False):
            _set_state(framework, one, saved)
        return missing


def _state_of(framework: Framework | None, generator: Any) -> Any:
    return generator.getstate() if framework is None else framework.generator_state(generator)


def _set_state(framework: Framework | None, generator: Any, state: Any) -> None:
    if framework is None:
        generator.setstate(state)
    else:
        framework.set_generator_state(generator, state)


def _loader_generators(frameworks: Iterable[Framework], loader: object | None) -> list[tuple[Framework, Any]]:
    if loader is None:
        return []
    return [(framework, one) for framework in frameworks for one in framework.loader_generators(loader)]
