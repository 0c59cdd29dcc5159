"""A user's function by MODULE:FUNCTION, from the current folder or from what is installed."""

import importlib
import sys
from pathlib import Path
from typing import Any

from outlast.errors import SettingsError

_MOST_NAMES = 20


def checked_spec(spec: str, *, option: str) -> tuple[str, str]:
    """(module, function) of MODULE:FUNCTION, where both are names; imports nothing. Raises SettingsError."""
    module, colon, name = spec.partition(":")
    if module.endswith(".py") or "/" in module:
        dotted = ".".join(Path(module).with_suffix("").parts).lstrip("./")
        raise SettingsError(f"{option}={spec!r} names a file; write its module: {dotted}:{name or 'FUNCTION'}")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise SettingsError(f"{option}={spec!r} is not MODULE:FUNCTION, as in label:infer for infer in label.py")
    return module, name


def load_function(spec: str, *, option: str) -> Any:
    """What the name stands for, if it can be called; raises SettingsError saying what is there instead.

    An error inside the module goes through as it is.
    """
    module_name, name = checked_spec(spec, option=option)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # one that the module itself imports
        raise SettingsError(
            f"{option}={spec!r}: there is no module {error.name!r}, neither in {folder} nor installed"
            f"{_listed('; modules here', _modules_in(Path(folder)))}"
        ) from error
    module = found
    for part in name.split("."):
        if not hasattr(found, part):
            raise SettingsError(
                f"{option}={spec!r}: {module_name} has no {name!r}{_listed('; it has', _functions_in(module))}"
            )
        found = getattr(found, part)
    if not callable(found):
        raise SettingsError(f"{option}={spec!r} is a {type(found).__name__}, and no function")
    return found


def _modules_in(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if path.stem.isidentifier())


def _functions_in(module: Any) -> list[str]:
    """Its own functions first of all: what it imports is seldom meant."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_") and callable(value)}
    own = [name for name, value in public.items() if getattr(value, "__module__", None) == module.__name__]
    return own or sorted(public)


def _listed(before: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{before}: {', '.join(names[:_MOST_NAMES])}{more}"
