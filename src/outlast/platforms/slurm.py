"""Batch jobs of Slurm.

Facts as of 2026-11-29, from the manual pages of Slurm 22.05: sbatch(1) (`--signal=USR1@300` comes up to 60 s early;
a requeued script is started from its beginning, with SLURM_RESTART_COUNT), slurm.conf(5) (at the time limit and at a
preemption without GraceTime: SIGTERM, KillWait, which is 30 s unless the site sets it, SIGKILL). Tried with 22.05.8:
`scontrol requeue` gives KillWait too; neither a batch script nor a step has SLURM_JOB_END_TIME or SBATCH_SIGNAL; what a
batch script started ends with a shell that dies of the SIGTERM, a step does not.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from outlast.errors import SettingsError
from outlast.firmware import Firmware
from outlast.platforms import assumed
from outlast.platforms.variables import Said, count_in, read_identity, text_in
from outlast.ports import Identity, KnownGrace, PlatformFacts

_FACTS = PlatformFacts(
    name="slurm",
    grace_seconds=30.0,
    interrupted_exit_code=143,
    default_retries=0,
    max_retries=None,
    mean_seconds_between_interruptions=assumed.DAILY_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM", "SIGUSR1"),
    end_time_variable="SLURM_JOB_END_TIME",
    logs="plain",
    procedure="slurm",
    sources={
        "grace_seconds": "slurm.conf(5): KillWait, 30 s between SIGTERM and SIGKILL unless the site sets it (22.05)",
        "interrupted_exit_code": "slurm.conf(5): RequeueExit=143, where the site sets it, starts the job again (22.05)",
        "default_retries": "slurm.conf(5): no exit code starts a job again unless RequeueExit names it (22.05)",
        "max_retries": "sbatch(1): --requeue has no limit of its own (22.05)",
        "mean_seconds_between_interruptions": assumed.DAILY_SOURCE,
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "notice_sources": "sbatch(1): --signal=USR1@N, N s before the limit; slurm.conf(5): SIGTERM then (22.05)",
        "end_time_variable": "sbatch(1): SLURM_JOB_END_TIME, which 22.05 does not set, tried; a script may",
        "logs": "standard error goes to a file that people read",
    },
)
# What sbatch(1) and salloc(1) call a job that nobody has named.
_NAMES_OF_ANY_JOB = frozenset({"wrap", "sbatch", "interactive"})
_SIGNAL = re.compile(r"(?:[RB]{1,2}:)?(?:SIG)?(?P<signal>[A-Z0-9]+)(?:@(?P<seconds>\d{1,5}))?", re.IGNORECASE)
_USR1 = frozenset({"USR1", "10"})
_SIGNAL_SECONDS = 60  # of --signal without @N


class SlurmPlatform:
    """A job, or one task of a job array. The index of an array is the task; a requeued job is the same execution."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        return bool(env.get("SLURM_JOB_ID"))

    def identity(self, env: Mapping[str, str]) -> Identity:
        """Tasks are numbered as in `--array`: a part of an array that is sent again finds its own checkpoints."""
        array, alone = text_in(env, "SLURM_ARRAY_JOB_ID"), text_in(env, "SLURM_JOB_ID")
        name, which = text_in(env, "SLURM_JOB_NAME"), count_in(env, "SLURM_ARRAY_TASK_ID")
        numbers, count = _array(env, which.value)
        found = read_identity(
            env,
            job=Said(name.variable, None if name.value in _NAMES_OF_ANY_JOB else name.value),
            execution=array if array.value is not None else alone,
            task=which,
            tasks=Said("SLURM_ARRAY_TASK_COUNT", count),
            attempt=count_in(env, "SLURM_RESTART_COUNT"),
            numbers=None if numbers == range(count or 0) else numbers,
        )
        return replace(found, attempt=found.attempt or 0)

    def environment(self, identity: Identity) -> dict[str, str]:
        execution = identity.execution or "1"
        numbers = identity.numbers or range(identity.tasks)
        array = {
            "SLURM_ARRAY_JOB_ID": execution,
            "SLURM_ARRAY_TASK_ID": str(identity.task),
            "SLURM_ARRAY_TASK_MIN": str(numbers[0]),
            "SLURM_ARRAY_TASK_MAX": str(numbers[-1]),
            "SLURM_ARRAY_TASK_STEP": str(numbers.step),
            "SLURM_ARRAY_TASK_COUNT": str(identity.tasks),
        }
        return {
            "SLURM_JOB_ID": execution,
            "SLURM_JOB_NAME": identity.job or "job",
            **(array if identity.tasks > 1 or identity.numbers is not None else {}),
            **({"SLURM_RESTART_COUNT": str(identity.attempt)} if identity.attempt else {}),
        }

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        """SIGTERM leaves KillWait, whatever the user says of the signal before it, which leaves what it asked for."""
        kill_wait = KnownGrace(self.facts.grace_seconds, self.facts.sources["grace_seconds"], notice="SIGTERM")
        asked = _seconds_before_the_limit(env)
        if asked is None:  # SIGTERM comes after it, so it cannot leave less than that does
            return kill_wait, replace(kill_wait, notice="SIGUSR1", gives_way=True)
        return kill_wait, KnownGrace(asked, "SBATCH_SIGNAL: as long before the time limit", notice="SIGUSR1")


def _array(env: Mapping[str, str], index: int | None) -> tuple[range | None, int | None]:
    """(the numbers that the tasks of this array may have, how many tasks it has); None outside an array.

    Of a list, such as `--array=1,5,9`, Slurm tells the first, the last, the step 1 and the count 3.
    """
    first, last = count_in(env, "SLURM_ARRAY_TASK_MIN").value, count_in(env, "SLURM_ARRAY_TASK_MAX").value
    step, count = count_in(env, "SLURM_ARRAY_TASK_STEP").value, count_in(env, "SLURM_ARRAY_TASK_COUNT").value
    if index is None:
        return None, None
    highest = index if last is None else last
    numbers = range(first or 0, highest + 1, step or 1)
    if index not in numbers:
        raise SettingsError(
            f"SLURM_ARRAY_TASK_ID={index} is none of the array's, SLURM_ARRAY_TASK_MIN={first or 0} to "
            f"SLURM_ARRAY_TASK_MAX={highest} in steps of {step or 1}"
        )
    return numbers, count if count and count <= len(numbers) else len(numbers)


def _seconds_before_the_limit(env: Mapping[str, str]) -> float | None:
    """How long before the time limit SIGUSR1 comes, where the variable of sbatch's --signal has been passed on."""
    text = text_in(env, "SBATCH_SIGNAL").value
    if text is None:
        return None
    match = _SIGNAL.fullmatch(text)
    if match is None:
        raise SettingsError(f"SBATCH_SIGNAL={text!r} is not a signal as sbatch takes it; write one such as USR1@300")
    if match["signal"].upper() not in _USR1:
        return None
    return float(match["seconds"] or _SIGNAL_SECONDS)
