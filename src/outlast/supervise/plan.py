"""What `outlast run` was asked to do, checked before anything is started."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlast.clock import Deadline, parse_duration
from outlast.errors import SettingsError
from outlast.limits import ATTEMPT_ENDS, TimeLimit, handed_on
from outlast.settings import SUPERVISED_EXECUTION, Surroundings, look_around


@dataclass(frozen=True, slots=True)
class Plan:
    """A command, its environment, and how often and how long it may run.

    `env` is the whole environment of the command; `timeout_seconds` (None: no limit) holds for each attempt.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    surroundings: Surroundings
    retries: int = 0
    timeout_seconds: float | None = None

    def env_at(self, now_seconds: float) -> Mapping[str, str]:
        """The command's environment for an attempt that starts now (monotonic): it knows when its time is over.

        What limits this process limits the command, whose own start may be long after.
        """
        known = [limit for limit in self.surroundings.time_limits if limit.until.at_monotonic_seconds > now_seconds]
        if self.timeout_seconds is not None:
            known.append(TimeLimit(Deadline(now_seconds + self.timeout_seconds), "outlast run --timeout"))
        first = min(known, key=lambda limit: limit.until.at_monotonic_seconds, default=None)
        return self.env if first is None else {**self.env, ATTEMPT_ENDS: handed_on(first)}

    @property
    def advance_signals(self) -> tuple[str, ...]:
        """The signals that announce the end here, some time before SIGTERM."""
        sources = self.surroundings.facts.notice_sources
        return tuple(name for name in sources if name.startswith("SIG") and name != "SIGTERM")

    @property
    def kill_after_seconds(self) -> float:
        """From a notice to the SIGKILL of whatever is left.

        The job's own guard acts a margin before the platform's SIGKILL; half of that margin is left to it for
        leaving by itself, the other half to the supervisor for saying so.
        """
        return max(0.0, self.surroundings.grace_seconds - self.surroundings.margin_seconds / 2)

    @property
    def kill_within_seconds(self) -> float:
        """How long the supervisor waits for killed processes to be gone; leaving in time matters more."""
        return min(2.0, self.surroundings.margin_seconds / 4)


def make_plan(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    url: str | None = None,
    platform: str | None = None,
    retries: str | int = 0,
    timeout: str | float | None = None,
    grace: str | float | None = None,
) -> Plan:
    """The plan for a command in an environment; an argument beats its variable and is handed on as that variable.

    Raises SettingsError naming the value that makes no sense.
    """
    if url is not None and not url.strip():
        raise SettingsError(f"url={url!r} is empty: the checkpoints would go to this machine's own disk; name a place")
    given = {"OUTLAST_URL": url, "OUTLAST_PLATFORM": platform, "OUTLAST_GRACE": grace}
    child_env = dict(env) | {name: str(value) for name, value in given.items() if value is not None}
    # One id for all retries: they are attempts of one run, and a new `outlast run` is a new one. An outer
    # supervisor's id is kept, since its retries belong together too.
    if not child_env.get(SUPERVISED_EXECUTION):
        child_env[SUPERVISED_EXECUTION] = f"run-{os.urandom(8).hex()}"
    return Plan(
        command=tuple(command),
        env=child_env,
        surroundings=look_around(env, platform=platform, grace=grace),
        retries=_retries(retries),
        timeout_seconds=_timeout(timeout),
    )


def _retries(value: str | int) -> int:
    text = str(value).strip()
    if not text.isascii() or not text.isdigit():
        raise SettingsError(f"retries={value!r} is not a whole number of 0 or more")
    return int(text)


def _timeout(value: str | float | None) -> float | None:
    if value is None:
        return None
    seconds = parse_duration(value, setting="timeout")
    if seconds == 0:
        raise SettingsError(f"timeout={value!r} leaves an attempt no time; leave it out for no limit")
    return seconds
