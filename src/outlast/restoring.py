"""Bringing back the state of a checkpoint: compared with the program first, then read, then put in place."""

from outlast.account import Account
from outlast.checkpoint.read import OpenCheckpoint
from outlast.options import Options
from outlast.state.parts import Accepted, Resumed, UserState


class Restoring:
    """One restore, of the newest checkpoint that is accepted. Made when it begins."""

    def __init__(self, state: UserState, options: Options, account: Account) -> None:
        self._state, self._options, self._account = state, options, account
        self._accepted: Accepted | None = None
        self._seconds = account.stopwatch()

    def accept(self, checkpoint: OpenCheckpoint) -> None:
        """Compares and reads one; raises StateMismatch, CheckpointCorrupt, StoreUnreachable."""
        self._account.refuse_drift(checkpoint.record.attempt)
        accepted = self._state.accept(checkpoint)
        if self._options.allow_missing:
            # An older one may lack a part that this one, should it be bad, has half overwritten by then.
            checkpoint.load((), {})
        checkpoint.load(accepted.leaves, accepted.targets)
        self._accepted = accepted

    def restore(self) -> Resumed:
        """Puts back what was accepted last."""
        assert self._accepted is not None
        return self._accepted.restore()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self._seconds()
