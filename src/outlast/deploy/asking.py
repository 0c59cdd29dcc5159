"""From a plan to what the user asked for: printed, written, run, or removed; whatever spends or deletes asks first."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from outlast.deploy.apply import Applying, refuse_another_text, write_file
from outlast.deploy.plan import Plan, WrittenFile, shell_script, teardown_script
from outlast.deploy.record import FOLDER, opened, record_path
from outlast.deploy.teardown import Removal, tear_down, what_to_remove
from outlast.deploy.tools import Tools
from outlast.errors import DeploymentStopped, SettingsError
from outlast.installed_sdk import InstalledSdk

DEPLOY_FILE, TEARDOWN_FILE = "deploy.sh", "teardown.sh"


@dataclass(frozen=True, slots=True)
class Desk:
    """How it is talked to: `say` prints a line, `ask` puts a question and is None where nobody could answer it."""

    say: Callable[[str], None]
    ask: Callable[[str], bool] | None
    yes: bool = False

    def agreed(self, question: str, what: str) -> bool:
        """Whether to go on. Raises SettingsError where nobody can be asked and --yes was not given."""
        if self.yes:
            return True
        if self.ask is None:
            raise SettingsError(f"{what} asks first, and nobody can answer here; give --yes, or run it in a terminal")
        return self.ask(question)


def files_folder(folder: Path, target: str, name: str, out: Path | None) -> Path:
    """Where the plan's files go: --out, or a folder of ours beside the record."""
    return out if out is not None else folder / FOLDER / f"{target}-{name}"


def write_plan(plan: Plan, out: Path) -> list[Path]:
    """Writes all files and both scripts. Raises SettingsError, before any is written, if one is there and differs."""
    scripts = (
        WrittenFile(path=Path(DEPLOY_FILE), text=shell_script(plan), executable=True),
        WrittenFile(path=Path(TEARDOWN_FILE), text=teardown_script(plan), executable=True),
    )
    every = (*plan.files, *scripts)
    for file in every:
        if not file.over:
            refuse_another_text(file, out)
    return [write_file(file, out, over=file.over) for file in every]


def apply_plan(plan: Plan, tools: Tools, desk: Desk, *, folder: Path, files: Path, sdk: InstalledSdk) -> bool:
    """Runs the plan after it was agreed to; False if it was not. Raises DeploymentStopped as `Applying.run` does."""
    _refuse_what_the_sdk_lacks(plan, sdk)
    for line in plan.said_first:
        desk.say(line)
    desk.say("steps: " + ", ".join(step.name for step in plan.steps))
    spends = any(step.spends for step in plan.steps)
    question = "Deploy and start it? It is billed from then on." if spends else "Deploy it?"
    if not desk.agreed(question, "--apply"):
        return False
    try:
        files.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the folder {files} cannot be made: {error.strerror}") from error
    with opened(folder, plan.target, plan.name) as record:
        Applying(plan, record, tools, files, desk.say).run()
    for line in plan.after:
        desk.say(f"next: {line}")
    return True


def remove_all(
    target: str, name: str, tools: Tools, desk: Desk, *, folder: Path, keep: Collection[str] = ()
) -> Removal | None:
    """Removes what deployments of the job made, after it was agreed to; None if it was not.

    Raises DeploymentStopped if something could not be removed, after everything else has been.
    """
    if not record_path(folder, target, name).exists():
        raise SettingsError(
            f"there is no record of a deployment of {name} to {target} in {folder / FOLDER}: nothing is known to have "
            "been made from here"
        )
    with opened(folder, target, name) as record:
        doomed = what_to_remove(record, keep=keep)
        if not doomed:
            desk.say(f"nothing that deployments of {name} made is left")
            return Removal((), (), ())
        desk.say("will be removed, in this order:")
        for one in doomed:
            holds = f", with {one.made.holds}" if one.made.holds else ""
            desk.say(f"  {one.made.kind} {one.made.name}{holds}")
        if not desk.agreed("Remove all of this? It cannot be undone.", "--teardown"):
            return None
        removal = tear_down(record, tools, desk.say, keep=keep)
        why = {one.made.kind: one.made.why_kept for one in record.owned() if one.made.why_kept}
    for kind, reason in why.items():
        desk.say(f"what was made of the kind {kind} stays: {reason}")
    if removal.failed:
        raise DeploymentStopped(
            f"{len(removal.failed)} could not be removed: {', '.join(removal.failed)}; they are still in the record. "
            "Mend the cause and run the teardown again"
        )
    return removal


def _refuse_what_the_sdk_lacks(plan: Plan, sdk: InstalledSdk) -> None:
    """Before anything is made: a flag that is not there would stop the deployment in its middle."""
    commands = [argv for step in plan.steps for argv in step.every_argv()]
    if any(argv[0] == sdk.program for argv in commands) and sdk.path is None:
        raise SettingsError(f"there is no {sdk.program} on this machine; install it, or write the plan with --out")
    found = [problem for argv in commands if argv[0] == sdk.program for problem in sdk.problems(argv)]
    if found:
        raise SettingsError(f"{'; '.join(dict.fromkeys(found))}: update it, `{sdk.program} components update`")


def interactive() -> bool:
    """Whether somebody sits there to answer."""
    return sys.stdin.isatty()
