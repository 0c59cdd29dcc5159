"""`outlast lint`: what will not survive, found before it is deployed."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from outlast import __version__
from outlast.errors import SettingsError
from outlast.lint.linting import lint as lint_paths
from outlast.lint.sdk_flags import with_installed_sdk
from outlast.lint.settings import find_settings
from outlast.lint.telling import as_json, as_lines, as_sarif, not_read


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="Text for people; JSON or SARIF for machines.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead of stdout.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out what matches, as in .gitignore.")
@click.option("--sdk/--no-sdk", default=True, show_default=True, help="Ask the installed gcloud which flags it has.")
def lint(paths: tuple[Path, ...], form: str, output: Path | None, exclude: tuple[str, ...], sdk: bool) -> None:
    """Look for what will not survive in manifests, scripts, Dockerfiles, Terraform and Python at PATHS (default: here).

    A folder means all files below it that are of a kind it reads. `outlast explain RULE` tells more of a finding.
    Exit codes: 0 no error found; 1 findings of severity error; 2 something named could not be read. Provisional.
    """
    settings = find_settings(Path.cwd())
    settings = replace(settings, exclude=(*settings.exclude, *exclude))
    if sdk:
        settings = replace(settings, known=with_installed_sdk(settings.known))
    linted = lint_paths(paths or (Path(),), settings)
    if form == "text":
        told = "\n".join(as_lines(linted))
    else:
        told = as_json(linted) if form == "json" else as_sarif(linted, version=__version__)
        for one in (*linted.skipped, *linted.unreadable):
            click.echo(f"outlast: {not_read(one)}", err=True)
    if output is None:
        click.echo(told)
    else:
        _write(output, told + "\n")
    sys.exit(linted.exit_code)


def _write(output: Path, told: str) -> None:
    try:
        output.write_text(told)
    except OSError as error:
        raise SettingsError(f"--output {output}: it cannot be written: {error.strerror or error}") from error
