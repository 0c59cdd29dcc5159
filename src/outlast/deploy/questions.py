"""What `outlast init` asks for, and the description that it writes of the answers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from outlast.deploy.description import Description
from outlast.deploy.description_file import Argument, description_from
from outlast.errors import SettingsError

_HEAD = "# What `outlast deploy` needs to know of this job. Every key: docs/howto/deploy-cloud-run.md\n"
_LEAST: dict[str, Argument] = {"name": "job", "command": ["job"], "image": "image", "url": "gs://bucket/job"}
_PROGRAMS = ("train.py", "main.py", "app.py", "run.py")


@dataclass(frozen=True, slots=True)
class Question:
    """One setting to ask for. `default` is what Enter means; "" leaves the setting out, unless it is needed."""

    key: str
    text: str
    default: str = ""
    needed: bool = False


def questions_for(folder: Path) -> tuple[Question, ...]:
    """What to ask for a job in this folder, with what can be guessed."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:63]
    program = next((one for one in _PROGRAMS if (folder / one).exists()), "train.py")
    return (
        Question("name", "Name of the job", name if name[:1].isalpha() else f"job-{name}".rstrip("-")),
        Question("command", "Command that the container runs", f"python {program}"),
        Question("url", "Where the checkpoints go (gs://BUCKET/FOLDER)", needed=True),
        Question("platform", "Platform (cloud-run, gke-spot, gke-gpu, gke-tpu, kubernetes)", "cloud-run"),
        Question("hardware.gpu", "GPU of a task, such as nvidia-l4 (Enter: none)"),
        Question("run_time", "How long the work takes without interruptions, such as 8h (Enter: not known)"),
        Question("tasks", "How many tasks", "1"),
        Question("project", "Google Cloud project (Enter: given later, with --project)"),
        Question("region", "Region (Enter: given later, with --region)"),
    )


def check_answer(question: Question, answer: str) -> None:
    """Raises SettingsError for an answer that cannot be, while the others need not be given again."""
    if answer:
        description_from({**_LEAST, question.key: answer})
    elif question.needed:
        raise SettingsError("this is needed")


def platform_for(given: Mapping[str, Argument]) -> str:
    """Where a job is meant to run, as far as its other settings tell."""
    if given.get("hardware.tpu"):
        return "gke-tpu"
    if given.get("hardware.spot"):
        return "gke-spot"
    if given.get("hardware.flex_start") or any(key.startswith("kubernetes.") for key in given):
        return "gke-gpu" if given.get("hardware.gpu") else "kubernetes"
    return "cloud-run"


def description_text(answers: Mapping[str, Argument], check: Callable[[Description], None] | None = None) -> str:
    """The file. Raises SettingsError for answers that do not go together, or that `check` does not take."""
    given = {key: answer for key, answer in answers.items() if answer}
    given.setdefault("source", "" if "image" in given else ".")
    described = description_from(given)
    if check is not None:
        check(described)
    tree: dict[str, object] = {}
    for key, answer in given.items():
        if not answer:
            continue
        section, _, name = key.rpartition(".")
        place = tree.setdefault(section, {}) if section else tree
        assert isinstance(place, dict)
        place[name] = _value(answer)
    return _HEAD + yaml.safe_dump(tree, sort_keys=False, default_flow_style=False, allow_unicode=True, width=110)


def _value(answer: Argument) -> object:
    """As one would write it: numbers, true and false without quotes."""
    if not isinstance(answer, str):
        return list(answer)
    if answer in ("true", "false"):
        return answer == "true"
    return int(answer) if answer.isascii() and answer.isdigit() and str(int(answer)) == answer else answer
