"""Jobs of Slurm, as slurmd ends them: signals go to every process of a step, and none of them is PID 1.

Facts as of 2026-11-29, from slurm.conf(5), sbatch(1) and scancel(1) of 22.05, and tried there: at the time limit and at
a preemption without GraceTime SIGCONT and SIGTERM, KillWait, SIGKILL; `--signal=USR1@N` comes N seconds before the
limit; `scontrol requeue` and a preemption start the job again, with SLURM_RESTART_COUNT.
"""

import signal

from outlast.rehearse.procedures.everywhere import EVERYWHERE, ON_NODES, plain_machine, port_of_first, usual
from outlast.rehearse.words import Kill, Nodes, Procedure, Scene, Setting, Settings, Timed, Warn, Word, seconds_in


def _end(scene: Scene, _told: Settings) -> list[Timed]:
    return [
        Timed(0.0, Warn(signal.SIGTERM, everyone=True)),
        scene.at(scene.grace_seconds, Kill()),
    ]


def _time_limit(scene: Scene, told: Settings) -> list[Timed]:
    if "signal" not in told:
        return _end(scene, told)
    ahead = seconds_in(told, "signal")
    return [
        Timed(0.0, Warn(signal.SIGUSR1, everyone=True)),
        scene.at(ahead, Warn(signal.SIGTERM, everyone=True)),
        scene.at(ahead + scene.grace_seconds, Kill()),
    ]


def _step_of(node: int, count: int) -> dict[str, str]:
    """What srun tells its one task on each node (srun(1) of 22.05), and where the first one is."""
    return {
        **port_of_first(node, count),
        "SLURM_JOB_NUM_NODES": str(count),
        "SLURM_NODEID": str(node),
        "SLURM_PROCID": str(node),
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": str(count),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(count),
    }


SLURM = Procedure(
    words={
        "timeout": Word(
            "the time limit is reached: SIGTERM, KillWait (30 s), SIGKILL; the job is requeued",
            "SIGTERM",
            _time_limit,
            {"signal": Setting("how long before it SIGUSR1 comes, as of --signal=USR1@N", "duration", most=65535.0)},
            counts_as="failure",
        ),
        "preemption": Word(
            "a job of higher rank takes the node: SIGTERM, KillWait, SIGKILL", "SIGTERM", _end, counts_as="failure"
        ),
        "requeue": Word("scontrol requeue: SIGTERM, KillWait, SIGKILL", "SIGTERM", _end, counts_as="failure"),
        **EVERYWHERE,
        **ON_NODES,
    },
    usual=usual("preemption"),
    open_machine=plain_machine,
    first_is_pid_1=False,
    nodes=Nodes(_step_of, own_tasks=False),
    not_exercised=("Slurm's daemons: local processes got the signals that slurmd sends",),
)
