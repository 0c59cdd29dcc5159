"""What a verdict makes of batch work: who left early, what was not seen, and what interruptions cost in items."""

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from test_rehearse_verdict import DIFFERENT, HEARD, SAME, attempt, evidence

from outlast.events import (
    BatchStarted,
    ChunkBegun,
    ItemsGivenBack,
    ItemsStored,
    LeaseTaken,
    LoopStarted,
    NoticeHeard,
    Recorded,
    SaveCommitted,
    from_lines,
)
from outlast.rehearse.batch_life import items_of
from outlast.rehearse.compare import Distance
from outlast.rehearse.notice import LeftBehind
from outlast.rehearse.profile import profile_of
from outlast.rehearse.results import Result
from outlast.rehearse.sandbox import PRIVATE_FOLDER
from outlast.rehearse.verdict import judge
from outlast.rehearse.watch import Write
from outlast.settings import EVENTS_FILE

QUEUE = Result("queue work.db", True, "", SAME.distance)
UNFINISHED = Result("queue work.db", False, "2 of 3 items are …", Distance(math.inf))


def test_who_did_not_hear_the_notice_or_had_done_all_did_not_leave_early() -> None:
    left = attempt(0, "SIGTERM", ended_by="finished", exit_code=0)
    deaf = replace(left, notice=replace(HEARD, first_hears=False))
    early = "it left with 0"
    for one, queue, told in ((left, UNFINISHED, True), (left, QUEUE, False), (deaf, UNFINISHED, False)):
        results = (queue, DIFFERENT)
        verdict, reasons = judge(evidence(one, results=results, nearest=results))
        assert verdict == "not-survived"
        assert any(early in reason for reason in reasons) == told, reasons


def test_a_notice_after_the_work_finds_nobody_and_that_is_no_fault() -> None:
    deaf = replace(HEARD, first_hears=False, signalled=True)
    late = replace(attempt(3, "SIGTERM", ended_by="finished", exit_code=0), notice=deaf)
    before = evidence().attempts[:3]
    heard = (replace(before[0], heard_notice_after_seconds=0.01), *before[1:])
    assert judge(evidence(*heard, late)) == ("survived", [])
    for others, one in (
        (before, late),  # nothing shows that it listens while it works
        (heard, replace(late, ended_by="SIGKILL after the grace", exit_code=137)),
        (heard, replace(late, notice=replace(deaf, left_behind=(LeftBehind("python", ("a.txt",)),)))),
    ):
        finished = () if one.exit_code == 0 else (attempt(4),)
        verdict, reasons = judge(evidence(*others, one, *finished))
        assert verdict == "not-survived"
        assert reasons


def test_batch_work_is_not_told_to_begin_again_nor_to_name_its_sink() -> None:
    seen = evidence(items="batch work: 3 items were computed again", baseline_writes=10)
    seen = replace(seen, attempts=tuple(replace(one, writes=10, seconds=3.0) for one in seen.attempts))
    assert judge(seen) == ("survived", ["batch work: 3 items were computed again"])
    assert judge(replace(seen, items=None))[0] == "not-survived", "that would be a program that begins again"
    sink = Result("sink work.db", False, "1 result is missing: 'a'", Distance(math.inf))
    _, reasons = judge(evidence(results=(sink,), nearest=(sink,)))
    assert not any("--result" in reason for reason in reasons)


def test_what_all_runs_share_is_never_called_survived() -> None:
    verdict, reasons = judge(evidence(outside=("postgresql://db/x",)))
    assert verdict == "could-not-rehearse"
    assert "postgresql://db/x lies outside of the copy" in reasons[0]


def test_a_worker_saves_where_its_sink_is() -> None:
    recorded = [Recorded(ChunkBegun(4), 1.0, 10.5), Recorded(ItemsStored(4), 1.0, 10.9)]
    writes = [Write("log.txt", "modified", 10.6), Write("results.db-wal", "modified", 10.8)]
    baseline = replace(attempt(0), started_at=10.0)
    profile = profile_of(baseline, recorded, writes, None, ("results.db",))
    assert (profile.sign, profile.saves) == ("loop", True)
    assert math.isclose(profile.start_up_seconds, 0.5)
    assert math.isclose(profile.work_seconds, 0.4), "until the last result, and not until the end"
    assert [profile.save_filter.accepts(write) for write in writes] == [False, True]


def test_a_job_whose_store_is_not_in_the_copy_is_not_seen_to_save() -> None:
    recorded = [Recorded(LoopStarted(0, 9), 1.0, 10.1), Recorded(SaveCommitted(3, "c", 9, 0.1), 1.0, 10.5)]
    baseline = replace(attempt(0), started_at=10.0)
    assert not profile_of(baseline, recorded, [Write("result.txt", "modified", 10.99)], None).saves
    store = Write(f"{PRIVATE_FOLDER}/store/x", "modified", 10.4)
    assert profile_of(baseline, recorded, [store], None).saves


WORKER = """
import time
import outlast
outlast.Queue("sqlite:///work.db").publish([f"i-{n}" for n in range(20)])
with outlast.Worker("sqlite:///work.db", sink="jsonl:results.jsonl", chunk=8) as worker:
    for chunk in worker:
        for item in chunk:
            time.sleep(0.1)
            chunk.done(item, item.id)
"""


def test_a_worker_tells_a_rehearsal_what_it_does(tmp_path: Path) -> None:
    told = tmp_path / "events"
    environment = {**os.environ, EVENTS_FILE: str(told), "OUTLAST_PLATFORM": "local"}
    with subprocess.Popen([sys.executable, "-c", WORKER], cwd=tmp_path, env=environment) as process:
        until = time.monotonic() + 30
        while not (told.exists() and b"ChunkBegun" in told.read_bytes()) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.15)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    recorded = from_lines(told.read_bytes())
    kinds = [type(one.event) for one in recorded]
    assert kinds[:3] == [BatchStarted, LeaseTaken, ChunkBegun]
    assert NoticeHeard in kinds
    started = recorded[0].event
    assert isinstance(started, BatchStarted)
    assert (started.sink, started.folder) == ("jsonl:results.jsonl", str(tmp_path))
    items = items_of(recorded)
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert (items.begun, items.stored) == (8, len(lines))
    assert items.stored + items.given_back == 8, "the rest of the chunk was not given back"
    assert items.given_back >= 1
    assert ItemsGivenBack in kinds
