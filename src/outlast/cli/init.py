"""`outlast init`: a job to start from, or the description of one that is there, for `outlast deploy`."""

import shlex
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import click

from outlast.cli.settings_given import settings_given
from outlast.deploy.asking import interactive
from outlast.deploy.cloud_run.settings import check_hardware
from outlast.deploy.description import DEFAULT_FILE
from outlast.deploy.description_file import Argument
from outlast.deploy.questions import Question, check_answer, description_text, platform_for, questions_for
from outlast.errors import SettingsError

_STARTER = "digits.py"
_CHECKS = {"cloud-run": check_hardware}  # of what a target does not have at all
_OPTIONS = {  # the option, the key of the description, what it says
    "--name": ("name", "The job's name."),
    "--command": ("command", "What the container runs, as one line."),
    "--url": ("url", "Where the checkpoints go: gs://BUCKET/FOLDER."),
    "--platform": ("platform", "Where it runs."),
    "--image": ("image", "An image that is there."),
    "--source": ("source", "The folder to build an image from; this one, without an image."),
    "--gpu": ("hardware.gpu", "The GPU of a task, such as nvidia-l4."),
    "--cpu": ("hardware.cpu", "The CPUs of a task."),
    "--memory": ("hardware.memory", "The memory of a task, such as 32Gi."),
    "--run-time": ("run_time", "How long the work takes without interruptions, such as 8h."),
    "--tasks": ("tasks", "How many tasks."),
    "--project": ("project", "The Google Cloud project."),
    "--region": ("region", "The region."),
}


@click.command()
@click.option("--example", is_flag=True, help="Write the example job instead, a program to start from.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any key of the description.")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(example: bool, settings: tuple[str, ...], folder: Path, **options: Any) -> None:
    """Describe the job in FOLDER (default: here) for `outlast deploy`: writes outlast.yaml, of options or of answers.

    With any option nothing is asked. With --example it writes a small training job that survives interruptions; it
    trains a network on the digits that scikit-learn ships. Nothing is ever overwritten.
    Exit codes: 0 written; 1 the file exists already; 2 wrong usage; 78 a setting that cannot work. Provisional.

    Example: outlast init --name train --command 'python train.py' --url gs://my-bucket/train --gpu nvidia-l4
    """
    given = _given(settings, options)
    if example:
        if given:
            raise click.UsageError("--example writes a program; it takes no setting of a description")
        _write_example(folder)
        return
    target = folder / DEFAULT_FILE
    if target.exists():
        _leave_as_it_is(target)
    if not given:
        given = _asked(folder)
    given = _completed(given, folder)
    _write(target, description_text(given, _CHECKS.get(_deploy_target(given))).encode())
    click.echo(f"wrote {target}. Next:\n")
    click.echo("  outlast doctor")
    click.echo(f"  outlast deploy {_deploy_target(given)}{'' if folder == Path() else f' {shlex.quote(str(target))}'}")


for _option, (_, _said) in _OPTIONS.items():
    init = click.option(_option, metavar="TEXT", help=_said)(init)


def _given(settings: tuple[str, ...], options: dict[str, Any]) -> dict[str, Argument]:
    said = {key: options[option.strip("-").replace("-", "_")] for option, (key, _) in _OPTIONS.items()}
    return settings_given(settings, said)


def _completed(given: dict[str, Argument], folder: Path) -> dict[str, Argument]:
    """The command as a list, as it will be run; a name and a platform where none was given."""
    names = {one.key: one.default for one in questions_for(folder)}
    complete = {"name": names["name"], "platform": platform_for(given), **given}
    command = complete.get("command")
    if isinstance(command, str) and command:
        try:
            complete["command"] = shlex.split(command)
        except ValueError as error:
            raise SettingsError(f"--command {command!r} is no command line: {error}") from error
    return complete


def _asked(folder: Path) -> dict[str, Argument]:
    if not interactive():
        raise click.UsageError(
            "nobody can answer here; give the settings as options, such as --name, --command and --url (see --help), "
            "or --example for a program to start from"
        )
    return {one.key: _answer(one) for one in questions_for(folder)}


def _answer(question: Question) -> str:
    while True:
        said = str(click.prompt(question.text, default=question.default, show_default=bool(question.default), err=True))
        try:
            check_answer(question, said)
        except SettingsError as error:
            click.echo(f"  {error}", err=True)
        else:
            return said


def _deploy_target(given: dict[str, Argument]) -> str:
    said = given.get("platform") or ""
    return "gke" if str(said).startswith(("gke-", "kube")) else "cloud-run"


def _write_example(folder: Path) -> None:
    target = folder / _STARTER
    _write(target, resources.files("outlast").joinpath("starter", _STARTER).read_bytes())
    click.echo(f"wrote {target}. Next:\n")
    click.echo("  pip install numpy scikit-learn")
    click.echo(f"  outlast rehearse --result digits-result.json -- python {target}")


def _write(target: Path, content: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)
    except PermissionError as error:
        click.echo(f"outlast: error: cannot write {target}: {error.strerror}; name another folder", err=True)
        sys.exit(1)
    except FileExistsError:
        _leave_as_it_is(target)


def _leave_as_it_is(target: Path) -> None:
    click.echo(
        f"outlast: error: {target} exists already and was left as it is; change or remove it, or name another folder",
        err=True,
    )
    sys.exit(1)
