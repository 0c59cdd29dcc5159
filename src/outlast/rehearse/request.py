"""What somebody asks to have rehearsed, checked when made, and the limits a rehearsal keeps."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from outlast.errors import OutlastError, SettingsError
from outlast.ports import PlatformFacts

MOST_NODES = 64  # they share this machine
MINIMUM_INTERRUPTIONS = 3  # one SIGTERM, one SIGKILL, one SIGKILL at a save


class CannotRehearse(OutlastError):
    """Nothing can be shown, and why; becomes the verdict "could-not-rehearse".

    `seconds`, `exit_code` and `output` (its end) are those of the run that failed, if one did.
    """

    def __init__(
        self,
        reason: str,
        *,
        seconds: float | None = None,
        exit_code: int | None = None,
        output: tuple[str, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.seconds, self.exit_code, self.output = seconds, exit_code, output


@dataclass(frozen=True, slots=True)
class Request:
    """One call of `outlast rehearse`. Raises SettingsError for what cannot work.

    `results` are paths or glob patterns relative to `folder`; `tolerance` is relative, 0 for equal bytes;
    `retries` None means enough for the interruptions. `scenarios` are files relative to `folder`, or names, played one
    after the other in place of what is drawn; `speed` None is theirs, 1 unless they say otherwise. The command is
    started once on each of `nodes`.
    """

    command: tuple[str, ...]
    folder: Path
    platform: str = "cloud-run"
    interruptions: int = 5
    seed: int = 0
    retries: int | None = None
    results: tuple[str, ...] = ()
    tolerance: float = 0.0
    in_place: bool = False
    real_store: bool = False
    keep: bool = False
    scenarios: tuple[str, ...] = ()
    speed: float | None = None
    nodes: int = 1

    def __post_init__(self) -> None:
        if not self.command:
            raise SettingsError("no command to rehearse; write it after --, say `outlast rehearse -- python train.py`")
        if self.interruptions < 1:
            raise SettingsError(f"--interruptions {self.interruptions}: a rehearsal needs some; leave it out for 5")
        if self.retries is not None and self.retries < 0:
            raise SettingsError(f"--retries {self.retries} is below 0; 0 means one attempt")
        if self.speed is not None and not 0 < self.speed < float("inf"):
            raise SettingsError(f"--speed {self.speed} is not above 0; 60 makes an hour of the platform a minute")
        if not 1 <= self.nodes <= MOST_NODES:
            raise SettingsError(f"--nodes {self.nodes}: 1 to {MOST_NODES} of them run on this machine")
        if not 0 <= self.tolerance < 1:
            raise SettingsError(f"--tolerance {self.tolerance} is not a relative difference from 0 to below 1")
        for pattern in self.results:
            path = PurePosixPath(pattern)
            if path.is_absolute() or ".." in path.parts:
                raise SettingsError(f"--result {pattern!r} leads out of the copy; name it relative to the folder")

    @property
    def raised_interruptions(self) -> int:
        """The number that is rehearsed: never below three, since there are three kinds."""
        return max(self.interruptions, MINIMUM_INTERRUPTIONS)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a rehearsal waits, and how much it copies unasked. `grace_seconds` None is the platform's."""

    grace_seconds: float | None = None
    hung_floor_seconds: float = 60.0
    hung_factor: float = 10.0
    copy_bytes: int = 1 << 30

    def hung_seconds(self, baseline_seconds: float) -> float:
        """An attempt that runs longer than this is hung."""
        return max(self.hung_floor_seconds, self.hung_factor * baseline_seconds)


def retry_budget(facts: PlatformFacts, *, interruptions: int, asked: int | None) -> int:
    """How often the platform would start the task again; raises SettingsError beyond its maximum."""
    maximum = facts.max_retries
    if asked is not None:
        if maximum is not None and asked > maximum:
            raise SettingsError(f"--retries {asked}: {facts.name} allows {maximum} at most")
        return asked
    wanted = max(facts.default_retries, interruptions)
    if maximum is not None and wanted > maximum:
        raise SettingsError(
            f"{interruptions} interruptions (--interruptions, --scenario) need as many retries; {facts.name} allows "
            f"{maximum} at most"
        )
    return wanted
