"""Notices that come to real jobs by other ways than SIGTERM: metadata servers at their addresses, other signals.

Reports: B19 (SIGTERM never arrives, the metadata do), B21 (heard inside a long call), B26 (two sources promise
different graces), X17 (a migration is no notice).
"""

import json
import signal
import time
from pathlib import Path

import pytest
from link_local import announce, is_possible, prefix
from signalled import LOOP, START, Program, commits, events
from supervised import OUTLAST

# A platform of the tests, with the sources that are asked for.
HERE = """
import dataclasses, os, sys, time
import outlast
from outlast import registry
from outlast.platforms.local import LocalPlatform

class Here(LocalPlatform):
    facts = dataclasses.replace(
        LocalPlatform.facts,
        name="here",
        notice_sources=tuple(os.environ["SOURCES"].split()),
        end_time_variable="SLURM_JOB_END_TIME",
    )

registry.PLATFORMS["here"] = "__main__:Here"
state = {{"done": []}}
job = outlast.Job(state=state, every=outlast.Steps(5))

def say(*words):
    print(*words, flush=True)

for step in job.steps({steps}):
    state["done"].append(step)
    if step == 7:
        say("begun")
    {step}
say("the loop has ended")
"""
STEPS = HERE.format(steps=None, step="time.sleep(0.01)")


def here(sources: str, **more: str) -> dict[str, str]:
    return {"OUTLAST_PLATFORM": "here", "SOURCES": sources, **more}


@pytest.fixture
def controls(tmp_path: Path) -> Path:
    """What the servers announce; see link_local."""
    if not is_possible():
        pytest.skip("no namespace for a network can be made here")
    return tmp_path / "controls.json"


def test_b19_maintenance_that_the_metadata_announce_stops_the_job_with_its_deadline(
    tmp_path: Path, controls: Path
) -> None:
    announce(controls, **{"instance/maintenance-event": "NONE", "instance/preempted": "FALSE"})
    # A proxy that the environment names must not be asked for a link-local address.
    proxy = "http://127.0.0.1:9"
    env = {"OUTLAST_PLATFORM": "gce-spot", "SOURCES": "", "http_proxy": proxy, "HTTP_PROXY": proxy}
    with Program(STEPS, tmp_path, env=env, prefix=prefix(controls)) as program:
        program.wait_for("begun")
        announce(controls, **{"instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
        left = program.leave()
    assert left.code == 143, left.err
    (heard,) = events(tmp_path, "NoticeHeard")
    assert (heard["source"], heard["kind"]) == ("gce-metadata maintenance-event", "advance")
    assert 57 < heard["grace_seconds"] <= 60
    (stopped,) = events(tmp_path, "Stopped")
    assert (stopped["lost_steps"], stopped["step"]) == (0, commits(tmp_path)[-1])


def test_advice_stops_nothing_and_an_interruption_does(tmp_path: Path, controls: Path) -> None:
    freeze = {"EventId": "1", "EventType": "Freeze", "Resources": ["worker_0"], "EventStatus": "Scheduled"}
    announce(
        controls,
        azure_events=[{**freeze, "NotBefore": ""}],
        **{"events/recommendations/rebalance": {"noticeTime": "2026-11-29T08:22:00Z"}},
    )
    env = here("SIGTERM aws-imds azure-scheduled-events")
    with Program(STEPS, tmp_path, env=env, prefix=prefix(controls)) as program:
        program.wait_for("begun").wait_for("rebalance recommendation").wait_for("Freeze")
        assert program.events("NoticeHeard") == []
        announce(controls, azure_events=[{**freeze, "NotBefore": "", "EventType": "Preempt"}])
        left = program.leave()
    assert left.code == 143, left.err
    (heard,) = events(tmp_path, "NoticeHeard")
    assert (heard["source"], heard["kind"], heard["grace_seconds"]) == ("azure-scheduled-events", "final", 30)
    assert {event["source"] for event in events(tmp_path, "Advised")} == {"aws-imds", "azure-scheduled-events"}


WAITS_FOR_ITS_NOTICE = """
    while step == 7 and job.notice is None:
        time.sleep(0.001)
    if step == 7:
        say(job.notice.reason, job.notice.remaining_seconds)
        time.sleep(3)
"""


def test_a_notice_that_is_revoked_disarms_the_guard_and_the_job_goes_on(tmp_path: Path, controls: Path) -> None:
    key = "instance/maintenance-event"
    announce(controls, fault="503", **{key: "TERMINATE_ON_HOST_MAINTENANCE"})
    env = here("SIGTERM gce-metadata", OUTLAST_GRACE="2")
    with Program(
        HERE.format(steps=9, step=WAITS_FOR_ITS_NOTICE), tmp_path, env=env, prefix=prefix(controls)
    ) as running:
        running.wait_for("begun")
        announce(controls, fault=None)
        # It stood before anybody could ask, so that the platform's grace counts: the guard would leave after 1.6 s.
        running.wait_for_event("NoticeHeard")
        announce(controls, **{key: "NONE"})
        left = running.leave()
    assert left.code == 0, left.err
    assert "the loop has ended" in left.out
    reason, _, seconds = left.out.splitlines()[1].rpartition(" ")
    assert reason == "maintenance of the host (TERMINATE_ON_HOST_MAINTENANCE)"
    assert 1 < float(seconds) <= 2
    assert [event["reason"] for event in events(tmp_path, "NoticeRevoked")] == [reason]
    assert events(tmp_path, "Stopped") == []


def test_a_notice_that_is_revoked_after_the_stop_keeps_the_guard_armed(tmp_path: Path, controls: Path) -> None:
    key = "instance/maintenance-event"
    announce(controls, fault="503", **{key: "TERMINATE_ON_HOST_MAINTENANCE"})
    env = here("SIGTERM gce-metadata", OUTLAST_GRACE="2")
    program = STEPS.replace("for step in", "import atexit\natexit.register(time.sleep, 30)\nfor step in")
    with Program(program, tmp_path, env=env, prefix=prefix(controls)) as running:
        running.wait_for("begun")
        announce(controls, fault=None)
        running.wait_for_event("Stopped")
        announce(controls, **{key: "NONE"})
        left = running.leave()
    assert left.code == 143, left.err
    (heard,), stopped = events(tmp_path, "NoticeHeard"), events(tmp_path, "Stopped")
    assert "after the stop" in stopped[-1]["reason"]
    assert left.at - heard["monotonic"] < 2.5


def test_b19_a_pod_hears_of_the_maintenance_of_its_node_also_where_a_shell_keeps_sigterm(
    tmp_path: Path, controls: Path
) -> None:
    gpu = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    announce(controls, node={"labels": gpu})
    env = {"OUTLAST_PLATFORM": "gke-gpu", "SOURCES": ""}
    with Program(STEPS, tmp_path, env=env, prefix=prefix(controls)) as program:
        program.wait_for("begun")
        announce(controls, node={"labels": {**gpu, "cloud.google.com/active-node-maintenance": "ONGOING"}})
        left = program.leave()
    assert left.code == 143, left.err
    (heard,) = events(tmp_path, "NoticeHeard")
    assert (heard["source"], heard["kind"]) == ("kubernetes-node", "advance")
    assert "active-node-maintenance=ONGOING" in heard["reason"]
    assert events(tmp_path, "Stopped")[0]["lost_steps"] == 0


@pytest.mark.parametrize("name", ["SIGTSTP", "SIGCONT"])
def test_x17_a_migration_is_recorded_and_suspends_nothing(name: str, tmp_path: Path) -> None:
    number = signal.Signals[name]
    # A task of Cloud Run as it is; its own lines are JSON.
    with Program(STEPS, tmp_path, env={"CLOUD_RUN_JOB": "trainer", "SOURCES": ""}) as program:
        program.wait_for("begun")
        program.send(number)
        program.wait_for_event("Advised")
        state = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state != "T", "the process is suspended"
        program.send(number)
        program.wait_for("another machine")
        program.send()
        left = program.leave()
    assert left.code == 143
    said = events(tmp_path, "Advised")
    assert [event["source"] for event in said] == [name] * len(said)
    assert 1 <= len(said) <= 2, "each signal is recorded once"
    (heard,) = events(tmp_path, "NoticeHeard")
    assert heard["source"] == "SIGTERM"


def test_a_suspension_at_the_terminal_stays_one_elsewhere(tmp_path: Path) -> None:
    with Program(STEPS, tmp_path, env=here("SIGTERM")) as program:
        program.wait_for("begun")
        # Not by stopping it: the kernel stops no process of an orphaned group, and this may be one.
        status = dict(line.split(":\t") for line in Path(f"/proc/{program.pid}/status").read_text().splitlines())
        bit = 1 << (signal.SIGTSTP - 1)
        program.send()
        assert program.leave().code == 143
    assert not int(status["SigCgt"], 16) & bit
    assert not int(status["SigIgn"], 16) & bit
    assert events(tmp_path, "Advised") == []


def test_b26_the_shorter_of_two_graces_counts(tmp_path: Path) -> None:
    env = here("SIGTERM SIGUSR1", SLURM_JOB_END_TIME=str(int(time.time()) + 300), OUTLAST_GRACE="1")
    program = HERE.format(steps=None, step='step == 7 and (say("long"), time.sleep(20))')
    with Program(program, tmp_path, env=env) as running:
        running.wait_for("long")
        running.send(signal.SIGUSR1)
        running.wait_for_event("NoticeHeard")
        sent_at = running.send(signal.SIGTERM)
        left = running.leave()
    assert left.code == 143
    assert left.at - sent_at < 1
    assert [event["source"] for event in events(tmp_path, "NoticeHeard")] == ["SIGUSR1", "SIGTERM"]


IN_C_CODE = (
    'step == 7 and (say("long"), hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000_000), say("over", time.monotonic()))'
)


@pytest.mark.serial
def test_b21_the_metadata_are_heard_in_the_middle_of_a_long_call(tmp_path: Path, controls: Path) -> None:
    announce(controls, **{"instance/maintenance-event": "NONE", "instance/preempted": "FALSE"})
    program = HERE.format(steps=None, step=IN_C_CODE).replace("import dataclasses", "import hashlib, dataclasses")
    with Program(program, tmp_path, env=here("gce-metadata"), prefix=prefix(controls)) as running:
        running.wait_for("long")
        time.sleep(1.3)  # the first question is answered at once, the second one hangs a second later
        announced_at = time.monotonic()
        announce(controls, **{"instance/preempted": "TRUE"})
        left = running.leave()
    (heard,) = events(tmp_path, "NoticeHeard")
    assert heard["monotonic"] - announced_at < 0.1 + 0.1, "longer than a tenth of a second after the server knew"
    assert heard["monotonic"] < float(left.out.split()[-1]), "the call had ended before: nothing is shown"
    assert left.code == 143


@pytest.mark.serial
@pytest.mark.parametrize("fault", [None, "a page"])
def test_watching_costs_next_to_nothing(fault: str | None, tmp_path: Path, controls: Path) -> None:
    announce(controls, fault=fault, **{"instance/maintenance-event": "NONE", "instance/preempted": "FALSE"})
    step = "job.save(); time.sleep(0.5); used = time.process_time(); time.sleep(1.5); say(time.process_time() - used)"
    env = here("SIGTERM gce-metadata aws-imds azure-scheduled-events")
    with Program(HERE.format(steps=1, step=step), tmp_path, env=env, prefix=prefix(controls)) as running:
        left = running.leave()
    assert left.code == 0, left.err
    assert float(left.out.split()[0]) < 1.5 * 0.02, "more than 2 % of a processor"


def test_slurms_signal_has_the_deadline_of_the_time_limit_and_is_trained_through_until_sigterm(tmp_path: Path) -> None:
    env = here("SIGTERM SIGUSR1", SLURM_JOB_END_TIME=str(int(time.time()) + 300))
    with Program(STEPS, tmp_path, env=env) as program:
        program.wait_for("begun")
        program.send(signal.SIGUSR1)
        program.wait_for("which leaves time for a final save")
        program.send(signal.SIGTERM)
        left = program.leave()
    assert left.code == 143
    heard, ends = events(tmp_path, "NoticeHeard")
    assert (heard["source"], heard["kind"]) == ("SIGUSR1", "advance")
    assert 280 < heard["grace_seconds"] <= 300
    assert ends["source"] == "SIGTERM"
    assert ends["grace_seconds"] < 60
    (stopped,) = events(tmp_path, "Stopped")
    assert stopped["lost_steps"] == 0


def test_a_job_leaves_before_its_timeout_and_goes_on_in_the_next_attempt(tmp_path: Path) -> None:
    """Nobody has to send it anything, and no attempt is cut off: `outlast run` says so when it has to."""
    program = START + LOOP.replace("None", "500") + "say(*state['done'])"
    supervised = (*OUTLAST, "--timeout", "4s", "--retries", "20", "--")  # a busy machine needs some
    with Program(program, tmp_path, prefix=supervised) as running:
        left = running.leave()
    assert left.code == 0, left.err
    assert left.out.splitlines()[-1] == " ".join(map(str, range(500)))
    heard = [event["source"] for event in events(tmp_path, "NoticeHeard")]
    assert heard == ["time-limit"] * len(heard)
    assert len(heard) >= 1
    assert [event["lost_steps"] for event in events(tmp_path, "Stopped")] == [0] * len(heard)
    assert "timeout:" not in left.err


def test_sources_that_are_nowhere_delay_and_trouble_nothing(tmp_path: Path) -> None:
    every = "SIGTERM gce-metadata aws-imds azure-scheduled-events kubernetes-node"
    program = HERE.format(steps=20, step="pass")
    env = here(every, OUTLAST_METADATA_HOST="127.0.0.1:9")
    with Program(program, tmp_path, env=env) as running:
        left = running.leave()
    assert left.code == 0, left.err
    assert "Traceback" not in left.err
    assert not any("kubernetes" in line for line in left.told())
    assert json.dumps(events(tmp_path, "NoticeHeard")) == "[]"


FORKS = """
import socket
began = time.monotonic()
for _ in range(20):
    child = os.fork()
    if child == 0:
        import signal
        signal.alarm(5)
        import http.client, logging, kubernetes.client
        with contextlib.suppress(OSError):
            socket.getaddrinfo("localhost", 80)
        os._exit(0)
    say(os.waitpid(child, 0)[1])
    time.sleep(0.02)
say("forked", time.monotonic() - began)
for step in
"""


def test_a_fork_while_sources_are_opened_waits_for_their_imports_and_finds_no_half_of_one(tmp_path: Path) -> None:
    every = "SIGTERM gce-metadata aws-imds azure-scheduled-events kubernetes-node"
    program = HERE.format(steps=20, step="pass").replace("import dataclasses", "import contextlib, dataclasses")
    env = here(every, OUTLAST_METADATA_HOST="localhost:9", KUBERNETES_SERVICE_HOST="127.0.0.1")
    with Program(program.replace("for step in", FORKS.strip(), 1), tmp_path, env=env) as running:
        left = running.leave()
    assert left.code == 0, left.err
    codes, (_, seconds) = left.out.splitlines()[:20], left.out.splitlines()[20].split()
    assert codes == ["0"] * 20, "a child was stuck"
    assert float(seconds) < 4.5, "a fork waited for what waited for the fork"


def test_names_that_take_for_ever_delay_nothing(tmp_path: Path, controls: Path) -> None:
    announce(controls, names_hang=True)
    with Program(
        HERE.format(steps=20, step="pass"), tmp_path, env=here("gce-metadata"), prefix=prefix(controls)
    ) as running:
        running.wait_for("begun")
        began = time.monotonic()
        left = running.leave()
    assert left.code == 0, left.err
    assert left.at - began < 2
