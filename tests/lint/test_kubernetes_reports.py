"""What was reported of Kubernetes jobs that lost their work, as whole kinds: B19, B25, B26."""

from pathlib import Path
from textwrap import indent

import pytest

from outlast.lint.files import NotRead
from outlast.lint.known import Known
from outlast.lint.kubernetes.checking import check_manifest
from outlast.lint.kubernetes.manifest import read_manifest
from outlast.lint.linting import lint_source
from outlast.lint.settings import LintSettings
from outlast.lint.source import Kind, Source

FIXTURES = Path(__file__).parent / "fixtures"

IGNORE = "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}"
TOLERATED = "tolerations: [{key: cloud.google.com/gke-spot, operator: Exists}]"
SPOT = f"nodeSelector: {{cloud.google.com/gke-spot: 'true'}}, {TOLERATED}"


def _job(*, job=IGNORE, pod="restartPolicy: Never", command="[python, train.py]", image="python:3.12-slim", more=""):
    limits = "resources: {limits: {nvidia.com/gpu: 1}}"
    container = f"{{name: main, image: '{image}', command: {command}, {limits}{', ' + more if more else ''}}}"
    head = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: tune}\n"
    return f"{head}spec: {{{job + ', ' if job else ''}template: {{spec: {{{pod}, containers: [{container}]}}}}}}\n"


def _rules(text, **known):
    return {one.rule.id for one in check_manifest(read_manifest(text), Known(**known))}


@pytest.mark.parametrize(
    "command",
    [
        "[sh, -c, python train.py]",
        "[/bin/sh, -c, 'cd /app && python train.py']",
        "[dash, -c, python train.py]",
        "[bash, -c, 'python train.py; gsutil cp -r out gs://b/']",
        "[bash, -c, 'python train.py 2>&1 | tee log']",
        "[bash, -c, 'python train.py & wait']",
        "[bash, -c, 'trap cleanup EXIT; python train.py']",
    ],
)
def test_b19_a_shell_that_keeps_sigterm_to_itself_is_found(command):
    assert "K026" in _rules(_job(command=command))


@pytest.mark.parametrize(
    "command",
    [
        "[python, train.py]",
        "[sh, -c, exec python train.py]",
        "[sh, -c, 'pip install x && exec python train.py']",
        "[bash, -c, python train.py]",
        "[bash, -c, 'set -e; cd /app; python train.py']",
        "[tini, --, python, train.py]",
        "[outlast, run, --, python, train.py]",
        "[bash, -c, 'trap ''kill -TERM $p; wait $p'' TERM; python train.py & p=$!; wait $p']",
    ],
)
def test_b19_a_command_that_hears_is_left_alone(command):
    assert "K026" not in _rules(_job(command=command))


@pytest.mark.parametrize(
    "fields",
    [
        {"more": "env: [{name: OUTLAST_EXIT_CODE, value: '0'}]"},
        {"command": "[bash, -c, 'trap ''exit 0'' TERM; python train.py & wait $!']"},
        {"command": "[bash, -c, 'trap ''python save.py; exit 0'' SIGTERM; python train.py & wait $!']"},
    ],
)
def test_b25_an_interrupted_attempt_that_counts_as_complete_is_found(fields):
    assert "K008" in _rules(_job(**fields))


@pytest.mark.parametrize(
    "command",
    [
        "[bash, -c, python train.py || true]",
        "[bash, -c, 'python train.py; exit 0']",
        "[sh, -c, 'python train.py | tee l']",
    ],
)
def test_b25_a_command_that_swallows_the_exit_code_is_found(command):
    assert "K034" in _rules(_job(command=command))


def test_b25_a_worker_that_is_always_restarted_may_end_with_0():
    env = "env: [{name: OUTLAST_EXIT_CODE, value: '0'}]"
    pod = f"containers: [{{name: a, image: b, command: [outlast, work, q, m:f], {env}}}]"
    text = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: w}}\nspec: {{template: {{spec: {{{pod}}}}}}}\n"
    assert "K008" not in _rules(text)


BURNT = [
    ("K002", {"job": "", "pod": f"restartPolicy: Never, {SPOT}"}, {}),
    ("K002", {"job": "backoffLimit: 0"}, {}),
    ("K003", {"pod": "restartPolicy: OnFailure"}, {}),
    ("K010", {"pod": f"restartPolicy: Never, terminationGracePeriodSeconds: 600, {SPOT}"}, {}),
    (
        "K036",
        {"pod": "restartPolicy: Never, terminationGracePeriodSeconds: 300", "command": "[torchrun, train.py]"},
        {},
    ),
    ("K021", {"job": f"activeDeadlineSeconds: 3600, {IGNORE}"}, {"work_seconds": 7200.0}),
    ("K012", {"pod": "restartPolicy: Never, terminationGracePeriodSeconds: 30"}, {"save_seconds": 45.0}),
    ("K012", {"pod": f"restartPolicy: Never, terminationGracePeriodSeconds: 60, {SPOT}"}, {"save_seconds": 20.0}),
]


@pytest.mark.parametrize(("rule", "fields", "known"), BURNT)
def test_b26_budgets_and_graces_that_are_not_what_they_seem_are_found(rule, fields, known):
    assert rule in _rules(_job(**fields), **known)


def test_b26_a_good_manifest_has_no_finding():
    selector = "nodeSelector: {cloud.google.com/gke-spot: 'true', cloud.google.com/gke-accelerator: nvidia-l4}"
    pod = f"restartPolicy: Never, terminationGracePeriodSeconds: 15, {selector}, {TOLERATED}"
    job = f"podReplacementPolicy: Failed, {IGNORE}"
    text = _job(job=job, pod=pod, command="[outlast, run, --, python, train.py, --checkpoint-dir=gs://b/run]")
    assert _rules(text, save_seconds=8.0, work_seconds=36_000.0) == set()


def test_a_program_in_a_config_map_is_looked_at_like_a_file():
    program = next((FIXTURES / "C009").glob("bad_*.py")).read_text()
    alone = lint_source(Source(Path("train.py"), program, Kind.PYTHON), LintSettings())
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata:\n  train.py: |\n" + indent(program, "    ")
    inside = lint_source(Source(Path("p.yaml"), text, Kind.YAML), LintSettings())
    assert not isinstance(alone, NotRead)
    assert not isinstance(inside, NotRead)
    places = [(one.rule.id, one.line + 5, one.column + 4) for one in alone]
    assert places
    assert [(one.rule.id, one.line, one.column) for one in inside] == places


def test_a_handler_that_ends_with_0_is_told_once_of_the_job_that_runs_it():
    program = (FIXTURES / "K008" / "bad_handler.py").read_text()
    held = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata:\n  train.py: |\n" + indent(program, "    ")
    text = _job(pod="restartPolicy: Never, volumes: [{name: p, configMap: {name: p}}]") + held
    found = lint_source(Source(Path("p.yaml"), text, Kind.YAML), LintSettings())
    assert not isinstance(found, NotRead)
    assert [one.message.partition(" ends ")[0] for one in found if one.rule.id == "K008"] == [
        "the handler of SIGTERM in Job tune"
    ]
