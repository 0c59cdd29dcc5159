"""`outlast platform`: where am I, and what will happen here?"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.console import Console as Screen
from rich.table import Table

from outlast.clock import format_duration
from outlast.errors import EXIT_HUMAN, EXIT_RETRY
from outlast.settings import Surroundings, look_around

_OWN = "outlast"  # a fact that outlast decides


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the report: a name, its value as JSON, the value for people, and where it comes from."""

    name: str
    value: Any
    text: str
    source: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def platform(as_json: bool) -> None:
    """Show which platform this is, and what outlast expects of it, each fact with its source.

    Exit codes: 0 shown; 78 a variable of the environment makes no sense. Provisional.
    """
    here = look_around(os.environ)
    facts = collect_facts(here, os.environ)
    if as_json:
        values = {fact.name: fact.value for fact in facts}
        click.echo(json.dumps({**values, "sources": {fact.name: fact.source for fact in facts}}, indent=2))
        return
    table = Table("fact", "value", "source")
    table.columns[0].no_wrap = True
    for fact in facts:
        table.add_row(fact.name, fact.text, fact.source)
    Screen().print(table)


def collect_facts(here: Surroundings, env: Mapping[str, str]) -> list[Fact]:
    """Everything that the engine goes by here, in the order of the report."""
    return [_platform(here, env), *_identity(here), *_warning(here, env), *_ending(here, env)]


def _platform(here: Surroundings, env: Mapping[str, str]) -> Fact:
    source = "OUTLAST_PLATFORM" if env.get("OUTLAST_PLATFORM") else "detected from the environment"
    return Fact("platform", here.facts.name, here.facts.name, source)


def _identity(here: Surroundings) -> list[Fact]:
    source = f"the variables of {here.facts.name}"
    return [
        Fact(name, value, "none" if value is None else str(value), source)
        for name, value in asdict(here.identity).items()
    ]


def _warning(here: Surroundings, env: Mapping[str, str]) -> list[Fact]:
    facts, grace, margin = here.facts, here.grace_seconds, here.margin_seconds
    grace_source = "OUTLAST_GRACE" if env.get("OUTLAST_GRACE") else _source(here, "grace_seconds")
    rule = f"{_OWN}: a fifth of the grace, 30 s at most"
    notices = list(facts.notice_sources)
    return [
        Fact("notice_sources", notices, ", ".join(notices), _source(here, "notice_sources", "grace_seconds")),
        Fact("grace_seconds", grace, format_duration(grace), grace_source),
        Fact("margin_seconds", margin, format_duration(margin), rule),
        _plain(here, "mean_seconds_between_interruptions", format_duration(facts.mean_seconds_between_interruptions)),
    ]


def _ending(here: Surroundings, env: Mapping[str, str]) -> list[Fact]:
    code = here.interrupted_exit_code
    told = env.get("OUTLAST_EXIT_CODE", "").strip()
    code_source = "OUTLAST_EXIT_CODE" if told else _source(here, "interrupted_exit_code")
    retries = "no limit" if here.facts.max_retries is None else str(here.facts.max_retries)
    return [
        Fact("exit_code_finished", 0, "0", _OWN),
        Fact("exit_code_interrupted", code, str(code), code_source),
        Fact("exit_code_retry", EXIT_RETRY, str(EXIT_RETRY), f"{_OWN}: EX_TEMPFAIL of sysexits.h"),
        Fact("exit_code_human", EXIT_HUMAN, str(EXIT_HUMAN), f"{_OWN}: EX_CONFIG of sysexits.h"),
        _plain(here, "default_retries", str(here.facts.default_retries)),
        Fact("max_retries", here.facts.max_retries, retries, _source(here, "max_retries", "default_retries")),
        Fact("logs", here.facts.logs, here.facts.logs, f"{_OWN}: JSON where a platform collects logs"),
    ]


def _plain(here: Surroundings, name: str, text: str) -> Fact:
    return Fact(name, getattr(here.facts, name), text, _source(here, name))


def _source(here: Surroundings, *names: str) -> str:
    sources = here.facts.sources
    return next((sources[name] for name in names if name in sources), "no source is given")
