"""Google Cloud Run jobs.

Facts as of 2026-11-29, from the Cloud Run documentation: "Container runtime contract" (variables, SIGTERM, 10 s,
SIGKILL), "Set task timeout for jobs" (tasks with a GPU are ended at maintenance; others are moved, with SIGTSTP 10 s
before and SIGCONT after), "Set maximum number of retries for jobs" (default 3, 0 to 10).
"""

from collections.abc import Mapping
from dataclasses import replace

from outlast.firmware import Firmware
from outlast.platforms import assumed
from outlast.platforms.variables import Said, count_in, read_identity, text_in
from outlast.ports import Identity, KnownGrace, PlatformFacts

_FACTS = PlatformFacts(
    name="cloud-run",
    grace_seconds=10.0,
    longest_grace_seconds=10.0,
    interrupted_exit_code=143,
    default_retries=3,
    max_retries=10,
    mean_seconds_between_interruptions=assumed.WEEKLY_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM",),
    migration_signals=("SIGTSTP", "SIGCONT"),
    container_per_attempt=True,
    logs="json",
    procedure="cloud-run",
    sources={
        "grace_seconds": "Cloud Run, Container runtime contract: SIGTERM, 10 s, SIGKILL (2026-04-08)",
        "longest_grace_seconds": "Cloud Run, Container runtime contract: 10 s, which no setting changes (2026-04-08)",
        "interrupted_exit_code": "Cloud Run tutorial for resilient GPU jobs: non-zero makes the task retry",
        "default_retries": "Cloud Run, Set maximum number of retries: 3 (2026-11-29)",
        "max_retries": "Cloud Run, Set maximum number of retries: an integer from 0 to 10 (2026-11-29)",
        "mean_seconds_between_interruptions": "Cloud Run tutorial: GPU tasks end at the weekly maintenance",
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "notice_sources": "Cloud Run, Container runtime contract: SIGTERM at a timeout, a cancellation, maintenance",
        "migration_signals": "Cloud Run, Set task timeout: a task without a GPU gets SIGTSTP 10 s before it moves",
        "container_per_attempt": "Cloud Run, Container runtime contract: each attempt has an instance of its own",
        "logs": "Cloud Logging reads severity and message from a line that is JSON",
    },
)


class CloudRunPlatform:
    """A task of a Cloud Run job. Its workers and services end in the same way, but have no tasks."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        service = bool(env.get("K_SERVICE")) and not env.get("KUBERNETES_SERVICE_HOST")  # Knative sets K_SERVICE too
        return bool(env.get("CLOUD_RUN_JOB") or env.get("CLOUD_RUN_WORKER_POOL")) or service

    def identity(self, env: Mapping[str, str]) -> Identity:
        tasks = count_in(env, "CLOUD_RUN_TASK_COUNT")
        found = read_identity(
            env,
            job=text_in(env, "CLOUD_RUN_JOB"),
            execution=text_in(env, "CLOUD_RUN_EXECUTION"),
            task=count_in(env, "CLOUD_RUN_TASK_INDEX"),
            tasks=Said(tasks.variable, 1 if tasks.value is None else tasks.value),
            attempt=count_in(env, "CLOUD_RUN_TASK_ATTEMPT"),
        )
        return replace(found, attempt=found.attempt or 0)

    def environment(self, identity: Identity) -> dict[str, str]:
        return {
            "CLOUD_RUN_JOB": identity.job or "job",
            "CLOUD_RUN_EXECUTION": identity.execution or "job-execution",
            "CLOUD_RUN_TASK_INDEX": str(identity.task),
            "CLOUD_RUN_TASK_COUNT": str(identity.tasks),
            "CLOUD_RUN_TASK_ATTEMPT": str(identity.attempt or 0),
        }

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        return self.facts.known_graces()
