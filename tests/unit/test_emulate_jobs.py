"""What the emulated Job controller decides: podFailurePolicy, indexes, replacement, back-off, and how Jobs end."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from outlast.emulate.kubernetes import defaulting, job_indexes
from outlast.emulate.kubernetes.job_failures import judge
from outlast.emulate.kubernetes.job_pods import TRACKING, new_pod
from outlast.emulate.kubernetes.job_sync import Decision, Memory, backoff_seconds, decide, finished

Json = dict[str, Any]
STAMP = "2026-11-30T12:00:00Z"
ON_DISRUPTION, ON_78 = {"type": "DisruptionTarget"}, {"operator": "In", "values": [78]}
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [ON_DISRUPTION]}
FAIL_ON_78 = {"action": "FailJob", "onExitCodes": ON_78}
_numbers = count()


def job(**spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": spec.pop("restart", "Never")}}
    metadata = {"name": "train", "namespace": "default", "uid": "job-uid"}
    made = {"kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}
    defaulting.fill(made)
    return made


def pod(
    phase: str = "Running",
    *,
    code: int | None = None,
    index: int | None = None,
    disrupted: bool = False,
    deleted: bool = False,
    counted: bool = False,
    **annotations: str,
) -> Json:
    number = next(_numbers)
    meta: Json = {"name": f"train-{number}", "namespace": "default", "uid": f"uid-{number}"}
    meta["annotations"] = {
        f"batch.kubernetes.io/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    if index is not None:
        meta["annotations"][job_indexes.INDEX] = str(index)
    if not counted:
        meta["finalizers"] = [TRACKING]
    if deleted:
        meta["deletionTimestamp"] = STAMP
    status: Json = {"phase": phase}
    if code is not None:
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": code}}}]
    if disrupted:
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    return {"kind": "Pod", "metadata": meta, "spec": {}, "status": status}


def look(of: Json, pods: Sequence[Json] = (), memory: Memory | None = None, *, now: float = 1000.0) -> Decision:
    return decide(of, pods, memory or Memory(started_at=1000.0), now=now, stamp=STAMP)


def ended(decision: Decision) -> tuple[str, str] | None:
    """The last condition that ends the Job, and its reason."""
    found = [one for one in decision.status.get("conditions", ()) if one["type"] != "Suspended"]
    return (found[-1]["type"], found[-1]["reason"]) if found else None


POLICIES = [
    # rules, exit code, disrupted -> action, whether it counts, whether the Job fails
    ([], 1, False, None, True, False),
    ([IGNORE_DISRUPTIONS, FAIL_ON_78], 143, True, "Ignore", False, False),
    ([IGNORE_DISRUPTIONS, FAIL_ON_78], 143, False, None, True, False),
    ([IGNORE_DISRUPTIONS, FAIL_ON_78], 78, False, "FailJob", True, True),
    ([IGNORE_DISRUPTIONS, FAIL_ON_78], 78, True, "Ignore", False, False),
    ([FAIL_ON_78, IGNORE_DISRUPTIONS], 78, True, "FailJob", True, True),
    ([{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [143]}}], 1, False, "FailJob", True, True),
    ([{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [143]}}], 143, True, None, True, False),
    # A container that left with 0 matches no rule about exit codes.
    ([{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [143]}}], 0, True, None, True, False),
    ([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75, 143]}}], 75, False, "Ignore", False, False),
    ([{**FAIL_ON_78, "action": "Count"}, FAIL_ON_78], 78, False, "Count", True, False),
    ([{**FAIL_ON_78, "onExitCodes": {**ON_78, "containerName": "other"}}], 78, False, None, True, False),
    ([{**FAIL_ON_78, "onExitCodes": {**ON_78, "containerName": "main"}}], 78, False, "FailJob", True, True),
    ([{**IGNORE_DISRUPTIONS, "onPodConditions": [{**ON_DISRUPTION, "status": "False"}]}], 1, True, None, True, False),
    ([{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [78]}}], 78, False, "FailIndex", True, False),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "code", "disrupted", "action", "counts", "fails"), POLICIES)
def test_the_first_rule_that_matches_decides_about_a_failure(
    rules: list[Json], code: int, disrupted: bool, action: str | None, counts: bool, fails: bool
) -> None:
    verdict = judge(job(podFailurePolicy={"rules": rules}), pod("Failed", code=code, disrupted=disrupted))
    assert (verdict.action, verdict.counts, verdict.message is not None) == (action, counts, fails)


def test_a_disruption_that_is_ignored_uses_up_no_backoff_limit_and_lengthens_the_delay() -> None:
    of, memory = job(backoffLimit=0, podFailurePolicy={"rules": [IGNORE_DISRUPTIONS]}), Memory(started_at=0.0)
    now, waits = 1000.0, []
    for _ in range(4):
        decision = look(of, [pod("Failed", code=143, disrupted=True)], memory, now=now)
        assert ended(decision) is None
        assert decision.status.get("failed", 0) == 0
        assert decision.create == ()
        waits.append(decision.again_seconds)
        now += decision.again_seconds or 0.0
        memory, of = decision.memory, {**of, "status": decision.status}
        assert len(look(of, [], memory, now=now).create) == 1
    assert waits == [10, 20, 40, 80]


@pytest.mark.parametrize(("limit", "failures", "fails"), [(0, 1, True), (1, 1, False), (1, 2, True), (6, 6, False)])
def test_more_failures_than_the_backoff_limit_fail_the_job(limit: int, failures: int, fails: bool) -> None:
    decision = look(job(backoffLimit=limit), [pod("Failed", code=1) for _ in range(failures)])
    assert ended(decision) == (("Failed", "BackoffLimitExceeded") if fails else None)
    assert decision.status["failed"] == failures
    assert len(decision.release) == failures


def test_a_failed_job_is_failed_only_once_its_other_pods_are_gone() -> None:
    of = job(parallelism=2, completions=2, podFailurePolicy={"rules": [FAIL_ON_78]})
    failed, other = pod("Failed", code=78), pod()
    decision = look(of, [failed, other])
    assert ended(decision) == ("FailureTarget", "PodFailurePolicy")
    assert decision.delete == (other["metadata"]["name"],)
    of["status"] = decision.status
    ending = {**other, "metadata": {**other["metadata"], "deletionTimestamp": STAMP}}
    assert ended(look(of, [ending], decision.memory)) == ("FailureTarget", "PodFailurePolicy")
    last = look(of, [{**ending, "status": {"phase": "Failed"}}], decision.memory)
    assert ended(last) == ("Failed", "PodFailurePolicy")
    assert "exit code 78 matching FailJob rule at index 0" in last.status["conditions"][-1]["message"]
    assert finished({**of, "status": last.status}) == "Failed"


@pytest.mark.parametrize(
    ("spec", "made", "failed"),
    [
        ({}, 0, 1),  # the replacement of a pod that is still ending waits for the back-off only
        ({"podReplacementPolicy": "Failed"}, 0, 0),
        ({"podFailurePolicy": {"rules": [IGNORE_DISRUPTIONS]}}, 0, 0),
    ],
)
def test_a_pod_under_deletion_is_replaced_at_once_unless_only_failed_ones_are(
    spec: Json, made: int, failed: int
) -> None:
    decision = look(job(**spec), [pod(deleted=True)])
    assert (len(decision.create), decision.status.get("failed", 0)) == (made, failed)
    later = look(
        {**job(**spec), "status": decision.status}, [pod(deleted=True, counted=True)], decision.memory, now=1010
    )
    assert len(later.create) == failed


def test_work_that_was_left_with_code_0_counts_as_done() -> None:
    assert ended(look(job(), [pod("Succeeded", code=0, disrupted=True)])) == ("Complete", "CompletionsReached")


def test_every_index_has_one_pod_and_completes_once() -> None:
    of = job(completions=5, parallelism=3, completionMode="Indexed")
    first = look(of)
    assert [job_indexes.index_of(one) for one in first.create] == [0, 1, 2]
    made = first.create[1]
    assert made["spec"]["hostname"] == "train-1"
    assert made["metadata"]["generateName"] == "train-1-"
    assert made["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    done = [pod("Succeeded", index=0), pod("Succeeded", index=0), pod(index=1), pod("Succeeded", index=2)]
    second = look(of, done)
    assert [job_indexes.index_of(one) for one in second.create] == [3, 4]
    assert (second.status["completedIndexes"], second.status["succeeded"]) == ("0,2", 2)
    of["status"] = second.status
    last = look(of, [pod("Succeeded", index=index) for index in (1, 3, 4)])
    assert ended(last) == ("Complete", "CompletionsReached")
    assert last.status["completedIndexes"] == "0-4"


def test_the_index_stays_in_the_name_of_a_pod_however_long_that_of_the_job_is() -> None:
    of = job(completions=20, completionMode="Indexed")
    of["metadata"]["name"] = "x" * 60
    made = new_pod(of, 12)
    assert made["metadata"]["generateName"] == f"{'x' * 54}-12-"
    assert made["spec"]["hostname"] == f"{'x' * 60}-12"


def test_indexes_with_a_limit_of_their_own_fail_alone_and_wait_alone() -> None:
    of = job(completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1)
    failed = pod("Failed", code=1, index=0)
    first = look(of, [failed, pod(index=1), pod(index=2)])
    assert (first.create, first.again_seconds) == ((), 10)
    of["status"] = first.status
    counted = {**failed, "metadata": {**failed["metadata"], "finalizers": []}}
    second = look(of, [counted, pod(index=1), pod(index=2)], first.memory, now=1010)
    assert second.create[0]["metadata"]["annotations"][job_indexes.FAILURES] == "1"
    again = pod("Failed", code=1, index=0, job_index_failure_count="1")
    third = look(of, [counted, again, pod(index=1), pod(index=2)], second.memory, now=1020)
    assert (third.create, third.status["failedIndexes"], ended(third)) == ((), "0", None)
    of["status"] = third.status
    last = look(of, [pod("Succeeded", index=1), pod("Succeeded", index=2)], third.memory, now=1030)
    assert ended(last) == ("Failed", "FailedIndexes")


def test_too_many_failed_indexes_end_the_job() -> None:
    spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
    of = job(**spec, backoffLimitPerIndex=0, maxFailedIndexes=1)
    pods = [pod("Failed", code=1, index=index) for index in (0, 1)]
    assert ended(look(of, pods)) == ("Failed", "MaxFailedIndexesExceeded")
    assert ended(look(of, pods[:1])) is None


def test_a_rule_can_end_one_index() -> None:
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [78]}}]
    spec = {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 6}
    decision = look(job(**spec, podFailurePolicy={"rules": rules}), [pod("Failed", code=78, index=0)])
    assert decision.status["failedIndexes"] == "0"
    assert [job_indexes.index_of(one) for one in decision.create] == [1]


def test_the_time_of_a_job_counts_from_its_start_and_anew_after_a_suspension() -> None:
    of = job(activeDeadlineSeconds=100)
    memory = look(of, now=1000, memory=Memory()).memory
    assert look(of, [pod()], memory, now=1060).again_seconds == 40
    late = look(of, [pod()], memory, now=1100)
    assert ended(late) == ("FailureTarget", "DeadlineExceeded")
    running = pod()
    suspended = look(job(activeDeadlineSeconds=100, suspend=True), [running], memory, now=1060)
    assert suspended.discard == (running["metadata"]["name"],)
    assert suspended.release == ()
    assert suspended.status["conditions"][0]["reason"] == "JobSuspended"
    assert "startTime" not in suspended.status
    again = look({**of, "status": suspended.status}, [], suspended.memory, now=2000)
    assert (len(again.create), again.again_seconds) == (1, 100)
    assert again.status["conditions"][0]["status"] == "False"


def test_where_completions_are_not_told_the_first_success_ends_the_replacing() -> None:
    of = job(parallelism=3)
    assert len(look(of).create) == 3
    one_done = [pod("Succeeded"), pod(), pod("Failed", code=1)]
    decision = look(of, one_done)
    assert (decision.create, decision.delete, ended(decision)) == ((), (), None)
    of["status"] = decision.status
    assert ended(look(of, [pod("Succeeded")], decision.memory)) == ("Complete", "CompletionsReached")


def test_restarts_in_place_count_where_the_policy_is_on_failure() -> None:
    restarted = pod()
    restarted["status"]["containerStatuses"] = [{"name": "main", "restartCount": 2, "state": {"running": {}}}]
    assert ended(look(job(restart="OnFailure", backoffLimit=3), [restarted])) is None
    assert ended(look(job(restart="OnFailure", backoffLimit=2), [restarted])) == (
        "FailureTarget",
        "BackoffLimitExceeded",
    )


def test_a_success_makes_the_delays_short_again() -> None:
    of = job(completions=3, parallelism=1)
    memory = Memory(started_at=0.0, failures_in_a_row=5, last_failure_at=999.0)
    assert look(of, [], memory).again_seconds == backoff_seconds(5) - 1
    assert len(look(of, [pod("Succeeded")], memory).create) == 1
    assert [backoff_seconds(number) for number in (0, 1, 2, 3, 6, 7, 100)] == [0, 10, 20, 40, 320, 360, 360]


@pytest.mark.parametrize(("indexes", "text"), [([], ""), ([1, 3, 4, 5, 7], "1,3-5,7"), ([0, 1], "0,1"), ([2], "2")])
def test_sets_of_indexes_are_written_as_the_api_has_them(indexes: list[int], text: str) -> None:
    assert job_indexes.written(indexes) == text
    assert job_indexes.read(text) == set(indexes)
