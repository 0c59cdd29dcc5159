"""Which checks look at which kind of file, and where their rules stand; a new family of rules is a row here."""

import importlib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from typing import cast

from outlast.errors import SettingsError
from outlast.lint.rule import Finding, Rule
from outlast.lint.source import Kind, Source

Check = Callable[[Source], Iterable[Finding]]

# Each module has a `check(source)`; one is imported when the first file of its kind is met.
_CHECKS: dict[Kind, tuple[str, ...]] = {
    Kind.YAML: (
        "outlast.lint.cloud_run.in_yaml",
        "outlast.lint.kubernetes.checking",
        "outlast.lint.kubernetes.in_pipelines",
        "outlast.lint.clouds.checks",
    ),
    Kind.SHELL: (
        "outlast.lint.cloud_run.in_shell",
        "outlast.lint.kubernetes.in_scripts",
        "outlast.lint.commands.in_scripts",
        "outlast.lint.slurm.checks",
        "outlast.lint.clouds.checks",
    ),
    Kind.CONTAINERFILE: ("outlast.lint.containerfiles.checks",),
    Kind.HCL: (
        "outlast.lint.cloud_run.in_terraform",
        "outlast.lint.kubernetes.in_terraform",
        "outlast.lint.clouds.checks",
    ),
    Kind.PYTHON: ("outlast.lint.programs.checks",),
}
# Each module has its `RULES`.
_RULES: tuple[str, ...] = (
    "outlast.lint.ignoring",
    "outlast.lint.cloud_run.in_yaml",
    "outlast.lint.kubernetes.checking",
    "outlast.lint.commands.rules",
    "outlast.lint.containerfiles.rules",
    "outlast.lint.programs.rules",
    "outlast.lint.slurm.rules",
    "outlast.lint.clouds.rules",
)
# The letters that ids begin with.
_FAMILIES = {
    "CR": "Cloud Run jobs, and containers",
    "K": "Kubernetes",
    "C": "Python programs",
    "S": "Slurm batch scripts",
    "A": "AWS Batch and ECS",
    "L": "Ignores",
}


@cache
def checks_of(kind: Kind) -> tuple[Check, ...]:
    """The checks that look at files of a kind."""
    return tuple(cast(Check, importlib.import_module(module).check) for module in _CHECKS[kind])


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its id, in the order of the ids."""
    rules = [one for module in _RULES for one in cast(tuple[Rule, ...], importlib.import_module(module).RULES)]
    return {one.id: one for one in sorted(rules, key=lambda rule: rule.id)}


def families() -> dict[str, tuple[Rule, ...]]:
    """All rules in their families, by the family's title."""
    rules = all_rules().values()
    return {title: tuple(one for one in rules if one.family == letters) for letters, title in _FAMILIES.items()}


def load_rule(name: str) -> Rule:
    """The rule of an id, in any case. Raises SettingsError for an unknown one, with those that look like it."""
    found = all_rules().get(name.strip().upper())
    if found is None:
        near = get_close_matches(name.strip().upper(), all_rules(), n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "`outlast explain` lists all"
        raise SettingsError(f"there is no rule {name!r}; {advice}")
    return found
