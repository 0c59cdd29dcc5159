"""Whatever the programs answer, every check of every platform ends with findings, and none of them breaks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from doctor_desk import CLOUD_RUN, GKE, URL

from outlast.deploy.description_file import read_description
from outlast.deploy.doctor.cases import Case
from outlast.deploy.doctor.examining import checks_for
from outlast.deploy.doctor.programs import Answer, Failure
from outlast.registry import PLATFORMS

# Answers in JSON of the wrong shape, at each depth at which something is read.
_OUTPUTS = [
    "", "null", "1", '"x"', "[]", "{}", "[null]", "[[]]", "[{}]", '{"items": 1}', '{"items": [1, {}]}', '{"core": []}',
    '{"core": {"project": 7, "account": ["a"]}}', '{"bindings": [{"role": 1, "members": "x"}, 2]}',
    '[{"policy": {"bindings": [{"role": "r", "members": [1, null]}]}}]', '{"dimensionsInfos": [{"details": 3}, []]}',
    '{"dimensionsInfos": [{"applicableLocations": "all", "details": {"value": "many"}}]}',
    '{"quotas": [{"metric": "NVIDIA_L4_GPUS"}, {"metric": "GPUS_ALL_REGIONS", "limit": "x"}]}',
    '{"metadata": {"annotations": []}}', '{"metadata": 3, "workloadIdentityConfig": []}', '{"location": 4}',
    '[{"config": 1, "autoscaling": [], "initialNodeCount": "many"}]', '[{"Config": []}]',
]  # fmt: skip


class Canned:
    """Programs that all give one answer."""

    def __init__(self, answer: Callable[[tuple[str, ...]], Answer]) -> None:
        self._answer = answer

    def ask(self, *argv: str) -> Answer:
        return self._answer(argv)

    def found(self, program: str) -> bool:
        return True


def _everything(text: str, answer: Callable[[tuple[str, ...]], Answer], folder: Path) -> None:
    case = Case(described=read_description(text), programs=Canned(answer), folder=folder)
    for name, check in checks_for(case):
        if name in ("store write", "save time"):
            continue  # these ask no program
        for found in check(case):
            assert found.state in ("ok", "bad", "unknown")
            assert found.why
            assert found.state != "bad" or found.mend


@pytest.mark.parametrize("text", [CLOUD_RUN, GKE], ids=["cloud-run", "gke"])
@pytest.mark.parametrize("out", _OUTPUTS)
def test_answers_of_the_wrong_shape_break_no_check(tmp_path: Path, text: str, out: str) -> None:
    _everything(text.format(url=URL), lambda argv: Answer(argv, out), tmp_path)


@pytest.mark.parametrize("platform", list(PLATFORMS))
@pytest.mark.parametrize("failure", ["missing", "hung", "failed"])
def test_programs_that_fail_break_no_check_of_any_platform(tmp_path: Path, platform: str, failure: Failure) -> None:
    text = GKE.format(url=URL).replace("platform: gke-gpu", f"platform: {platform}")
    _everything(text, lambda argv: Answer(argv, error="ERROR: odd", failure=failure), tmp_path)


def test_a_description_of_least_content_can_be_looked_at(tmp_path: Path) -> None:
    for platform in ("", *(f"platform: {name}\n" for name in PLATFORMS)):
        text = f"name: x\ncommand: [a]\nsource: .\nurl: gs://outlast-test/x\n{platform}"
        _everything(text, lambda argv: Answer(argv, "{}"), tmp_path)
