"""Whether a function of the program can be called as a worker calls it, found out before anything is leased."""

import inspect
from collections.abc import Callable

from outlast.errors import SettingsError


def refuse_other_arguments(function: Callable[..., object], *given: str, setting: str, advice: str = "") -> None:
    """Raises SettingsError if a function cannot be called with so many arguments by position; `given` names them.

    One that does not tell its arguments (compiled code) passes. So does a decorated one whose wrapper takes any: what
    it adds nobody knows.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        parameters = ", ".join(signature.parameters)
        raise SettingsError(
            f"{setting} {name}({parameters}) cannot be called with {' and '.join(given) or 'nothing'}: {error}{advice}"
        ) from error
