"""Cloud Run jobs are found wherever they are written down, and each is told what it deserves, at its place."""

import shutil
import time
from pathlib import Path

import pytest

from outlast.installed_sdk import InstalledSdk
from outlast.lint.known import Known
from outlast.lint.linting import lint_source
from outlast.lint.reading.kinds import kind_of
from outlast.lint.rule import Finding
from outlast.lint.sdk_flags import with_installed_sdk
from outlast.lint.settings import LintSettings
from outlast.lint.source import Source

TUTORIAL = r"""gcloud storage buckets add-iam-policy-binding gs://gpu-checkpoints-PROJECT_ID \
    --member="serviceAccount:gpu-job-sa@PROJECT_ID." \
    --role="roles/storage.objectAdmin"

gcloud beta run jobs deploy gpu-resilient-job \
    --source=. \
    --region REGION \
    --gpu 1 \
    --gpu-type nvidia-l4 \
    --no-gpu-zonal-redundancy \
    --task-timeout 168h \
    --max-retries 3 \
    --service-account gpu-job-sa@PROJECT_ID. \
    --add-volume=name=checkpoint-volume,type=cloud-storage,bucket=gpu-checkpoints-PROJECT_ID \
    --add-volume-mount=volume=checkpoint-volume,mount-path=/checkpoints

gcloud run jobs execute gpu-resilient-job --region REGION
"""
# What `gcloud beta run jobs deploy` of 528.0.0 lists, as far as the tutorial goes.
_FLAGS_528 = frozenset(
    {"--source", "--region", "--gpu", "--gpu-type", "--task-timeout", "--max-retries", "--service-account",
     "--add-volume", "--add-volume-mount"}
)  # fmt: skip
_528 = Known(sdk=lambda _command: _FLAGS_528, sdk_version="528.0.0")


def _found(text: str, name: str = "deploy.sh", known: Known | None = None) -> list[Finding]:
    path = Path(name)
    kind = kind_of(path, text.split("\n", 1)[0])
    assert kind is not None
    found = lint_source(Source(path, text, kind, known or Known()), LintSettings())
    assert isinstance(found, list), found
    return found


def _told(text: str, name: str = "deploy.sh", known: Known | None = None) -> list[tuple[str, str, int]]:
    return [(one.rule.id, str(one.severity), one.line) for one in _found(text, name, known)]


def _rules(text: str, name: str = "deploy.sh") -> set[str]:
    return {one.rule.id for one in _found(text, name)}


def test_the_tutorials_command_gets_exactly_the_findings_that_it_deserves() -> None:
    assert _told(TUTORIAL, known=_528) == [
        ("CR019", "error", 2),
        ("CR013", "error", 10),
        ("CR001", "error", 11),
        ("CR008", "warning", 11),
        ("CR019", "error", 13),
    ]
    exposure = next(one for one in _found(TUTORIAL) if one.rule.id == "CR008")
    assert "672 GPU hours" in exposure.message


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="no Cloud SDK is installed")
def test_the_installed_sdk_is_asked_which_flags_it_has() -> None:
    known = with_installed_sdk(Known())
    found = [
        one for one in _found(TUTORIAL.replace("--source", "--never-a-flag"), known=known) if one.rule.id == "CR013"
    ]
    assert any(
        "--never-a-flag" in one.message and known.sdk_version in one.message for one in found if known.sdk_version
    )
    assert not any("--task-timeout" in one.message for one in found)


def test_without_an_sdk_no_flag_is_judged() -> None:
    known = with_installed_sdk(Known(), InstalledSdk(program="no-such-gcloud"))
    assert not [one for one in _found(TUTORIAL, known=known) if one.rule.id == "CR013"]


_SHORT = "gcloud beta run jobs deploy j --image i --gpu 1 --gpu-type nvidia-l4 --task-timeout 24h"


@pytest.mark.parametrize(
    "text",
    [
        _SHORT,
        f"sudo {_SHORT}",
        f"retry 3 {_SHORT}",
        f"if ! {_SHORT}; then exit 1; fi",
        f"deploy() {{ {_SHORT} || return 1; }}",
        f"OUT=$({_SHORT})",
        f'./tools/retry.sh "{_SHORT}"',
        f"bash -c '{_SHORT}'",
        f'eval "{_SHORT}"',
        _SHORT.replace("--task-timeout 24h", "--task-timeout=$LIMIT").join(["LIMIT=24h\n", ""]),
        "FLAGS='--gpu 1 --task-timeout 24h'\ngcloud beta run jobs create j --image i --gpu-type nvidia-l4 $FLAGS",
        f"cd app && {_SHORT} | tee log",
        f"CMD='{_SHORT}'\n$CMD --async",
        f'CMD="{_SHORT}"\neval "$CMD"',
        f'cmd=({_SHORT})\nif x; then cmd+=(--async); fi\n"${{cmd[@]}}"',
        f"bash <<EOF\n{_SHORT}\nEOF\n",
        f"cat > deploy.sh <<'EOF'\n#!/bin/sh\n{_SHORT}\nEOF\n",
    ],
)
def test_a_gcloud_command_is_found_wherever_a_script_has_it(text: str) -> None:
    assert "CR001" in _rules(text)


@pytest.mark.parametrize(
    "text",
    [f'echo "{_SHORT}"', f"echo {_SHORT}", f"# {_SHORT}", f"cat <<EOF\n{_SHORT}\nEOF\n", f'printf "%s" "{_SHORT}"'],
)
def test_a_command_that_is_only_told_is_not_judged(text: str) -> None:
    assert "CR001" not in _rules(text)


_MANIFEST = """apiVersion: run.googleapis.com/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      template:
        spec:
          timeoutSeconds: '90000'
          nodeSelector:
            run.googleapis.com/accelerator: nvidia-l4
          containers:
          - image: $IMAGE
            resources:
              limits:
                nvidia.com/gpu: '1'
"""


def test_a_manifest_in_a_here_document_has_its_own_lines() -> None:
    script = f"gcloud run jobs replace - <<EOF\n{_MANIFEST}EOF\n"
    assert ("CR001", "error", 11) in _told(script)
    tabs = "".join(f"\t\t{line}\n" for line in _MANIFEST.splitlines())
    found = [one for one in _found(f"f() {{\n\tcat > j.yaml <<-EOF\n{tabs}\tEOF\n}}\n") if one.rule.id == "CR001"]
    assert [(one.line, one.column) for one in found] == [(12, 29)]


def test_every_document_of_a_file_is_looked_at() -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\n---\n{_MANIFEST}---\n{_MANIFEST}"
    assert [line for rule, _, line in _told(text, "jobs.yaml") if rule == "CR001"] == [13, 31]


def test_a_kubernetes_job_is_none_of_cloud_run() -> None:
    text = _MANIFEST.replace("run.googleapis.com/v1", "batch/v1")
    assert not [one for one in _told(text, "job.yaml") if one[0].startswith("CR")]


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (f"  script: |\n    #!/bin/bash\n    {_SHORT}\n", 5),
        (f"  entrypoint: bash\n  args:\n  - -c\n  - |\n    set -e\n    {_SHORT}\n", 8),
        ("  args: [beta, run, jobs, deploy, j, --gpu=1, --gpu-type=nvidia-l4,\n    --task-timeout=24h]\n", 4),
    ],
)
def test_a_step_of_cloud_build_is_read_in_each_of_its_forms(step: str, line: int) -> None:
    text = f"steps:\n- name: gcr.io/cloud-builders/gcloud\n{step}"
    assert ("CR001", line) in [(one.rule.id, one.line) for one in _found(text, "cloudbuild.yaml")]


def test_a_step_of_github_actions_keeps_columns_beside_its_placeholders() -> None:
    text = (
        "jobs:\n  a:\n    steps:\n    - run: |\n        echo ${{ github.sha }}\n"
        "        gcloud beta run jobs deploy j --image ${{ env.I }} --gpu 1 --gpu-type nvidia-l4 --task-timeout 24h\n"
    )
    [finding] = [one for one in _found(text, "deploy.yml") if one.rule.id == "CR001"]
    assert text.splitlines()[finding.line - 1][finding.column - 1 :] == "24h"


def test_the_flags_of_googles_action_are_read() -> None:
    text = """jobs:
  deploy:
    steps:
    - uses: google-github-actions/deploy-cloudrun@v2
      with:
        job: train
        image: ${{ env.IMAGE }}
        flags: --gpu=1 --gpu-type=nvidia-l4 --task-timeout=24h
"""
    assert _told(text, "deploy.yml") == [("CR001", "error", 8)]
    assert _told(text.replace("job: train", "service: web"), "deploy.yml") == []


def test_weights_that_are_only_read_are_no_lost_checkpoints() -> None:
    start = "gcloud run jobs deploy label --image i --task-timeout 1h --set-env-vars"
    for given in ("SAM_CHECKPOINT=/app/sam.pth", "RESUME_FROM_CHECKPOINT=/app/x", "MODEL_CHECKPOINT=/models/base"):
        assert "CR015" not in _rules(f"{start} {given}"), given
    assert ("CR015", "warning", 1) in _told(f"{start} CHECKPOINT_DIR=/app/out")
    assert ("CR015", "error", 1) in _told(f"{start} CHECKPOINT_DIR=/app/out --args=train.py,--epochs,3")


def test_terraform_is_read_with_its_variables_and_its_provisioners() -> None:
    text = """variable "limit" {
  default = "86400s"
}
resource "google_cloud_run_v2_job" "a" {
  name = "a"
  template {
    template {
      timeout = var.limit
      max_retries = var.unknown
      containers {
        image = "i"
      }
      node_selector {
        accelerator = "nvidia-l4"
      }
    }
  }
}
resource "null_resource" "b" {
  provisioner "local-exec" {
    command = <<-EOT
      gcloud beta run jobs deploy j --image i --gpu 1 --gpu-type nvidia-l4 --task-timeout 24h
    EOT
  }
}
"""
    assert [line for rule, _, line in _told(text, "main.tf") if rule == "CR001"] == [8, 22]


def test_an_update_and_an_open_command_keep_what_they_do_not_name() -> None:
    silent = {"CR004", "CR009", "CR012", "CR014", "CR019", "CR023"}
    assert not _rules("gcloud beta run jobs update train --gpu 1 --tasks 4") & silent
    assert not _rules('gcloud beta run jobs deploy train --image i --gpu 1 --tasks 4 "$@"') & silent
    assert not _rules("gcloud beta run jobs deploy train --image i --gpu 1 --tasks 4 $EXTRA_FLAGS") & silent


def test_a_kustomize_patch_is_not_asked_for_what_it_patches() -> None:
    text = "apiVersion: run.googleapis.com/v1\nkind: Job\nmetadata:\n  name: a\nspec:\n  template: {}\n"
    assert _told(text, "patch.yaml") == []


def test_b19_a_shell_in_a_cloud_run_job_keeps_the_signal_to_itself() -> None:
    for command in ('["bash", "-c", "python train.py; echo end"]', '["sh", "-c", "python train.py | tee log"]'):
        text = _MANIFEST.replace(
            "          - image: $IMAGE\n", f"          - image: debian\n            command: {command}\n"
        )
        assert "CR021" in _rules(text, "job.yaml"), command
    text = 'gcloud run jobs deploy train --image i --command=bash --args=-c,"python train.py; sync"'
    assert "CR021" in _rules(text)


def test_b25_a_command_that_swallows_the_exit_code_is_told() -> None:
    text = _MANIFEST.replace(
        "          - image: $IMAGE\n",
        '          - image: debian\n            command: ["bash", "-c", "python train.py || true"]\n',
    )
    assert "K034" in _rules(text, "job.yaml")


def test_b26_a_budget_without_room_for_interruptions_is_told() -> None:
    start = "gcloud beta run jobs deploy j --image i --gpu 1 --gpu-type nvidia-l4 --task-timeout 12h --max-retries"
    assert "CR005" in _rules(f"{start} 0")
    assert "CR007" in _rules(f"{start} 1")
    assert not _rules(f"{start} 4") & {"CR005", "CR006", "CR007"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tf", "a = " + "[" * 20_000),
        ("a.tf", "a {" * 20_000),
        ("a.tf", 'a = "' + "${" * 20_000),
        ("a.tf", "a = " + "1 + " * 20_000),
        ("a.sh", "gcloud run jobs deploy " + "--a=b," * 100_000),
        ("a.sh", "gcloud run jobs deploy a --set-env-vars=" + "A=1," * 100_000),
        ("a.sh", "gcloud run jobs deploy a " + "--b c " * 100_000),
        ("a.sh", "gcloud run jobs deploy a " + "--add-volume-mount=volume=a,mount-path=/a " * 10_000),
        ("a.sh", "gcloud run jobs deploy a " + "--add-volume=name=a,type=nfs --set-env-vars=CKPT_DIR=/a " * 5_000),
        ("a.sh", "bash <<A\n" * 2_000 + "gcloud\n"),
        ("a.sh", "bash -c 'gcloud x'" * 3_000),
        ("a.yaml", _MANIFEST + "          - image: a\n" * 5_000),
        ("a.yaml", "steps:\n" + "- args: [a]\n  name: gcloud\n" * 5_000),
    ],
)
def test_hostile_files_end_soon(name: str, text: str) -> None:
    path = Path(name)
    kind = kind_of(path, "")
    assert kind is not None
    start = time.process_time()
    lint_source(Source(path, text, kind), LintSettings())
    assert time.process_time() - start < 20
