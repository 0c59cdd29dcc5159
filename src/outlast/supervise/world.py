"""The real world behind the doors, and the way in for the command line."""

import os
from collections.abc import Sequence
from dataclasses import replace

from outlast.clock import SystemClock
from outlast.settings import EVENTS_FILE
from outlast.supervise.codes import Codes
from outlast.supervise.doors import World
from outlast.supervise.hearing import SignalHearing
from outlast.supervise.launchers import patient
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

    Durations are seconds or texts such as "5min". Raises SettingsError for a setting that
    makes no sense; nothing has been started then.
    """
    env = dict(os.environ)
    with SignalHearing() as hearing:  # first of all: as PID 1, a signal that comes before this is lost
        plan = make_plan(command, env, url=url, platform=platform, retries=retries, timeout=timeout, grace=grace)
        return _supervise(plan, hearing)


def _supervise(plan: Plan, hearing: SignalHearing) -> int:
    clock = SystemClock()
    reports = Reports(plan.surroundings.console, clock, plan.env.get(EVENTS_FILE) or None)
    with CommandProcesses() as processes, Codes() as codes:
        world = World(clock, hearing, processes, StdinTerminal())
        plan = replace(plan, env=patient(codes.env(plan.env), plan.kill_after_seconds))
        return Supervisor(plan, world, reports, codes.take).run()
