"""The code that ranks mean reaches `outlast run` through a launcher that leaves with its own."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from outlast.exits import tell_code
from outlast.supervise.codes import Codes, ToldCode, as_told
from outlast.supervise.decisions import Ended

LAUNCHER, RANK = 10, 11


def code(ended: Ended, *codes: int, pid: int = RANK) -> int:
    told: Sequence[ToldCode] = [ToldCode(pid + n, one, 0) for n, one in enumerate(codes)]
    return as_told(ended, told, command_pid=LAUNCHER, interrupted_exit_code=143).code


@pytest.mark.parametrize(
    ("codes", "meant"),
    [
        ((143, 143), 143),
        ((75, 143), 75),
        ((143, 1), 1),
        ((1, 75), 1),
        ((78, 1, 143), 78),
        ((3, 143), 3),
        ((0,), 1),
        ((), 1),
    ],
)
def test_of_what_ranks_leave_with_the_gravest_counts(codes: tuple[int, ...], meant: int) -> None:
    assert code(Ended(1), *codes) == meant


@pytest.mark.parametrize("own", [0, 3, 75, 143])
def test_a_command_with_a_code_of_its_own_keeps_it(own: int) -> None:
    assert code(Ended(own), 78) == own


@pytest.mark.parametrize(
    ("own", "codes", "meant"),
    [
        (143, (143, 1), 1),  # Open MPI: the neighbour of the one that crashed was the first to leave
        (1, (143, 1), 1),
        (143, (143, 78), 78),
        (137, (143,), 143),  # a rank was killed: interrupted, as under torchrun
        (137, (143, 1), 1),
        (207, (75, 143), 75),  # MPICH: the bits of all
        (207, (78, 143), 78),
        (137, (), 137),
        (9, (), 9),
    ],
)
def test_a_launcher_that_passes_on_the_code_of_any_of_its_ranks_does_not_hide_the_gravest(
    own: int, codes: tuple[int, ...], meant: int
) -> None:
    assert code(Ended(own), *codes) == meant


def test_a_command_that_was_killed_itself_says_so() -> None:
    assert code(Ended(137, 9), 143) == 137


def test_a_command_that_is_the_job_itself_keeps_its_code() -> None:
    assert code(Ended(1), 143, pid=LAUNCHER) == 1


def test_a_crash_that_the_launcher_has_answered_by_a_restart_is_over() -> None:
    told = [ToldCode(11, 1, 0), ToldCode(12, 143, 0), ToldCode(13, 143, 1), ToldCode(14, 143, 1)]
    assert as_told(Ended(1), told, command_pid=LAUNCHER, interrupted_exit_code=143).code == 143


def test_what_was_told_is_taken_once_and_nonsense_is_passed_over() -> None:
    with Codes() as codes:
        env = codes.env({"A": "b"})
        assert env["A"] == "b"
        tell_code(env, 143)
        assert codes.take() == [ToldCode(os.getpid(), 143, 0)]
        tell_code({**env, "TORCHELASTIC_RESTART_COUNT": "2"}, 75)
        assert codes.take() == [ToldCode(os.getpid(), 75, 2)]
        assert codes.take() == []
        with Path(env["OUTLAST_CODES_FILE"]).open("ab") as file:
            file.write(b"\x00\xff\nseven 8 0\n-1 9 0\n12\n12 78 0\n99999999999999 1 0\n")
        assert codes.take() == [ToldCode(12, 78, 0)]
    assert not Path(env["OUTLAST_CODES_FILE"]).exists()


def test_where_nobody_asked_nothing_is_written() -> None:
    tell_code({}, 143)
    tell_code({"OUTLAST_CODES_FILE": "/nowhere/file"}, 143)
