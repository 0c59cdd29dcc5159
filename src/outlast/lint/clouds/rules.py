"""The rules for AWS Batch and ECS."""

from outlast.lint.rule import WARNING, Rule

NO_RETRY = Rule(
    "A001",
    WARNING,
    "a Batch job that a Spot reclaim ends for good, or that retries every bug",
    "Attempts default to 1: the first reclaimed instance fails the job. More attempts without evaluateOnExit also "
    "repeat a program that fails by itself.",
    'attempts up to 10, and evaluateOnExit: first onStatusReason "Host EC2*" RETRY, then onReason "*" EXIT',
    "AWS Batch, Automated job retries; aws-batch job definitions in public repositories (2026-11-29)",
)
NOT_DRAINED = Rule(
    "A002",
    WARNING,
    "ECS on Spot without draining",
    "Without ECS_ENABLE_SPOT_INSTANCE_DRAINING the agent does not act on the two-minute notice: tasks get no SIGTERM "
    "before the instance is gone.",
    "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true in /etc/ecs/ecs.config, before the agent starts",
    "Amazon ECS, Container agent configuration (2026-11-29)",
)
RULES = (NO_RETRY, NOT_DRAINED)
