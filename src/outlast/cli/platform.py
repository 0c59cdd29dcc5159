"""`outlast platform`: where am I, and what will happen here?"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.console import Console as Screen
from rich.table import Table
from rich.text import Text

from outlast.clock import format_duration
from outlast.errors import EXIT_HUMAN, EXIT_RETRY
from outlast.limits import TIMEOUT
from outlast.ports import KnownGrace
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
@click.option("--platform", "named", metavar="P", help="Show this one instead of the one that is detected.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def platform(named: str | None, *, as_json: bool) -> None:
    """Show which platform this is, and what outlast expects of it, each fact with its source.

    Exit codes: 0 shown; 78 a variable of the environment makes no sense. Provisional.
    """
    here = look_around(os.environ, platform=named)
    facts = collect_facts(here, os.environ, named=named)
    if as_json:
        values = {fact.name: fact.value for fact in facts}
        click.echo(json.dumps({**values, "sources": {fact.name: fact.source for fact in facts}}, indent=2))
        return
    table = Table("fact", "value", "source")
    table.columns[0].no_wrap = True
    for fact in facts:
        table.add_row(fact.name, _shown(fact.text), _shown(fact.source))
    Screen().print(table)
    if here.cut_grace:
        here.console.warning(here.cut_grace)


def collect_facts(here: Surroundings, env: Mapping[str, str], *, named: str | None = None) -> list[Fact]:
    """Everything that the engine goes by here, in the order of the report."""
    return [*_platform(here, env, named), *_identity(here), *_notices(here), *_grace(here), *_ending(here, env)]


def _platform(here: Surroundings, env: Mapping[str, str], named: str | None) -> list[Fact]:
    told = "--platform" if named else "OUTLAST_PLATFORM" if env.get("OUTLAST_PLATFORM", "").strip() else None
    provisional = here.facts.provisional
    text = "yes: not yet proven by a kill matrix of its own" if provisional else "no"
    return [
        Fact("platform", here.facts.name, here.facts.name, told or "detected from the environment"),
        Fact("provisional", provisional, text, _OWN),
    ]


def _identity(here: Surroundings) -> list[Fact]:
    source = f"the variables of {here.facts.name}"
    return [
        Fact(name, value, "none" if value is None else str(value), source)
        for name, value in asdict(here.identity).items()
    ]


def _notices(here: Surroundings) -> list[Fact]:
    facts = here.facts
    sources, moves = list(facts.notice_sources), list(facts.migration_signals)
    moved = f"{', '.join(moves)}: nothing to do, but connections break and time passes" if moves else "none"
    return [
        Fact("notice_sources", sources, ", ".join(sources), _source(here, "notice_sources")),
        _plain(here, "notice_share", f"{facts.notice_share:.0%}"),
        Fact("migration_signals", moves, moved, facts.sources.get("migration_signals", "this platform moves no job")),
        Fact("time_limit_seconds", *_time_limit(here)),
        _plain(here, "mean_seconds_between_interruptions", format_duration(facts.mean_seconds_between_interruptions)),
    ]


def _time_limit(here: Surroundings) -> tuple[float | None, str, str]:
    """Seconds from now, and who says so."""
    limit = here.time_limit
    if limit is None:
        return None, "none is known", f"{TIMEOUT}, `outlast run --timeout` and some platforms tell of one"
    seconds = round(limit.until.remaining_seconds(here.clock), 3)
    return seconds, f"in {format_duration(seconds)}", limit.source


def _grace(here: Surroundings) -> list[Fact]:
    """The grace that counts, and what it was chosen from."""
    by_source = {source: here.grace_after(source).seconds for source in here.facts.notice_sources}
    each = ", ".join(f"{source} {format_duration(seconds)}" for source, seconds in by_source.items())
    smallest = f"{_OWN}: the smallest that is known counts"
    rule = f"{_OWN}: a fifth of the grace, 30 s at most"
    return [
        Fact("grace_seconds", here.grace_seconds, format_duration(here.grace_seconds), here.grace.source),
        Fact("grace_after", by_source, each, smallest),
        Fact("graces", [asdict(grace) for grace in here.graces], "\n".join(map(_told, here.graces)), smallest),
        Fact("margin_seconds", here.margin_seconds, format_duration(here.margin_seconds), rule),
        Fact("usable_seconds", here.usable_seconds, format_duration(here.usable_seconds), f"{_OWN}: grace less margin"),
    ]


def _told(grace: KnownGrace) -> str:
    where = f", after {grace.notice}" if grace.notice else ""
    return f"{format_duration(grace.seconds)}{where}: {grace.source}"


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
        Fact("max_retries", here.facts.max_retries, retries, _source(here, "max_retries")),
        _plain(here, "logs", here.facts.logs),
    ]


def _plain(here: Surroundings, name: str, text: str) -> Fact:
    return Fact(name, getattr(here.facts, name), text, _source(here, name))


def _source(here: Surroundings, name: str) -> str:
    return here.facts.sources[name]


def _shown(text: str) -> Text:
    """Text as it is, without markup; what a terminal would obey, or cannot show, is escaped."""
    shown = (one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in text)
    return Text("".join(shown))
