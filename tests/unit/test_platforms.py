"""What holds for every platform: possible facts with sources, an identity that reads back, nonsense named."""

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import EXIT_HUMAN, SettingsError
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.local import LocalPlatform
from outlast.ports import Identity, Platform, PlatformFacts
from outlast.registry import PLATFORMS, platform_named, proven_platforms

_TASK = {
    "CLOUD_RUN_JOB": "train",
    "CLOUD_RUN_EXECUTION": "train-x7k2p",
    "CLOUD_RUN_TASK_INDEX": "2",
    "CLOUD_RUN_TASK_COUNT": "4",
    "CLOUD_RUN_TASK_ATTEMPT": "1",
}
_TELLING = sorted(set(PLATFORMS) - {"local"})  # those where a process can be told who it is
_OF_OUTLAST = {"name", "sources", "provisional", "procedure"}  # no facts about a platform
_KNOWN_SOURCES = {
    "SIGTERM", "SIGUSR1", "gce-metadata", "kubernetes-node", "aws-imds", "azure-scheduled-events",
}  # fmt: skip


@pytest.fixture(params=sorted(PLATFORMS))
def platform(request: pytest.FixtureRequest) -> Platform:
    return platform_named(request.param)


# --- facts ------------------------------------------------------------------------------------------


def test_the_facts_are_possible(platform: Platform) -> None:
    facts = platform.facts
    assert 0 < facts.grace_seconds <= (facts.longest_grace_seconds or float("inf"))
    assert 0 <= facts.interrupted_exit_code <= 255
    assert 0 <= facts.default_retries <= (10**9 if facts.max_retries is None else facts.max_retries)
    assert facts.mean_seconds_between_interruptions > facts.grace_seconds
    assert 0 <= facts.notice_share <= 1
    assert facts.notice_sources[0] == "SIGTERM"
    assert set(facts.notice_sources) <= _KNOWN_SOURCES


def test_every_fact_has_a_source_and_no_source_is_about_nothing(platform: Platform) -> None:
    facts = platform.facts
    said = {field.name: getattr(facts, field.name) for field in fields(PlatformFacts)}
    empty = {name for name, value in said.items() if value in (None, ()) or value is False}
    needed = {field.name for field in fields(PlatformFacts)} - _OF_OUTLAST - empty
    assert set(facts.sources) == needed | ({"max_retries"} if facts.max_retries is None else set())
    assert all(len(source.split()) >= 3 for source in facts.sources.values())


def test_what_a_vendor_promises_carries_a_date_or_a_version(platform: Platform) -> None:
    dated = re.compile(r"\(20\d\d-\d\d-\d\d\)|\(\d\d\.\d\d\)")
    for name in ("grace_seconds", "longest_grace_seconds"):
        if name in platform.facts.sources:
            assert dated.search(platform.facts.sources[name]), name


def test_b25_unfinished_work_never_looks_done(platform: Platform) -> None:
    """B25: with 0 the controller would record success; the code of a human's turn or of success is none of these."""
    assert platform.facts.interrupted_exit_code not in (0, EXIT_HUMAN)


def test_logs_are_json_exactly_where_the_platform_collects_them() -> None:
    collected = {name for name in PLATFORMS if platform_named(name).facts.logs == "json"}
    assert collected == {"cloud-run", "kubernetes", "gke-spot", "gke-gpu", "gke-tpu"}


def test_only_proven_platforms_are_listed() -> None:
    assert proven_platforms() == ("cloud-run", "local")


def test_x17_a_migration_is_no_notice(platform: Platform) -> None:
    """X17: whoever obeyed SIGTSTP would stand still, and whoever left on it would throw a retry away."""
    assert not set(platform.facts.migration_signals) & set(platform.facts.notice_sources)
    assert bool(platform.facts.migration_signals) == (platform.facts.name == "cloud-run")


# --- identity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _TELLING)
@given(task=st.integers(0, 50), more=st.integers(0, 50), attempt=st.integers(0, 10))
def test_the_environment_of_an_identity_reads_back_as_the_same_identity(
    name: str, task: int, more: int, attempt: int
) -> None:
    identity = Identity(job="train", execution="train-x7k2p", task=task, tasks=task + more + 1, attempt=attempt)
    there = platform_named(name)
    assert there.identity(there.environment(identity)) == identity
    assert there.graces(there.environment(identity))


@pytest.mark.parametrize("name", ["kubernetes", "gce-spot", "azure-spot"])
def test_where_nothing_is_told_nothing_is_made_up(name: str) -> None:
    there = platform_named(name)
    assert there.identity(there.environment(Identity())) == Identity()


def test_a_task_of_a_cloud_run_job_knows_itself() -> None:
    assert CloudRunPlatform().identity(_TASK) == Identity("train", "train-x7k2p", 2, 4, 1)


def test_a_laptop_has_no_execution_and_one_task() -> None:
    assert LocalPlatform().identity({}) == Identity(job=None, execution=None, task=0, tasks=1, attempt=None)
    assert LocalPlatform().environment(Identity()) == {}


# --- nonsense ---------------------------------------------------------------------------------------

_COUNTS = {
    "cloud-run": ["CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT", "CLOUD_RUN_TASK_ATTEMPT"],
    "kubernetes": ["JOB_COMPLETION_INDEX", "OUTLAST_TASK_COUNT", "OUTLAST_TASK_ATTEMPT"],
    "slurm": ["SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MAX", "SLURM_RESTART_COUNT"],
    "aws-spot": ["AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", "AWS_BATCH_JOB_ATTEMPT"],
    "gce-spot": ["OUTLAST_TASK_INDEX", "OUTLAST_TASK_COUNT", "OUTLAST_TASK_ATTEMPT"],
}


@pytest.mark.parametrize("value", ["-1", "two", "1.5", "²", "1 2", "0x1", "1e3", "9" * 5000, "\udcff"])
@pytest.mark.parametrize(("name", "variable"), [(name, one) for name, several in _COUNTS.items() for one in several])
def test_a_count_that_is_none_is_refused_by_name(name: str, variable: str, value: str) -> None:
    there = platform_named(name)
    env = there.environment(Identity("train", "train-x7k2p", task=2, tasks=4, attempt=1))
    with pytest.raises(SettingsError, match=re.escape(f"{variable}={value!r}")) as refused:
        there.identity({**env, variable: value})
    assert refused.value.code == EXIT_HUMAN


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("cloud-run", {"CLOUD_RUN_TASK_INDEX": "4"}, "CLOUD_RUN_TASK_INDEX=4 is not below CLOUD_RUN_TASK_COUNT=4"),
        ("cloud-run", {"OUTLAST_TASK_INDEX": "3"}, "CLOUD_RUN_TASK_INDEX=2 and OUTLAST_TASK_INDEX=3 contradict"),
        ("cloud-run", {"OUTLAST_JOB": "other"}, "CLOUD_RUN_JOB='train' and OUTLAST_JOB='other' contradict"),
        ("kubernetes", {"JOB_COMPLETION_INDEX": "9"}, "JOB_COMPLETION_INDEX=9 and OUTLAST_TASK_INDEX=2 contradict"),
        ("kubernetes", {"OUTLAST_TASK_COUNT": "2"}, "JOB_COMPLETION_INDEX=2 is not below OUTLAST_TASK_COUNT=2"),
        ("kubernetes", {"OUTLAST_TASK_COUNT": ""}, "but OUTLAST_TASK_COUNT is not"),
        ("slurm", {"SLURM_ARRAY_TASK_ID": "7"}, "SLURM_ARRAY_TASK_ID=7 is not below"),
        ("aws-spot", {"AWS_BATCH_JOB_ARRAY_INDEX": "4"}, "is not below AWS_BATCH_JOB_ARRAY_SIZE=4"),
        ("aws-spot", {"AWS_BATCH_JOB_ATTEMPT": "0"}, "AWS_BATCH_JOB_ATTEMPT=0: AWS Batch counts attempts from 1"),
        ("gce-spot", {"OUTLAST_TASK_INDEX": "4"}, "OUTLAST_TASK_INDEX=4 is not below OUTLAST_TASK_COUNT=4"),
    ],
)
def test_a_contradiction_is_named(name: str, change: dict[str, str], said: str) -> None:
    there = platform_named(name)
    env = there.environment(Identity("train", "train-x7k2p", task=2, tasks=4, attempt=1))
    with pytest.raises(SettingsError, match=re.escape(said)):
        there.identity({**env, **change})
