"""What can be looked at without a description: this machine's programs, logins, platform and store."""

from collections.abc import Callable, Mapping

from outlast.clock import format_duration
from outlast.containers.container import can_isolate
from outlast.deploy.doctor import account, buckets
from outlast.deploy.doctor.cases import Findings
from outlast.deploy.doctor.examining import LONGEST_SECONDS, side_by_side
from outlast.deploy.doctor.findings import Finding, bad, ok, unknown
from outlast.deploy.doctor.programs import Programs
from outlast.deploy.doctor.troubles import INSTALL
from outlast.errors import SettingsError
from outlast.settings import look_around

_DEFAULT_STORE = "outlast-checkpoints"


def examine_machine(
    programs: Programs, env: Mapping[str, str], *, longest_seconds: float = LONGEST_SECONDS
) -> list[Finding]:
    """Everything that is to be said of this machine."""
    work: list[tuple[str, Callable[[], Findings]]] = [
        ("platform", lambda: _platform(env)),
        ("login", lambda: account.login_of(programs, needed=None)),
        ("kubectl", lambda: _kubectl(programs)),
        ("rehearsal", _rehearsal),
        (buckets.WRITE, lambda: _store(env)),
    ]
    return side_by_side(work, longest_seconds)


def _platform(env: Mapping[str, str]) -> Findings:
    """The variables make sense, and what grace there is."""
    try:
        here = look_around(env)
    except SettingsError as error:
        name = next((word.partition("=")[0] for word in str(error).split() if word.startswith("OUTLAST_")), None)
        return [bad("platform", str(error), f"unset {name}" if name else "outlast platform")]
    usable = format_duration(here.usable_seconds)
    words = f"this is {here.facts.name}: {format_duration(here.grace_seconds)} of grace, {usable} for a final save"
    return [unknown("platform", here.cut_grace)] if here.cut_grace else [ok("platform", words)]


def _kubectl(programs: Programs) -> Findings:
    if not programs.found("kubectl"):
        return [unknown("kubectl", "kubectl is not installed, which only clusters need", INSTALL["kubectl"])]
    said = programs.ask("kubectl", "config", "current-context")
    if said.failure is None:
        return [ok("kubectl", f"its context is {said.out.strip()}")]
    return [unknown("kubectl", f"it knows no cluster: {said.last_line}", "kubectl config get-contexts")]


def _rehearsal() -> Findings:
    """Whether `outlast rehearse` and the emulators can start containers here."""
    if can_isolate():
        return [ok("rehearsal", "processes can be put into PID namespaces, as `outlast rehearse` does")]
    allow = "sudo sysctl kernel.unprivileged_userns_clone=1"
    return [unknown("rehearsal", "no PID namespaces here: a rehearsal kills less surely than a platform", allow)]


def _store(env: Mapping[str, str]) -> Findings:
    """The store of OUTLAST_URL; without it, the default folder, if it is there."""
    url = env.get("OUTLAST_URL", "").strip()
    return [buckets.try_store(url or _DEFAULT_STORE, make_folder=False)]
