"""`outlast interval`: how often to save, what goodput to expect, and what a final save that fits is worth."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console as Screen
from rich.table import Table

from outlast.checkpoint.journal import read_journals
from outlast.cli.stores import places_of
from outlast.clock import format_duration, parse_duration
from outlast.errors import SettingsError
from outlast.events import SaveCommitted
from outlast.planning.estimates import Learned, learn, usable_notice_share
from outlast.planning.history import facts_of_attempts
from outlast.planning.period import ASSUMED_SLOWDOWN, Situation
from outlast.registry import PLATFORMS
from outlast.schedule import ASSUMED_COPY_BYTES_PER_SECOND
from outlast.settings import Surroundings, look_around


def _seconds(_ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Whatever a duration may be written as."""
    try:
        return None if text is None else parse_duration(text, setting=param.opts[0])
    except SettingsError as error:
        raise click.BadParameter(str(error)) from error


def _positive_seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    seconds = _seconds(ctx, param, text)
    if seconds == 0:
        raise click.BadParameter("it must be more than 0")
    return seconds


def _share(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """A share from 0 to 1, or a percentage."""
    if text is None:
        return None
    plain = text.strip()
    try:
        share = float(plain[:-1]) / 100.0 if plain.endswith("%") else float(plain)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise click.BadParameter(f"{text!r} is no share: write 0.95 or 95%")
    return share


@click.command()
@click.argument("url", required=False)
@click.option("--stall", metavar="D", callback=_positive_seconds, help="How long the training stands still for a save.")
@click.option(
    "--persist", metavar="D", callback=_seconds, help="From then until the save is durable; 0 for saves that block."
)
@click.option(
    "--slowdown",
    metavar="SHARE",
    callback=_share,
    help="Of the training while a save is written beside it.  [default: 3%]",
)
@click.option(
    "--final-save", metavar="D", callback=_seconds, help="From a notice until a last save is durable, at its p99."
)
@click.option("--restore", metavar="D", callback=_seconds, help="From the start of a process until its first new step.")
@click.option("--between", metavar="D", callback=_positive_seconds, help="Mean time between interruptions.")
@click.option("--notice-share", metavar="SHARE", callback=_share, help="Of interruptions that have a notice.")
@click.option("--grace", metavar="D", callback=_seconds, help="From a notice to SIGKILL (OUTLAST_GRACE).")
@click.option("--longest-loss", metavar="D", callback=_positive_seconds, help="Never lose more work than this.")
@click.option("--platform", type=click.Choice(list(PLATFORMS)), help="Default: what is detected.")
@click.option("--job", help="Only this job of the store.")
@click.option("--run", help="Only this run (default: the newest of each job).")
@click.option("--task", type=int, help="Only this task.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def interval(url: str | None, *, as_json: bool, platform: str | None, longest_loss: float | None, **given: Any) -> None:
    """Advise how often to save: from what you give, and from what the run in the store at URL measured.

    D is a duration such as 30s, 5min or 1h30m. What is neither given nor measured comes from the platform, or is
    assumed, and the report says so. Provisional.

    \b
    Example:
      outlast interval --stall 500ms --persist 30s --restore 2min \\
        --between 3h --grace 30s --final-save 20s --notice-share 95%

    \b
    Exit codes:
      0   advised
      2   an option makes no sense, or too little is known
      75  the storage does not answer
      78  URL is not a store, or a variable of the environment makes no sense
    """
    here = look_around(os.environ, platform=platform, grace=given.pop("grace"))
    which = {name: given.pop(name) for name in ("job", "run", "task")}
    if url is None and any(value is not None for value in which.values()):
        raise click.UsageError("--job, --run and --task choose from a store: give its URL")
    measured = _Measured.of(url, here, **which) if url is not None else _Measured(_nothing(here), 0)
    inputs = collect_inputs(given, measured, here)
    advice = Advice(inputs, here, math.inf if longest_loss is None else longest_loss)
    if as_json:
        click.echo(json.dumps(advice.as_object(), indent=2))
    else:
        advice.show()


# --- what is known ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a store tells; `state_bytes` is 0 where it holds no checkpoint."""

    learned: Learned
    state_bytes: int

    @classmethod
    def of(cls, url: str, here: Surroundings, *, job: str | None, run: str | None, task: int | None) -> "_Measured":
        store, places = places_of(url=url, job=job, run=run, task=task)
        attempts, size = [], 0
        for place in places:
            journals = read_journals(store, place)
            attempts += facts_of_attempts(journals)
            for number in sorted(journals):
                sizes = [one.event.bytes for one in journals[number] if isinstance(one.event, SaveCommitted)]
                size = sizes[-1] if sizes else size
        return cls(learn(attempts, prior_between_seconds=here.facts.mean_seconds_between_interruptions), size)


def _nothing(here: Surroundings) -> Learned:
    return learn([], prior_between_seconds=here.facts.mean_seconds_between_interruptions)


@dataclass(frozen=True, slots=True)
class Input:
    """A quantity that the advice rests on, for machines and people, and where it comes from."""

    value: float
    text: str
    source: str


def collect_inputs(given: Mapping[str, float | None], measured: _Measured, here: Surroundings) -> dict[str, Input]:
    """Each quantity as given, else as measured, else as the platform says, else as assumed. Raises UsageError."""
    learned = measured.learned

    def choose(name: str, *others: tuple[float | None, str], share: bool = False) -> Input:
        for value, source in ((given[name], "given"), *others):
            if value is not None:
                return Input(value, f"{value:.1%}" if share else _duration(value), source)
        raise click.UsageError(f"--{name} is not known: give it, or the URL of a store with a checkpoint")

    copied = measured.state_bytes / ASSUMED_COPY_BYTES_PER_SECOND if measured.state_bytes else None
    stall = choose("stall", _mean("stall", learned), (copied, "assumed: the state is copied at 5 GB/s"))
    persist = choose("persist", _mean("persist", learned), (0.0, "assumed: saves block"))
    periodic = stall.value + persist.value
    attempts = f"learned: {learned.losses} interruptions in {format_duration(learned.exposure_seconds)}"
    platform = here.facts.sources.get("mean_seconds_between_interruptions", here.facts.name)
    nothing = learned.attempts == 0
    return {
        "stall": stall,
        "persist": persist,
        "slowdown": choose("slowdown", (ASSUMED_SLOWDOWN if persist.value else 0.0, "assumed"), share=True),
        "final_save": choose(
            "final_save",
            (learned.final_save.p99_seconds if learned.final_save else None, "measured, p99"),
            (periodic, "assumed: as long as a periodic save"),
        ),
        "restore": choose("restore", _mean("restore", learned), (0.0, "not known, and left out")),
        "between": choose("between", (learned.between_seconds, platform if nothing else attempts)),
        "notice_share": choose(
            "notice_share", (learned.notice_share, "assumed: nothing was learned" if nothing else attempts), share=True
        ),
    }


def _duration(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0 s"


def _mean(name: str, learned: Learned) -> tuple[float | None, str]:
    times = getattr(learned, name)
    return (None, "") if times is None else (times.mean_seconds, f"measured, mean of {times.count}")


# --- the advice ---------------------------------------------------------------------------------------


class Advice:
    """What follows from the inputs."""

    def __init__(self, inputs: Mapping[str, Input], here: Surroundings, longest_loss_seconds: float) -> None:
        self.inputs, self.here = inputs, here
        self.final_save_seconds = inputs["final_save"].value
        self.room_seconds = max(here.grace_seconds - here.margin_seconds, 0.0)
        usable = usable_notice_share(
            inputs["notice_share"].value,
            final_save_p99_seconds=self.final_save_seconds,
            grace_seconds=here.grace_seconds,
            margin_seconds=here.margin_seconds,
        )
        self.fits = self.final_save_seconds + here.margin_seconds <= here.grace_seconds
        self.situation = Situation(
            stall_seconds=inputs["stall"].value,
            persist_seconds=inputs["persist"].value,
            slowdown=inputs["slowdown"].value,
            between_seconds=inputs["between"].value,
            restore_seconds=inputs["restore"].value,
            final_save_seconds=min(self.final_save_seconds, self.room_seconds),
            notice_share=usable,
            longest_loss_seconds=longest_loss_seconds,
        )
        self.with_final = self.situation.with_notice_share(inputs["notice_share"].value)
        self.without_final = self.situation.with_notice_share(0.0)

    @property
    def worth(self) -> float:
        """What a final save that fits adds to the goodput, from 0 to 1; below 0 it would cost more than it saves."""
        return self.with_final.goodput() - self.without_final.goodput()

    def as_object(self) -> dict[str, Any]:
        """The report for machines."""
        best = self.situation.unbounded_period_seconds
        return {
            "interval_seconds": self.situation.period_seconds,
            "best_interval_seconds": None if best == math.inf else best,
            "bound": self.situation.bound,
            "goodput": self.situation.goodput(),
            "final_save": {
                "fits": self.fits,
                "p99_seconds": self.final_save_seconds,
                "room_seconds": self.room_seconds,
                "goodput_with": self.with_final.goodput(),
                "goodput_without": self.without_final.goodput(),
                "worth": self.worth,
                "interval_without_seconds": self.without_final.period_seconds,
            },
            "inputs": {
                **{name: {"value": one.value, "source": one.source} for name, one in self.inputs.items()},
                "grace": {"value": self.here.grace_seconds, "source": self.here.facts.name},
                "margin": {"value": self.here.margin_seconds, "source": "outlast: a fifth of the grace, 30 s at most"},
            },
        }

    def show(self) -> None:
        """The report for people."""
        table = Table("quantity", "value", "from")
        for name, one in self.inputs.items():
            table.add_row(name.replace("_", " "), one.text, one.source)
        table.add_row("grace", format_duration(self.here.grace_seconds), f"{self.here.facts.name}, or as told")
        Screen(markup=False).print(table)
        bound = self.situation.bound
        click.echo(f"save every {format_duration(self.situation.period_seconds)}" + (f": {bound}" if bound else ""))
        click.echo(f"expected goodput: {self.situation.goodput():.2%} of the time of a machine")
        click.echo(self._of_final_save())

    def _of_final_save(self) -> str:
        took, room = format_duration(self.final_save_seconds), format_duration(self.room_seconds)
        points = f"{100 * self.worth:+.2f} points of goodput"
        without = format_duration(self.without_final.period_seconds)
        if self.fits:
            return (
                f"a final save fits ({took} of {room}), which is worth {points}: without it, you would save every "
                f"{without} for {self.without_final.goodput():.2%}"
            )
        return f"a final save does not fit ({took}, and {room} are left); made to fit, it would be worth {points}"
