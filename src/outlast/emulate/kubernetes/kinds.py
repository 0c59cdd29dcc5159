"""The kinds of objects that the emulated cluster knows, and how its paths and messages name them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: `name` as in manifests ("Pod"), `plural` as in paths ("pods"); the core group is ""."""

    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short: tuple[str, ...] = ()
    has_status: bool = False
    categories: tuple[str, ...] = ()

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def api_version(self) -> str:
        """What stands as `apiVersion` in its manifests: "v1", "batch/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Its name in messages: "pods", "jobs.batch"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


KINDS = (
    Kind("Namespace", "namespaces", namespaced=False, short=("ns",), has_status=True),
    Kind("Node", "nodes", namespaced=False, short=("no",), has_status=True),
    Kind("Pod", "pods", short=("po",), has_status=True, categories=("all",)),
    Kind("ConfigMap", "configmaps", short=("cm",)),
    Kind("Event", "events", short=("ev",)),
    Kind("Secret", "secrets"),
    Kind("ServiceAccount", "serviceaccounts", short=("sa",)),
    Kind("PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), has_status=True),
    Kind("DaemonSet", "daemonsets", "apps", short=("ds",), has_status=True, categories=("all",)),
    Kind("Job", "jobs", "batch", has_status=True, categories=("all",)),
    Kind("Lease", "leases", "coordination.k8s.io"),
    Kind("PodDisruptionBudget", "poddisruptionbudgets", "policy", short=("pdb",), has_status=True),
    Kind("PriorityClass", "priorityclasses", "scheduling.k8s.io", namespaced=False, short=("pc",)),
)
BY_NAME = {kind.name: kind for kind in KINDS}
BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
