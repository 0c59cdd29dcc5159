"""A platform's real interruptions on this machine: scenario, runner, verdict."""
