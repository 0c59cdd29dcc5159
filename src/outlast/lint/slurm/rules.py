"""The rules for Slurm: who gets the warning signal, what counts as success, what a second start finds."""

from outlast.lint.rule import ERROR, INFO, WARNING, Rule

_SBATCH = "sbatch(1), Slurm 22.05 (read 2026-11-29)"
NO_REQUEUE = Rule(
    "S001",
    INFO,
    "the job does not say that it may be requeued",
    "After a preemption or a node failure Slurm starts a job again only when it may be requeued. Sites set the "
    "default (JobRequeue), so that without --requeue it depends on the cluster.",
    "#SBATCH --requeue, and a program that resumes from its newest checkpoint",
    _SBATCH,
)
CODE_LOST = Rule(
    "S002",
    ERROR,
    "the batch script loses the program's exit code",
    "Slurm takes the batch script's own exit code for the job's: a failed or interrupted program is recorded as "
    "COMPLETED, no dependency notices, and nothing is requeued.",
    "let the program's exit code be the script's: `set -e`, `set -o pipefail`, the program last, or `exit $code`",
    _SBATCH + "; POSIX, Shell Command Language 2.8.2",
)
KEYED_BY_JOB = Rule(
    "S003",
    WARNING,
    "a checkpoint's path holds the scheduler's job id",
    "A requeued job keeps its id, a job that is submitted again has a new one: it looks in an empty folder and starts "
    "from zero.",
    "name the folder after the experiment, and keep the job id for logs",
    _SBATCH + ": SLURM_JOB_ID",
)
NO_TRAP = Rule(
    "S004",
    WARNING,
    "--signal=B: without a trap for that signal",
    "With B: the signal goes to the batch shell alone. Without a trap its default action ends the shell, and with it "
    "the job, before the time that the signal was meant to announce.",
    "trap the signal in the script, pass it on and wait; or drop the `B:` and start the program with srun",
    _SBATCH + ": --signal",
)
NOBODY_HEARS = Rule(
    "S005",
    WARNING,
    "--signal reaches nobody",
    "Without B: the signal goes to the job's steps only, not to the batch shell nor to what it runs itself.",
    "start the program with srun, or use --signal=B: with a trap, the program in the background and `wait`",
    _SBATCH + ": --signal",
)
TRAP_TOO_LATE = Rule(
    "S006",
    ERROR,
    "the trap runs only after the program has ended",
    "bash runs a trap when the command in the foreground is done: the signal that announces the end is looked at when "
    "the program has been killed.",
    "start the program with `&`, keep its id (pid=$!), pass the signal on in the trap, and `wait $pid`",
    "bash(1), SIGNALS (5.2); " + _SBATCH + ": --signal",
)
RULES = (NO_REQUEUE, CODE_LOST, KEYED_BY_JOB, NO_TRAP, NOBODY_HEARS, TRAP_TOO_LATE)
