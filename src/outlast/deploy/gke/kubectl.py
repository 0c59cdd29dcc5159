"""Steps of a plan that kubectl does: namespaces, manifests, and taking them away again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.deploy.gke.explained import plain, yaml_text
from outlast.deploy.plan import Command, Made, Probe, Step, WrittenFile

Json = dict[str, Any]
DEFAULT_NAMESPACE = "default"
_CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "Namespace")
_HOLDS = {
    "Job": "its pods and their logs",
    "JobSet": "its pods and their logs",
    "Deployment": "its pods and their logs",
}


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl for one namespace of one cluster; `context` None: the current one of the kubeconfig."""

    namespace: str
    context: str | None = None

    def words(self, *more: str) -> tuple[str, ...]:
        """A command for the cluster."""
        context = () if self.context is None else ("--context", self.context)
        return ("kubectl", *context, *more)

    def within(self, kind: str, *more: str) -> tuple[str, ...]:
        """A command for the namespace, if the kind is in one."""
        return self.words(*more) if kind in _CLUSTER_WIDE else self.words("--namespace", self.namespace, *more)

    def make_namespace(self) -> Step | None:
        """None where there is nothing to make."""
        if self.namespace == DEFAULT_NAMESPACE:
            return None
        made = Made(
            kind="namespace",
            name=self.namespace,
            probe=Probe(self.words("get", "namespace", self.namespace, "--output", "name")),
            why_kept="others may have put things into it by now, which would go with it",
        )
        command = Command(self.words("create", "namespace", self.namespace))
        return Step(name="namespace", why="where the job's objects are", commands=(command,), makes=(made,))

    def check(self, path: Path, what: str) -> Step:
        """Has the API server look at a manifest before anything is spent on it; nothing is made."""
        command = self.words("--namespace", self.namespace, "apply", "--dry-run=server", "--filename", str(path))
        why = f"whether the cluster takes the {what}, before anything is spent"
        return Step(name="check", why=why, commands=(Command(command),))

    def apply(
        self, name: str, why: str, path: Path, documents: Sequence[Json], *, spends: bool = False, heading: str = ""
    ) -> Step:
        """Writes the documents into one file, and applies it."""
        file = WrittenFile(path=path, text=yaml_text(list(documents), heading=heading))
        kinds = [str(plain(one)["kind"]) for one in documents]
        place = self.words if all(kind in _CLUSTER_WIDE for kind in kinds) else self._here
        command = Command(place("apply", "--filename", str(path)))
        makes = tuple(self._made(plain(one)) for one in documents)
        return Step(name=name, why=why, files=(file,), commands=(command,), makes=makes, again=True, spends=spends)

    def _here(self, *more: str) -> tuple[str, ...]:
        return self.words("--namespace", self.namespace, *more)

    def _made(self, document: Json) -> Made:
        kind, name = document["kind"], document["metadata"]["name"]
        resource = _resource(document)
        return Made(
            kind=kind,
            name=name if kind in _CLUSTER_WIDE else f"{self.namespace}/{name}",
            probe=Probe(self.within(kind, "get", resource, name, "--output", "name")),
            undo=(Command(self.within(kind, "delete", resource, name, "--ignore-not-found")),),
            holds=_HOLDS.get(kind),
        )


def _resource(document: Json) -> str:
    """What kubectl calls it, with its group, so that another kind of this name is not meant: "job.batch"."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = str(document["kind"]).lower()
    return f"{kind}.{version}.{group}" if group else kind
