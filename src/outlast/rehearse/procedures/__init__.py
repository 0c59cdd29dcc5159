"""How each platform ends a job, by the name that its facts give: the documented order and times of what happens."""

import importlib
from typing import cast

from outlast.errors import SettingsError
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


def procedure_named(name: str) -> Procedure:
    """A procedure; raises SettingsError where a package that it needs is not installed."""
    module, _, attribute = PROCEDURES[name].partition(":")
    try:
        return cast(Procedure, getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise SettingsError(f"this platform's rehearsal needs {error.name}: pip install 'outlast[web]'") from error
