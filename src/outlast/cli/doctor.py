"""`outlast doctor`: what would keep a job from being deployed, or from surviving, before anything is made."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from outlast.clock import parse_duration
from outlast.console import Console, printable
from outlast.deploy.description_file import find_description, load_description
from outlast.deploy.doctor.cases import Case
from outlast.deploy.doctor.examining import examine
from outlast.deploy.doctor.findings import Finding
from outlast.deploy.doctor.programs import RealPrograms
from outlast.deploy.doctor.this_machine import examine_machine
from outlast.errors import SettingsError

_BAD, _IMPOSSIBLE = 1, 2
_MARKS = {"ok": "ok", "bad": "BAD", "unknown": "unknown"}


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a list of {check, state, why, mend}.")
@click.option("--timeout", default="20s", show_default=True, metavar="D", help="How long to wait for a program.")
def doctor(file: Path | None, *, as_json: bool, timeout: str) -> None:
    """Check what a deployment of the job in FILE needs, and what its survival needs. (Provisional.)

    FILE is an outlast.yaml, or a pyproject.toml with [tool.outlast]. Without it, and without one in this folder, it
    looks at this machine alone. Login, project, billing, roles, APIs, quota, bucket, image, entry point, save time,
    and for clusters the context, kinds, rights, nodes and accounts: each is ok, bad or unknown, with the reason, and
    the command that mends it. Nothing is changed, but for one small object that is written where the checkpoints go,
    and deleted again.

    \b
    Example: outlast doctor outlast.yaml

    Exit codes: 0 nothing is bad, 1 something is bad, 2 FILE makes no sense, or nothing could be checked.
    """
    try:
        findings = _examined(file, timeout)
    except SettingsError as error:
        Console().error(str(error))
        sys.exit(_IMPOSSIBLE)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in findings], indent=2))
    else:
        width = max((len(one.check) for one in findings), default=0)
        for one in findings:
            click.echo(printable(f"{_MARKS[one.state]:<8} {one.check:<{width}}  {one.why}"))
            if one.mend is not None:
                click.echo(printable(f"{'':<8} {'':<{width}}  $ {one.mend}"))
    states = {one.state for one in findings}
    sys.exit(_BAD if "bad" in states else 0 if "ok" in states else _IMPOSSIBLE)


def _examined(file: Path | None, timeout: str) -> list[Finding]:
    programs = RealPrograms(os.environ, longest_seconds=parse_duration(timeout, setting="--timeout"))
    try:
        if file is None and find_description(Path()) is None:
            return examine_machine(programs, os.environ)
        described = load_description(file)
        return examine(
            Case(described=described.description, programs=programs, env=os.environ, folder=described.folder)
        )
    finally:  # also after Ctrl-C
        programs.end()
