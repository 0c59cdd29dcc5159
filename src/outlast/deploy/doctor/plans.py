"""What `outlast deploy` would do with a description: whether it takes it, and which APIs and things that needs.

The same plan that `deploy` carries out is asked, so the two cannot disagree.
"""

from collections.abc import Callable
from pathlib import Path

from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description_file import Described
from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import bad, command, ok, unknown
from outlast.deploy.gke.target import GkeTarget
from outlast.deploy.plan import Made, Plan
from outlast.errors import OutlastError

CHECK = "description"
_FILES = Path("outlast-deploy")  # nothing is written there
Planning = Callable[[Case], Plan]


def cloud_run(case: Case) -> Plan:
    """The plan of `outlast deploy cloud-run`; raises BadSetting for what cannot be deployed."""
    return plan_for(_described(case), _FILES)


def gke(case: Case) -> Plan:
    """The plan of `outlast deploy gke`; raises BadSetting for what cannot be deployed."""
    return GkeTarget(_described(case), files=_FILES).plan()


def _described(case: Case) -> Described:
    return Described(case.with_project, case.folder, None)


def accepted(case: Case, planning: Planning) -> Findings:
    """`deploy` takes the description."""
    try:
        plan = planning(case)
    except OutlastError as error:
        return [bad(CHECK, str(error), command("outlast", "deploy", "--help"))]
    if plan.warnings:
        return [unknown(CHECK, f"`outlast deploy {plan.target}` takes it, and says: {'; '.join(plan.warnings)}")]
    return [ok(CHECK, f"`outlast deploy {plan.target}` takes it, in {len(plan.steps)} steps")]


def apis_of(case: Case, planning: Planning) -> list[str]:
    """The APIs that the plan switches on; none where there is no plan."""
    return [name for kind, name in _made(case, planning) if kind == "API"]


def kinds_of(case: Case, planning: Planning) -> set[str]:
    """What the plan makes, in its own words: "bucket", "service account", "role", "node pool"."""
    return {kind for kind, _ in _made(case, planning)}


def _made(case: Case, planning: Planning) -> list[tuple[str, str]]:
    try:
        found = [made for step in planning(case).steps for made in step.makes]
    except OutlastError:
        return []  # `accepted` says why
    wide = [(f"{made.kind} on projects", made.name) for made in found if _of_the_project(made)]
    return [*((made.kind, made.name) for made in found), *wide]


def _of_the_project(made: Made) -> bool:
    """Whether it is a role on the whole project, which takes more to give than one on a bucket."""
    return any(undo.argv[:2] == ("gcloud", "projects") for undo in made.undo)
