"""The rules of `outlast run`: which code to leave with, whether to try again, how long to pause."""

import signal

import pytest

from outlast.supervise.decisions import Ended, is_plain_failure, is_retried, leaving_code, pause_seconds


def ended(code: int, **more: object) -> Ended:
    return Ended(code, **more)


def by_signal(number: int, **more: object) -> Ended:
    return Ended(128 + number, number, **more)


@pytest.mark.parametrize("code", [0, 1, 2, 42, 75, 78, 126, 127, 143, 255])
def test_without_a_notice_the_commands_own_code_is_left_with(code):
    assert leaving_code(ended(code), noticed=False, interrupted_exit_code=99) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, 64])
def test_a_death_by_signal_n_is_128_plus_n(number):
    death = Ended.from_wait_status(number, timed_out=False, asked_by_user=False)
    assert death.signal_number == number
    assert leaving_code(death, noticed=False, interrupted_exit_code=99) == 128 + number


def test_an_exit_status_is_the_code_it_carries():
    assert Ended.from_wait_status(7 << 8, timed_out=False, asked_by_user=False) == ended(7)


@pytest.mark.parametrize(("code", "left"), [(0, 0), (75, 75), (78, 78), (1, 99), (2, 99), (143, 99), (137, 99)])
def test_after_a_notice_all_but_done_and_the_two_words_to_the_controller_is_the_interrupted_code(code, left):
    assert leaving_code(ended(code), noticed=True, interrupted_exit_code=99) == left


def test_an_interrupted_code_of_0_is_honoured():
    assert leaving_code(ended(1), noticed=True, interrupted_exit_code=0) == 0


def test_an_attempt_that_answers_its_timeout_with_0_has_failed():
    late = ended(0, timed_out=True)
    assert is_retried(late, noticed=False)
    assert leaving_code(late, noticed=False, interrupted_exit_code=0) == 143


@pytest.mark.parametrize("code", [143, 1, 78])
def test_an_attempt_that_answers_its_timeout_with_a_failure_keeps_its_code(code):
    assert leaving_code(ended(code, timed_out=True), noticed=False, interrupted_exit_code=0) == code


@pytest.mark.parametrize(
    "end", [ended(1), ended(75), ended(143), ended(255), by_signal(9), by_signal(11), by_signal(15)]
)
def test_a_failure_is_retried_unless_a_notice_came(end):
    assert is_retried(end, noticed=False)
    assert not is_retried(end, noticed=True)


@pytest.mark.parametrize(
    "end",
    [
        ended(0),
        ended(78),
        ended(78, timed_out=True),
        ended(130),
        by_signal(signal.SIGINT),
        by_signal(signal.SIGQUIT),
        by_signal(signal.SIGHUP),
        ended(1, asked_by_user=True),
    ],
)
def test_success_a_needed_human_and_a_users_cancel_are_not_retried(end):
    assert not is_retried(end, noticed=False)


def test_a_command_that_goes_on_after_a_ctrl_c_and_succeeds_was_not_cancelled():
    assert not ended(0, asked_by_user=True).cancelled


def test_pauses_grow_to_half_a_minute_for_a_command_that_fails_by_itself():
    assert [pause_seconds(ended(1), plain_failures=n) for n in range(1, 10)] == [0, 1, 2, 4, 8, 16, 30, 30, 30]
    assert pause_seconds(ended(1), plain_failures=1_000_000) == 30


@pytest.mark.parametrize("end", [ended(143), ended(137), by_signal(9), by_signal(15), ended(0, timed_out=True)])
def test_an_attempt_that_was_torn_away_starts_again_at_once(end):
    assert not is_plain_failure(end)
    assert pause_seconds(end, plain_failures=5) == 0


def test_an_unreachable_storage_gets_time_from_the_first_retry_on():
    assert pause_seconds(ended(75), plain_failures=0) == 5
    assert not is_plain_failure(ended(75))


def test_a_code_above_every_signal_is_a_plain_failure():
    assert is_plain_failure(ended(255))


def test_an_end_is_told_in_words():
    assert str(ended(3)) == "ended with exit code 3"
    assert str(by_signal(9)) == "was killed by SIGKILL"
    assert str(by_signal(40)) == "was killed by signal 40"
    assert str(by_signal(15, timed_out=True)) == "was killed by SIGTERM at its timeout"
