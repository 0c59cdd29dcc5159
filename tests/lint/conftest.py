"""Lint with one rule, where a test asks for it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.lint import catalogue

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def one_rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The catalogue knows T001 only, which finds `bad: true`, and what lint itself says of ignores."""
    import one_rule as module

    _forget()
    monkeypatch.setattr(catalogue, "_CHECKS", module.only_this_rule())
    monkeypatch.setattr(catalogue, "_RULES", module.MODULES)
    yield
    _forget()


def _forget() -> None:
    catalogue.checks_of.cache_clear()
    catalogue.all_rules.cache_clear()
