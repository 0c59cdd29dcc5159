"""Whether what a tool complains of is that a thing is not there, or that it could not look."""

import re
from collections.abc import Sequence

# What tools say of a thing that is not there: gcloud 528 (API errors, `storage`, `run`) and kubectl 1.32 (2026-11-30).
# A bare 404 may as well be the end of a project's name or number.
_ABSENT = re.compile(
    r"not[_ ]?found|does not exist|cannot find|could not find|matched no objects|\bHTTPError 404\b|\bcode[=:] ?404\b",
    re.IGNORECASE,
)
# What they say when they could not ask at all, though in words of the above: "executable gke-gcloud-auth-plugin not
# found", "gcloud crashed (FileNotFoundError)", "context was not found", "(or it may not exist)". No answer, then.
_NO_ANSWER = (
    "executable",
    "crashed",
    "failed to load",
    'context "',
    "context was",
    "credential",
    "the configuration [",
    "command not found",
    "permission",
    "forbidden",
    "denied",
    "unauthenticated",
    "unauthorized",
    "quota",
    "has not been used",
    "unable to connect",
    "connection",
)
_WHO_ASKED = re.compile(r"this command is (?:un)?authenticated[^\n]*")  # gcloud adds it to a plain NOT_FOUND, too


def says_absent(errors: str, argv: Sequence[str] = ()) -> bool:
    """Whether this is the word of a service that looked and has no such thing. Names in `argv` count for nothing."""
    said = _WHO_ASKED.sub("", errors.lower())
    for word in sorted({part for one in argv for part in re.split(r"[\s/=:@]", one)}, key=len, reverse=True):
        if len(word) > 2:  # a job may be called train-404, its project permission-desk
            said = re.sub(rf"(?<![\w-]){re.escape(word.lower())}(?![\w-])", "", said)
    return not any(word in said for word in _NO_ANSWER) and _ABSENT.search(said) is not None
