"""Every command of gcloud that the doctor asks or tells, and that a runbook page shows, is one that gcloud knows."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from doctor_desk import CLOUD_RUN, GKE, Desk, answers

from docs_pages import ROOT
from outlast.deploy.doctor.examining import checks_for

PAGES = [
    ROOT / "docs" / "howto" / f"{name}.md"
    for name in ("exit-75", "exit-78", "exit-143", "on-call", "doctor", "cloud-run")
]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
# gcloud's own check of a command line knows no pipes and expects a value after "=", so these are written as it wants.
pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")


def shown_on_pages(program: str) -> list[str]:
    """The command lines of a program in the console blocks of the runbook pages."""
    found = []
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text()):
            joined = re.sub(r"\\\n\s*", "", block)
            found += [line[2:] for line in joined.splitlines() if line.startswith(f"$ {program} ")]
    return found


def told_by_the_doctor(tmp_path: Path) -> list[str]:
    """What it asks gcloud, and what it tells people to type, where nothing is there and where all is well."""
    absent = [
        {"words": program, "code": 1, "error": "ERROR: NOT_FOUND: not found"} for program in ("gcloud", "kubectl")
    ]
    found: set[str] = set()
    for number, known in enumerate((answers("cloud", "cluster"), absent)):
        desk = Desk(tmp_path / str(number), known)
        for text in (CLOUD_RUN, GKE):
            described = text.format(url="gs://outlast-test/x")
            findings = [desk.checked(name, described) for name, _ in checks_for(desk.case(described)) if _asks(name)]
            found |= {part for one in findings if one.mend for part in one.mend.split(" && ")}
        found |= {shlex.join(words) for words in desk.asked if words[0] == "gcloud"}
    return sorted(line for line in found if line.startswith("gcloud "))


def _asks(name: str) -> bool:
    """Whether a check asks programs, and always finds something."""
    return name not in ("store write", "save time", "graceful maintenance")


def complaints(lines: list[str], folder: Path) -> list[str]:
    """What the installed gcloud has to say against command lines, without running any of them."""
    lines = sorted(set(lines))
    (folder / "commands.json").write_text(json.dumps([{"command_string": line} for line in lines]))
    said = subprocess.run(
        ["gcloud", "meta", "lint-gcloud-commands", f"--commands-file={folder / 'commands.json'}"],
        env={"PATH": "/usr/bin:/bin", "CLOUDSDK_CONFIG": str(folder / "gcloud"), "HOME": str(folder)},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    judged = json.loads(said.stdout)
    assert len(judged) == len(lines)
    return [f"{one['command_string']}: {one['error_message']}" for one in judged if not one["success"]]


def test_what_the_doctor_tells_and_the_runbooks_show_is_known_to_gcloud(tmp_path: Path) -> None:
    told, shown = told_by_the_doctor(tmp_path), shown_on_pages("gcloud")
    assert len(told) > 20
    assert len(shown) > 10
    wrong = "gcloud run jobs execute train --regoin here"  # so that this test is seen to see something
    (said,) = complaints([*told, *shown, wrong], tmp_path)
    assert "--regoin" in said
