"""`outlast work`: a worker that takes items from a queue, calls a function, and stores what it returns."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

import click

from outlast.cli.functions import checked_spec, load_function
from outlast.cli.progress import CTRL_C, Look, progress
from outlast.cli.queue import look_at
from outlast.items import Queue
from outlast.registry import open_queue, open_sink
from outlast.settings import console_for, look_around
from outlast.worker.batch import BatchFunction, batch
from outlast.worker.options import checked_options

_RATE_WINDOW_SECONDS = 60.0
_LINE_SECONDS = 300.0  # of each of perhaps a thousand workers
_FUNCTIONS = ("setup", "load")


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--sink", metavar="URL", required=True, help="Where results go.")
@click.option("--chunk", type=int, metavar="N", help="Items that FUNCTION is given at a time.  [default: 1]")
@click.option("--version", metavar="TEXT", help="Results of this version are not computed again; others are.")
@click.option("--setup", metavar="MODULE:FUNCTION", help="Called once, at the start; FUNCTION gets its value, too.")
@click.option("--load", metavar="MODULE:FUNCTION", help="Called for each item ahead of its turn, in threads.")
@click.option("--prefetch", type=int, metavar="N", help="Chunks to load ahead.  [default: 1]")
@click.option("--lease", metavar="D", help="Items come back so long after a worker's death.  [default: 60s]")
@click.option("--item-timeout", metavar="D", help="An item that takes longer has failed.  [default: no limit]")
@click.option("--max-errors", type=int, metavar="N", help="An item with more errors is dead.  [default: 3]")
@click.option("--max-deaths", type=int, metavar="N", help="An item with more deaths is dead.  [default: 3]")
@click.option(
    "--idle", metavar="D", help="Leave after so long without items, where a queue cannot know its end.  [default: 30s]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as a JSON object.")
def work(*, queue: str, function: str, sink: str, as_json: bool, **options: Any) -> None:
    """Call FUNCTION with the items of QUEUE until none is left, and store its results. (Provisional.)

    FUNCTION takes a list of items (with id, payload, attempt; loaded, where --load is given) and, where --setup is
    given, its value. It returns a list of results, one for each item, or {id: result}. MODULE is looked for in the
    current folder first. A function that outlast.batch has decorated keeps the options that are not given here, apart
    from its queue and sink.

    Start as many workers as you like, on the same QUEUE. One that is told to leave (SIGTERM) finishes what fits, gives
    the rest back at once, and exits with the platform's interrupted code. An item whose result is in the sink
    already, at this --version, is not computed. Each item has one result, whatever is killed and whenever.

    \b
    Example:
      outlast work sqlite:///work.db label:infer --sink 'sqlite:///results.db?table=labels' --chunk 32

    \b
    Exit codes:
      0     nothing is left; dead items are told, and change nothing
      143   it was told to leave, with work left; OUTLAST_EXIT_CODE sets another
      75    the queue or the sink does not answer, or the first 100 items failed
            here, and others have computed results of this --version; a retry
            may help
      78    a setting makes no sense: no such function, queue or sink; or the first
            100 items have all failed
      1     FUNCTION's module or --setup raised an exception, or what FUNCTION
            returns is not about its items
    """
    settings = {name: value for name, value in options.items() if value is not None}
    for name, spec in (("MODULE:FUNCTION", function), *((f"--{one}", settings.get(one)) for one in _FUNCTIONS)):
        if spec is not None:
            checked_spec(spec, option=name)
    # Whatever is wrong with settings shows before a model is loaded.
    checked_options(**{name: value for name, value in settings.items() if name not in _FUNCTIONS})
    with ExitStack() as stack:
        port = stack.enter_context(closing(open_queue(queue)))
        stack.enter_context(closing(open_sink(sink)))
        with _leaving_at_once():
            for name in _FUNCTIONS:
                if name in settings:
                    settings[name] = load_function(settings[name], option=f"--{name}")
            called = load_function(function, option="MODULE:FUNCTION")
        if isinstance(called, BatchFunction):
            settings = {**called.options, **settings}
            called = called.function
        try:
            looking = progress(
                "working", lambda: _look(port), window_seconds=_RATE_WINDOW_SECONDS, line_seconds=_LINE_SECONDS
            )
            with looking:
                drained = batch(queue, sink=sink, **settings)(called).run()
        except KeyboardInterrupt:
            console_for(os.environ).notice("stopped: what was finished is stored, and the rest is given back")
            sys.exit(CTRL_C)
    if as_json:
        click.echo(json.dumps(asdict(drained)))
    else:
        # A queue that does not know its dead does not know what is left, either.
        ended, dead = ("nothing came", "") if drained.dead is None else ("nothing is left", f", {drained.dead:,} dead")
        click.echo(f"{ended}: {drained.computed:,} computed here, {drained.known:,} known already{dead}")


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Modules may load for minutes, and nothing is held meanwhile: SIGTERM ends the process.

    Without a handler the first process of a container would not hear it.
    """
    code = look_around(os.environ).interrupted_exit_code

    def leave(_number: int, _frame: FrameType | None) -> None:
        console_for(os.environ).notice(f"SIGTERM: nothing was begun; leaving with exit code {code}")
        os._exit(code)

    if (
        signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is leave:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _look(port: Queue) -> Look | None:
    return look_at(port.stats()) if port.traits.counts else None
