"""A desk for the doctor's tests: programs that give prepared answers, descriptions, and what was found."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outlast.deploy.description_file import read_description
from outlast.deploy.doctor.cases import Case
from outlast.deploy.doctor.examining import checks_for, examine
from outlast.deploy.doctor.findings import Finding
from outlast.deploy.doctor.programs import Answer, RealPrograms

URL = "gs://outlast-test/train-digits"  # in the bucket of the test's server
_PRETEND = Path(__file__).with_name("pretend")
PROGRAMS = ("gcloud", "kubectl", "docker", "scontrol")

CLOUD_RUN = """
name: train-digits
command: [python, train.py]
image: europe-west4-docker.pkg.dev/example-project/jobs/train:1
url: {url}
platform: cloud-run
project: example-project
region: europe-west4
hardware: {{gpu: nvidia-l4, gpus: 1, cpu: "8", memory: 32Gi}}
service_account: trainer@example-project.iam.gserviceaccount.com
measured: {{save_time: 3s}}
"""
GKE = """
name: train-digits
command: [python, train.py]
image: europe-west4-docker.pkg.dev/example-project/jobs/train:1
url: {url}
platform: gke-gpu
project: example-project
region: europe-west4
hardware: {{gpu: nvidia-l4, gpus: 1, cpu: "8", memory: 32Gi}}
service_account: trainer@example-project.iam.gserviceaccount.com
measured: {{save_time: 3s}}
kubernetes: {{cluster: training, namespace: training, service_account: trainer, kind: JobSet, queue_name: gpus}}
"""


def answers(*names: str) -> list[dict[str, Any]]:
    """The prepared answers of these files, in which all is well."""
    return [one for name in names for one in json.loads((_PRETEND / "answers" / f"{name}.json").read_text())]


@dataclass
class Canned:
    """The same answers without a process for each, for tests of what the doctor makes of an answer."""

    known: Sequence[dict[str, Any]]
    programs: Sequence[str]
    calls: list[list[str]] = field(default_factory=list)

    def found(self, program: str) -> bool:
        return program in self.programs

    def ask(self, *argv: str) -> Answer:
        self.calls.append(list(argv))
        if argv[0] not in self.programs:
            return Answer(argv, failure="missing")
        fitting = [one for one in self.known if list(argv[: len(one["words"].split())]) == one["words"].split()]
        if not fitting:
            return Answer(argv, error="ERROR: pretend: nobody has said what it answers", failure="failed")
        one = fitting[-1]
        out = one.get("out", "")
        failure = "failed" if one.get("code", 0) else None
        return Answer(argv, out if isinstance(out, str) else json.dumps(out), one.get("error", ""), failure)


@dataclass
class Desk:
    """A folder with the programs. `says` changes an answer: the newest one counts."""

    folder: Path
    known: list[dict[str, Any]] = field(default_factory=list)
    programs: Sequence[str] = PROGRAMS
    asked: list[list[str]] = field(default_factory=list)  # by `checked`

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        for name in self.programs:
            (self.folder / "bin" / name).symlink_to(_PRETEND / "program")
        (self.folder / "bin" / "python3").symlink_to(sys.executable)
        self.write()

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": str(self.folder / "bin"),  # no other program is found
            "PRETEND_ANSWERS": str(self.folder / "answers.json"),
        }

    def write(self) -> None:
        (self.folder / "answers.json").write_text(json.dumps(self.known))

    def says(self, words: str, out: object = "", **how: Any) -> "Desk":
        self.known.append({"words": words, "out": out, **how})
        self.write()
        return self

    def calls(self, program: str) -> list[list[str]]:
        """The command lines that a program was called with."""
        file = self.folder / "answers.json.calls"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [words for words in lines if words[0] == program]

    def case(self, text: str, *, seconds: float = 20.0) -> Case:
        programs = RealPrograms(self.env, longest_seconds=seconds)
        return Case(described=read_description(text), programs=programs, env=self.env, folder=self.folder)

    def checked(self, name: str, text: str) -> Finding:
        """What the check of that name says first, alone, without starting a program."""
        case = replace(self.case(text), programs=Canned(self.known, self.programs, self.asked))
        return dict(checks_for(case))[name](case)[0]

    def examined(self, text: str, *, seconds: float = 20.0) -> dict[str, Finding]:
        """Each finding by its check."""
        found = examine(self.case(text, seconds=seconds))
        assert len({one.check for one in found}) == len(found), "two findings of one check"
        return {one.check: one for one in found}


def states(found: dict[str, Finding]) -> dict[str, str]:
    """What is not ok."""
    return {name: one.state for name, one in found.items() if one.state != "ok"}
