"""What a launcher that the command may be, or may start, is told: to wait for its ranks when it has to stop.

Open MPI's mpirun gives them a second, whatever grace it has itself (see settings.py). It waits twice as long as it is
told, once before its SIGTERM and once after it. What the user has set stays.
"""

from collections.abc import Mapping

from outlast.settings import OPEN_MPI_GRACE


def patient(env: Mapping[str, str], kill_after_seconds: float) -> dict[str, str]:
    """The environment of a command that is killed so long after it was told to stop."""
    half = max(1, int(kill_after_seconds / 2))  # in whole seconds, or mpirun takes none of it
    return {OPEN_MPI_GRACE: str(half), **env}
