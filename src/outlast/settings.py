"""Where this process runs and what its environment asks for: argument beats environment beats platform."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from outlast.clock import Clock, SystemClock, parse_duration
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.ports import Identity, PlatformFacts
from outlast.registry import detect_platform, platform_named

# Internal variables, from `outlast run` and `outlast rehearse` to the jobs that they start.
REHEARSAL_STORE = "OUTLAST_REHEARSAL_STORE"  # every store goes below this folder, whatever was asked for
EVENTS_FILE = "OUTLAST_EVENTS_FILE"  # every event is also appended to this file
SUPERVISED_EXECUTION = "OUTLAST_SUPERVISED_EXECUTION"  # one `outlast run`, whose retries belong together


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The platform as this process finds it, with the doors to its environment and its clock. Seconds."""

    facts: PlatformFacts
    identity: Identity
    grace_seconds: float
    interrupted_exit_code: int
    env: Mapping[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def console(self) -> Console:
        return Console(as_json=self.facts.logs == "json")

    @property
    def margin_seconds(self) -> float:
        """How long before SIGKILL the process leaves by itself: a fifth of the grace, 30 s at most."""
        return min(0.2 * self.grace_seconds, 30.0)


def look_around(
    env: Mapping[str, str], *, platform: str | None = None, grace: str | float | None = None
) -> Surroundings:
    """What `env` says, with arguments taking precedence. Raises SettingsError naming what makes no sense."""
    here = platform_named(platform) if platform else detect_platform(env)
    if grace is not None:
        grace_seconds = parse_duration(grace, setting="grace")
    elif env.get("OUTLAST_GRACE"):
        grace_seconds = parse_duration(env["OUTLAST_GRACE"], setting="OUTLAST_GRACE")
    else:
        grace_seconds = here.facts.grace_seconds
    return Surroundings(
        facts=here.facts,
        identity=here.identity(env),
        grace_seconds=grace_seconds,
        interrupted_exit_code=_exit_code(env, here.facts.interrupted_exit_code),
        env=env,
    )


def _exit_code(env: Mapping[str, str], default: int) -> int:
    text = env.get("OUTLAST_EXIT_CODE", "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) > 255:
        raise SettingsError(f"OUTLAST_EXIT_CODE={text!r} is not an exit code from 0 to 255")
    return int(text)


def console_for(env: Mapping[str, str]) -> Console:
    """The console to complain on, also when the surroundings as a whole make no sense."""
    try:
        return Console(as_json=detect_platform(env).facts.logs == "json")
    except SettingsError:
        return Console()  # the platform itself is what the complaint is about
