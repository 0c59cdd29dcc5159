"""What `outlast watch` draws: everything that matters, in any width and height, whatever names are made of."""

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console

from outlast.cli.watch_screen import Rates, Seen, screen
from outlast.monitor.nodes import ClusterSight, NodeSight, PodSight
from outlast.monitor.nodes_losses import AtRisk
from outlast.monitor.nodes_pods import PodMarks
from outlast.monitor.nodes_signs import NodeMarks
from outlast.monitor.watch_polling import Reading
from outlast.monitor.watch_rows import QueueRow, Row, TaskRow, by_urgency, strip

RUNNING = TaskRow(
    url="ckpt",
    job="train",
    run="run-1",
    task=0,
    state="running",
    steps_done=43_120,
    steps_total=100_000,
    eta_seconds=7200.0,
    checkpoint_step=43_000,
    checkpoint_age_seconds=12.0,
    risk_seconds=12.0,
    risk_steps=120,
    attempts=("interrupted", "killed", "running"),
    goodput=0.93,
)
QUEUE = QueueRow("sqlite:///work.db", ready=1200, leased=64, done=10_332, dead=2, oldest_seconds=180.0)
HOSTILE = "<b>[red]\x1b[2J\x1b]0;owned\x07\nnew line \u202egnirts\t" + "x" * 400


def seen(*rows: Row, ago: float = 0.0, problem: str = "") -> Seen:
    return Seen("ckpt", Reading(list(rows), time.monotonic() - ago, problem))


def drawn(*things: Seen, width: int = 120, height: int | None = None, colour: bool = False) -> str:
    out = Console(
        file=io.StringIO(), width=width, height=height or 50, force_terminal=colour, markup=False, highlight=False,
        color_system="truecolor" if colour else None,
    )  # fmt: skip
    out.print(screen(things, Rates(), width=width, height=height, help_line="q leaves"))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_run_shows_its_state_its_checkpoint_its_risk_and_its_attempts() -> None:
    text = drawn(seen(RUNNING), width=200)
    for words in (
        "train / run-1 / task 0  running",
        "43,120 of 100,000 steps (43.1%)",
        "checkpoint 43,000, 12 s ago",
        "at risk 12 s (120 steps)",
        "goodput 93%",
        "attempts IKR",
        "2 h to go",
    ):
        assert words in text


def test_ages_and_countdowns_go_on_between_two_readings() -> None:
    noticed = replace(RUNNING, notice="SIGTERM", notice_seconds_left=30.0)
    text = drawn(seen(noticed, ago=10.0), width=200)
    assert "checkpoint 43,000, 22 s ago" in text
    assert "at risk 22 s" in text
    assert "NOTICE SIGTERM: 20 s left" in text
    assert "the time is over" in drawn(seen(noticed, ago=40.0))
    assert "read 40 s ago" in drawn(seen(noticed, ago=40.0))


def test_a_finished_run_risks_nothing_and_its_risk_does_not_grow() -> None:
    assert "at risk" not in drawn(seen(replace(RUNNING, state="finished"), ago=10.0))


def test_a_queue_shows_its_counts_and_its_rate_once_that_is_known() -> None:
    text = drawn(seen(QUEUE))
    assert "ready 1,200  leased 64  done 10,332  dead 2" in text
    assert "oldest 3 min" in text
    assert "/s" not in text
    rates, now = Rates(), time.monotonic()
    assert rates.words(QUEUE, now - 10) == ""
    assert rates.words(replace(QUEUE, done=10_432, ready=1100), now) == "10/s, 90%, 116 s left"
    assert "ready ?" in drawn(seen(replace(QUEUE, ready=None)))


def test_what_does_not_answer_says_so_beside_what_was_known() -> None:
    text = drawn(seen(RUNNING, ago=60.0, problem="the storage does not answer"))
    assert "the storage does not answer" in text
    assert "train / run-1" in text
    assert "reading" in drawn(Seen("gs://b", Reading()))


@pytest.mark.parametrize("width", [1, 10, 24, 40, 79, 120, 300])
def test_no_line_is_wider_than_the_window_whatever_is_shown(width: int) -> None:
    rows = [replace(RUNNING, job=HOSTILE, notice=HOSTILE, troubles=(HOSTILE,)), QUEUE]
    text = drawn(Seen(HOSTILE, Reading(rows, time.monotonic(), HOSTILE)), cluster(), width=width, height=30)
    assert all(len(line) <= width for line in text.splitlines()), text


@pytest.mark.parametrize(("width", "height"), [(200, 5), (200, 12), (200, 45), (40, 8), (40, 30)])
def test_the_view_is_no_higher_than_the_window_and_says_what_it_leaves_out(width: int, height: int) -> None:
    rows = [replace(RUNNING, task=number) for number in range(30)]
    text = drawn(seen(*rows), cluster(), width=width, height=height)
    assert len(text.splitlines()) <= height
    assert ("more lines" in text) == ((width, height) != (200, 45))
    assert "q leaves" in text
    if height > 10:
        assert "node-1  ending" in text, "a long list of runs does not hide the nodes"


def test_those_that_somebody_should_look_at_come_first() -> None:
    states = ("finished", "running", "stuck", "failed")
    rows = [replace(RUNNING, task=number, state=state) for number, state in enumerate(states)]
    noticed = replace(RUNNING, task=9, notice="SIGTERM")
    assert [row.state for row in by_urgency([*rows, noticed])][:3] == ["running", "stuck", "failed"]
    assert by_urgency([*rows, noticed])[0] is noticed
    assert by_urgency(rows)[-1].state == "finished"


def test_names_steer_no_terminal_and_are_no_markup() -> None:
    rows = [replace(RUNNING, job=HOSTILE, notice=HOSTILE), replace(QUEUE, troubles=(HOSTILE,))]
    text = drawn(Seen(HOSTILE, Reading(rows, time.monotonic())), cluster(HOSTILE), width=600)
    assert not {"\x1b", "\x07", "\u202e", "\t"} & set(text)
    assert "<b>[red]" in text


def test_colours_are_only_colours() -> None:
    plain, coloured = drawn(seen(RUNNING, QUEUE)), drawn(seen(RUNNING, QUEUE), colour=True)
    assert "\x1b[" not in plain
    assert "\x1b[32m" in coloured


def test_of_many_attempts_the_newest_are_shown() -> None:
    assert strip(("killed",) * 50 + ("running",), longest=10) == "…KKKKKKKKR"
    assert strip(("finished", "interrupted", "never heard of"), longest=10) == "FI?"


def cluster(name: str = "train-abcde", *, left: float | None = 300.0) -> ClusterSight | Seen:
    risk = AtRisk("gs://b/x", "train / run-1 / task 0", "running", 120, 100, 30.0, 30.0, 20)
    ours = PodSight(PodMarks("team", name, "node-1", "Running", runs_outlast="x"), "being ended", left, 600.0, (risk,))
    other = PodSight(PodMarks("kube-system", "dns", "node-1", "Running"), "on the node")
    marks = NodeMarks(
        name if name == HOSTILE else "node-1", "ending", ("label a=b",), ("gke-gpu",), longest_seconds=3600.0
    )
    waiting = PodSight(PodMarks("team", "next", "", "Pending", runs_outlast="x"), "waiting")
    sight = ClusterSight(
        "c", None, 0.0, 3, (NodeSight(marks, None, (ours, other)),), waiting=(waiting,), problems=("p",)
    )
    return Seen("cluster c", Reading(sight, time.monotonic() - 60.0))


def test_a_node_shows_who_is_on_it_what_they_would_lose_and_how_long_they_have() -> None:
    text = drawn(cluster(), width=200)
    for words in (
        "3 nodes, 1 disrupted, 0 planned",
        "node-1  ending  60 min at most",
        "team/train-abcde  being ended, 4 min",
        "last checkpoint of step 100 90 s ago, would lose 90 s of work (20 steps)",
        "and 1 pod without outlast",
        "team/next  waiting for a node",
        "not seen: p",
    ):
        assert words in text, text
