"""How each platform ends a job, by the name that its facts give: the documented order and times of what happens."""

import importlib
from typing import cast

from outlast.errors import SettingsError
from outlast.registry import PLATFORMS, platform_named
from outlast.rehearse.words import Procedure

PROCEDURES = {
    "container": "outlast.rehearse.procedures.containers:LOCAL",
    "cloud-run": "outlast.rehearse.procedures.containers:CLOUD_RUN",
    "pod": "outlast.rehearse.procedures.pods:POD",
    "gke-spot": "outlast.rehearse.procedures.pods:GKE_SPOT",
    "gke-gpu": "outlast.rehearse.procedures.pods:GKE_GPU",
    "gke-tpu": "outlast.rehearse.procedures.pods:GKE_TPU",
    "gce": "outlast.rehearse.procedures.machines:GCE",
    "ec2": "outlast.rehearse.procedures.machines:EC2",
    "azure": "outlast.rehearse.procedures.machines:AZURE",
    "slurm": "outlast.rehearse.procedures.slurm:SLURM",
}


def procedure_on(platform: str) -> Procedure:
    """How a platform ends jobs.

    Raises SettingsError for a platform that is not known or cannot be rehearsed yet, and where a package that its
    rehearsal needs is not installed.
    """
    name = platform_named(platform).facts.procedure
    if name is None:
        known = ", ".join(one for one in PLATFORMS if platform_named(one).facts.procedure is not None)
        raise SettingsError(f"--platform {platform}: its way to end a job cannot be rehearsed yet; {known} can")
    module, _, attribute = PROCEDURES[name].partition(":")
    try:
        return cast(Procedure, getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise SettingsError(f"this platform's rehearsal needs {error.name}: pip install 'outlast[web]'") from error
