"""Run a command as a platform would: attempts, signals, grace, exit codes.

plan        what was asked for, checked              decisions   which code, whether to retry, how long to pause
doors       what the loop needs of the world         reports     its lines and events
supervisor  the loop over attempts                   hearing, processes, terminal   the real doors
attempt     one of them                              ahead       what is announced before SIGTERM comes
"""

from outlast.supervise.plan import Plan, make_plan
from outlast.supervise.world import run_command

__all__ = ["Plan", "make_plan", "run_command"]
