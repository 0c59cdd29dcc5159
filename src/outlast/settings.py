"""Where this process runs and what its environment asks for: argument beats environment beats platform.

But for the grace: there the smallest that is known counts, since nobody's wish makes a platform wait longer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from outlast.clock import Clock, SystemClock, format_duration, parse_duration
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.firmware import Firmware
from outlast.limits import TimeLimit, known_limits
from outlast.ports import NODE_CLASS, Identity, KnownGrace, Platform, PlatformFacts
from outlast.registry import detect_platform, platform_named

# Internal variables, from `outlast run` and `outlast rehearse` to the jobs that they start.
REHEARSAL_STORE = "OUTLAST_REHEARSAL_STORE"  # every store goes below this folder, whatever was asked for
EVENTS_FILE = "OUTLAST_EVENTS_FILE"  # every event is also appended to this file
REHEARSAL_SPEED = "OUTLAST_REHEARSAL_SPEED"  # how many of a platform's seconds pass in one, where it is emulated
SUPERVISED_EXECUTION = "OUTLAST_SUPERVISED_EXECUTION"  # one `outlast run`, whose retries belong together

# torchrun sets the first in its workers; the second is its own setting (torch.distributed.launcher.api, torch 2.13).
_TORCHRUN, _TORCHRUN_GRACE = "TORCHELASTIC_RUN_ID", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_TORCHRUN_GRACE_SECONDS = 30.0  # unless set; also where there is no such setting (pytorch/pytorch#68258)

# Open MPI's mpirun, told to stop, waits so long before it sends SIGTERM to its ranks, and as long again before SIGKILL
# (Open MPI 4.1.4, tried 2026-12-01; open-mpi/ompi#7032). It hands the setting on to them by this name.
_OPEN_MPI, OPEN_MPI_GRACE = "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_odls_base_sigkill_timeout"
_OPEN_MPI_GRACE_SECONDS = 1.0

# A shorter notice is for saving: what training on would gain is less than what a wrong deadline would take away.
# Long ones are 5 to 60 min (GKE maintenance), 2 min (AWS spot), as of 2026-11-29. Seconds of the platform's.
LONG_NOTICE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The platform as this process finds it, with the doors to its environment and its clock. Seconds.

    `grace_seconds` is the smallest grace that any notice here may leave; `graces` is all that it was chosen from.
    `time_limits` are what is known beforehand of when this attempt is ended, the earliest first.
    """

    facts: PlatformFacts
    identity: Identity
    grace_seconds: float
    interrupted_exit_code: int
    env: Mapping[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    graces: tuple[KnownGrace, ...] = ()
    time_limits: tuple[TimeLimit, ...] = ()
    rank: int | None = None  # of several processes that train together

    @property
    def console(self) -> Console:
        return Console(as_json=self.facts.logs == "json", rank=self.rank)

    @property
    def speed(self) -> float:
        """How many of the platform's seconds pass in one: 1, but in a rehearsal that is told otherwise."""
        return float(self.env.get(REHEARSAL_SPEED) or 1.0)

    @property
    def long_notice_seconds(self) -> float:
        """How long a notice must be, here, for training to go on beside it."""
        return LONG_NOTICE_SECONDS / self.speed

    @property
    def margin_seconds(self) -> float:
        """How long before SIGKILL the process leaves by itself: a fifth of the grace, 30 s at most."""
        return min(0.2 * self.grace_seconds, 30.0)

    @property
    def usable_seconds(self) -> float:
        """What is left of the grace for a final save."""
        return self.grace_seconds - self.margin_seconds

    @property
    def grace(self) -> KnownGrace:
        """The one that counts for every notice, and who says so."""
        return min((self.grace_after(source) for source in self.facts.notice_sources), key=_by_seconds)

    def grace_after(self, source: str) -> KnownGrace:
        """The grace after a notice from one source, a name of `facts.notice_sources`; other names get the smallest."""
        about = [
            grace for grace in self.graces if grace.notice in (None, source) or source not in self.facts.notice_sources
        ]
        return min(about, key=_by_seconds, default=KnownGrace(self.grace_seconds, self.facts.name))

    def learning(self, told: Mapping[str, str]) -> "Surroundings":
        """With variables that somebody has found out and the environment does not set: the graces follow them.

        They grow only once the kind of the node is known: a Spot node leaves less than the pod's own grace.
        """
        env = {**told, **self.env}
        graces = _known_graces(platform_named(self.facts.name), env, None)
        if NODE_CLASS not in env:
            graces = (*graces, replace(self.grace, notice=None, gives_way=False))
        found = replace(self, env=env, graces=graces)
        return replace(found, grace_seconds=found.grace.seconds)

    @property
    def time_limit(self) -> TimeLimit | None:
        """The earliest, None where none is known."""
        return self.time_limits[0] if self.time_limits else None

    @property
    def cut_grace(self) -> str | None:
        """A line about the grace that the user named, where the job is given less; None where it is not."""
        asked, given = self.graces[0] if self.graces else None, self.grace
        if asked is None or asked.source not in _OF_THE_USER or given.seconds >= asked.seconds:
            return None
        after = f" after {given.notice}" if given.notice else ""
        return (
            f"{asked.source}={asked.seconds:g} s is more than a job gets here{after}: {format_duration(given.seconds)} "
            f"({given.source}) counts"
        )


def look_around(
    env: Mapping[str, str],
    *,
    platform: str | None = None,
    grace: str | float | None = None,
    firmware: Firmware | None = None,
) -> Surroundings:
    """What `env` says, with arguments taking precedence. Raises SettingsError naming what makes no sense.

    `firmware` None is this machine's.
    """
    here = platform_named(platform) if platform else detect_platform(env, firmware)
    found = Surroundings(
        facts=here.facts,
        identity=here.identity(env),
        grace_seconds=here.facts.grace_seconds,
        interrupted_exit_code=_exit_code(env, here.facts.interrupted_exit_code),
        env=env,
        graces=_known_graces(here, env, grace),
    )
    found = replace(found, time_limits=known_limits(env, here.facts, found.clock))
    return replace(found, grace_seconds=found.grace.seconds)


GRACE = "OUTLAST_GRACE"
_ARGUMENT = "--grace"
_OF_THE_USER = (_ARGUMENT, GRACE)


def _known_graces(here: Platform, env: Mapping[str, str], argument: str | float | None) -> tuple[KnownGrace, ...]:
    """The user's word, then the platform's without what gives way to that, then the launcher's."""
    told: list[KnownGrace] = []
    if argument is not None:
        told = [KnownGrace(parse_duration(argument, setting="grace"), _ARGUMENT)]
    elif env.get(GRACE):
        told = [KnownGrace(parse_duration(env[GRACE], setting=GRACE), GRACE)]
    theirs = [grace for grace in here.graces(env) if not (told and grace.gives_way)]
    return (*told, *theirs, *_launcher_grace(env))


def _launcher_grace(env: Mapping[str, str]) -> list[KnownGrace]:
    """A launcher that was told to stop kills its workers after a time of its own, whatever the platform gives it."""
    if env.get(_TORCHRUN):  # inside of whatever else
        return [_grace_of("torchrun kills its workers", env, _TORCHRUN_GRACE, _TORCHRUN_GRACE_SECONDS)]
    if env.get(_OPEN_MPI):
        return [_grace_of("mpirun kills its ranks", env, OPEN_MPI_GRACE, _OPEN_MPI_GRACE_SECONDS)]
    return []


def _grace_of(what: str, env: Mapping[str, str], setting: str, default_seconds: float) -> KnownGrace:
    text = env.get(setting, "").strip()
    seconds = parse_duration(text, setting=setting) if text else default_seconds
    return KnownGrace(seconds, f"{what} then, unless {setting} says otherwise")


def _by_seconds(grace: KnownGrace) -> float:
    return grace.seconds


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
