"""Who the caller is for Google Cloud, whether the project is there, and who pays for it."""

from outlast.deploy.doctor.cases import Case, Findings, settings_of_gcloud
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, Programs, parsed, rows, text_at, value_at
from outlast.deploy.doctor.troubles import LOGIN, is_no_login, is_not_there, missing_program, trouble

_PLACEHOLDER = "PROJECT_ID"


def login(case: Case) -> Findings:
    """The login of gcloud."""
    return login_of(case.programs, needed="the deployment is made with it")


def login_of(programs: Programs, *, needed: str | None) -> Findings:
    """The login of gcloud; `needed` None: a machine may do without."""
    check = "login"
    if not programs.found("gcloud"):
        why = "gcloud is not installed, which only deployments to Google Cloud need"
        return [missing_program(check, "gcloud", needed) if needed else unknown(check, why)]
    settings = settings_of_gcloud(programs)
    if settings.answer is not None:
        return [trouble(check, settings.answer)]
    if settings.without_credentials:
        return [unknown(check, "gcloud has auth/disable_credentials set, as for an emulator: nobody is logged in")]
    found = parsed(programs.ask("gcloud", "auth", "list", "--format=json"), rows)
    if isinstance(found, Answer):
        return [trouble(check, found)]
    active = [text_at(one, "account") for one in found if text_at(one, "status") == "ACTIVE"]
    if not active:
        return [_nobody(needed, others=len(found))]
    acting = f", and acts as {settings.impersonated}" if settings.impersonated else ""
    return [ok(check, f"gcloud is logged in as {active[0]}{acting}")]


def _nobody(needed: str | None, *, others: int) -> Finding:
    if others:
        return bad("login", "gcloud has accounts, and none of them is chosen", "gcloud config set account ACCOUNT")
    if needed is None:
        return unknown("login", "gcloud is not logged in", LOGIN)
    return bad("login", "gcloud is not logged in", LOGIN)


def project(case: Case) -> Findings:
    """The project is named, is there, and is not being deleted."""
    check, name = "project", case.project
    settings = settings_of_gcloud(case.programs)
    if name is None and settings.answer is not None:
        return [trouble(check, settings.answer)]
    if name is None:
        set_it = command("gcloud", "config", "set", "project", _PLACEHOLDER)
        return [bad(check, "neither the description nor gcloud names a project", set_it)]
    said = case.object_of("gcloud", "projects", "describe", name)
    if isinstance(said, Answer):
        return [_no_project(check, name, said)]
    state = text_at(said, "lifecycleState")
    if state not in (None, "ACTIVE"):
        return [bad(check, f"project {name} is in state {state}", command("gcloud", "projects", "undelete", name))]
    return [ok(check, f"{name} is there")]


def _no_project(check: str, name: str, said: Answer) -> Finding:
    if is_no_login(said):
        return bad(check, "gcloud is not logged in, or its login has run out", LOGIN)
    if is_not_there(said) or "may not exist" in said.error:
        # gcloud tells of a project that is hidden in the words of one that is not there.
        set_it = command("gcloud", "config", "set", "project", _PLACEHOLDER)
        return bad(check, f"there is no project {name!r}, or it is hidden from you", set_it)
    return trouble(check, said, ask="resourcemanager.projects.get (roles/viewer)")


def billing(case: Case) -> Findings:
    """Somebody pays: without that no API can be switched on."""
    check, name = "billing", case.project
    if name is None:
        return [unknown(check, "no project is known")]
    said = case.object_of("gcloud", "billing", "projects", "describe", name)
    if isinstance(said, Answer):
        return [trouble(check, said, ask="resourcemanager.projects.get (roles/viewer)")]
    if value_at(said, "billingEnabled") is True:
        return [ok(check, f"paid by {text_at(said, 'billingAccountName') or 'an account'}")]
    link = command("gcloud", "billing", "projects", "link", name, "--billing-account", "ACCOUNT_ID")
    return [bad(check, f"nobody pays for {name} (accounts: gcloud billing accounts list)", link)]
