"""Scripts that start a training by themselves: what their traps make of a stop (K008)."""

from collections.abc import Iterator

from outlast.lint.commands.entry import ShellText, follow_text
from outlast.lint.commands.roles import TRAINING, role_of
from outlast.lint.commands.rules import ZERO_AT_TERM
from outlast.lint.rule import WARNING, Finding
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one script. Slurm's are judged by its own rules; whether this one is an entry is not known."""
    if "trap" not in source.text or "#SBATCH" in source.text:
        return
    entry = follow_text(ShellText(source.text), shell=None, in_file=True)
    if entry.zero_on_term is not None and entry.main and role_of(entry.main) == TRAINING:
        told = f"the trap ends with 0 at SIGTERM: an interrupted {entry.main_told} counts as done"
        yield ZERO_AT_TERM.at(entry.zero_on_term, told, severity=WARNING)
