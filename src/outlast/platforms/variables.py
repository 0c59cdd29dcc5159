"""Who a process is, read from its variables: those of the platform, and those that a manifest tells us by.

Cloud Run, Slurm and AWS Batch tell a process who it is. Kubernetes tells the completion index only, and a bare virtual
machine tells nothing. There a manifest or a start-up script says the rest, in the variables of `TOLD`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from outlast.errors import SettingsError
from outlast.ports import Identity

_MOST_DIGITS = 9  # no platform counts to a thousand million

T = TypeVar("T", str, int)


class Said(NamedTuple, Generic[T]):
    """What one variable says; `value` None: it is not set."""

    variable: str
    value: T | None


@dataclass(frozen=True, slots=True)
class IdentityVariables:
    """The names of the variables for the parts of an identity."""

    job: str
    execution: str
    task: str
    tasks: str
    attempt: str


TOLD = IdentityVariables(
    job="OUTLAST_JOB",
    execution="OUTLAST_EXECUTION",
    task="OUTLAST_TASK_INDEX",
    tasks="OUTLAST_TASK_COUNT",
    attempt="OUTLAST_TASK_ATTEMPT",
)


def text_in(env: Mapping[str, str], variable: str) -> Said[str]:
    """A text without blanks around it; an empty one is as good as none."""
    return Said(variable, env.get(variable, "").strip() or None)


def count_in(env: Mapping[str, str], variable: str) -> Said[int]:
    """A whole number of 0 or more, below a thousand million. Raises SettingsError naming the variable."""
    text = text_in(env, variable).value
    if text is None:
        return Said(variable, None)
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise SettingsError(f"{variable}={text!r} is not a whole number from 0 to {10**_MOST_DIGITS - 1}")
    return Said(variable, int(text))


def agreed(own: Said[T], told: Said[T]) -> Said[T]:
    """What two variables agree on, the platform's own first; raises SettingsError when they contradict each other."""
    if own.value is None:
        return told if told.value is not None else own
    if told.value not in (None, own.value):
        raise SettingsError(
            f"{own.variable}={own.value!r} and {told.variable}={told.value!r} contradict each other; "
            f"the platform sets the first one itself, so leave the second out"
        )
    return own


def read_identity(
    env: Mapping[str, str],
    *,
    job: Said[str] | None = None,
    execution: Said[str] | None = None,
    task: Said[int] | None = None,
    tasks: Said[int] | None = None,
    attempt: Said[int] | None = None,
    numbers: range | None = None,
) -> Identity:
    """The identity that the platform's own variables, given here, and those of `TOLD` agree on.

    `numbers` as in Identity. Raises SettingsError naming what contradicts: two variables, or a task index that is not
    below the number of tasks.
    """
    name, run = _text(env, TOLD.job, job), _text(env, TOLD.execution, execution)
    which, count = _count(env, TOLD.task, task), _count(env, TOLD.tasks, tasks)
    index = which.value or 0
    if numbers is None and count.value is not None and index >= count.value:
        raise SettingsError(f"{which.variable}={index} is not below {count.variable}={count.value}")
    if count.value is None and which.value is not None and run.value is not None:
        raise SettingsError(
            f"{which.variable}={index} and {run.variable}={run.value!r} are set, but {count.variable} is not: the next "
            "execution could not know whether all tasks of this one are done; set it to the number of tasks"
        )
    return Identity(
        job=name.value,
        execution=run.value,
        task=index,
        tasks=index + 1 if count.value is None else count.value,
        attempt=_count(env, TOLD.attempt, attempt).value,
        numbers=numbers,
    )


def told_environment(identity: Identity) -> dict[str, str]:
    """The variables of `TOLD` for an identity, without those that have nothing to say."""
    said = {
        TOLD.job: identity.job,
        TOLD.execution: identity.execution,
        TOLD.task: identity.task,
        TOLD.tasks: identity.tasks,
        TOLD.attempt: identity.attempt,
    }
    return {variable: str(value) for variable, value in said.items() if value is not None}


def _count(env: Mapping[str, str], variable: str, own: Said[int] | None) -> Said[int]:
    told = count_in(env, variable)
    return told if own is None else agreed(own, told)


def _text(env: Mapping[str, str], variable: str, own: Said[str] | None) -> Said[str]:
    told = text_in(env, variable)
    return told if own is None else agreed(own, told)
