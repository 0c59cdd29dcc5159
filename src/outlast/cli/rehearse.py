"""`outlast rehearse`: proves, on this machine, that a command survives its platform's interruptions."""

import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from outlast import __version__
from outlast.cli.progress import CTRL_C
from outlast.errors import SettingsError
from outlast.registry import platform_named, proven_platforms
from outlast.rehearse.display import ConsoleDisplay
from outlast.rehearse.page import as_page
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.report import Report, as_object, print_report
from outlast.rehearse.request import Request
from outlast.rehearse.runner import rehearse as run_rehearsal
from outlast.rehearse.scenario_file import scenarios_for
from outlast.rehearse.verdict import EXIT_CODES
from outlast.rehearse.words import Setting

_LIST_HELP = "Name those that come with outlast, and what may stand in one of your own; then leave."
_RESULT_HELP = "A file or pattern to compare; repeatable. Every file that CMD makes unless given."
_REPORT_WIDTH = 120  # where no terminal says how wide it is
_REHEARSED = [name for name in proven_platforms() if platform_named(name).facts.procedure is not None]


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--platform",
    metavar=f"[{'|'.join(_REHEARSED)}]",
    default="cloud-run",
    show_default=True,
    help="Whose interruptions.",
)
@click.option("--interruptions", type=int, default=5, show_default=True, help="How many; 3 at least.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws kinds and moments.")
@click.option(
    "--scenario", "scenarios", multiple=True, metavar="FILE|NAME", help="What goes wrong, instead; repeatable."
)
@click.option("--list-scenarios", is_flag=True, is_eager=True, help=_LIST_HELP)
@click.option(
    "--speed", type=float, metavar="N", help="How many of the platform's seconds pass in one here; 1 unless given."
)
@click.option("--nodes", type=int, default=1, show_default=True, help="On how many nodes the platform starts CMD.")
@click.option("--retries", type=int, help="The platform's retries; enough for the interruptions unless given.")
@click.option("--result", "results", multiple=True, metavar="PATH", help=_RESULT_HELP)
@click.option("--tolerance", type=float, default=0.0, metavar="REL", help="Relative difference of numbers allowed.")
@click.option(
    "--report",
    "page",
    metavar="F.html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the report as one HTML file.",
)
@click.option("--in-place", is_flag=True, help="Run in this folder itself, not in copies of it.")
@click.option("--real-store", is_flag=True, help="Let jobs use the stores that they name.")
@click.option("--yes", is_flag=True, help="Do not ask before a large copy.")
@click.option("--keep", is_flag=True, help="Keep the copies and the output of each attempt.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
def rehearse(*, list_scenarios: bool, page: Path | None, yes: bool, as_json: bool, platform: str, **asked: Any) -> None:
    """Run CMD uninterrupted, then under the platform's real interruptions, and compare what comes out.

    Everything runs in fresh copies of this folder, without what .gitignore or .outlastignore names.
    Leaves with 0 when it survived, 1 when it did not, 2 when it could not be rehearsed.

    Example: outlast rehearse --platform cloud-run -- python train.py
    """
    if list_scenarios:
        _print_scenarios(platform)
        return
    if page is not None and not page.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {page.absolute().parent}", param_hint="--report")
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _stop)
    console = Console(stderr=True)
    try:
        request = Request(folder=_here(), platform=platform, **asked)  # the options have its names
        report = run_rehearsal(request, display=ConsoleDisplay(console), confirm=_asker(yes=yes))
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        console.print("stopped" if asked["keep"] else "stopped; the copies are removed")
        sys.exit(CTRL_C)
    except Exception:  # noqa: BLE001 - a fault of ours must not leave with 1, which says that CMD did not survive
        console.print_exception()
        sys.exit(EXIT_CODES["could-not-rehearse"])
    _show(report, console, as_json=as_json, page=page)
    sys.exit(report.exit_code)


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsError(
            f"the current folder cannot be rehearsed: it is gone, or not to be read ({error})"
        ) from error


def _show(report: Report, console: Console, *, as_json: bool, page: Path | None) -> None:
    """Leaves with 2 when the page cannot be made: what was asked for is not there, whatever the verdict."""
    if as_json:
        click.echo(json.dumps(as_object(report), indent=2))
    else:
        out = Console()
        print_report(report, out if out.is_terminal else Console(width=_REPORT_WIDTH))
    if page is None:
        return
    try:
        page.write_text(as_page(report, version=__version__), encoding="utf-8")
    except OSError as error:
        console.print(f"the report could not be written: {error}", markup=False, soft_wrap=True)
    except Exception:  # noqa: BLE001 - as above
        console.print_exception()
    else:
        console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
        return
    sys.exit(EXIT_CODES["could-not-rehearse"])


def _print_scenarios(platform: str) -> None:
    """Those for the platform, and the words in which one is written for it."""
    try:
        procedure = procedure_on(platform)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"scenarios for {platform} (--scenario NAME):")
    for name, about in scenarios_for(platform):
        click.echo(f"  {name:22} {about}")
    click.echo(f"\nwhat can happen on {platform} (in a scenario of your own):")
    for name, word in procedure.words.items():
        click.echo(f"  {name:22} {word.about}")
        _print_settings(word.settings)
    click.echo(
        f"  each also:\n    {'at:':20} a share of the work that is left (30%), a time after the first sign, or start"
    )
    click.echo(f"    {'after:':20} a time after what came before in the same attempt")
    if procedure.given:
        click.echo(f"\nwhat {platform} is set to (given):")
        _print_settings(procedure.given)


def _print_settings(settings: Mapping[str, Setting]) -> None:
    for name, one in settings.items():
        choices = f" ({', '.join(one.choices)})" if one.choices else ""
        click.echo(f"    {name + ':':20} {one.about}{choices}")


def _asker(*, yes: bool) -> Callable[[str], bool]:
    def ask(question: str) -> bool:
        if yes:
            return True
        return sys.stdin.isatty() and click.confirm(question, err=True)

    return ask


def _stop(number: int, _frame: object) -> None:
    """Leaves through the clean-up, so that no process and no copy stays behind."""
    sys.exit(128 + number)
