"""Label selectors, as far as gcloud writes them: `a = b`, `a in (b,c)`, joined by commas."""

import re
from collections.abc import Callable, Mapping

from outlast.emulate.cloud_run.refusals import Refused

_TERM = re.compile(
    r"\s*(?P<name>[\w./-]+)\s*(?:(?P<equals>==?)\s*(?P<value>[\w.-]*)|in\s*\((?P<values>[^)]*)\))\s*(?:,|$)"
)


def parse_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether an object's labels match. Raises Refused for a selector of another kind."""
    wanted: list[tuple[str, set[str]]] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise Refused("INVALID_ARGUMENT", f"labelSelector: '{text}' is not understood.")
        values = match["values"].split(",") if match["values"] is not None else [match["value"]]
        wanted.append((match["name"], {value.strip() for value in values}))
        position = match.end()
    return lambda labels: all(labels.get(name) in values for name, values in wanted)
