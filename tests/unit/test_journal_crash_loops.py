"""Which rows of attempts are crash loops: exceptions at one place, deaths without a word. Preemptions are none."""

from collections.abc import Sequence

import pytest
from written_lives import PLACE, Life, Lives

from outlast.checkpoint.crashes import AfterCrashes, CrashPolicy, crash_streak
from outlast.checkpoint.journals import Journals
from outlast.checkpoint.lineage import Claim
from outlast.checkpoint.places import CommitName
from outlast.console import Console
from outlast.errors import NoGoodCheckpoint
from outlast.events import AttemptStarted, Crashed, Failed, Left, Recorded

SAVED = [CommitName(20, 0, 2), CommitName(10, 0, 1)]


def crash(lives: Lives, start: int = 20, at: int = 27) -> None:
    lives.next().begin(step=start).tell(Crashed(at, "ValueError: poison"))


def death(lives: Lives, start: int = 20) -> None:
    lives.next().begin(step=start).work(3, 3, save=False)


def preemption(lives: Lives, start: int = 20) -> None:
    lives.next().begin(step=start).notice().stop(lost=1)


def decide(
    lives: Lives, *, then: AfterCrashes | None = None, execution: str | None = "e", others: Sequence[int] = ()
) -> list[CommitName]:
    """What the next attempt may start from."""
    policy = CrashPolicy(then=then)
    claims = [
        Claim(number, "t", details={"execution": "other" if number in others else execution})
        for number in range(lives.count)
    ]
    streak = crash_streak(Journals(lives.store, PLACE), claims, execution, policy, starts_from=SAVED[0].step)
    return policy.leave(list(SAVED), streak, Console())


def test_three_crashes_at_one_step_are_a_loop() -> None:
    lives = Lives()
    crash(lives)
    crash(lives)
    assert decide(lives) == SAVED
    crash(lives)
    with pytest.raises(NoGoodCheckpoint, match=r"3 attempts in a row crashed at step 27 without .* poison"):
        decide(lives)


def test_b26_preemptions_in_between_neither_count_nor_hide_the_loop() -> None:
    lives = Lives()
    for _ in range(3):
        crash(lives)
        preemption(lives)
        preemption(lives)
    with pytest.raises(NoGoodCheckpoint, match=r"3 attempts in a row crashed.*; 6 preemptions in between are not cou"):
        decide(lives)


def test_b26_any_number_of_preemptions_from_one_step_is_no_loop() -> None:
    lives = Lives()
    for _ in range(50):
        preemption(lives)
        lives.next().begin(step=20).notice()  # and killed after its grace
    assert decide(lives) == SAVED


def test_nine_deaths_without_a_word_from_one_step_are_a_loop_and_eight_are_none() -> None:
    lives = Lives()
    for _ in range(8):
        death(lives)
    assert decide(lives) == SAVED
    death(lives)
    with pytest.raises(NoGoodCheckpoint, match=r"9 attempts in a row started from step 20 and ended .* out of memory"):
        decide(lives)


def test_deaths_and_crashes_together_count() -> None:
    lives = Lives()
    for number in range(9):
        crash(lives) if number in (3, 6) else death(lives)
    with pytest.raises(NoGoodCheckpoint, match=r"9 attempts in a row .*, 7 of them without an exception or a notice"):
        decide(lives)


@pytest.mark.parametrize("kind", [death, preemption])
def test_progress_ends_the_row(kind: object) -> None:
    lives = Lives()
    for _ in range(8):
        death(lives, start=10)
    for _ in range(8):
        death(lives, start=20)
    assert decide(lives) == SAVED


@pytest.mark.parametrize(
    ("ends", "execution", "loop"),
    [
        ([Failed(20, 75, "the storage is away")] * 20, "e", ""),
        ([Left(20)] * 20, None, ""),  # a person ends a program as they like
        ([Left(20)] * 8, "e", ""),
        ([Left(20)] * 9, "e", "9 attempts in a row started from step 20.*, 9 of them without an exception"),
    ],
)
def test_what_ends_by_itself_is_a_loop_only_where_a_platform_starts_it_again(
    ends: Sequence[Left | Failed], execution: str | None, loop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lives = Lives()
    for end in ends:
        lives.next().begin(step=20).tell(end)
    if loop:
        with pytest.raises(NoGoodCheckpoint, match=loop):
            decide(lives, execution=execution)
    else:
        assert decide(lives, execution=execution) == SAVED
    assert not capsys.readouterr().err


@pytest.mark.parametrize("steps", [(25, 26, 27), (27, 24, 26), (27, 26, 25)])
def test_crashes_from_one_step_are_a_loop_wherever_they_crash(steps: Sequence[int]) -> None:
    lives = Lives()
    for step in steps:
        crash(lives, at=step)
    where = f"between the steps {min(steps)} and {max(steps)}"
    with pytest.raises(NoGoodCheckpoint, match=rf"3 attempts in a row crashed {where} without .* poison"):
        decide(lives)


@pytest.mark.parametrize("end", [None, Crashed(30, "ValueError: another")])
def test_a_step_that_the_newest_attempt_saved_is_progress(end: Crashed | None) -> None:
    lives = Lives()
    for _ in range(8):
        crash(lives, start=10, at=12) if end else death(lives, start=10)
    last = lives.next().begin(step=10).work(10, 10)  # saves step 20, which the next one starts from
    if end:
        last.tell(end)
    assert decide(lives) == SAVED


def test_neither_an_unreadable_journal_nor_a_storage_that_was_away_hides_a_loop() -> None:
    lives = Lives()
    for _ in range(3):
        crash(lives)
        lives.next().begin(step=20).tell(Failed(20, 75, "the storage is away"))
        lives.store.append(PLACE.journal(lives.next().number), b'{"event":"Attem')
    with pytest.raises(NoGoodCheckpoint, match="3 attempts in a row crashed at step 27"):
        decide(lives)


def test_only_retries_of_one_execution_are_stopped_by_default() -> None:
    lives = Lives()
    for _ in range(9):
        death(lives)
    assert decide(lives, others=[0]) == SAVED, "eight of this one"
    assert decide(lives, execution=None) == SAVED, "a person starts it: it is only said"
    with pytest.raises(NoGoodCheckpoint):
        decide(lives, execution=None, then="stop")


def test_stepping_back_is_for_crashes() -> None:
    lives = Lives()
    for _ in range(3):
        crash(lives)
    assert decide(lives, then="step-back") == SAVED[1:]
    deaths = Lives()
    for _ in range(9):
        death(deaths)
    with pytest.raises(NoGoodCheckpoint):
        decide(deaths, then="step-back")


def test_deaths_before_the_first_step_are_deaths() -> None:
    lives = Lives()
    for number in range(9):
        life: Life = lives.next()
        life.tell(AttemptStarted(number, "local", 1, "h"))
    with pytest.raises(NoGoodCheckpoint, match="9 attempts in a row"):
        decide(lives)


def test_no_journal_is_read_beyond_the_row() -> None:
    lives = Lives()
    for _ in range(6):
        preemption(lives, start=10)
    crash(lives)
    read: list[int] = []

    class Watched(Journals):
        def __getitem__(self, attempt: int) -> tuple[Recorded, ...]:
            read.append(attempt)
            return super().__getitem__(attempt)

    crash_streak(Watched(lives.store, PLACE), [], None, CrashPolicy())
    assert read == [6, 5]
