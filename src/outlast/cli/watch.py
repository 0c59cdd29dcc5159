"""`outlast watch`: runs, queues and nodes, live in a terminal; a snapshot now and then where there is none."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
from rich.console import Console as Screen
from rich.live import Live

from outlast.cli.nodes import leave
from outlast.cli.progress import CTRL_C
from outlast.cli.watch_screen import Rates, Seen, screen
from outlast.clock import parse_duration
from outlast.errors import EXIT_RETRY, SettingsError
from outlast.monitor.nodes import survey
from outlast.monitor.nodes_cluster import OfficialClient
from outlast.monitor.nodes_losses import Losses, no_losses
from outlast.monitor.nodes_stores import StoreLosses, places_given
from outlast.monitor.watch_polling import Poller, stopped
from outlast.monitor.watch_reading import least_seconds, reader
from outlast.urls import masked

_REFRESH_SECONDS, _LINES_SECONDS = 1.0, 10.0
_FIRST_SECONDS = 60.0  # for the first reading, where only one is asked for
_STOP_SECONDS = 2.0  # for readings under way; one that hangs must not keep the process
_CLUSTER_SECONDS = 2.0  # between two looks: a few requests to a server that is there for them
_AT_HELP = "With --nodes: where a store that the pods call FROM is reached from here; repeatable."
_HELP_LINE = "q leaves"


@click.command()
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--nodes", is_flag=True, help="Also the cluster of the kubeconfig, as `outlast nodes` shows it.")
@click.option("--context", help="With --nodes: the kubeconfig's context (default: the current one).")
@click.option("--namespace", "-n", help="With --nodes: pods of this namespace.")
@click.option("--at", "places", multiple=True, metavar="FROM=PLACE", help=_AT_HELP)
@click.option("--no-stores", is_flag=True, help="With --nodes: ask no store what its pods would lose.")
@click.option("--interval", metavar="D", help="How often to look (default: 1 s; without a terminal 10 s).")
@click.option("--once", is_flag=True, help="One snapshot, and leave.")
def watch(*, urls: tuple[str, ...], nodes: bool, interval: str | None, once: bool, **which: Any) -> None:
    """Watch the runs and queues at each URL, live: state, checkpoints, work at risk, attempts. (Provisional.)

    URL is a store or a queue, as for `outlast status`; without one, $OUTLAST_URL. q or Ctrl-C leaves. Where there is
    no terminal, a snapshot is printed at each interval. Folders and local databases are read each second, what is
    charged by the request every 15 s; reading takes a tenth of the time at most. Ages and countdowns go on in between.

    \b
    Examples:
      outlast watch /mnt/checkpoints sqlite:///work.db
      outlast watch gs://my-bucket/train --nodes

    Exit codes: 0 it was left, or --once has shown all; 75 with --once, where something could not be read; 78 a URL or
    a setting that cannot work; 130 Ctrl-C where there is no terminal.
    """
    on_screen = sys.stdout.isatty() and not once and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    every = _REFRESH_SECONDS if on_screen else _LINES_SECONDS
    if interval is not None:
        every = max(0.1, parse_duration(interval, setting="--interval"))
    stores = StoreLosses(places_given(which.pop("places")))
    losses = no_losses if which.pop("no_stores") else stores
    pollers = list(_pollers(urls, every, losses, nodes=nodes, **which))
    if not pollers:
        raise SettingsError(
            "nothing to watch: give a store or a queue, set OUTLAST_URL, or look at a cluster (--nodes)"
        )
    for poller in pollers:
        poller.start()
    code = 0
    try:
        if once:
            code = _once(pollers)
        else:
            (_live if on_screen else _in_snapshots)(pollers, every)
    except KeyboardInterrupt:
        code = 0 if on_screen else CTRL_C
    except BaseException:
        stopped(pollers, 0.0)
        raise
    ended = stopped(pollers, _STOP_SECONDS)
    leave(code, at_once=not (stores.close() and ended))


def _pollers(
    urls: tuple[str, ...],
    every: float,
    losses: Losses,
    *,
    nodes: bool,
    context: str | None,
    namespace: str | None,
) -> Iterator[Poller[Any]]:
    """One for each thing that is watched; a URL or a kubeconfig that cannot work is refused at once."""
    told = os.environ.get("OUTLAST_URL", "").strip()
    for url in dict.fromkeys(urls or ((told,) if told and not nodes else ())):
        yield Poller(masked(url), reader(url), least=max(every, least_seconds(url)))
    if nodes:
        cluster = OfficialClient(os.environ, context=context)
        look = partial(survey, cluster, losses=losses, namespace=namespace, logs=False)
        yield Poller(f"cluster {cluster.name}", look, least=max(every, _CLUSTER_SECONDS))


def _seen(pollers: Sequence[Poller[Any]]) -> list[Seen]:
    return [Seen(one.name, one.latest) for one in pollers]


def _once(pollers: Sequence[Poller[Any]]) -> int:
    until = time.monotonic() + _FIRST_SECONDS
    for poller in pollers:
        poller.first.wait(max(0.0, until - time.monotonic()))
    _print(pollers, Rates())
    return EXIT_RETRY if any(one.latest.value is None or one.latest.problem for one in pollers) else 0


def _in_snapshots(pollers: Sequence[Poller[Any]], every: float) -> None:
    """Until Ctrl-C, or until nobody reads it any more."""
    rates = Rates()
    for poller in pollers:
        poller.first.wait(every)
    while True:
        print(f"--- {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        _print(pollers, rates)
        print(flush=True)
        time.sleep(every)


def _print(pollers: Sequence[Poller[Any]], rates: Rates) -> None:
    out = Screen(markup=False, highlight=False) if sys.stdout.isatty() else _plain_screen()
    out.print(screen(_seen(pollers), rates, width=out.width, height=None))


def _plain_screen() -> Screen:
    return Screen(width=int(os.environ.get("COLUMNS", "140")), markup=False, highlight=False, soft_wrap=True)


def _live(pollers: Sequence[Poller[Any]], every: float) -> None:
    """On the terminal's other screen, which is given back as it was."""
    out, rates = Screen(markup=False, highlight=False), Rates()

    def draw() -> Any:
        size = out.size  # anew each time: the window may be another
        return screen(_seen(pollers), rates, width=size.width, height=size.height, help_line=_HELP_LINE)

    signal.signal(signal.SIGTERM, _ended)  # the terminal has to be given back
    with (
        _keys() as pressed,
        Live(draw(), console=out, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            live.update(draw(), refresh=True)
            if pressed(min(every, _REFRESH_SECONDS)) in ("q", "Q", "\x03", "\x04"):
                return


def _ended(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key; "" if none came. Without a keyboard it only waits."""
    try:
        import termios  # noqa: PLC0415 - not on every system
        import tty  # noqa: PLC0415 - as above

        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
    except (ImportError, OSError, ValueError, termios.error):
        yield _no_key
        return
    try:
        tty.setcbreak(keyboard)
        yield partial(_key, keyboard)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _key(keyboard: int, seconds: float) -> str:
    ready, _, _ = select.select([keyboard], [], [], seconds)
    if not ready:
        return ""
    pressed = os.read(keyboard, 1)
    return pressed.decode("ascii", "replace") if pressed else "q"  # the terminal is gone
