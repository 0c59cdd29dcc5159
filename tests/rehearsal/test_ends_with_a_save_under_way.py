"""B17: however a process ends, and whatever it forks, while a save is written or read back beside its steps."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lives import INTERRUPTED, Life, Victim, counted_steps, ended, environment, only_task

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.read import refusal
from rehearsal.storms import look

OUTLAST = (sys.executable, "-c", "from outlast.cli.main import main; main()")
# What each end leaves: the exit code, the step of the newest checkpoint while the save of step 10 was being written.
ENDS = {
    "exit": (3, 10),
    "error": (1, 10),
    "dead": (7, 5),  # os._exit is no orderly end
    "keyboard": (-signal.SIGINT, 10),
    "term": (INTERRUPTED, 11),
    "thread": (3, 10),
    "fork": (0, 20),
    "pool": (0, 20),
    "none": (0, 20),
}


@pytest.mark.parametrize("slow", ["write", "read"])
def test_b17_an_orderly_end_makes_the_save_under_way_durable_and_a_fork_disturbs_nothing(
    slow: str, quick_folder: Path
) -> None:
    victims = {end: Victim("ends.py", quick_folder / end) for end in ENDS}
    running = {end: victim.start(VICTIM_END=end, VICTIM_SLOW=slow) for end, victim in victims.items()}
    lives = {end: ended(process) for end, process in running.items()}
    for end, (code, newest) in ENDS.items():
        assert lives[end].exit_code == code, (end, lives[end])
        at_least = max(newest, 10) if slow == "read" else newest  # what is read back has been committed
        assert counted_steps(victims[end].url)[0] == at_least, (end, lives[end])
        store, place = only_task(victims[end].url)
        for name in read_lineage(store, place).counted:
            assert refusal(store, place.commit(name)) is None, (end, name)


@pytest.mark.serial
def test_b17_a_grace_shorter_than_the_save_under_way_ends_within_it(quick_folder: Path) -> None:
    victim = Victim("slow_storage.py", quick_folder, every=0)
    process = victim.start(VICTIM_DELAY="15", VICTIM_SAVING="background", VICTIM_INTERVAL="50ms", OUTLAST_GRACE="2")
    while len(victim.reported()) < 20:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    life = ended(process)
    assert life.exit_code == INTERRUPTED, life
    assert time.monotonic() - began < 4, life


def stopped_pair(victim: Victim, stop_after_seconds: float) -> tuple[Life, Life]:
    """(an attempt that hangs in the middle, the one that finished meanwhile)."""
    older = victim.start(VICTIM_TRACE=str(victim.folder / "older"))
    while not (victim.folder / "older").exists():
        assert older.poll() is None
        time.sleep(0.002)
    time.sleep(stop_after_seconds)
    older.send_signal(signal.SIGSTOP)
    try:
        younger = ended(victim.start(VICTIM_SLEEP="0"))
    finally:
        older.send_signal(signal.SIGCONT)
    return ended(older), younger


@pytest.mark.parametrize("moment", range(3))
def test_an_attempt_that_hangs_while_a_younger_one_finishes_deletes_nothing_that_the_younger_refers_to(
    moment: int, quick_folder: Path
) -> None:
    settings = {"VICTIM_STEPS": "100", "VICTIM_SLEEP": "0.01", "VICTIM_INTERVAL": "10ms"}
    victim = Victim("arrays.py", quick_folder, every=0, keep=1, variables=settings)
    older, younger = stopped_pair(victim, 0.1 + 0.061 * moment)
    assert younger.exit_code == 0, younger
    assert older.exit_code == INTERRUPTED, older
    assert "superseded" in older.errors
    found = look(only_task(victim.url)[0])
    assert found.missing == []
    assert found.good[0].step == 100
    again = ended(victim.start())
    assert again.exit_code == 0, again
    assert "already finished" in again.errors


def test_pruning_beside_a_running_job_costs_it_no_checkpoint(quick_folder: Path) -> None:
    settings = {"VICTIM_STEPS": "400", "VICTIM_SLEEP": "0.004", "VICTIM_INTERVAL": "15ms"}
    victim = Victim("arrays.py", quick_folder, every=0, keep=3, variables=settings)
    process = victim.start()
    prunes = 0
    while process.poll() is None:
        command = [*OUTLAST, "checkpoints", "prune", "--yes", "--keep", "1", str(victim.url)]
        subprocess.run(command, env=environment(), capture_output=True, check=False)  # the store may not be there yet
        prunes += 1
    life = ended(process)
    assert life.exit_code == 0, life
    assert prunes > 2
    found = look(only_task(victim.url)[0])
    assert found.missing == []
    assert found.good[0].step == 400
    assert found.good == found.counted
