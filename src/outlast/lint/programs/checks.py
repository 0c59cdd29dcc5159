"""Looks at one Python program: what neither trains, nor keeps checkpoints, nor takes from a queue is left alone."""

from collections.abc import Iterator

from outlast.lint.programs.keeping import check_keeping
from outlast.lint.programs.mounts import check_mounts
from outlast.lint.programs.program import read_program
from outlast.lint.programs.queues import check_queues
from outlast.lint.programs.resuming import check_resuming
from outlast.lint.programs.stopping import check_stopping
from outlast.lint.rule import Finding
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one program."""
    program = source.read(read_program)
    yield from check_mounts(program)
    if program.is_covered:
        return
    yield from check_queues(program)
    yield from check_keeping(program)
    yield from check_resuming(program)
    yield from check_stopping(program)
