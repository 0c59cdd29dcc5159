"""The supervisor's loop in a made-up world: no process, no signal, no waiting."""

import errno
import json
import math
import signal
from dataclasses import dataclass, field

import pytest

from outlast.console import Console
from outlast.supervise import make_plan
from outlast.supervise.doors import World
from outlast.supervise.reports import Reports
from outlast.supervise.supervisor import Supervisor

NEVER = math.inf
KILLED_BY_TERM = int(signal.SIGTERM)


def leaves(code: int) -> int:
    """The wait status of a process that left with a code."""
    return code << 8


@dataclass
class Command:
    """How one attempt behaves: by itself, on SIGTERM, and what it leaves behind."""

    ends_after: float = NEVER
    status: int = leaves(0)
    on_term: tuple[float, int] | None = (0.0, KILLED_BY_TERM)
    orphan_ends_after_term: float | None = None  # a program inside a shell; None: no such program
    leftovers: int = 0
    error: OSError | None = None
    unkillable: bool = False
    kill_seconds: float = 0.0
    catches_after: float = NEVER  # from when on it has handlers for other signals than SIGTERM
    on_usr1: tuple[float, int] | None = None  # what it does if it has


@dataclass
class MadeUpWorld:
    """All doors at once. Time passes only while the loop listens."""

    commands: list[Command]
    signals: list[tuple[float, int]] = field(default_factory=list)
    now: float = 1000.0
    starts: list[float] = field(default_factory=list)
    sent: list[tuple[float, int, int]] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.signals = sorted((self.now + at, number) for at, number in self.signals)
        self._pid, self._ends_at, self._status = 0, NEVER, 0
        self._orphan, self._orphan_ends_at = 0, NEVER

    # clock
    def wall_seconds(self) -> float:
        return self.now

    def monotonic_seconds(self) -> float:
        return self.now

    # hearing
    def listen(self, wait_seconds: float | None) -> list[int]:
        until = NEVER if wait_seconds is None else self.now + wait_seconds
        next_signal = self.signals[0][0] if self.signals else NEVER
        wakes = min(until, next_signal, self._ends_at if self._pid else NEVER, self._orphan_ends_at)
        assert wakes < NEVER, "the loop would wait for ever"
        self.now = max(self.now, wakes)
        heard = [number for at, number in self.signals if at <= self.now]
        self.signals = [(at, number) for at, number in self.signals if at > self.now]
        return heard

    # processes
    def start(self, command, env, in_child) -> int:
        behaviour = self.commands[len(self.starts)]
        self.starts.append(self.now)
        if behaviour.error:
            raise behaviour.error
        self._behaviour = behaviour
        self._pid, self._ends_at, self._status = (
            100 + len(self.starts),
            self.now + behaviour.ends_after,
            behaviour.status,
        )
        return self._pid

    def send(self, pid: int, signal_number: int) -> None:
        self.sent.append((self.now, pid, signal_number))
        if signal_number == signal.SIGUSR1 and self._behaviour.on_usr1:
            assert self.catches(pid, signal_number), "it would die of it"
            self._ends_at, self._status = self.now + self._behaviour.on_usr1[0], self._behaviour.on_usr1[1]
        if signal_number != signal.SIGTERM:
            return
        if pid == self._pid and self._behaviour.on_term:
            delay, status = self._behaviour.on_term
            if self.now + delay < self._ends_at:
                self._ends_at, self._status = self.now + delay, status
        elif pid == self._orphan:
            self._orphan_ends_at = self.now + (self._behaviour.orphan_ends_after_term or 0.0)

    def catches(self, pid: int, signal_number: int) -> bool:
        return pid == self._pid and self.now >= self.starts[-1] + self._behaviour.catches_after

    def reap(self) -> list[tuple[int, int]]:
        if self._orphan and self.now >= self._orphan_ends_at:
            self._orphan, self._orphan_ends_at = 0, NEVER
        if not self._pid or self.now < self._ends_at:
            return []
        ended, self._pid = (self._pid, self._status), 0
        if self._behaviour.orphan_ends_after_term is not None:
            self._orphan = 999
        return [(7, 0), ended]  # a stranger's orphan is reaped along the way

    def orphans(self) -> list[int]:
        return [self._orphan] if self._orphan else []

    def kill_all(self, group: int, within_seconds: float) -> list[int]:
        self.kills.append(self.now)
        self.now += self._behaviour.kill_seconds
        if self._pid and not self._behaviour.unkillable:
            self._ends_at, self._status = self.now, int(signal.SIGKILL)
        self._orphan, self._orphan_ends_at = 0, NEVER
        return list(range(500, 500 + self._behaviour.leftovers))

    # terminal
    lent = False

    def lend(self) -> None:
        pass

    def take(self) -> None:
        pass

    def give(self, group: int) -> bool:
        return False

    def resume(self, group: int) -> bool:
        return False

    def take_back(self) -> None:
        pass

    def stop_self(self, signal_number: int) -> None:
        raise AssertionError("there is no terminal")


@pytest.fixture
def supervise(tmp_path, capfd):
    def supervise(world: MadeUpWorld, env: dict[str, str] | None = None, **settings: object):
        plan = make_plan(["job"], env or {}, **settings)
        events = tmp_path / "events"
        reports = Reports(Console(), world, str(events))
        code = Supervisor(plan, World(world, world, world, world), reports).run()
        recorded = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
        return code, recorded, capfd.readouterr().err.splitlines()

    return supervise


def at(world: MadeUpWorld) -> float:
    return world.now - 1000.0


def test_a_command_that_succeeds_is_run_once_and_nothing_is_said(supervise):
    world = MadeUpWorld([Command(5, leaves(0))])
    assert supervise(world, retries=3) == (0, [], [])
    assert len(world.starts) == 1
    assert len(world.kills) == 1  # of what it may have left


def test_a_notice_is_passed_on_recorded_and_announced_once(supervise):
    world = MadeUpWorld([Command(on_term=(2.0, leaves(143)))], [(5, signal.SIGTERM), (6, signal.SIGTERM)])
    code, events, lines = supervise(world, grace="10")
    assert code == 143
    assert at(world) == 7
    assert world.sent == [(1005, 101, signal.SIGTERM), (1006, 101, signal.SIGTERM)]
    assert [(e["event"], e["by"], e["grace_seconds"], e["monotonic"]) for e in events] == [
        ("NoticeHeard", "supervisor", 10, 1005)
    ]
    assert [line for line in lines if "notice: SIGTERM; grace 10 s" in line] == lines


@pytest.mark.parametrize("second", [[], [(9, signal.SIGTERM), (12, signal.SIGTERM)]])
def test_what_ignores_a_notice_is_killed_at_the_first_ones_deadline(supervise, second):
    world = MadeUpWorld([Command(on_term=None, leftovers=2)], [(5, signal.SIGTERM), *second])
    code, events, lines = supervise(world, grace="10", retries=3)
    assert code == 143
    assert world.kills == [1005 + 9]
    assert len(world.starts) == 1
    assert events[-1]["event"] == "Stopped"
    assert events[-1]["reason"] == "the step did not end within the grace"
    assert events[-1]["exit_code"] == 143
    assert any("the step did not end within the grace" in line for line in lines)


def test_what_even_sigkill_does_not_end_holds_nobody_up(supervise):
    world = MadeUpWorld([Command(on_term=None, unkillable=True)], [(5, signal.SIGTERM)])
    assert supervise(world, grace="10")[0] == 143
    assert at(world) == 14


@pytest.mark.parametrize(("status", "code"), [(0, 0), (leaves(1), 55), (leaves(75), 75), (leaves(78), 78), (9, 55)])
def test_after_a_notice_the_code_says_what_the_controller_must_know(supervise, status, code):
    world = MadeUpWorld([Command(on_term=(1.0, status))], [(5, signal.SIGTERM)])
    assert supervise(world, {"OUTLAST_EXIT_CODE": "55"}, retries=5)[0] == code
    assert len(world.starts) == 1


def test_a_notice_before_the_start_starts_nothing(supervise):
    world = MadeUpWorld([], [(0, signal.SIGTERM)])
    code, events, lines = supervise(world)
    assert (code, world.starts) == (143, [])
    assert [event["event"] for event in events] == ["NoticeHeard", "Stopped"]
    assert len(lines) == 2


def test_a_notice_during_a_pause_ends_it(supervise):
    world = MadeUpWorld([Command(1, leaves(75))], [(3, signal.SIGTERM)])
    assert supervise(world, retries=5)[0] == 143
    assert at(world) == 3
    assert len(world.starts) == 1


def test_a_notice_at_the_very_end_of_a_failed_attempt_still_counts(supervise):
    world = MadeUpWorld([Command(1, leaves(1)), Command(1, leaves(0))], [(1, signal.SIGTERM)])
    assert supervise(world, retries=5)[0] == 143
    assert len(world.starts) == 1


@pytest.mark.parametrize(("code", "left"), [(1, 143), (0, 0)])
def test_a_notice_while_leftovers_are_killed_still_counts(supervise, code, left):
    world = MadeUpWorld([Command(1, leaves(code), kill_seconds=0.5)], [(1.2, signal.SIGTERM)])
    left_with, events, _ = supervise(world)
    assert left_with == left
    assert [event["event"] for event in events] == ["NoticeHeard"]


def test_a_fault_of_the_supervisor_itself_leaves_no_command_running():
    world = MadeUpWorld([Command()])  # in which nothing ever happens: the made-up world raises

    with pytest.raises(AssertionError, match="wait for ever"):
        Supervisor(make_plan(["job"], {}), World(world, world, world, world), Reports(Console(), world)).run()
    assert len(world.kills) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGQUIT, 131), (signal.SIGHUP, 129)])
def test_a_user_can_cancel_a_pause(supervise, number, code):
    world = MadeUpWorld([Command(1, leaves(75))], [(2, signal.SIGUSR1), (3, number)])
    assert supervise(world, retries=5)[0] == code
    assert at(world) == 3


def test_other_signals_are_passed_to_the_command_and_change_nothing(supervise):
    passed = [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGQUIT]
    world = MadeUpWorld([Command(9, leaves(0))], [(n + 1, number) for n, number in enumerate(passed)])
    assert supervise(world)[0] == 0
    assert [number for _, _, number in world.sent] == passed


# --- a notice ahead of SIGTERM --------------------------------------------------------------------------

SLURM = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "OUTLAST_EXIT_CODE": "55"}


@pytest.mark.parametrize(("status", "code"), [(leaves(143), 55), (leaves(1), 55), (leaves(0), 0), (leaves(78), 78)])
def test_an_advance_notice_waits_for_the_commands_handler_and_explains_its_leaving(supervise, status, code):
    world = MadeUpWorld([Command(catches_after=7.0, on_usr1=(2.0, status))], [(5, signal.SIGUSR1)])
    left, events, lines = supervise(world, SLURM, retries=5)
    assert (left, len(world.starts)) == (code, 1)
    [(sent_at, _, number)] = world.sent
    assert number == signal.SIGUSR1
    assert sent_at == pytest.approx(1007, abs=0.15)
    assert [(e["event"], e["source"], e["kind"], e["by"]) for e in events] == [
        ("NoticeHeard", "SIGUSR1", "advance", "supervisor")
    ]
    assert sum("notice: SIGUSR1; grace 30 s" in line for line in lines) == 1


def test_an_advance_notice_leaves_a_command_alone_that_never_catches_it(supervise):
    world = MadeUpWorld([Command(9, leaves(3))], [(5, signal.SIGUSR1)])
    assert supervise(world, SLURM, retries=5)[0] == 3  # its own failure, and no new attempt in vain
    assert (world.sent, len(world.starts)) == ([], 1)


def test_a_command_that_died_of_the_advance_notice_was_interrupted(supervise):
    """Slurm sends it to every process of a step."""
    world = MadeUpWorld([Command(5, int(signal.SIGUSR1))], [(5, signal.SIGUSR1)])
    assert supervise(world, SLURM, retries=5)[0] == 55
    assert len(world.starts) == 1


def test_a_sigterm_after_an_advance_notice_is_passed_on_and_sets_the_deadline(supervise):
    world = MadeUpWorld([Command(on_term=None)], [(5, signal.SIGUSR1), (65, signal.SIGTERM), (66, signal.SIGUSR1)])
    assert supervise(world, SLURM, grace="10")[0] == 55
    assert [number for _, _, number in world.sent] == [signal.SIGTERM]
    assert world.kills == [1065 + 9]


def test_an_advance_notice_comes_once_to_each_handler_and_ends_a_pause(supervise):
    ends = Command(1, leaves(75))
    world = MadeUpWorld([ends], [(3, signal.SIGUSR1)])
    code, events, _ = supervise(world, SLURM, retries=5)
    assert (code, at(world), len(world.starts)) == (55, 3, 1)
    assert [(e["event"], e.get("kind")) for e in events] == [("NoticeHeard", "advance"), ("Stopped", None)]


def test_a_shells_program_hears_the_notice_when_the_shell_has_died_of_it(supervise):
    world = MadeUpWorld([Command(orphan_ends_after_term=3.0)], [(5, signal.SIGTERM)])
    code, _, lines = supervise(world, grace="10")
    assert code == 143
    assert (1005, 999, signal.SIGTERM) in world.sent
    assert world.kills == [1008]
    assert any("passed on to pid 999" in line for line in lines)


def test_a_shells_program_that_goes_on_is_killed_at_the_deadline(supervise):
    world = MadeUpWorld([Command(orphan_ends_after_term=NEVER)], [(5, signal.SIGTERM)])
    assert supervise(world, grace="10")[0] == 143
    assert world.kills == [1014]


def test_a_command_that_leaves_by_itself_is_not_waited_for(supervise):
    world = MadeUpWorld([Command(on_term=(1.0, leaves(143)), orphan_ends_after_term=NEVER)], [(5, signal.SIGTERM)])
    assert supervise(world, grace="10")[0] == 143
    assert world.kills == [1006]


def test_retries_run_out_and_each_is_announced(supervise):
    world = MadeUpWorld([Command(1, leaves(3))] * 4)
    code, _, lines = supervise(world, retries=3)
    assert code == 3
    assert [start - 1000 for start in world.starts] == [0, 1, 3, 6]  # after 0, 1 and 2 s
    assert "attempt 1 ended with exit code 3 after 1.0 s; attempt 2 starts now, 2 retries left after it" in lines[0]
    assert "attempt 3 starts in 1.0 s, 1 retry left after it" in lines[1]
    assert "attempt 4 ended with exit code 3 after 1.0 s; no retries are left" in lines[3]


def test_an_interruption_makes_the_pauses_short_again(supervise):
    ends = [leaves(1), leaves(1), int(signal.SIGKILL), leaves(1), leaves(1), leaves(0)]
    world = MadeUpWorld([Command(0, status) for status in ends])
    assert supervise(world, retries=9)[0] == 0
    assert [start - 1000 for start in world.starts] == [0, 0, 1, 1, 1, 2]


def test_the_last_attempt_decides(supervise):
    world = MadeUpWorld([Command(1, leaves(3)), Command(1, leaves(78)), Command(1, leaves(0))])
    assert supervise(world, retries=5)[0] == 78
    assert len(world.starts) == 2


def test_a_timeout_holds_for_each_attempt(supervise):
    slow = Command(on_term=(2.0, leaves(143)))
    world = MadeUpWorld([slow, slow])
    code, events, lines = supervise(world, retries=1, timeout="60", grace="10")
    assert (code, at(world)) == (143, 124)
    assert events == []  # a timeout is no notice
    assert sum("timeout: the attempt has run for 60 s" in line for line in lines) == 2


def test_what_ignores_its_timeout_is_killed_after_the_grace(supervise):
    world = MadeUpWorld([Command(on_term=None)])
    assert supervise(world, timeout="60", grace="10")[0] == 137
    assert world.kills == [1070]


def test_a_notice_during_a_timeouts_grace_does_not_lengthen_it(supervise):
    world = MadeUpWorld([Command(on_term=None)], [(65, signal.SIGTERM)])
    assert supervise(world, timeout="60", grace="10", retries=3)[0] == 143
    assert world.kills == [1070]
    assert len(world.starts) == 1


def test_a_timeout_during_a_notices_grace_changes_nothing(supervise):
    world = MadeUpWorld([Command(on_term=(8.0, leaves(143)))], [(55, signal.SIGTERM)])
    _, _, lines = supervise(world, timeout="60", grace="10")
    assert at(world) == 63
    assert not any("timeout" in line for line in lines)


def test_what_a_command_leaves_behind_is_named(supervise):
    assert "2 process(es), pid 500, 501" in supervise(MadeUpWorld([Command(1, leaves(0), leftovers=2)]))[2][0]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), 127, "command not found: 'job'"),
        (PermissionError(errno.EACCES, "Permission denied"), 126, "cannot execute 'job': Permission denied"),
        (OSError(errno.ENOEXEC, "Exec format error"), 126, "cannot execute 'job': Exec format error"),
    ],
)
def test_a_command_that_cannot_be_started_is_one_line_and_no_retry(supervise, error, code, said):
    left, _, lines = supervise(MadeUpWorld([Command(error=error)]), retries=5)
    assert left == code
    assert len(lines) == 1
    assert said in lines[0]


def test_an_events_file_that_cannot_be_written_is_said_and_stops_nothing(tmp_path, capfd):
    world = MadeUpWorld([Command()], [(5, signal.SIGTERM)])
    reports = Reports(Console(), world, str(tmp_path / "missing" / "events"))
    assert Supervisor(make_plan(["job"], {}), World(world, world, world, world), reports).run() == 143
    assert "an event is lost" in capfd.readouterr().err
