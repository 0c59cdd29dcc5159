"""What lint calls invalid in a Job, the emulated API server refuses; and what it refuses of ours, lint knows."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.verbs import Verbs, populate
from outlast.lint.known import Known
from outlast.lint.kubernetes.checking import check_manifest
from outlast.lint.kubernetes.manifest import read_manifest
from outlast.lint.rule import ERROR

pytest.importorskip("kubernetes")

FIXTURES = Path(__file__).parent / "fixtures"
# Their errors are those of the API server; the other rules are about what happens later.
INVALID = ("K003", "K004", "K007", "K022", "K035")


def _jobs():
    """(file, the Job as written) of every fixture that holds one Job, whole and without placeholders."""
    for path in sorted(FIXTURES.glob("K*/*.yaml")):
        text = path.read_text()
        for document in yaml.safe_load_all(text):
            if document.get("apiVersion") == "batch/v1" and document["kind"] == "Job" and "${" not in text:
                containers = document["spec"]["template"]["spec"]["containers"]
                if all("image" in one for one in containers):
                    yield pytest.param(document, id=f"{path.parent.name}/{path.name}")


def _refused(job):
    store = Store(now=lambda: datetime(2026, 11, 30, 12, tzinfo=UTC))
    populate(store)
    try:
        Verbs(store).create("Job", job | {"metadata": job["metadata"] | {"namespace": "default"}})
    except Refused as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("job", list(_jobs()))
def test_lint_and_the_api_server_agree_on_what_is_invalid(job):
    manifest = read_manifest(yaml.safe_dump(job))
    found = [one for one in check_manifest(manifest, Known()) if one.rule.id in INVALID and one.severity is ERROR]
    refusal = _refused(job)
    assert bool(found) == (refusal is not None), (refusal, [(one.rule.id, one.message) for one in found])


def test_there_are_jobs_of_both_kinds_to_agree_on():
    jobs = [parameter.values[0] for parameter in _jobs()]
    refused = sum(_refused(job) is not None for job in jobs)
    assert refused >= 10
    assert len(jobs) - refused >= 10
