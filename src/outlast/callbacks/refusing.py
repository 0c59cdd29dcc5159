"""What a callback refuses, in one line each: a framework that is missing or too old, a setting that cannot work."""

import os
from collections.abc import Mapping
from typing import Any

from outlast.errors import LoopMisused, SettingsError
from outlast.ranks.world import world_in
from outlast.settings import console_for


def refuse(why: str) -> None:
    """Raises SettingsError, told: a SystemExit would show nothing at the top."""
    with console_for(os.environ).telling():
        raise SettingsError(why)


def refuse_missing(error: ModuleNotFoundError, module: str) -> None:
    """The framework is not installed: raises SettingsError with the command that mends it; else the error itself."""
    if (error.name or "").partition(".")[0] != module:
        raise error
    with console_for(os.environ).telling():
        raise SettingsError(f"outlast.callbacks.{module} needs {module}: pip install 'outlast[{module}]'") from error


def refuse_older(module: str, version: str, least: tuple[int, int]) -> None:
    """Raises SettingsError for a version of the framework whose loop keeps what is needed where nobody can reach it."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < least:
        wanted = ".".join(map(str, least))
        refuse(f"{module} {version} is too old for outlast.callbacks.{module}: pip install '{module}>={wanted}'")


def refuse_several() -> None:
    """Raises SettingsError in one of several processes: a framework's own place in the data is not each rank's yet."""
    with console_for(os.environ).telling():
        world = world_in(os.environ)
    if world is not None:
        refuse(
            f"WORLD_SIZE={world.size}: this callback is for one process; of several, each in a loop of your own, "
            "outlast.Job takes care itself"
        )


def checked_options(state: Mapping[str, Any] | None, taken: frozenset[str]) -> dict[str, Any]:
    """The user's own parts; raises SettingsError for one with the name of a part that the callback makes."""
    own = dict(state or {})
    for name in sorted(taken & own.keys()):
        refuse(f"state has a part {name!r}, which the callback saves by itself: give yours another name")
    return own


def second_run(what: str) -> LoopMisused:
    """The error for a callback that is used again."""
    return LoopMisused(f"this OutlastCallback has had its {what} already; make a new one, with a run= of its own")
