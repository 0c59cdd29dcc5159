"""`outlast metrics`: the numbers of stores and queues for Prometheus, with alerts and a dashboard over them."""

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from outlast.clock import parse_duration
from outlast.errors import SettingsError
from outlast.registry import STORES, metrics_port, metrics_text
from outlast.settings import console_for

_SOME_UNREAD = 1
_SECONDS, _BUCKET_SECONDS = 15.0, 60.0  # each look at a bucket costs some ten requests for each task at work
_PORT = "9464"  # as OpenTelemetry's Prometheus exporters use


@click.command()
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--listen", metavar="[ADDRESS:]PORT", default=_PORT, show_default=True, help="Where Prometheus asks.")
@click.option("--every", metavar="D", help="How often the URLs are read.  [default: 15s; 60s if one is a bucket]")
@click.option("--once", is_flag=True, help="Print the numbers and leave, for cron and the textfile collector.")
@click.option("--write", metavar="DIR", type=Path, help="Write alert rules, a dashboard and an alert policy there.")
def metrics(*, urls: tuple[str, ...], listen: str, every: str | None, once: bool, write: Path | None) -> None:
    """Answer Prometheus about stores and queues, and write alert rules. (Provisional.)

    Answers /metrics at that port; only programs of this machine are answered, unless ADDRESS is another one
    (0.0.0.0 is all). Of each job it shows the newest run. Needs the extra `prometheus`. Jobs push the same numbers
    themselves, where OTEL_EXPORTER_OTLP_ENDPOINT is set; docs/howto/metrics.md names each.

    --write DIR needs no URL: it writes outlast-rules.yaml (Prometheus), outlast-rules-gke.yaml (Managed Service for
    Prometheus), outlast-dashboard.json (Grafana) and outlast-cloud-run-alert.json (Cloud Monitoring).

    \b
    Example: outlast metrics gs://bucket/runs sqlite:///work.db --listen 0.0.0.0:9464

    Exit codes: 0 all is well (or it was told to stop), 1 with --once: a URL could not be read, 78 a bad option.
    """
    if write is not None:
        from outlast.metrics.files import write_files  # noqa: PLC0415 - serving needs none of it

        for path in write_files(write):
            click.echo(f"wrote {path}")
        if not urls:
            return
    if not urls:
        raise click.UsageError("give the URL of a store or a queue, or --write DIR")
    in_bucket = any(url.partition("://")[0] in STORES for url in urls if "://" in url)
    pause = (_BUCKET_SECONDS if in_bucket else _SECONDS) if every is None else parse_duration(every, setting="--every")
    if pause < 1:
        raise SettingsError(f"--every={every!r} is less than 1 s: reading would take all the time there is")
    _serve(urls, listen, pause, once=once)


def _serve(urls: tuple[str, ...], listen: str, pause: float, *, once: bool) -> None:
    from outlast.metrics.sources import Sources  # noqa: PLC0415 - help reads no store

    as_text, answer = metrics_text(), metrics_port()
    sources = Sources(urls, console_for(os.environ))
    if once:
        read = sources.look()
        click.echo(as_text(sources.points()), nl=False)
        sys.exit(0 if read else _SOME_UNREAD)
    stop = threading.Event()

    def leave(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    answer(listen, sources.points, setting="--listen", warn=_refuse)
    at = listen if ":" in listen else f"127.0.0.1:{listen}"
    click.echo(f"http://{at}/metrics answers; Ctrl-C ends it", err=True)
    sources.look()
    sources.go_on(pause, stop)


def _refuse(why: str) -> NoReturn:
    raise SettingsError(why)
