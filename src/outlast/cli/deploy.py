"""`outlast deploy`: everything that a deployment needs, printed, written, run, or removed again."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from outlast.cli.lazy_group import LazyGroup
from outlast.cli.settings_given import settings_given
from outlast.deploy.apply import write_file
from outlast.deploy.asking import Desk, apply_plan, files_folder, interactive, remove_all, write_plan
from outlast.deploy.description import Description
from outlast.deploy.description_file import Argument, Described, find_description, load_description
from outlast.deploy.linted import left_over, of_program
from outlast.deploy.patched import Patched
from outlast.deploy.plan import Plan, WrittenFile, shell_script
from outlast.deploy.tools import InstalledTools
from outlast.deploy.yaml_edits import unified_diff
from outlast.errors import SettingsError
from outlast.installed_sdk import InstalledSdk
from outlast.yaml_keys import MOST_CHARACTERS, read_text

_TARGETS = {
    "cloud-run": "outlast.cli.deploy_cloud_run:cloud_run",
    "gke": "outlast.cli.deploy_gke:gke",
}


class _Targets(LazyGroup):
    lazy = _TARGETS


@click.group(cls=_Targets)
def deploy() -> None:
    """From one small description of a job (outlast.yaml) to all that it needs in the cloud, and away again.

    Prints a script unless told otherwise. Provisional.
    """


_SETTINGS = {  # the option, the key of the description, what it says
    "--name": ("name", "The job's name."),
    "--image": ("image", "An image that is there, or the name of the one to build."),
    "--source": ("source", "The folder to build an image from."),
    "--url": ("url", "Where the checkpoints go: gs://BUCKET/FOLDER."),
    "--project": ("project", "The Google Cloud project."),
    "--region": ("region", "The region of the job, its bucket and its images."),
    "--timeout": ("timeout", "Of one attempt, such as 12h."),
    "--retries": ("retries", "Of each task; enough for the interruptions to expect unless given."),
    "--tasks": ("tasks", "How many tasks the job has."),
    "--price": ("price_per_gpu_hour", "Of one hour of a GPU (of a task, without one), for the exposure."),
}
_ACTIONS = ("apply", "teardown")
_FOLDER = click.Path(file_okay=False, path_type=Path)


def deploy_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every target has, and FILE."""
    many = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any key of the description.")
    options = [
        click.argument("file", required=False, type=click.Path(path_type=Path)),
        click.option("--out", metavar="DIR", type=_FOLDER, help="Write it all there."),
        click.option("--apply", is_flag=True, help="Run it all."),
        click.option("--teardown", is_flag=True, help="Remove what --apply made, and nothing else."),
        click.option("--keep-bucket", is_flag=True, help="Leave the bucket with the checkpoints at a teardown."),
        click.option("--patch", metavar="EXISTING", type=click.Path(path_type=Path), help="Change a manifest instead."),
        click.option("--diff", is_flag=True, help="Show what changes, as a diff; write nothing."),
        click.option("--yes", is_flag=True, help="Do not ask before spending or removing."),
        *(
            click.option(option, key, metavar="TEXT", help=said)
            for option, (key, said) in _SETTINGS.items()
        ),
        many,
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Target:
    """What a command does with a description (its plan, for a folder of files), and with a manifest that exists.

    `taken_by`: the command that deploys such a manifest.
    """

    name: str
    plan: Callable[[Described, Path], Plan]
    patch: Callable[[str, str, Description | None], Patched]
    taken_by: str


def deploy_to(target: Target, file: Path | None, settings: tuple[str, ...], options: Mapping[str, Any]) -> None:
    """Does what the options say: prints, writes, applies or removes a deployment, or patches a manifest."""
    _check_actions(options, target)
    if options["patch"] is not None:
        _patch(target, options["patch"], _described_for_patch(file, settings, options), options)
        return
    described = load_description(file, arguments=_given(settings, options))
    if options["teardown"]:
        _tear_down(target, described, options)
        return
    files = files_folder(described.folder, target.name, described.description.name, options["out"])
    _run_plan(target.plan(described, files), described, files, options)


def _described_for_patch(file: Path | None, settings: tuple[str, ...], options: Mapping[str, Any]) -> Described | None:
    """The description beside a manifest, which says itself what runs; None where nobody describes anything."""
    given = _given(settings, options)
    if file is not None or find_description(Path()) is not None:
        return load_description(file, arguments=given)
    if not given:
        return None
    in_manifest: dict[str, Argument] = {"name": "job", "command": ["-"], "image": "image", "url": "/checkpoints"}
    return load_description(None, arguments={**in_manifest, **given})


def _given(settings: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, Argument]:
    return settings_given(settings, {key: options[key] for key, _ in _SETTINGS.values()})


def _check_actions(options: Mapping[str, Any], target: Target) -> None:
    """Raises UsageError for options that make no sense together."""
    actions = [f"--{name}" for name in _ACTIONS if options[name]]
    if len(actions) > 1:
        raise click.UsageError(f"{' and '.join(actions)} are two things; run one after the other")
    if options["teardown"] and (options["out"] or options["patch"]):
        raise click.UsageError("--teardown needs no --out and no --patch: it goes by the record of what was made")
    if options["diff"] and not options["patch"]:
        raise click.UsageError("--diff shows what --patch EXISTING would change")
    if options["patch"] and options["apply"]:
        raise click.UsageError(f"--patch writes a manifest; deploy it with `{target.taken_by}`")


def _desk(*, yes: bool) -> Desk:
    """Talks on standard error; asks only where somebody sits."""

    def say(line: str) -> None:
        click.echo(line, err=True)

    def ask(question: str) -> bool:
        return click.confirm(question, err=True)

    return Desk(say, ask if interactive() else None, yes)


def _run_plan(plan: Plan, described: Described, files: Path, options: Mapping[str, Any]) -> None:
    """Prints, writes or applies it, as the options say; what lint finds in the program is told before."""
    plan = replace(plan, notes=(*plan.notes, *of_program(described)))
    if options["out"] is not None:
        for path in write_plan(plan, files):
            click.echo(f"wrote {os.path.normpath(path)}", err=True)
    if options["apply"]:
        tools, talk = InstalledTools(files), _desk(yes=options["yes"])
        if not apply_plan(plan, tools, talk, folder=described.folder, files=files, sdk=InstalledSdk()):
            raise click.Abort
    elif options["out"] is None:
        click.echo(shell_script(plan, folder=str(files)), nl=False)


def _tear_down(target: Target, described: Described, options: Mapping[str, Any]) -> None:
    keep = ("bucket",) if options["keep_bucket"] else ()
    tools, talk, name = InstalledTools(described.folder), _desk(yes=options["yes"]), described.description.name
    if remove_all(target.name, name, tools, talk, folder=described.folder, keep=keep) is None:
        raise click.Abort


def _patch(target: Target, existing: Path, described: Described | None, options: Mapping[str, Any]) -> None:
    """Shows or writes the patched manifest, and what lint finds in it still; leaves with 1 if errors are left."""
    old = _text_of(existing)
    found = target.patch(old, str(existing), None if described is None else described.description)
    for change in found.changes:
        click.echo(f"outlast: {change}", err=True)
    if options["diff"]:
        click.echo(unified_diff(old, found.text, str(existing)), nl=False)
    elif options["out"] is None:
        click.echo(found.text, nl=False)
    else:
        click.echo(f"wrote {_written(found.text, existing, options['out'])}", err=True)
    errors, warnings = left_over(found.text, str(existing))
    by_hand = [*found.by_hand, *errors]
    for left in by_hand:
        click.echo(f"outlast: by hand: {left}", err=True)
    for warning in warnings:
        click.echo(f"outlast: left as it is: {warning}", err=True)
    if by_hand:
        sys.exit(1)


def _written(text: str, existing: Path, out: Path) -> Path:
    if (out / existing.name).resolve() == existing.resolve():
        raise SettingsError(f"--out {out} is the folder of {existing} itself, which is not written over")
    return write_file(WrittenFile(path=Path(existing.name), text=text), out, over=False)


def _text_of(existing: Path) -> str:
    try:
        return read_text(existing, most_bytes=4 * MOST_CHARACTERS)
    except OSError as error:
        raise SettingsError(f"--patch {existing}: it cannot be read: {error.strerror or error}") from error
