"""`outlast run`: exit codes, retries, timeouts, settings, and what the command finds in its environment."""

import json
import os
import subprocess
import sys
import time

import pytest
from supervised import OUTLAST, environment, is_alive, python, run_to_the_end


@pytest.mark.parametrize("code", [0, 1, 3, 75, 78, 255])
def test_the_commands_code_is_handed_on(code):
    assert run_to_the_end("--", "sh", "-c", f"exit {code}") == (code, [], [])


@pytest.mark.parametrize("number", [6, 9, 10, 11, 15])
def test_a_death_by_signal_n_is_128_plus_n(number):
    assert run_to_the_end("--", "sh", "-c", f"kill -{number} $$")[0] == 128 + number


def test_a_command_that_is_not_there_is_127_and_one_line():
    code, _, err = run_to_the_end("--retries", "3", "--", "no-such-command", "x")
    assert code == 127
    assert err == ["outlast: error: command not found: 'no-such-command' is neither a file nor on PATH"]


@pytest.mark.parametrize("mode", [0o644, 0o755], ids=["not-executable", "no-program"])
def test_a_command_that_cannot_be_executed_is_126_and_one_line(tmp_path, mode):
    file = tmp_path / "file"
    file.write_bytes(b"\x00\x01 no program")
    file.chmod(mode)
    code, _, err = run_to_the_end("--", str(file))
    assert code == 126
    assert len(err) == 1
    assert f"cannot execute '{file}'" in err[0]


def test_no_command_is_a_usage_error():
    for args in ([], ["--retries", "3"], ["--"]):
        assert run_to_the_end(*args)[0] == 2
    assert run_to_the_end("--no-such-option", "--", "true")[0] == 2


@pytest.mark.parametrize(
    ("args", "env", "named"),
    [
        (["--grace", "abc"], {}, "grace='abc'"),
        (["--retries", "-1"], {}, "retries='-1'"),
        (["--timeout", "x"], {}, "timeout='x'"),
        (["--platform", "moon"], {}, "platform 'moon'"),
        ([], {"OUTLAST_PLATFORM": "moon"}, "platform 'moon'"),
        ([], {"OUTLAST_GRACE": "abc"}, "OUTLAST_GRACE='abc'"),
        ([], {"OUTLAST_EXIT_CODE": "999"}, "OUTLAST_EXIT_CODE='999'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_78_and_one_line(args, env, named):
    code, out, err = run_to_the_end(*args, "--", "echo", "started", env=env)
    assert (code, out) == (78, [])
    assert len(err) == 1
    assert named in err[0]


def test_where_logs_are_collected_a_bad_setting_is_a_json_line():
    code, _, err = run_to_the_end("--grace", "abc", "--", "true", env={"CLOUD_RUN_JOB": "train"})
    assert code == 78
    assert json.loads(err[0])["severity"] == "ERROR"


def test_help_documents_the_exit_codes():
    code, out, _ = run_to_the_end("--help")
    text = "\n".join(out)
    assert code == 0
    for number in ("143", "75", "78", "126", "127"):
        assert number in text.split("Exit codes:")[1]


COUNTS = """
import os, pathlib, sys
counter = pathlib.Path(sys.argv[1])
with counter.open("a") as file:
    file.write(os.environ["OUTLAST_SUPERVISED_EXECUTION"] + "\\n")
codes = sys.argv[2].split(",")
sys.exit(int(codes[min(len(counter.read_text().splitlines()), len(codes)) - 1]))
"""


@pytest.mark.parametrize(
    ("retries", "codes", "left", "starts"),
    [(2, "143,143,0", 0, 3), (1, "143,143,0", 143, 2), (5, "1,78,0", 78, 2), (5, "130,0", 130, 1), (0, "1,0", 1, 1)],
)
def test_a_failed_attempt_is_started_again_in_the_same_execution(tmp_path, retries, codes, left, starts):
    counter = tmp_path / "counter"
    code, _, err = run_to_the_end(
        "--retries", str(retries), "--", *python(tmp_path, "j.py", COUNTS), str(counter), codes
    )
    assert code == left
    executions = counter.read_text().splitlines()
    assert len(executions) == starts
    assert len(set(executions)) == 1
    assert sum("starts now" in line for line in err) == starts - 1


def test_a_timeout_ends_an_attempt_and_the_next_one_starts(tmp_path):
    command = python(tmp_path, "j.py", "import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    started_at = time.monotonic()
    code, out, err = run_to_the_end("--timeout", "0.5", "--retries", "1", "--grace", "5", "--", *command)
    assert code == 143
    assert 1 < time.monotonic() - started_at < 4
    assert len(out) == 2
    assert not any(is_alive(int(pid)) for pid in out)
    assert any("attempt 1 was killed by SIGTERM at its timeout" in line for line in err)


def test_what_ignores_its_timeout_is_killed(tmp_path):
    source = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(1000)"
    started_at = time.monotonic()
    code, _, _ = run_to_the_end("--timeout", "0.5", "--grace", "0.5", "--", *python(tmp_path, "j.py", source))
    assert code == 137
    assert 1 < time.monotonic() - started_at < 4


def test_flags_reach_the_command_as_variables():
    flags = ("--url", "gs://b/p", "--platform", "cloud-run", "--grace", "20s")
    code, out, _ = run_to_the_end(*flags, "--", "sh", "-c", 'echo "$OUTLAST_URL $OUTLAST_PLATFORM $OUTLAST_GRACE"')
    assert (code, out) == (0, ["gs://b/p cloud-run 20s"])


def test_what_follows_the_command_belongs_to_it():
    assert run_to_the_end("echo", "--retries", "x", "--", "--help")[1] == ["--retries x -- --help"]


def test_the_streams_are_the_commands_own():
    """Not a byte is added, lost or changed, and the very same files are handed on."""
    data = bytes(range(256)) * 1000
    done = subprocess.run([*OUTLAST, "--", "cat"], input=data, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as pipe:
        tell = "import os; print(os.fstat(2).st_ino)"
        done = subprocess.run(
            [*OUTLAST, "--", sys.executable, "-c", tell],
            stdout=subprocess.PIPE,
            stderr=pipe,
            env=environment(),
            check=False,
        )
        assert int(done.stdout) == os.fstat(pipe.fileno()).st_ino
