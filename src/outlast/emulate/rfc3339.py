"""Moments as the APIs of Google, Amazon and Kubernetes write them: RFC 3339, in UTC."""

import re
from datetime import UTC, datetime

_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def in_seconds(moment: datetime) -> str:
    """ "2026-11-30T12:00:00Z" (Kubernetes' `Time`); what is less than a second is cut off."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def in_microseconds(moment: datetime) -> str:
    """ "2026-11-30T12:00:00.500000Z" (Kubernetes' `MicroTime`)."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def parsed(text: str) -> datetime:
    """The moment that a text names, to the microsecond. Raises ValueError for one that names none."""
    if not _FORM.fullmatch(text):
        raise ValueError(f"{text!r} is no time as RFC 3339 writes it")
    return datetime.fromisoformat(text)
