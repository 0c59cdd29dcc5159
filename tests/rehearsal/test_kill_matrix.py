"""Kills at random moments: each restart resumes from a whole checkpoint, and the result is that of a plain loop."""

import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lives import INTERRUPTED, VICTIMS, Life, Victim, counted_steps, environment, unnamed_data

COUNTER = Victim(
    "counter.py", Path(), variables={"VICTIM_STEPS": "200", "VICTIM_SLEEP": "0.001", "VICTIM_BLOB": "100000"}
)
SAMPLERS = {
    loop: Victim("sampler.py", Path(), every=4, keep=2, variables={"VICTIM_LOOP": loop, "VICTIM_SLEEP": "0.004"})
    for loop in ("batches", "steps")
}
LARGE = Victim(
    "counter.py",
    Path(),
    every=1,
    variables={"VICTIM_STEPS": "30", "VICTIM_SLEEP": "0.001", "VICTIM_BLOB": str(50 << 20)},
)
BESIDE = replace(COUNTER, variables={**COUNTER.variables, "VICTIM_SAVING": "background", "VICTIM_SLEEP": "0.003"})
KINDS = {"counter": COUNTER, "large": LARGE, "beside": BESIDE, **SAMPLERS}
BACKGROUND = ("large", "beside")
LAST_STEP = {"counter": 200, "large": 30, "beside": 200, "batches": 60, "steps": 60}


def right_result(kind: str) -> str:
    """The result of a plain loop without outlast."""
    if KINDS[kind].script == "counter.py":
        acc = 0
        for step in range(LAST_STEP[kind]):
            acc = (acc * 31 + step) % (2**61 - 1)
        return str(acc)
    plain = subprocess.run(
        [sys.executable, str(VICTIMS / "sampler.py")],
        env=environment(VICTIM_LOOP="plain", VICTIM_SLEEP="0"),
        capture_output=True,
        check=True,
        text=True,
    )
    return plain.stdout.strip()


class Storm:
    """Lives of one kind, each ended at a random moment; a run that comes to its end is judged and begun anew.

    The next life must resume from a step in `saved`: from the last one that must be durable to the last one done.
    """

    def __init__(self, kind: str, folder: Path, seed: int, *, longest_seconds: float = 0.25) -> None:
        self.kind, self.folder, self.longest_seconds = kind, folder, longest_seconds
        self.random = random.Random(seed)
        self.right = right_result(kind)
        self.runs = self.kills = self.stops = self.resumed_lives = 0
        self._new_run()

    def _new_run(self) -> None:
        self.runs += 1
        self.victim = replace(KINDS[self.kind], folder=self.folder / f"run-{self.runs}")
        self.saved = range(1)

    def life(self, by: signal.Signals) -> None:
        """One life, with what must hold after it."""
        victim, before = self.victim, self.victim.reported()
        # A quarter falls into the start, however long that takes here; the others into steps, saves and the finish.
        within = self.random.random() < 0.75
        life = victim.live(by, self.random.uniform(0.0, self.longest_seconds), from_its_first_step=within)
        reported = victim.reported()[len(before) :]
        said = f"{self.kind} run {self.runs}, resume from {self.saved}, then {reported[-1:]}: {life}"
        if life.start is not None:
            self.resumed_lives += life.start > 0
            assert life.start in self.saved, said
            assert reported == list(range(life.start + 1, life.start + len(reported) + 1)), said
            self._expect_next(life, reported[-1] if reported else life.start)
        if by is signal.SIGKILL:
            assert life.exit_code in (-signal.SIGKILL, 0), said
            self.kills += life.exit_code != 0
        else:  # before the job is made, and after it is gone, a signal does what it does to any program
            unheard = life.start is None or "finished" in life.errors or self.saved.stop > LAST_STEP[self.kind]
            assert life.exit_code in (INTERRUPTED, 0) or (life.exit_code == -signal.SIGTERM and unheard), said
            self.stops += life.exit_code != 0
        # Two lives in a row may each have died between a commit and what it retires.
        assert len(counted_steps(victim.url)) <= victim.keep + 2, said
        if life.exit_code == 0:
            assert victim.result == self.right, said
            assert unnamed_data(victim.url) == set(), said
            self._new_run()

    def _expect_next(self, life: Life, done: int) -> None:
        """After a stop not one step is lost; after a kill, those since the border before the last step."""
        if life.exit_code == INTERRUPTED:
            self.saved = range(done, done + 1)
        else:
            lost = self.victim.every if self.kind in BACKGROUND else 0  # the save that was under way
            durable = (done - 1) // self.victim.every * self.victim.every - lost
            self.saved = range(max(life.start or 0, durable), done + 1)


# Seeds; each is a storm of its own, so that they can run side by side.
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["counter", "beside", "batches", "steps"])
def test_kills_at_random_moments_never_cost_more_than_an_interval(kind: str, seed: int, quick_folder: Path) -> None:
    storm = Storm(kind, quick_folder, seed)
    while storm.kills < 15:
        storm.life(signal.SIGKILL)
    assert storm.resumed_lives > 3


@pytest.mark.parametrize("kind", ["counter", "beside", "batches", "steps"])
def test_kills_and_stops_mixed_lose_no_step_at_a_stop(kind: str, quick_folder: Path) -> None:
    storm = Storm(kind, quick_folder, 1000)
    while storm.kills + storm.stops < 24:
        storm.life(storm.random.choice([signal.SIGKILL, signal.SIGTERM]))
    assert storm.stops
    assert storm.kills


@pytest.mark.slow
def test_b01_kills_within_saves_of_50_mb_at_each_step_leave_a_whole_one(quick_folder: Path) -> None:
    storm = Storm("large", quick_folder, 7, longest_seconds=0.8)
    while storm.kills < 20 or (storm.resumed_lives <= 10 and storm.kills < 60):  # a busy machine needs more
        storm.life(signal.SIGKILL)
    assert storm.resumed_lives > 10
