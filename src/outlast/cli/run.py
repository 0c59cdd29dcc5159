"""`outlast run`: starts a command as a container's entry point, or as its supervisor on any machine."""

import sys

import click


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--url", metavar="URL", help="Where the job keeps its checkpoints (OUTLAST_URL).")
@click.option("--platform", metavar="P", help="Where this runs (OUTLAST_PLATFORM). Default: what is detected.")
@click.option("--retries", metavar="N", default="0", show_default=True, help="Start a failed command N more times.")
@click.option("--timeout", metavar="D", help="How long an attempt may take, say 30min. Default: no limit.")
@click.option("--grace", metavar="D", help="From SIGTERM to SIGKILL (OUTLAST_GRACE). Default: the platform's.")
@click.argument("command", metavar="-- CMD", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    *,
    command: tuple[str, ...],
    url: str | None,
    platform: str | None,
    retries: str,
    timeout: str | None,
    grace: str | None,
) -> None:
    """Run CMD and see it through: signals, grace, retries, exit codes. (Provisional.)

    Works as a container's first process (PID 1) and on any machine, for any command. SIGTERM is a notice: it is
    passed to CMD at once, and what is left of CMD shortly before the grace ends is killed. SIGINT, SIGHUP,
    SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH are passed on; where SIGUSR1 announces the end (Slurm), only once CMD has
    a handler for it, and no new attempt is started after it. When an attempt ends, whatever it started is killed.

    A failed attempt is started again up to N times: at once after an interruption, after 5 s when the storage was
    unreachable (75), and after 0, 1, 2, 4 ... 30 s when CMD fails by itself. Never after a signal that announces the
    end, after Ctrl-C, or when a human is needed (78). Its lines count attempts from 1; a job counts its own from 0.

    \b
    Example:
      outlast run --url /mnt/checkpoints --retries 3 -- python train.py

    \b
    Exit codes:
      CMD's last one   128+n if signal n killed it
      143              after a notice, whenever CMD left with anything but 0, 75
                       or 78; OUTLAST_EXIT_CODE sets another code
      75               storage unreachable, a retry may help (from CMD)
      78               a human is needed (from CMD), or a setting makes no sense
      126, 127         CMD cannot be executed, is not found
      2                CMD is missing, or an option is unknown
    """
    from outlast.supervise import run_command  # noqa: PLC0415 - help and usage errors need none of it

    sys.exit(run_command(command, url=url, platform=platform, retries=retries, timeout=timeout, grace=grace))
