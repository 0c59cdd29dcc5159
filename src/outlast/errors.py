"""Every error that outlast raises, in one tree.

    OutlastError
    ├── LoopMisused                   the loop was used in a way that cannot be counted
    ├── ObjectExists                  a create-only object was already there
    ├── DeploymentStopped             a command of a deployment failed; what was made is recorded
    ├── ItemError                     one item has no result; raised by the user's function
    ├── BadObject
    │   ├── ObjectMissing             a named object is not in the store
    │   └── CheckpointCorrupt         one checkpoint does not verify
    └── ExitingError                  also a SystemExit: at the top it leaves with its code
        ├── SettingsError        78   a setting that cannot work
        ├── StateUnsupported     78   a value that cannot be restored faithfully
        ├── StateMismatch        78   the checkpoint and the program disagree
        ├── NoGoodCheckpoint     78   checkpoints exist and none verifies
        ├── StoreUnreachable     75   the storage does not answer, or refuses
        ├── QueueUnreachable     75   the queue does not answer, or refuses
        ├── SinkUnreachable      75   the sink does not answer, or refuses
        ├── ClusterUnreachable   75   the cluster, or the platform's own tool, does not answer
        ├── EveryItemFailed      78   the function fails for whatever it is given (75: and has worked before)
        └── SaveFailed           75   the save that had to succeed did not

    Interrupted (a SystemExit)        the stop, raised at a step border only

78 asks for a human and 75 for a retry (``EX_CONFIG`` and ``EX_TEMPFAIL`` of sysexits.h).
"""

EXIT_RETRY = 75
EXIT_HUMAN = 78


class OutlastError(Exception):
    """What all errors of outlast have in common."""


class LoopMisused(OutlastError):
    """The loop was used in a way that cannot be counted, say two loops on one Job."""


class ObjectExists(OutlastError):
    """A create-only object was already there: somebody else was first."""


class DeploymentStopped(OutlastError):
    """A command of a deployment, or of its removal, failed; the text tells which, what was done, and how to go on."""


class ItemError(OutlastError):
    """One item has no result and its neighbours keep theirs: for the user's function to raise, or to return.

    `id` is the item's; `why` goes into its record. With `retry=False` it is a dead letter at once: the input is bad,
    and will be the next time.
    """

    def __init__(self, id: str, why: str, *, retry: bool = True) -> None:  # noqa: A002 - what an item calls it, too
        super().__init__(id, why)
        self.id, self.why, self.retry = id, why, retry

    def __str__(self) -> str:
        return f"{self.id}: {self.why}"


class BadObject(OutlastError):
    """An object of a store is not what it should be. `file`: which data file, where that is known and it is one."""

    file: str | None = None


class ObjectMissing(BadObject):
    """A named object is not in the store."""


class CheckpointCorrupt(BadObject):
    """One checkpoint does not verify; the text names the file and what is wrong with it."""


class ExitingError(OutlastError, SystemExit):
    """An error that leaves the process with its own exit code when nobody catches it."""

    exit_code: int = EXIT_HUMAN
    told: bool = False  # a SystemExit shows no text at the top, so a line is written where it is raised

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = self.exit_code


class SettingsError(ExitingError):
    """A setting that cannot work; the text names the setting, its value and what would do."""


class StateUnsupported(ExitingError):
    """A value of the state cannot be restored faithfully; the text names its key path."""


class StateMismatch(ExitingError):
    """The checkpoint and the program disagree about the state; the text names the key path."""


class NoGoodCheckpoint(ExitingError):
    """Checkpoints exist and none verifies: starting from zero would throw work away."""


class StoreUnreachable(ExitingError):
    """The storage does not answer, or refuses; a retry may help."""

    exit_code = EXIT_RETRY


class QueueUnreachable(ExitingError):
    """The queue does not answer, or refuses; a retry may help, and leases run out by themselves."""

    exit_code = EXIT_RETRY


class SinkUnreachable(ExitingError):
    """The sink does not answer, or refuses; a retry may help, and what was not stored is not acknowledged."""

    exit_code = EXIT_RETRY


class ClusterUnreachable(ExitingError):
    """The API server of a cluster, or the tool that asks the platform, does not answer; a retry may help."""

    exit_code = EXIT_RETRY


class EveryItemFailed(ExitingError):
    """All items that a worker tried have failed, and so many that the function is to blame, or the machine.

    The worker has given back what it held. `works_elsewhere`: a function of this version has computed results for the
    queue, now or before; then the code is that of a retry.
    """

    def __init__(self, message: str, *, works_elsewhere: bool = False) -> None:
        self.works_elsewhere = works_elsewhere
        if works_elsewhere:
            self.exit_code = EXIT_RETRY
        super().__init__(message)


class SaveFailed(ExitingError):
    """The save that had to succeed did not; the last good checkpoint is untouched."""

    exit_code = EXIT_RETRY


class Interrupted(SystemExit):
    """The stop: capacity is being taken away and work is left.

    Raised at a step border only, never inside a step. ``code`` is the platform's interrupted code.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (exit code {self.code})"
