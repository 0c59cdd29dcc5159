"""What the caller may do in the project, by the roles of its policy, and which APIs are on.

gcloud has no command for testIamPermissions of a project (528, 2026-11-30), so the policies of the project and of the
folders above it are read. A right that comes by a group, a condition or a role of somebody's own cannot be seen there:
then the answer is unknown, and never bad.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from outlast.deploy.doctor.cases import Case, Findings, settings_of_gcloud
from outlast.deploy.doctor.findings import Finding, bad, command, commands, listed, ok, unknown
from outlast.deploy.doctor.programs import Answer, parsed, rows, rows_at, text_at, value_at
from outlast.deploy.doctor.troubles import trouble

OWNER = "roles/owner"
_EVERYBODY = ("allUsers", "allAuthenticatedUsers")


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a deployment does, and the roles of which each allows it, the narrowest first."""

    what: str
    roles: tuple[str, ...]


EDITOR = "roles/editor"
RUN = Need("make and execute Cloud Run jobs", ("roles/run.developer", "roles/run.admin", EDITOR))
ACT_AS = Need("let a job run as a service account", ("roles/iam.serviceAccountUser", EDITOR))
ACCOUNTS = Need("make service accounts", ("roles/iam.serviceAccountAdmin", "roles/iam.serviceAccountCreator", EDITOR))
BUCKETS = Need("make buckets and give rights to them", ("roles/storage.admin",))
IMAGES = Need("make a repository for images", ("roles/artifactregistry.admin", EDITOR))
BUILDS = Need("build images", ("roles/cloudbuild.builds.editor", EDITOR))
POOLS = Need("make node pools", ("roles/container.clusterAdmin", "roles/container.admin"))
CLUSTERS = Need("reach the cluster", ("roles/container.developer", "roles/container.admin", EDITOR))
GRANTS = Need("give roles to the accounts that it makes", ("roles/resourcemanager.projectIamAdmin",))
# What a plan makes, and what that takes. A role on a bucket needs no more than the bucket does.
NEED_OF = {
    "job": RUN, "bucket": BUCKETS, "service account": ACCOUNTS, "repository": IMAGES, "image": BUILDS,
    "node pool": POOLS, "Job": CLUSTERS, "JobSet": CLUSTERS, "Deployment": CLUSTERS, "role on projects": GRANTS,
}  # fmt: skip


def roles(case: Case, needs: Sequence[Need]) -> Findings:
    """Whether the caller has a role for each need."""
    check, name = "roles", case.project
    settings = settings_of_gcloud(case.programs)
    who = settings.impersonated or settings.account
    if name is None or who is None:
        return [unknown(check, "no project or no account is known")]
    policy = _policy(case, name)
    if isinstance(policy, Answer):
        return [trouble(check, policy, ask="resourcemanager.projects.getIamPolicy (roles/iam.securityReviewer)")]
    held = _held(policy.bindings, who)
    missing = [need for need in needs if OWNER not in held.certain and not held.certain & set(need.roles)]
    if not missing:
        return [ok(check, f"{who} may {listed([need.what for need in needs])}")]
    return [_missing(who, name, missing, hidden=[*held.hidden, *policy.hidden])]


def _missing(who: str, project: str, missing: Sequence[Need], *, hidden: Sequence[str]) -> Finding:
    member = f"serviceAccount:{who}" if who.endswith(".gserviceaccount.com") else f"user:{who}"
    grant = commands(
        command(
            "gcloud", "projects", "add-iam-policy-binding", project, f"--member={member}", f"--role={need.roles[0]}"
        )
        for need in missing
    )
    what = f"{who} has no role in {project} to {listed([need.what for need in missing])}"
    if hidden:
        why = f"{what} that can be seen; it may come by {listed(sorted(set(hidden)))}"
        return unknown("roles", why, grant)
    return bad("roles", what, grant)


@dataclass(frozen=True, slots=True)
class _Policy:
    bindings: Sequence[Mapping[str, object]]
    hidden: tuple[str, ...] = ()


def _policy(case: Case, name: str) -> _Policy | Answer:
    """With the policies of the folders above, where the caller may read them."""
    all_of_them = case.programs.ask("gcloud", "projects", "get-ancestors-iam-policy", name, "--format=json")
    found = parsed(all_of_them, rows)
    if not isinstance(found, Answer):
        return _Policy([one for level in found for one in rows_at(level, "policy", "bindings")])
    own = case.object_of("gcloud", "projects", "get-iam-policy", name)
    if isinstance(own, Answer):
        return own
    return _Policy(rows_at(own, "bindings"), ("a folder or organisation above",))


@dataclass(frozen=True, slots=True)
class _Held:
    certain: frozenset[str]
    hidden: tuple[str, ...]


def _held(bindings: Sequence[Mapping[str, object]], who: str) -> _Held:
    """The roles that the caller surely has, and the ways by which it may have more."""
    certain, hidden = set[str](), set[str]()
    for role, member, conditional in _grants(bindings):
        kind, _, whom = member.partition(":")
        his = whom.lower() == who.lower() or member in _EVERYBODY
        if his and not conditional and not _of_their_own(role):
            certain.add(role)
        elif his:
            hidden.add("a condition" if conditional else f"the role {role}")
        elif kind in ("group", "domain", "principalSet", "projectOwner", "projectEditor"):
            hidden.add(f"{kind} {whom}")
    return _Held(frozenset(certain), tuple(hidden))


def _grants(bindings: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, str, bool]]:
    for one in bindings:
        role, members = text_at(one, "role"), value_at(one, "members")
        if role is None or not isinstance(members, list):
            continue
        for member in members:
            yield role, str(member), value_at(one, "condition") is not None


def _of_their_own(role: str) -> bool:
    """A role that somebody has put together: what is in it is not in its name."""
    return not role.startswith("roles/")


def apis(case: Case, needed: Sequence[str]) -> Findings:
    """The APIs that the deployment calls are on."""
    check, name = "apis", case.project
    if name is None:
        return [unknown(check, "no project is known")]
    found = parsed(case.gcloud("services", "list", "--enabled"), rows)
    if isinstance(found, Answer):
        return [trouble(check, found, ask="serviceusage.services.list (roles/serviceusage.serviceUsageViewer)")]
    on = {text_at(one, "config", "name") for one in found}
    off = [api for api in needed if api not in on]
    if not off:
        return [ok(check, f"on: {', '.join(needed)}")]
    enable = command("gcloud", "services", "enable", *off, "--project", name)
    return [bad(check, f"off: {', '.join(off)}", enable)]
