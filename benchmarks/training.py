"""A training loop of one thread: small matrix products, counted with their times, that never touch the saved state."""

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable

import torch

_SIDE, _PRODUCTS = 96, 16


class Training:
    """Runs pieces of about a millisecond, and knows how many were done between any two moments."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._left, self._right = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
        self._ends = array("d")

    def step(self, seconds: float) -> None:
        """One step of training: pieces for about so long."""
        until = time.monotonic() + seconds
        while True:
            for _ in range(_PRODUCTS):
                self._left.matmul(self._right)
            now = time.monotonic()
            self._ends.append(now)
            if now >= until:
                return

    def train(self, step_seconds: float, *, until: Callable[[], bool], border: Callable[[], object]) -> None:
        """Steps with a border after each, until at a border the answer is yes."""
        while not until():
            self.step(step_seconds)
            border()

    def pieces(self, begin: float, end: float) -> int:
        """How many pieces ended between two moments of the monotonic clock."""
        return bisect_left(self._ends, end) - bisect_left(self._ends, begin)

    def piece_seconds(self, begin: float, end: float) -> float:
        """The time of a piece between two moments."""
        return (end - begin) / max(self.pieces(begin, end), 1)

    def lost_seconds(self, begin: float, end: float, *, undisturbed: float) -> float:
        """How much longer the pieces between two moments took than undisturbed ones would have."""
        return (end - begin) - self.pieces(begin, end) * undisturbed
