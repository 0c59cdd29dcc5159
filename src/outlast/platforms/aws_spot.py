"""Spot capacity of AWS: AWS Batch, ECS and EC2.

Facts as of 2026-11-29, from the AWS documentation: "Spot Instance interruption notices" (`spot/instance-action`, 2 min
before), "AWS Batch job environment variables" (attempts count from 1, array indexes from 0), "Automated job retries"
(1 to 10 attempts, 1 unless set); ECS: stopTimeout, 30 s between SIGTERM and SIGKILL unless set.
"""

from collections.abc import Mapping

from outlast.errors import SettingsError
from outlast.firmware import Firmware
from outlast.platforms import assumed
from outlast.platforms.variables import TOLD, Said, count_in, read_identity, text_in
from outlast.ports import Identity, KnownGrace, PlatformFacts

_FACTS = PlatformFacts(
    name="aws-spot",
    grace_seconds=120.0,
    longest_grace_seconds=120.0,
    interrupted_exit_code=143,
    default_retries=0,
    max_retries=9,
    mean_seconds_between_interruptions=assumed.SPOT_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM", "aws-imds"),
    logs="plain",
    procedure="ec2",
    provisional=True,
    sources={
        "grace_seconds": "EC2, Spot Instance interruption notices: 2 min before, as best effort (2026-11-29)",
        "longest_grace_seconds": "EC2, Spot Instance interruption notices: 2 min (2026-11-29)",
        "interrupted_exit_code": "AWS Batch, Automated job retries: a job that exits with 0 has succeeded",
        "default_retries": "AWS Batch, Automated job retries: one attempt unless set (2026-11-29)",
        "max_retries": "AWS Batch, Automated job retries: ten attempts at most (2026-11-29)",
        "mean_seconds_between_interruptions": assumed.SPOT_SOURCE,
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "notice_sources": "EC2, Spot Instance interruption notices: instance metadata; ECS and Batch send SIGTERM",
        "logs": "CloudWatch keeps lines as they are",
    },
)
_STOP_TIMEOUT_SECONDS = 30.0
_ARRAY_INDEX, _ARRAY_SIZE = "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"


class AwsSpotPlatform:
    """A job of AWS Batch, a task of ECS, or a machine of EC2, which is taken for a Spot one."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        if env.get("AWS_BATCH_JOB_ID") or env.get("ECS_CONTAINER_METADATA_URI_V4"):
            return True
        return firmware.vendor == "Amazon EC2" and not env.get("KUBERNETES_SERVICE_HOST")

    def identity(self, env: Mapping[str, str]) -> Identity:
        """The job of Batch is the execution, its array index the task. What is no job of Batch is as it is told."""
        job_id = text_in(env, "AWS_BATCH_JOB_ID")
        # A child of an array job is PARENT:INDEX.
        parent = job_id.value.partition(":")[0] if job_id.value else None
        size = count_in(env, _ARRAY_SIZE).value if job_id.value else None
        return read_identity(
            env,
            execution=Said(job_id.variable, parent),
            task=count_in(env, _ARRAY_INDEX),
            tasks=Said(_ARRAY_SIZE, 1 if job_id.value and size is None else size),
            attempt=Said("AWS_BATCH_JOB_ATTEMPT", _attempt(env)),
        )

    def environment(self, identity: Identity) -> dict[str, str]:
        execution = identity.execution or "job-1"
        array = {_ARRAY_INDEX: str(identity.task), _ARRAY_SIZE: str(identity.tasks)} if identity.tasks > 1 else {}
        return {
            "AWS_BATCH_JOB_ID": f"{execution}:{identity.task}" if array else execution,
            "AWS_BATCH_JOB_ATTEMPT": str((identity.attempt or 0) + 1),
            **array,
            **({TOLD.job: identity.job} if identity.job else {}),
        }

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        """SIGTERM comes from ECS, which kills stopTimeout later, also when the notice before it was not heard."""
        stop = KnownGrace(
            _STOP_TIMEOUT_SECONDS,
            "ECS: stopTimeout, 30 s between SIGTERM and SIGKILL unless set (2026-11-29)",
            gives_way=True,
            notice="SIGTERM",
        )
        return (*self.facts.known_graces(), stop)


def _attempt(env: Mapping[str, str]) -> int | None:
    """From 0, as everywhere else."""
    said = count_in(env, "AWS_BATCH_JOB_ATTEMPT")
    if said.value == 0:
        raise SettingsError(f"{said.variable}=0: AWS Batch counts attempts from 1")
    return None if said.value is None else said.value - 1
