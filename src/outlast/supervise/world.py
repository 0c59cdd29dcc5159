"""The real world behind the doors, and the way in for the command line."""

import os
from collections.abc import Mapping, Sequence

from outlast.clock import SystemClock
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.registry import detect_platform, platform_named
from outlast.settings import EVENTS_FILE
from outlast.supervise.doors import World
from outlast.supervise.hearing import SignalHearing
from outlast.supervise.plan import Plan, make_plan
from outlast.supervise.processes import CommandProcesses
from outlast.supervise.reports import Reports
from outlast.supervise.supervisor import Supervisor
from outlast.supervise.terminal import StdinTerminal


def run_command(
    command: Sequence[str],
    *,
    url: str | None = None,
    platform: str | None = None,
    retries: str | int = 0,
    timeout: str | float | None = None,
    grace: str | float | None = None,
) -> int:
    """Runs a command under supervision and returns the code to leave with. Call it in the main thread.

    Durations are seconds or texts such as "5min". Raises SettingsError, after one line on the console, for a
    setting that makes no sense; nothing has been started then.
    """
    env = dict(os.environ)
    with SignalHearing() as hearing:  # first of all: as PID 1, a signal that comes before this is lost
        try:
            plan = make_plan(command, env, url=url, platform=platform, retries=retries, timeout=timeout, grace=grace)
        except SettingsError as error:
            _console(env, platform).error(str(error))
            raise
        return _supervise(plan, hearing)


def _supervise(plan: Plan, hearing: SignalHearing) -> int:
    clock = SystemClock()
    reports = Reports(plan.surroundings.console, clock, plan.env.get(EVENTS_FILE) or None)
    with CommandProcesses() as processes:
        world = World(clock, hearing, processes, StdinTerminal())
        return Supervisor(plan, world, reports).run()


def _console(env: Mapping[str, str], platform: str | None) -> Console:
    """The console to complain on when the surroundings as a whole make no sense."""
    try:
        here = platform_named(platform) if platform else detect_platform(env)
    except SettingsError:
        return Console()  # the platform itself is what the complaint is about
    return Console(as_json=here.facts.logs == "json")
