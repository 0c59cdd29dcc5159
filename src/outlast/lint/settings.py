"""The project's own say about lint: `[tool.outlast.lint]` in pyproject.toml, or the command's flags before it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from outlast.clock import parse_duration
from outlast.errors import SettingsError
from outlast.lint.catalogue import load_rule
from outlast.lint.known import Known


@dataclass(frozen=True, slots=True)
class LintSettings:
    """`ignore`: rules that are off in this project, each with its reason. `exclude`: patterns as in .gitignore."""

    known: Known = field(default_factory=Known)
    ignore: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


def find_settings(folder: Path) -> LintSettings:
    """The settings of the nearest pyproject.toml at or above a folder that has some; raises SettingsError."""
    for where in (folder.absolute(), *folder.absolute().parents):
        file = where / "pyproject.toml"
        table = _table_of(file) if file.is_file() else None
        if table is not None:
            return settings_from(table, f"{file}: [tool.outlast.lint]")
    return LintSettings()


def _table_of(file: Path) -> Mapping[str, object] | None:
    try:
        found: object = tomllib.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from error
    for name in ("tool", "outlast", "lint"):
        found = found.get(name) if isinstance(found, dict) else None
    if found is not None and not isinstance(found, dict):
        raise SettingsError(f"{file}: tool.outlast.lint has to be a table")
    return found


def settings_from(table: Mapping[str, object], where: str) -> LintSettings:
    """Checks a table, key by key; `where` is told with each error."""
    made = LintSettings()
    for key, value in table.items():
        reader = _READERS.get(key)
        if reader is None:
            near = get_close_matches(key, _READERS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(_READERS)}"
            raise SettingsError(f"{where} has no setting {key!r}; {advice}")
        made = reader(made, value, f"{where} {key}")
    return made


def _ignore(made: LintSettings, value: object, where: str) -> LintSettings:
    if not isinstance(value, dict) or not all(isinstance(one, str) and one.strip() for one in value.values()):
        raise SettingsError(f'{where} has to be a table of rules and reasons: {{ CR008 = "a second run is paid for" }}')
    return replace(made, ignore={load_rule(str(name)).id: str(why) for name, why in value.items()})


def _exclude(made: LintSettings, value: object, where: str) -> LintSettings:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SettingsError(f'{where} has to be a list of patterns as in .gitignore: ["charts/*/templates/"]')
    return replace(made, exclude=tuple(value))


def _save(made: LintSettings, value: object, where: str) -> LintSettings:
    return replace(made, known=replace(made.known, save_seconds=_seconds(value, where)))


def _work(made: LintSettings, value: object, where: str) -> LintSettings:
    return replace(made, known=replace(made.known, work_seconds=_seconds(value, where)))


def _seconds(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SettingsError(f'{where} has to be a duration, such as "8s" or "3h", not {value!r}')
    return parse_duration(value, setting=where) if isinstance(value, str) else float(value)


def _state(made: LintSettings, value: object, where: str) -> LintSettings:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise SettingsError(f"{where} has to be a number of bytes, not {value!r}")
    return replace(made, known=replace(made.known, state_bytes=value))


def _exposure(made: LintSettings, value: object, where: str) -> LintSettings:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise SettingsError(f"{where} has to be a number of GPU hours, not {value!r}")
    return replace(made, known=replace(made.known, exposure_hours=float(value)))


def _buckets(made: LintSettings, value: object, where: str) -> LintSettings:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise SettingsError(f'{where} has to be a table of buckets and regions: {{ example-bucket = "europe-west4" }}')
    pairs = tuple((str(name), str(region)) for name, region in value.items())
    return replace(made, known=replace(made.known, bucket_regions=pairs))


_READERS = {
    "ignore": _ignore,
    "exclude": _exclude,
    "save-time": _save,
    "work-time": _work,
    "state-bytes": _state,
    "exposure-hours": _exposure,
    "bucket-regions": _buckets,
}
