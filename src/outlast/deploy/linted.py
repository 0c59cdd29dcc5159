"""What `outlast lint` says of what is deployed: of a patched manifest, and of the program in the source."""

from collections.abc import Callable
from pathlib import Path

from outlast.deploy.description_file import Described
from outlast.errors import SettingsError
from outlast.lint.files import NotRead, read_source
from outlast.lint.linting import lint_source
from outlast.lint.rule import ERROR, INFO, Finding
from outlast.lint.settings import LintSettings, find_settings
from outlast.lint.source import Kind, Source

_Read = Callable[[LintSettings], Source | NotRead | None]


def left_over(text: str, file: str) -> tuple[list[str], list[str]]:
    """The errors and the warnings that a patched manifest still has, each with its line there and what to do."""
    found = _findings(lambda settings: Source(Path(file), text, Kind.YAML, settings.known))
    told = [(one.severity is ERROR, f"line {one.line}: {_told(one)}; fix: {one.fix}") for one in found]
    return [said for error, said in told if error], [said for error, said in told if not error]


def of_program(described: Described) -> list[str]:
    """What will not survive in the program that the command starts, where its file is in the source."""
    file = _program(described)
    if file is None:
        return []
    found = _findings(lambda settings: read_source(file, named=True, known=settings.known))
    return [f"{file}:{one.line}: {_told(one)}" for one in found]


def _findings(read: _Read) -> list[Finding]:
    """Errors and warnings; none of a text that cannot be read, or where the project's settings make no sense."""
    try:
        settings = find_settings(Path.cwd())
    except SettingsError:
        settings = LintSettings()
    source = read(settings)
    if not isinstance(source, Source):
        return []
    found = lint_source(source, settings)
    return [] if isinstance(found, NotRead) else [one for one in found if one.severity is not INFO]


def _told(finding: Finding) -> str:
    return f"{finding.severity} {finding.rule.id}: {' '.join(finding.message.split())}"


def _program(described: Described) -> Path | None:
    """The first word of the command that is a Python file of the source."""
    description = described.description
    if description.source is None:
        return None
    source = described.folder / description.source
    for word in description.command:
        if word.endswith(".py") and not word.startswith("/") and (source / word).is_file():
            return source / word
    return None
