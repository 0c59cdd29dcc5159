"""The steps of a restore: each puts back one value and gives it."""

from collections.abc import Callable, Sequence
from typing import Any

from outlast.errors import StateMismatch
from outlast.ports import Unsupported

Make = Callable[[], Any]


def faithful(path: str, make: Make) -> Make:
    """The same step, which says where the framework cannot do it."""

    def made() -> Any:
        try:
            return make()
        except Unsupported as error:
            raise StateMismatch(f"{path} cannot be restored: {error}") from error

    return made


def all_done(steps: Sequence[Make], value: Any) -> Any:
    """Does the steps for the value that they put back parts of."""
    for step in steps:
        step()
    return value


def refill_list(template: Any, values: list[Any]) -> list[Any]:
    """The standing list with these values, or a new one where another thing stands."""
    target: list[Any] = template if type(template) is list else []
    target[:] = values
    return target
