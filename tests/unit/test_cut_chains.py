"""A chain of kills that a rehearsal makes is no crash loop to the job that is rehearsed."""

from outlast.checkpoint.crashes import _DEATHS_FOR_A_CRASH, CrashPolicy
from outlast.rehearse.cut_saves import _KILLS


def test_a_chain_ends_before_a_job_takes_its_kills_for_a_crash_loop() -> None:
    """A job that saves for the first time at its end starts from step 0 after each kill."""
    assert _DEATHS_FOR_A_CRASH * CrashPolicy().limit > _KILLS
