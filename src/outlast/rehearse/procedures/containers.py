"""Containers whose platform ends them with SIGTERM to the first process, and SIGKILL a grace later.

Cloud Run, as of 2026-11-30: "Container runtime contract": SIGTERM at the task timeout, at a cancellation and, for
tasks with a GPU, at maintenance, then 10 s, then SIGKILL. "Set task timeout for jobs": tasks without a GPU are moved
live instead: SIGTSTP 10 s before, SIGCONT after; the state is kept. A timeout is a failure also of a program that then
leaves with 0 (PrefectHQ/prefect#14497 shows the message). A cancelled execution is not retried: its job is executed
again, which is a new execution.
"""

import signal

from outlast.rehearse.procedures.everywhere import EVERYWHERE, plain_machine, stop, usual
from outlast.rehearse.words import Pause, Procedure, Scene, Setting, Settings, Tell, Timed, Word, seconds_in

_AHEAD_SECONDS = 10.0


def _move(scene: Scene, told: Settings) -> list[Timed]:
    return [
        Timed(0.0, Tell(signal.SIGTSTP)),
        scene.at(seconds_in(told, "ahead"), Pause(scene.scale.here(seconds_in(told, "pause")))),
    ]


LOCAL = Procedure(
    words={"stop": Word("somebody stops the job: SIGTERM, 30 s, SIGKILL", "SIGTERM", stop), **EVERYWHERE},
    usual=usual("stop"),
    open_machine=plain_machine,
)

CLOUD_RUN = Procedure(
    words={
        "maintenance": Word("the host of a GPU task is maintained: SIGTERM, 10 s, SIGKILL", "SIGTERM", stop),
        "timeout": Word("the task timeout is reached: SIGTERM, 10 s, SIGKILL", "SIGTERM", stop, counts_as="failure"),
        "cancel": Word(
            "the execution is cancelled: SIGTERM, 10 s, SIGKILL; the job is executed again",
            "SIGTERM",
            stop,
            counts_as="cancelled",
        ),
        "live-migration": Word(
            "a task without a GPU is moved: SIGTSTP, 10 s, a pause, SIGCONT",
            "live migration",
            _move,
            {
                "ahead": Setting("how long before it SIGTSTP comes; 10 s unless given", "duration", _AHEAD_SECONDS),
                "pause": Setting("for how long it stands still", "duration", 0.5, most=60.0),
            },
        ),
        **EVERYWHERE,
    },
    usual=usual("maintenance"),
    open_machine=plain_machine,
    no_nodes="the tasks of a Cloud Run job are independent of each other, and no task can reach another",
)
