"""What a Cloud Run job may ask for: the numbers, each with its source, for whoever writes, checks or emulates one.

Facts as of 2026-11-30. Cloud Run documentation: "Set task timeout for jobs" (10 minutes by default; 168 hours at most,
12 with a GPU, above 1 hour in Preview), "Set maximum retries for jobs" (3 by default, 0 to 10), "CPU limits" and
"Memory limits" (the table below), "Environment variables" (1,000 at most). gcloud 528.0.0: at most 10 containers;
`--gpu` and `--parallelism` help (one GPU, at least 4 CPUs and 8Gi; at most as many tasks at a time as there are). The
minimum of the RTX PRO 6000, 20 CPUs and 80Gi, and the limit of 10,000 tasks have no better source than one page each.
The retries are with the platform's facts, in `outlast.platforms.cloud_run`.
"""

from collections.abc import Mapping
from types import MappingProxyType

DEFAULT_TIMEOUT_SECONDS = 600
MAX_TIMEOUT_SECONDS = 168 * 3600
MAX_GPU_TIMEOUT_SECONDS = 12 * 3600
MAX_GPU_TIMEOUT_WITHOUT_PREVIEW = 3600
PREVIEW_STAGES = ("BETA", "ALPHA")
MAX_TASKS, MAX_CONTAINERS, MAX_VARIABLES, MAX_GPUS = 10_000, 10, 1000, 1

GPU = "nvidia.com/gpu"
ACCELERATOR = "run.googleapis.com/accelerator"
LAUNCH_STAGE = "run.googleapis.com/launch-stage"
NO_ZONAL_REDUNDANCY = "run.googleapis.com/gpu-zonal-redundancy-disabled"
EXECUTION_ENVIRONMENT = "run.googleapis.com/execution-environment"
BUCKET_DRIVER = "gcsfuse.run.googleapis.com"

# CPUs: the least and the most memory in MiB.
MEMORY_FOR_CPUS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {1: (512, 4096), 2: (512, 8192), 4: (2048, 16384), 6: (4096, 24576), 8: (4096, 32768)}
)
# GPU: the least CPUs and the least memory in GiB.
GPU_MINIMUM: Mapping[str, tuple[int, int]] = MappingProxyType({"nvidia-l4": (4, 8), "nvidia-rtx-pro-6000": (20, 80)})
DEFAULT_SIZE: Mapping[str, str] = MappingProxyType({"cpu": "1000m", "memory": "512Mi"})
# With a GPU; assumed: the tutorial for GPU jobs deploys with neither set, so they fit the minimum.
DEFAULT_GPU_SIZE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "nvidia-l4": MappingProxyType({"cpu": "4000m", "memory": "16Gi"}),
        "nvidia-rtx-pro-6000": MappingProxyType({"cpu": "20000m", "memory": "80Gi"}),
    }
)
# What the documentation recommends for an L4, and all that an RTX PRO 6000 needs at least.
ADVISED_GPU_SIZE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"nvidia-l4": ("8", "32Gi"), "nvidia-rtx-pro-6000": ("20", "80Gi")}
)
_RESERVED = {"K_SERVICE", "K_REVISION", "K_CONFIGURATION", "PORT"}


def is_reserved(variable: str) -> bool:
    """Whether Cloud Run sets the variable itself and lets nobody else."""
    return variable in _RESERVED or variable.startswith("CLOUD_RUN_")


def longest_timeout_seconds(*, gpu: bool) -> int:
    """The most that a task's timeout may be."""
    return MAX_GPU_TIMEOUT_SECONDS if gpu else MAX_TIMEOUT_SECONDS


def needs_preview(timeout_seconds: float, *, gpu: bool) -> bool:
    """Whether the timeout is a feature in Preview, which a job has to ask for by its launch stage."""
    return gpu and timeout_seconds > MAX_GPU_TIMEOUT_WITHOUT_PREVIEW
