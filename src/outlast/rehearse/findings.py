"""What was found beside the verdict: notices that nobody heard, processes left behind, work begun again."""

import signal
from collections.abc import Iterator, Sequence

from outlast.clock import format_duration
from outlast.containers.processes import short
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.notice import NoticeView

_FIX = "Use the exec form, `exec`, or `outlast run -- …`"
_MOST = 0.9  # of the whole job's writes: an attempt that makes them did not profit from those before
_AHEAD, _TELLING = 0.3, 10  # those before had got so far; fewer writes tell nothing
_ENOUGH = 0.5  # of its time, at least


def useless_notice(attempt: Attempt) -> bool:
    """Whether an attempt was warned in vain: nobody could hear it, it was killed after the grace, or a process that
    was writing to a file was killed when the first one left."""
    view = attempt.notice
    if view is None:
        return False
    deaf = _is_deaf(attempt, view)
    return deaf or attempt.ended_by == "SIGKILL after the grace" or any(left.writes for left in view.left_behind)


def notices_that_count(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Without an attempt whose notice came after its work, when many a program listens no more.

    It left with 0 by itself and in time, with nobody left behind, and this or another of the same program did listen.
    """
    hears = any(attempt.heard_notice_after_seconds is not None or attempt.listened for attempt in attempts)
    return [
        attempt
        for attempt in attempts
        if not (hears and attempt.ended_by == "finished" and attempt.notice and not attempt.notice.left_behind)
    ]


def was_met(attempt: Attempt) -> bool:
    """Whether the end of an attempt shows something: a notice that nobody listened to and that it lived through does
    not."""
    unheard = attempt.notice is not None and attempt.notice.signalled and not attempt.notice.first_hears
    return not (unheard and attempt.ended_by == "finished")


def find_in_notices(attempts: Sequence[Attempt], *, grace_seconds: float) -> list[str]:
    """One line for each thing that went wrong between a notice and the end."""
    lines = [line for attempt in attempts if attempt.notice for line in _one_notice(attempt, grace_seconds)]
    return list(dict.fromkeys(lines))


def _is_deaf(attempt: Attempt, view: NoticeView) -> bool:
    """Whether a signal met the first process of a container without a handler. One that fails soon after its start may
    have had none yet."""
    unheard = view.signalled and not view.first_hears and view.first_was_pid_1
    return unheard and attempt.exit_code in (0, 128 + signal.SIGKILL)


def _one_notice(attempt: Attempt, grace_seconds: float) -> Iterator[str]:
    view = attempt.notice
    if view is None:
        return
    given = grace_seconds if view.signalled else attempt.stopped_after_seconds or grace_seconds
    grace = format_duration(given)
    ran_out = attempt.ended_by == "SIGKILL after the grace"
    if _is_deaf(attempt, view):
        yield _never_reached(view)
    elif ran_out and not view.signalled and attempt.heard_notice_after_seconds is None:
        yield (
            f"attempt {attempt.number}: the notice came by the platform's metadata alone, with no signal, and nobody "
            f"acted on it within {grace}. An outlast.Job hears it, and so does `outlast run -- …`"
        )
    elif ran_out and attempt.heard_notice_after_seconds is not None:
        heard = format_duration(attempt.heard_notice_after_seconds)
        yield (
            f"attempt {attempt.number}: the notice was heard after {heard}, but it did not end within {grace}: its "
            "steps, its last save and its leaving have to fit in that time"
        )
    elif ran_out:
        yield (
            f"attempt {attempt.number}: `{short(view.first_command)}` catches SIGTERM but did not end within {grace}: "
            "on SIGTERM it has to save and leave in that time"
        )
    for left in view.left_behind:
        doing = f", writing {', '.join(left.writes)}," if left.writes else ""
        yield (
            f"`{short(left.command)}` was still running{doing} when your first process left on the notice, "
            "and was killed with it: pass SIGTERM on and wait for it, or use `outlast run -- …`"
        )


def _never_reached(view: NoticeView) -> str:
    first = f"your first process (`{short(view.first_command)}`)"
    start = f"your process never saw the signal: {first} does not handle SIGTERM and, as PID 1, ignores it"
    if view.hearing_child is not None:
        child = short(view.hearing_child)
        return f"{start}; `{child}` (its child) would, but the signal never reaches it. {_FIX}"
    return f"{start}, and works on until SIGKILL. Handle SIGTERM (an outlast.Job does), or use `outlast run -- …`"


def find_in_restores(attempts: Sequence[Attempt]) -> list[str]:
    """Whether what each attempt restored was what had been saved, leaf by leaf."""
    said = [
        f"attempt {attempt.number}: after the restore of step {attempt.resumed_from_step}, "
        f"{', '.join(attempt.different_leaves[:6])} was not what had been saved: load_state_dict has to restore "
        "all that state_dict gave"
        for attempt in attempts
        if attempt.different_leaves
    ]
    return list(dict.fromkeys(said))


def restored_faithfully(attempts: Sequence[Attempt]) -> str:
    """What can be said of the restores when results cannot be compared; "" if nothing was restored."""
    checked = sum(attempt.checked_leaves for attempt in attempts)
    wrong = sum(len(attempt.different_leaves) for attempt in attempts)
    return f"{checked - wrong} of {checked} restored leaves equalled what had been saved" if checked else ""


def find_in_progress(
    attempts: Sequence[Attempt], *, saves: bool, baseline_seconds: float, baseline_writes: int = 0
) -> list[str]:
    """Whether attempts went on from what those before had saved.

    Of a program without outlast it shows in its writes: an attempt that goes on makes fewer than the whole job does.
    """
    if len(attempts) < 2:
        return []
    before, last = attempts[:-1], attempts[-1]
    lost = format_duration(sum(attempt.seconds for attempt in before))
    committed = 0
    for attempt in attempts:
        if committed and attempt.resumed_from_step is None and attempt.ended_by != "exit":
            seen = f"attempt {attempt.number} began at step 0 although {committed} checkpoints were there"
            return [f'{seen}: a Job with resume="none", or with another url, name or run each time, begins anew']
        committed += attempt.commits
    if committed or last.exit_code != 0:
        return []
    if not saves:
        return [_never_saves(before, lost)]
    ahead = sum(attempt.writes for attempt in before) >= _AHEAD * baseline_writes >= _AHEAD * _TELLING
    if not ahead or last.writes < baseline_writes * _MOST or last.seconds < baseline_seconds * _ENOUGH:
        return []
    seen = f"it saves, but attempt {last.number} began again: it wrote as many files as the whole job does"
    advice = f"Load what was saved before the work begins, from a folder that outlives the attempt ({lost} lost here)"
    return [f"{seen} ({last.writes} against {baseline_writes}). {advice}"]


def _never_saves(before: Sequence[Attempt], lost: str) -> str:
    if any(one.kind == "SIGTERM" and one.exit_code != 0 and one.writes for one in before):
        return "it was seen to write only as it left: an end without notice costs all the work; save now and then, too"
    seen = (
        "it was not seen to save (memory mapped to files does not show): each attempt began again, and an interruption "
        "costs all the work so far"
    )
    return f"{seen} ({lost} here); save now and then, and begin from what was saved"
