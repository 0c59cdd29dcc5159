"""The rules on time, attempts, tasks and hardware of a Cloud Run job."""

from outlast.lint.rule import ERROR, INFO, WARNING, Rule

_TIMEOUT = "Cloud Run, Set task timeout for jobs (2026-11-29)"
_RETRIES = "Cloud Run, Set maximum retries for jobs (2026-11-29)"
_TUTORIAL = "Cloud Run, Design resilient long-running GPU jobs (2026-11)"

GPU_TIMEOUT = Rule(
    "CR001",
    ERROR,
    "a task with a GPU may run for more than 12 hours",
    "Above the maximum for tasks with a GPU. gcloud does not check it, so the mistake is found late.",
    "set 12 h (43200 s) at most, and let the job save and resume",
    f"{_TIMEOUT}: 12 hours with a GPU; gcloud 528.0.0 sends 168h unchanged",
)
GPU_PREVIEW = Rule(
    "CR002",
    WARNING,
    "a task with a GPU may run for more than an hour without the launch stage for it",
    "More than one hour with a GPU is a feature in Preview: without the launch stage BETA the job may be refused.",
    "set run.googleapis.com/launch-stage: BETA, or use `gcloud beta`",
    f"{_TIMEOUT}: more than 1 hour with a GPU is Preview",
)
LONGEST = Rule(
    "CR003",
    ERROR,
    "a task may run for more than 168 hours",
    "Above the maximum of every task; the job is refused.",
    "set 168 h (604800 s) at most, and let the job save and resume",
    f"{_TIMEOUT}: 168 hours",
)
NO_TIMEOUT = Rule(
    "CR004",
    WARNING,
    "no task timeout for a job that trains or has a GPU",
    "Without one each attempt is ended after 10 minutes, and counts as failed.",
    "set the time that an attempt may take; at most 12 h with a GPU",
    f"{_TIMEOUT}: 10 minutes by default",
)
NO_RETRY = Rule(
    "CR005",
    ERROR,
    "no retries",
    "The first maintenance, timeout or crash fails the job for good. Tasks with a GPU are not moved, they are ended.",
    "allow 3 retries or more, and let the job resume from its checkpoint",
    f"{_RETRIES}; {_TUTORIAL}",
)
TOO_MANY_RETRIES = Rule(
    "CR006",
    ERROR,
    "a number of retries outside 0 to 10",
    "Cloud Run allows 0 to 10. gcloud sends what it is given.",
    "set 10 at most",
    f"{_RETRIES}: an integer from 0 to 10; gcloud 528.0.0 sends 11 unchanged",
)
FEW_RETRIES = Rule(
    "CR007",
    WARNING,
    "fewer retries than interruptions to be expected",
    "Each interruption uses up a retry, and so does each fault of the program: the budget has to hold both.",
    "allow the expected interruptions and two more, at most 10",
    f"{_TUTORIAL}: one retry for maintenance, more for faults",
)
EXPOSURE = Rule(
    "CR008",
    INFO,
    "what the job may cost at worst",
    "The timeout holds for each attempt: timeout x (retries + 1) x tasks is billed if every attempt hangs.",
    "lower the timeout or the retries, or set exposure-hours in [tool.outlast.lint] to what you accept",
    f"{_TUTORIAL}: exposure is timeout x (retries + 1)",
)
NO_GPU_TYPE = Rule(
    "CR009",
    WARNING,
    "a GPU without its type",
    "The type decides the quota, the price and the regions; a default may change or not exist where the job runs.",
    "name it: --gpu-type nvidia-l4, or the node selector run.googleapis.com/accelerator",
    "gcloud 528.0.0, run jobs deploy --help; Cloud Run, GPU support for jobs (2026-11-29)",
)
NO_GPU_COUNT = Rule(
    "CR010",
    ERROR,
    "a GPU that is not attached, or more than one",
    "A type alone attaches no GPU, and an instance has one at most.",
    "ask for one: the limit nvidia.com/gpu: '1', or --gpu 1",
    "gcloud 528.0.0, run jobs deploy --help: --gpu is 0 or 1",
)
SMALL_FOR_GPU = Rule(
    "CR011",
    ERROR,
    "less CPU or memory than the GPU needs",
    "Below the minimum the job is refused; near it, the program and its checkpoint do not fit.",
    "give an L4 8 CPUs and 32Gi, an RTX PRO 6000 20 CPUs and 80Gi",
    "gcloud 528.0.0, --gpu help: 4 CPUs and 8Gi; Cloud Run, GPU support for jobs (2026-11-29)",
)
REDUNDANCY = Rule(
    "CR012",
    WARNING,
    "zonal redundancy of the GPU is left on",
    "It draws on another quota, which is 0 by default, and costs more; a job that resumes does not need it.",
    "set run.googleapis.com/gpu-zonal-redundancy-disabled: 'true', or --no-gpu-zonal-redundancy",
    f"Cloud Run, GPU zonal redundancy (2026-11-29); {_TUTORIAL}",
)
ALL_AT_ONCE = Rule(
    "CR023",
    WARNING,
    "all tasks with a GPU run at once",
    "Without a parallelism every task starts at once: more GPUs than the quota has, and the whole cost at once.",
    "set parallelism to the number of GPUs that the quota allows",
    "Cloud Run Admin API, ExecutionSpec.parallelism: unset is as many as possible (2026-11-29)",
)
TOO_PARALLEL = Rule(
    "CR024",
    ERROR,
    "more tasks at once than there are",
    "The parallelism may not be above the number of tasks; gcloud sends it unchanged.",
    "set it to the number of tasks at most",
    "gcloud 528.0.0, run jobs deploy --help: --parallelism; sends 5 of 2 unchanged",
)
RULES = (
    GPU_TIMEOUT, GPU_PREVIEW, LONGEST, NO_TIMEOUT, NO_RETRY, TOO_MANY_RETRIES, FEW_RETRIES, EXPOSURE, NO_GPU_TYPE,
    NO_GPU_COUNT, SMALL_FOR_GPU, REDUNDANCY, ALL_AT_ONCE, TOO_PARALLEL,
)  # fmt: skip
