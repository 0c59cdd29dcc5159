"""JSON from outside: what a client sends, and what a task writes."""

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """A JSON document that can be written again.

    Raises ValueError for anything else, and so for NaN and numbers without end, for half a surrogate pair, and for
    what is nested so deeply that it could not be walked through.
    """
    try:
        found = json.loads(text)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found
