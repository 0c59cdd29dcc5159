"""The Python program that an image starts, where it stands beside the Dockerfile: does it listen for SIGTERM?"""

from collections.abc import Sequence

from outlast.lint.command_line import Word
from outlast.lint.containerfiles.scripts import Scripts
from outlast.lint.programs.program import read_program
from outlast.lint.source import Unreadable

# They set a handler of their own.
_LISTENING = {"lightning", "pytorch_lightning", "composer", "uvicorn", "celery", "dramatiq", "rq", "ray", "submitit"}


def is_deaf(main: Sequence[Word], scripts: Scripts) -> bool:
    """Whether it is long work, as far as its own file tells, and nothing in it has to do with SIGTERM."""
    name = (main[0].text or "").rsplit("/", 1)[-1]
    if not name.startswith("python"):
        return False
    path = next((word.text for word in main[1:] if word.text is not None and word.text.endswith(".py")), None)
    text = scripts.find(path) if path is not None else None
    if text is None:
        return False
    try:
        program = read_program(text)
    except Unreadable:
        return False
    if program.flow.registers_term or program.is_covered or program.module.packages & _LISTENING:
        return False
    return program.keeps_checkpoints
