"""The completion indexes of an Indexed Job: sets of numbers as the API writes them, and what became of each.

Facts as of 2026-11-30. Kubernetes, "Jobs": completedIndexes and failedIndexes are written as "1,3-5,7". "Backoff limit
per index": an index fails once a pod of it has failed more often than backoffLimitPerIndex, or by a FailIndex rule; the
count so far stands in the pod's annotation batch.kubernetes.io/job-index-failure-count.
"""

from collections.abc import Iterable
from typing import Any

from outlast.emulate.kubernetes.job_failures import has_failed, judge

Json = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def written(indexes: Iterable[int]) -> str:
    """A set of indexes as the API has it: runs of three and more with a dash."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))


def read(text: str | None) -> set[int]:
    """The set that `written` wrote."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def is_indexed(job: Json) -> bool:
    """Whether each pod has a number of its own."""
    return bool(job["spec"]["completionMode"] == "Indexed")


def limits_each_index(job: Json) -> bool:
    """Whether failures are counted for each index alone."""
    return is_indexed(job) and "backoffLimitPerIndex" in job["spec"]


def index_of(pod: Json) -> int | None:
    """The pod's index; None where it has none."""
    number = pod["metadata"].get("annotations", {}).get(INDEX)
    return int(number) if number is not None and str(number).isdigit() else None


def count_in(pod: Json, annotation: str) -> int:
    """One of the two counts that a pod of a limited index carries."""
    return int(pod["metadata"].get("annotations", {}).get(annotation, 0))


def fails_index(job: Json, pod: Json) -> bool:
    """Whether this failed pod is the end of its index."""
    if not has_failed(job, pod):
        return False
    verdict = judge(job, pod)
    if verdict.action == "FailIndex":
        return True
    return verdict.counts and count_in(pod, FAILURES) >= job["spec"]["backoffLimitPerIndex"]


def counts_after(job: Json, failed: Json | None) -> dict[str, str]:
    """The annotations of the pod that follows a failed one of the same index; of the first one if there is none."""
    if failed is None:
        return {FAILURES: "0"}
    counts = judge(job, failed).counts
    failures, ignored = count_in(failed, FAILURES) + counts, count_in(failed, IGNORED) + (not counts)
    return {FAILURES: str(failures), **({IGNORED: str(ignored)} if ignored else {})}
