"""Rules on how a command reaches its program, whichever file holds it: an image, a manifest, a command line."""

from outlast.lint.rule import ERROR, WARNING, Rule

SIGNAL_LOST = Rule(
    "CR021",
    WARNING,
    "SIGTERM does not reach the program",
    "The platform tells the container's first process alone. A shell or a launcher there keeps the signal to itself, "
    "and a first process without a handler ignores it; SIGKILL follows, and no final save is made.",
    'use the exec form, `exec` before the last command, an init (tini, dumb-init), or ["outlast", "run", "--", ...]',
    "Cloud Run, Container runtime contract (2026-04-08); bash 5.2, dash 0.5.12 and busybox 1.35, measured 2026-11-30",
)
FIRST_WITHOUT_HANDLER = Rule(
    "CR031",
    WARNING,
    "the program is the first process and has no handler for SIGTERM",
    "For the first process of a container the kernel drops signals that have no handler: the program runs on "
    "unaware until SIGKILL.",
    'save at SIGTERM (outlast.Job does), or start it below an init: ["outlast", "run", "--", ...], tini',
    "pid_namespaces(7); Cloud Run, Container runtime contract (2026-04-08); measured 2026-11-30",
)
CODE_LOST = Rule(
    "K034",
    ERROR,
    "the command swallows the program's exit code",
    "The platform sees success although the program failed or was interrupted: nothing is retried, and the job "
    "counts as complete.",
    "let the program's exit code be the last one: `exec`, `set -e`, `set -o pipefail`, no `|| true`",
    "POSIX, Shell Command Language 2.8.2 and 2.9 (2024); Kubernetes, Jobs: a Pod that exits 0 is complete (2026-11)",
)
ZERO_AT_TERM = Rule(
    "K008",
    ERROR,
    "exit code 0 at SIGTERM with work left",
    "Since Kubernetes 1.27 a container that exits 0 while it is stopped leaves its Pod Succeeded: a Job counts that "
    "as complete, and Cloud Run, Batch and Slurm do not retry it either. Unfinished work is lost silently. Only what "
    "is started again whatever its code may end with 0: a Deployment's worker, whose item goes back into the queue.",
    "exit 143 where work is left (128 + SIGTERM); 0 only when all is done",
    "kubernetes/kubernetes#118310 and #120182 (2023); Cloud Run, Container runtime contract (2026-04-08)",
)
RULES = (SIGNAL_LOST, FIRST_WITHOUT_HANDLER, CODE_LOST, ZERO_AT_TERM)
