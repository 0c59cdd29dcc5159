"""A Slurm site: sbatch is here, and exit code 143 starts a job again."""

import re

from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import bad, ok, unknown
from outlast.deploy.doctor.troubles import trouble
from outlast.platforms.slurm import SlurmPlatform


def requeue(case: Case) -> Findings:
    """slurm.conf(5): RequeueExit names the exit codes that start a job again."""
    check, code = "slurm requeue", SlurmPlatform.facts.interrupted_exit_code
    if not case.programs.found("scontrol"):
        return [unknown(check, "scontrol is not here; run the doctor where you send jobs from")]
    said = case.programs.ask("scontrol", "show", "config")
    if said.failure is not None:
        return [trouble(check, said)]
    match = re.search(r"^RequeueExit\s*=\s*(.*)$", said.out, re.MULTILINE)
    codes = _codes(match[1]) if match else set()
    if code in codes:
        return [ok(check, f"RequeueExit names {code}: an interrupted job is started again")]
    why = f"the site's RequeueExit does not name {code}: ask for that, or let the batch script requeue itself"
    return [bad(check, why, f'if [ $? = {code} ]; then scontrol requeue "$SLURM_JOB_ID"; fi')]


def _codes(text: str) -> set[int]:
    """`143`, `1-3,143`; "(null)" is none."""
    found = set[int]()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return found
