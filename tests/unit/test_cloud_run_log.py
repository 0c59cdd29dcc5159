"""How the emulated Cloud Logging takes the lines that tasks write, and how it is asked for them."""

import pytest

from outlast.emulate.cloud_run import log_filter
from outlast.emulate.cloud_run.log_book import LogBook, Writer
from outlast.emulate.cloud_run.refusals import Refused

_ENTRY = {
    "logName": "projects/demo/logs/run.googleapis.com%2Fstdout",
    "severity": "WARNING",
    "textPayload": "Resuming from step 5",
    "timestamp": "2026-11-30T12:00:00.500000Z",
    "resource": {"type": "cloud_run_job", "labels": {"job_name": "train", "location": "us-central1"}},
    "labels": {"run.googleapis.com/execution_name": "train-x2b4c"},
}


@pytest.mark.parametrize(
    "line", ['{"loss": NaN}', '{"loss": 1e999}', '{"message": "\\ud800"}', '{"a":' * 100_000, '{"a": 1', '["a"]']
)
def test_a_line_that_is_no_json_object_is_text(line: str) -> None:
    log = LogBook()
    log.output(Writer("demo", "us-central1", "train", "train-x2b4c", 0, 0, "i"), "stdout", line)
    assert [entry["textPayload"] for entry in log.entries()] == [line]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("resource.type = cloud_run_job \n AND resource.labels.job_name = train \n AND severity >= DEFAULT \n", True),
        ('resource.type="cloud_run_job" resource.labels.location="europe-west4"', False),
        ('labels."run.googleapis.com/execution_name" = train-x2b4c', True),
        ('labels."run.googleapis.com/execution_name" = "train-other"', False),
        ("severity>=ERROR", False),
        ("severity=warning", True),
        ('timestamp>="2026-11-30T12:00:00Z" AND timestamp<"2026-11-30T12:00:01+00:00"', True),
        ('timestamp>="2026-11-30T12:00:01Z"', False),
        ("textPayload:resuming", True),
        ("textPayload:*", True),
        ("jsonPayload.message:*", False),
        ("NOT jsonPayload.message:*", True),
        ('textPayload=~"step [0-9]"', True),
        ('textPayload!~"step [0-9]"', False),
        ("INSTANCE_PREEMPTED", False),
        ("INSTANCE_PREEMPTED OR Resuming", True),
        ("(INSTANCE_PREEMPTED OR Resuming) AND severity=INFO", False),
        ("INSTANCE_PREEMPTED OR Resuming AND severity=WARNING", True),
        ('"from step" -- a comment', True),
        ("jsonPayload.message != x", True),
    ],
)
def test_the_query_language_of_logs(text: str, matches: bool) -> None:
    assert log_filter.parse_filter(text)(_ENTRY) is matches


@pytest.mark.parametrize(
    "text", ["(a", "a)", "a =", "= a", "severity>=LOUD", 'timestamp>"yesterday"', "a < b", 'a=~"("']
)
def test_a_query_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="Unparseable filter"):
        log_filter.parse_filter(text)
