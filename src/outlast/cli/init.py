"""`outlast init`: a job to start from."""

import sys
from importlib import resources
from pathlib import Path

import click

_STARTER = "digits.py"


@click.command()
@click.option("--example", is_flag=True, help="Write the example job. For now this is also what happens without it.")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(example: bool, folder: Path) -> None:  # noqa: ARG001  click passes it; it changes nothing until deploy files exist
    """Write a small training job that survives interruptions into FOLDER (default: here).

    The job trains a network on the digits that scikit-learn ships. Nothing is ever overwritten.
    Exit codes: 0 written; 1 the file exists already; 2 wrong usage. Provisional.
    """
    target = folder / _STARTER
    source = resources.files("outlast").joinpath("starter", _STARTER).read_bytes()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(source)
    except PermissionError as error:
        click.echo(f"outlast: error: cannot write {target}: {error.strerror}; name another folder", err=True)
        sys.exit(1)
    except FileExistsError:
        click.echo(f"outlast: error: {target} exists already and was left as it is; name another folder", err=True)
        sys.exit(1)
    click.echo(f"wrote {target}. Next:\n")
    click.echo("  pip install numpy scikit-learn")
    click.echo(f"  outlast rehearse --result digits-result.json -- python {target}")
