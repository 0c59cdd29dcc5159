"""Detection, identity and facts of the platforms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import SettingsError
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.local import LocalPlatform
from outlast.ports import Identity, Platform
from outlast.registry import PLATFORMS, platform_named

_TASK = {
    "CLOUD_RUN_JOB": "train",
    "CLOUD_RUN_EXECUTION": "train-x7k2p",
    "CLOUD_RUN_TASK_INDEX": "2",
    "CLOUD_RUN_TASK_COUNT": "4",
    "CLOUD_RUN_TASK_ATTEMPT": "1",
}


@pytest.fixture(params=sorted(PLATFORMS))
def platform(request: pytest.FixtureRequest) -> Platform:
    return platform_named(request.param)


def test_the_facts_are_possible_and_the_hard_ones_have_a_source(platform: Platform) -> None:
    facts = platform.facts
    assert facts.grace_seconds > 0
    assert 0 <= facts.interrupted_exit_code <= 255
    assert facts.default_retries >= 0
    assert facts.max_retries is None or facts.default_retries <= facts.max_retries
    assert facts.notice_sources
    for name in ("grace_seconds", "interrupted_exit_code", "mean_seconds_between_interruptions"):
        assert facts.sources[name].strip(), name
    assert set(facts.sources) <= set(type(facts).__dataclass_fields__)


@given(task=st.integers(0, 50), more=st.integers(0, 50), attempt=st.integers(0, 10))
def test_the_environment_that_cloud_run_gives_reads_back_as_the_same_identity(
    task: int, more: int, attempt: int
) -> None:
    identity = Identity(job="train", execution="train-x7k2p", task=task, tasks=task + more + 1, attempt=attempt)
    cloud_run = CloudRunPlatform()
    assert cloud_run.identity(cloud_run.environment(identity)) == identity
    assert cloud_run.detect(cloud_run.environment(identity))


def test_a_task_of_a_cloud_run_job_knows_itself() -> None:
    assert CloudRunPlatform().identity(_TASK) == Identity("train", "train-x7k2p", 2, 4, 1)


@pytest.mark.parametrize("value", ["-1", "two", "1.5", "²", "1 2"])
@pytest.mark.parametrize("name", ["CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT", "CLOUD_RUN_TASK_ATTEMPT"])
def test_a_count_that_is_none_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}='{value}'"):
        CloudRunPlatform().identity({**_TASK, name: value})


def test_a_task_index_beyond_the_count_is_refused() -> None:
    with pytest.raises(SettingsError, match="CLOUD_RUN_TASK_INDEX=4 is not below CLOUD_RUN_TASK_COUNT=4"):
        CloudRunPlatform().identity({**_TASK, "CLOUD_RUN_TASK_INDEX": "4"})


def test_a_laptop_has_no_execution_and_one_task() -> None:
    assert LocalPlatform().identity({}) == Identity(job=None, execution=None, task=0, tasks=1, attempt=None)
    assert LocalPlatform().environment(Identity()) == {}
