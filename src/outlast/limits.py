"""When the platform will end this attempt, where that is known beforehand: a timeout, a time limit."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.clock import Clock, Deadline, format_duration, parse_duration
from outlast.errors import SettingsError
from outlast.machine import lived_seconds, machine_name, process_birth
from outlast.ports import PlatformFacts

TIMEOUT = "OUTLAST_TIMEOUT"  # the user's word: how long the platform lets one attempt run
ATTEMPT_ENDS = "OUTLAST_ATTEMPT_ENDS"  # internal, from `outlast run` to its command: see `handed_on`
_MOST_DIGITS = 15  # of seconds since the epoch, and of seconds since the boot


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The moment at which an attempt is ended, and who says so."""

    until: Deadline
    source: str


def known_limits(env: Mapping[str, str], facts: PlatformFacts, clock: Clock) -> tuple[TimeLimit, ...]:
    """All limits that the environment tells of, the earliest first, those that are over already at the end.

    Raises SettingsError for an OUTLAST_TIMEOUT that makes no sense; what the platform's own variable cannot mean is
    passed over.
    """
    now = clock.monotonic_seconds()
    known = []
    text = env.get(TIMEOUT, "").strip()
    if text:
        seconds = parse_duration(text, setting=TIMEOUT)
        if seconds == 0:
            raise SettingsError(f"{TIMEOUT}={text!r} leaves an attempt no time; leave it out for no limit")
        source = f"{TIMEOUT}: {format_duration(seconds)} from the start"
        known.append(TimeLimit(Deadline(now - _lived(facts) + seconds), source))
    supervised = _taken_over(env.get(ATTEMPT_ENDS, ""))
    known += [supervised] if supervised is not None else []
    end = _number(env, facts.end_time_variable) if facts.end_time_variable else None
    if end is not None:
        known.append(TimeLimit(Deadline(now + end - clock.wall_seconds()), f"{facts.end_time_variable}"))
    moments = [(limit.until.at_monotonic_seconds, limit) for limit in known]
    return tuple(limit for _, limit in sorted(moments, key=lambda moment: (moment[0] <= now, moment[0])))


def handed_on(limit: TimeLimit) -> str:
    """A limit for a process of the same machine, on its monotonic clock: MOMENT MACHINE SOURCE."""
    return f"{limit.until.at_monotonic_seconds!r} {machine_name()} {limit.source}"


def _taken_over(text: str) -> TimeLimit | None:
    """None for what is none, and for one that was handed on to another machine, whose clock began elsewhere."""
    moment, _, rest = text.strip().partition(" ")
    machine, _, source = rest.partition(" ")
    at = _number({ATTEMPT_ENDS: moment}, ATTEMPT_ENDS)
    if at is None or machine != machine_name() or not source:
        return None
    return TimeLimit(Deadline(at), source)


def _lived(facts: PlatformFacts) -> float:
    """How long the attempt has run: the container, where the platform makes one for it, else this process.

    0 where the system does not say (macOS): the limit then counts from now.
    """
    births = [process_birth(os.getpid()), *([process_birth(1)] if facts.container_per_attempt else [])]
    return max(lived_seconds(birth) for birth in births)


def _number(env: Mapping[str, str], variable: str) -> float | None:
    text = env.get(variable, "").strip()
    try:
        number = float(text) if text.isascii() else math.nan
    except ValueError:
        return None
    return number if 0 < number < 10**_MOST_DIGITS else None
