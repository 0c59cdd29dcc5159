"""Google Cloud Run jobs.

Facts as of 2026-11-29, from the Cloud Run documentation: "Container runtime contract" (variables, SIGTERM, 10 s),
"Set task timeout for jobs" (GPU tasks are terminated at maintenance, not migrated), "Set maximum number of
retries for jobs" (default 3, 0 to 10).
"""

from collections.abc import Mapping

from outlast.errors import SettingsError
from outlast.ports import Identity, PlatformFacts

_FACTS = PlatformFacts(
    name="cloud-run",
    grace_seconds=10.0,
    interrupted_exit_code=143,
    default_retries=3,
    max_retries=10,
    mean_seconds_between_interruptions=7 * 24 * 3600.0,
    notice_sources=("SIGTERM",),
    logs="json",
    sources={
        "grace_seconds": "Cloud Run, Container runtime contract: SIGTERM, 10 s, SIGKILL (2026-04-08)",
        "interrupted_exit_code": "Cloud Run tutorial for resilient GPU jobs: non-zero makes the task retry",
        "default_retries": "Cloud Run, Set maximum number of retries: 3, integer 0 to 10",
        "mean_seconds_between_interruptions": "Cloud Run tutorial: GPU tasks end at the weekly maintenance",
    },
)


class CloudRunPlatform:
    """A task of a Cloud Run job."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str]) -> bool:
        return bool(env.get("CLOUD_RUN_JOB"))

    def identity(self, env: Mapping[str, str]) -> Identity:
        task, tasks = _count(env, "CLOUD_RUN_TASK_INDEX", 0), _count(env, "CLOUD_RUN_TASK_COUNT", 1)
        if task >= tasks:
            raise SettingsError(f"CLOUD_RUN_TASK_INDEX={task} is not below CLOUD_RUN_TASK_COUNT={tasks}")
        return Identity(
            job=env.get("CLOUD_RUN_JOB") or None,
            execution=env.get("CLOUD_RUN_EXECUTION") or None,
            task=task,
            tasks=tasks,
            attempt=_count(env, "CLOUD_RUN_TASK_ATTEMPT", 0),
        )

    def environment(self, identity: Identity) -> dict[str, str]:
        return {
            "CLOUD_RUN_JOB": identity.job or "job",
            "CLOUD_RUN_EXECUTION": identity.execution or "job-execution",
            "CLOUD_RUN_TASK_INDEX": str(identity.task),
            "CLOUD_RUN_TASK_COUNT": str(identity.tasks),
            "CLOUD_RUN_TASK_ATTEMPT": str(identity.attempt or 0),
        }


def _count(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise SettingsError(f"{name}={text!r} is not a whole number of 0 or more")
    return int(text)
