"""Command lines of gcloud for one project, and the steps that every target on Google Cloud takes with them."""

from dataclasses import dataclass

from outlast.deploy.plan import Command, Made, Probe, Step

BUILDING_APIS = ("artifactregistry", "cloudbuild")
_ATTEMPTS = 8  # a new service account takes up to a minute or so to be known everywhere


@dataclass(frozen=True, slots=True)
class Gcloud:
    """Writes gcloud's command lines. `region` None: none of them is for a region."""

    project: str
    region: str | None = None

    def argv(self, *words: str, region: bool = False) -> tuple[str, ...]:
        place = ("--region", self.region) if region and self.region is not None else ()
        return ("gcloud", *words, *place, "--project", self.project, "--quiet")

    def command(self, *words: str, region: bool = False, attempts: int = 1, may_fail: bool = False) -> Command:
        return Command(self.argv(*words, region=region), attempts, may_fail)

    def probe(self, *words: str, region: bool = False, line: str | None = None) -> Probe:
        return Probe(self.argv(*words, region=region), line)


def apis(gcloud: Gcloud, *names: str) -> Step:
    """Switches on the services of these names, such as "run"."""
    hosts = [f"{name}.googleapis.com" for name in names]
    listing = ("services", "list", "--enabled", "--format", "value(config.name)")
    stays = "an enabled API costs nothing, and others may use it by now"
    return Step(
        name="apis",
        why="the services that the job and its deployment call",
        commands=(gcloud.command("services", "enable", *hosts),),
        makes=tuple(
            Made(kind="API", name=host, probe=gcloud.probe(*listing, line=host), why_kept=stays) for host in hosts
        ),
    )


def role(
    gcloud: Gcloud, step: str, group: tuple[str, ...], thing: tuple[str, ...], *, member: str, role: str, why: str
) -> Step:
    """A binding on one thing, or on the project where nothing smaller has that role.

    `member` is a service account, by its address or as one of a cluster ("PROJECT.svc.id.goog[NAMESPACE/NAME]").
    """
    held_by = f"serviceAccount:{member}"
    # No --filter: `storage buckets get-iam-policy` of 528 refuses it. A line each, "ROLE MEMBER".
    asked = ("--flatten", "bindings[].members", "--format", 'value[separator=" "](bindings.role,bindings.members)')
    binding = ("--member", held_by, "--role", role)
    # `projects` takes the project as its argument; gcloud refuses --condition=None where there are no conditions.
    none = ("--condition", "None") if group == ("projects",) else ()
    made = Made(
        kind="role",
        name=f"{role} on {thing[0]} for {member}",
        probe=gcloud.probe(*group, "get-iam-policy", *thing, *asked, line=f"{role} {held_by}"),
        undo=(gcloud.command(*group, "remove-iam-policy-binding", *thing, *binding, *none),),
    )
    add = gcloud.command(*group, "add-iam-policy-binding", *thing, *binding, *none, attempts=_ATTEMPTS)
    return Step(name=step, why=why, commands=(add,), makes=(made,))
