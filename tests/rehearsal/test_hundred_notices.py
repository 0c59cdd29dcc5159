"""Real notices: SIGTERM, and SIGKILL a grace later, to jobs whose saves take a real part of that grace.

CI sends a few short ones, side by side; OUTLAST_NOTICES=100 asks for so many, of all graces.
"""

import os
import random
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from lives import Victim, counted_steps, ended

from outlast.events import PlanMade, Recorded, SaveCommitted, from_lines

ASKED = os.environ.get("OUTLAST_NOTICES")
GRACES = (10.0, 15.0) if ASKED is None else (10.0, 15.0, 30.0, 65.0, 90.0)  # from a minute on, a job trains on
COUNT = 8 if ASKED is None else int(ASKED)
AT_ONCE = 8 if ASKED is None else 16
MODULUS = 2**61 - 1
_FITS = re.compile(r"step \d+: [^;]* at most, .* left|leaves time for a final save")


@dataclass(frozen=True)
class Told:
    """One notice, and what became of it. Seconds; `used` is how much of what it left was trained through."""

    grace: float
    said_it_fits: bool
    durable_after: float | None
    lost: int
    used: float
    right: bool
    why: str


@dataclass(frozen=True)
class Case:
    """A job, and the notice that it gets."""

    number: int
    folder: Path

    @property
    def grace(self) -> float:
        return GRACES[self.number % len(GRACES)]

    def play(self) -> Told:
        """One life with a notice, and one after it to the end."""
        chance = random.Random(self.number)
        saves_before = chance.randint(1, 2 if ASKED is None else 4)
        step = chance.choice((0.02, 0.1, 0.4))
        delay = 0.8 * min(self.grace, 30.0) * chance.uniform(0.03, 0.2 if ASKED is None else 0.5)
        steps = round((self.grace + 60.0 + 8 * delay) / step)
        variables = {
            "VICTIM_STEPS": str(steps),
            "VICTIM_SLEEP": str(step),
            "VICTIM_INTERVAL": "50ms",
            "VICTIM_SAVING": chance.choice(("background", "blocking")),
            "VICTIM_DELAY": str(delay),
            "VICTIM_DELAY_SPREAD": str(chance.choice((0.0, 0.1, 0.2))),
            "OUTLAST_GRACE": str(self.grace),
        }
        victim = Victim("slow_storage.py", self.folder, every=0, variables=variables)
        process = victim.start()
        _wait_for_saves(victim, process, saves_before)
        time.sleep(chance.random() * (step + delay))
        sent_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self.grace - (time.monotonic() - sent_at))
        except subprocess.TimeoutExpired:
            process.kill()
        life = ended(process)
        told = _recorded(victim)
        done, durable = victim.reported()[-1], max(counted_steps(victim.url), default=0)
        after = ended(victim.start(VICTIM_SLEEP="0", VICTIM_DELAY="0", VICTIM_INTERVAL="1h"))
        plans = [(one.monotonic_seconds, one.event.why) for one in told if isinstance(one.event, PlanMade)]
        commits = [
            one.monotonic_seconds
            for one in told
            if isinstance(one.event, SaveCommitted) and one.event.step == durable == done
        ]
        why = plans[-1][1] if plans else life.errors
        used = (plans[-1][0] - sent_at) / (self.grace - min(0.2 * self.grace, 30.0)) if plans else 0.0
        return Told(
            grace=self.grace,
            said_it_fits=bool(plans) and any(_FITS.search(one) for _, one in plans),
            durable_after=commits[0] - sent_at if commits else None,
            lost=done - durable,
            used=used,
            right=after.exit_code == 0 and after.start == durable and victim.result == str(_plain(steps)),
            why=f"{self.number}: {variables} {why} {life.exit_code}",
        )


def _wait_for_saves(victim: Victim, process: "subprocess.Popen[str]", count: int) -> None:
    until = time.monotonic() + 120
    while sum(isinstance(one.event, SaveCommitted) for one in _recorded(victim)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def _recorded(victim: Victim) -> list[Recorded]:
    return [one for path in sorted(victim.url.rglob("*.jsonl")) for one in from_lines(path.read_bytes())]


def _plain(steps: int) -> int:
    acc = 0
    for step in range(steps):
        acc = (acc * 31 + step) % MODULUS
    return acc


def _table(told: list[Told]) -> str:
    lines = ["grace  notices  said to fit  durable in time  lost steps there  share of the notice trained through"]
    for grace in GRACES:
        rows = [one for one in told if one.grace == grace]
        fits = [one for one in rows if one.said_it_fits]
        kept = [one for one in fits if one.durable_after is not None and one.durable_after < grace]
        used = sum(one.used for one in rows) / len(rows)
        lost = sum(one.lost for one in fits)
        lines.append(f"{grace:5g}  {len(rows):7}  {len(fits):11}  {len(kept):15}  {lost:16}  {used:.2f}")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(120 if ASKED is None else 7200)
def test_what_is_said_to_fit_is_durable_before_sigkill_and_no_step_of_it_is_lost(tmp_path: Path) -> None:
    cases = [Case(number, tmp_path / str(number)) for number in range(COUNT)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = list(pool.map(Case.play, cases))
    print(_table(told))
    assert all(one.right for one in told), [one.why for one in told if not one.right]
    fits = [one for one in told if one.said_it_fits]
    late = [one for one in fits if one.durable_after is None or one.durable_after >= one.grace or one.lost]
    assert len(late) <= 0.001 * len(fits), [one.why for one in late]
    assert len(fits) >= 0.5 * len(told)
    used = [one.used for one in fits if one.grace >= 60]
    assert sum(used) >= 0.4 * len(used), "long notices are not used for training"
