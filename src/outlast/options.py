"""The settings of a Job, checked, and the name it gets when none is given."""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.places import checked_name
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import RunRequest
from outlast.drift import OnDrift
from outlast.errors import SettingsError
from outlast.ports import Identity
from outlast.schedule import Every
from outlast.settings import Surroundings

Saving = Literal["auto", "background", "blocking", "lazy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a Job, checked. `rollback_to` is the step of resume=STEP."""

    url: str
    job: str
    run: str | None
    fresh_run: bool
    rollback_to: int | None
    every: Every
    keep: Keep
    crashes: CrashPolicy
    on_drift: OnDrift
    use_grace: bool
    saving: Saving
    risk_limit_seconds: float | None
    allow_missing: Collection[str]
    allow_extra: Collection[str]

    def run_request(self, identity: Identity, execution: str | None) -> RunRequest:
        """What is asked of the store: which run, or a new one. `execution`: the platform's, or an `outlast run`."""
        return RunRequest(
            job=self.job,
            tasks=identity.tasks,
            numbers=identity.numbers,
            execution=identity.execution or (execution if self.fresh_run else None),
            named=self.run,
            fresh=self.fresh_run,
            back=self.rollback_to is not None,
        )


def default_job_name(around: Surroundings) -> str:
    """The platform's job name, else the script's file name without suffix."""
    if around.identity.job:
        return checked_name(around.identity.job, setting="job name of the platform")
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return "job"
    path = Path(file)
    stem = path.parent.name if path.name == "__main__.py" else path.stem
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in stem)
    plain = plain.lstrip("._-")[:100] or "job"
    try:
        return checked_name(plain, setting="name")
    except SettingsError:  # a file named task-1.py, say
        return f"job-{plain}"


def checked_on_drift(on_drift: str) -> OnDrift:
    """The value, if it is one of what can be done at a drift."""
    if on_drift not in get_args(OnDrift):
        raise SettingsError(f"on_drift={on_drift!r} is none of {', '.join(map(repr, get_args(OnDrift)))}")
    return cast(OnDrift, on_drift)


def checked_saving(saving: str) -> Saving:
    """The value, if it is one of the ways to save."""
    if saving not in get_args(Saving):
        raise SettingsError(f"saving={saving!r} is none of {', '.join(map(repr, get_args(Saving)))}")
    return cast(Saving, saving)
