"""What a program's failure means: a finding that says so, with what would help."""

import re

from outlast.deploy.absence import says_absent
from outlast.deploy.doctor.findings import Finding, bad, command, unknown
from outlast.deploy.doctor.programs import Answer

INSTALL = {
    "gcloud": "sudo snap install google-cloud-cli --classic",
    "kubectl": "sudo snap install kubectl --classic",
    "docker": "sudo apt-get install docker.io",
}
LOGIN = command("gcloud", "auth", "login")

# Words of gcloud 528 and kubectl 1.32 (2026-11-30). They are looked for in what the program wrote, nowhere else.
_NOT_LOGGED_IN = re.compile(
    r"do not currently have an active account|gcloud auth (application-default )?login|Reauthentication|"
    r"invalid_grant|UNAUTHENTICATED|must be logged in|provide credentials",
    re.IGNORECASE,
)
_API_OFF = re.compile(
    r"SERVICE_DISABLED|has not been used in project|API \[?[\w.]*\]? ?not enabled|it is disabled", re.I
)
_NOT_ALLOWED = re.compile(
    r"PERMISSION_DENIED|does not have permission|does not have \S+ access|\bForbidden\b|HTTPError 403|\b403\b", re.I
)
_NO_NETWORK = re.compile(
    r"Connection refused|connection to the server|no such host|Name or service not known|Network is unreachable|"
    r"i/o timeout|Failed to establish|There was a problem refreshing|Unable to connect",
    re.IGNORECASE,
)
_NAMED_API = re.compile(r"\b([a-z]+\.googleapis\.com)\b")


def is_not_there(answer: Answer) -> bool:
    """Whether the program said that what was asked for does not exist (it may also be hidden from the caller)."""
    return answer.failure == "failed" and not is_no_login(answer) and says_absent(answer.error)


def is_no_login(answer: Answer) -> bool:
    """Whether the program wants a login first."""
    return answer.failure == "failed" and bool(_NOT_LOGGED_IN.search(answer.error))


def is_not_allowed(answer: Answer) -> bool:
    """Whether the caller may not ask."""
    return answer.failure == "failed" and bool(_NOT_ALLOWED.search(answer.error))


def trouble(check: str, answer: Answer, *, ask: str | None = None) -> Finding:
    """The finding of a check whose program gave no answer. `ask`: a right or role whose holder could tell."""
    why, mend = _why(answer, ask)
    return unknown(check, why, mend)


def _why(answer: Answer, ask: str | None) -> tuple[str, str | None]:
    """(what the failure means, what would help)."""
    program, again = answer.program, command(*answer.argv)
    if answer.failure == "missing":
        return f"{program} is not installed", INSTALL.get(program)
    if answer.failure == "hung":
        return f"{program} did not answer in time and was ended; run it and see where it waits", again
    if answer.failure == "malformed":
        return f"{program}: {answer.error}", again
    return _refused(answer, again, ask)


def _refused(answer: Answer, again: str, ask: str | None) -> tuple[str, str | None]:
    if is_no_login(answer):
        return f"{answer.program} is not logged in", LOGIN
    if _API_OFF.search(answer.error):
        named = _NAMED_API.search(answer.error)
        enable = command("gcloud", "services", "enable", named[1]) if named else None
        return f"the API that would tell is off: {answer.last_line}", enable
    if is_not_allowed(answer):
        wanted = f"; whoever has {ask} can tell" if ask else ""
        return f"you may not look: {answer.last_line}{wanted}", again
    if _NO_NETWORK.search(answer.error):
        return f"{answer.program} reaches no server: {answer.last_line}", again
    return f"{answer.program}: {answer.last_line}", again


def missing_program(check: str, program: str, why: str) -> Finding:
    """A program that a deployment needs is not here."""
    return bad(check, f"{program} is not installed; {why}", INSTALL[program])
