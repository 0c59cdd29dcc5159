"""What a job learns of the attempts before it, in a thread of its own that may take its time."""

import threading
from contextlib import suppress

from outlast.checkpoint.attempt import Attempt
from outlast.planning.estimates import Learned, learn
from outlast.planning.history import facts_of

# Earlier ones say little of a machine of today, and each takes a request or two on a bucket.
_LEARNED_ATTEMPTS = 32


class Lessons:
    """Read once from the journals of a run; there when they are there. For the loop's thread."""

    def __init__(self, prior_between_seconds: float) -> None:
        self._prior_between_seconds = prior_between_seconds
        self._learned: list[Learned] = []

    def begin(self, attempt: Attempt) -> None:
        """Starts to read, if there were earlier attempts; where no thread can be started, nothing is learned."""
        if attempt.number:
            arguments = (attempt, self._learned, self._prior_between_seconds)
            with suppress(RuntimeError):
                threading.Thread(target=_read, args=arguments, name="outlast-learn", daemon=True).start()

    def take(self) -> Learned | None:
        """What was learned, once; None while there is nothing."""
        return self._learned.pop() if self._learned else None


def _read(attempt: Attempt, learned: list[Learned], prior_between_seconds: float) -> None:
    try:
        found = attempt.history(newest=_LEARNED_ATTEMPTS)
        learned.append(learn(facts_of(found.attempts), prior_between_seconds=prior_between_seconds))
    except Exception:  # noqa: BLE001 - whatever is wrong with the past, the platform's figures will do
        return
