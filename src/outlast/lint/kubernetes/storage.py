"""Where checkpoints are written, and whether that outlives the pod (K017, K018, K019, K020)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from outlast.lint.kubernetes.cases import LASTING, Case
from outlast.lint.kubernetes.fields import entries, known_text, named, unset
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, WARNING, Finding, Rule
from outlast.platforms import gke_labels

_ACCOUNT = "iam.gke.io/gcp-service-account"

DIES_WITH_POD = Rule(
    "K017",
    ERROR,
    "checkpoints on a place that dies with the pod",
    "emptyDir, the container's own file system, /dev/shm and a node's local disks are gone when the pod is replaced "
    "on another node: every attempt starts at zero.",
    "write to a bucket (gs://, or the Cloud Storage FUSE CSI driver) or a PersistentVolumeClaim",
    "Kubernetes, Volumes: emptyDir, hostPath (2026-11-30)",
)
NO_SIDECAR = Rule(
    "K018",
    ERROR,
    "a Cloud Storage FUSE volume without the annotation gke-gcsfuse/volumes",
    "GKE mounts the bucket by a sidecar that is injected only into pods with this annotation; without it the pod "
    "never starts.",
    'add gke-gcsfuse/volumes: "true" to the annotations of the pod template',
    "GoogleCloudPlatform/gcs-fuse-csi-driver, docs/known-issues.md and GKE, Cloud Storage FUSE CSI driver (2026-11-30)",
)
NO_IDENTITY = Rule(
    "K019",
    WARNING,
    "a Cloud Storage FUSE volume under the default service account",
    "The driver mounts the bucket as the pod's Kubernetes service account; the namespace's default one usually has no "
    "access, and the mount fails with 403.",
    "set serviceAccountName to an account that may use the bucket (Workload Identity Federation)",
    "GKE, Set up the Cloud Storage FUSE CSI driver (2026-11-30)",
)
ONE_NODE_ONLY = Rule(
    "K020",
    WARNING,
    "several pods share a volume that one node, or one pod, may mount",
    "A ReadWriteOnce volume is attached to one node at a time: pods on other nodes wait for ever.",
    "use a bucket or a ReadWriteMany volume (Filestore, NFS), or a claim for each pod",
    "Kubernetes, Persistent volumes, Access modes (2026-11-30)",
)
RULES = (DIES_WITH_POD, NO_SIDECAR, NO_IDENTITY, ONE_NODE_ONLY)

_NAMES = re.compile(r"(?:.*_)?(?:checkpoints?|ckpts?)(?:_(?:dir|path|file|folder|root|location|uri|url|directory))?")
_READ_ONLY = re.compile(r"(?:.*_)?(?:load|from|pretrained|input|init|restore|base|model|source|local|tokenizer)_.*")
_OUTPUTS = ("output_dir", "base_output_directory", "save_dir", "outlast_url")
_RELATIVE = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
_LOCAL_DISK = re.compile(
    r"nvme|ssd|scratch|local|k8s-disks|stateful_partition|ephemeral|^/tmp|^/var|^/dev", re.IGNORECASE
)
_PLACE = re.compile(r"(?:dir|path|file|folder|root|directory|location)$", re.IGNORECASE)
_MOST_PLACES = 50
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://.*")


@dataclass(frozen=True, slots=True)
class Written:
    """A place for checkpoints that a command or a variable names; `volume`: what it is on, missing for none."""

    text: str
    node: Node
    volume: Node


def checkpoints_of(case: Case) -> Iterator[Written]:
    """The places that a template's containers are told to keep checkpoints at."""
    for container in case.pods.containers:
        for name, value, node in _settings(container):
            path = _path_of(case, container, name, value) if _writes_checkpoints(name) else None
            if path is not None:
                yield Written(value, node, _volume_below(case, container, path))


def _path_of(case: Case, container: Node, name: str, value: str) -> str | None:
    """A value as a URL or an absolute path; None for what is neither, and where its folder is not known."""
    if value.startswith("/") or _REMOTE.fullmatch(value):
        return value
    if not (_PLACE.search(name) and _RELATIVE.fullmatch(value)):
        return None
    folder = known_text(container["workingDir"])
    if folder is None and (container["workingDir"].is_set or any(map(_lasts, entries(case.pods.spec["volumes"])))):
        return None  # the image's folder may well lie on a volume
    return f"{(folder or '/').rstrip('/')}/{value.removeprefix('./')}"


def _lasts(volume: Node) -> bool:
    return any(volume[kind] for kind in LASTING)


def _writes_checkpoints(name: str) -> bool:
    plain = name.lower().lstrip("-").replace("-", "_")
    if plain in _OUTPUTS:
        return True
    return _NAMES.fullmatch(plain) is not None and _READ_ONLY.fullmatch(plain) is None


def _settings(container: Node) -> Iterator[tuple[str, str, Node]]:
    """(name, value, place) of flags and of variables whose value is known."""
    for one in entries(container["env"]):
        value = known_text(one["value"])
        if value is not None:
            yield one["name"].text, value, one["value"]
    for node in (*container["command"], *container["args"]):
        words = node.text.split() if re.search(r"\s", node.text) else [node.text]
        for word, following in pairwise([*words, ""]):
            name, equals, value = word.partition("=")
            if name.startswith("-") and (equals or following):
                yield name, (value if equals else following).strip("'\""), node
    yield from _flags_in_two(container)


def _flags_in_two(container: Node) -> Iterator[tuple[str, str, Node]]:
    """`- --checkpoint-dir` and its value as two elements of a list."""
    elements = [*container["command"], *container["args"]]
    for flag, value in pairwise(elements):
        if flag.text.startswith("-") and "=" not in flag.text and not re.search(r"\s", flag.text):
            yield flag.text, value.text, value


def is_lasting(written: Written) -> bool:
    """Whether the place outlives the pod for sure."""
    return bool(_REMOTE.fullmatch(written.text)) or _lasts(written.volume)


def _volume_below(case: Case, container: Node, path: str) -> Node:
    """The volume that is mounted nearest above a path; a missing node where it is the container's own file system."""
    best, found = "", Node("missing", container.line, container.column)
    for mount in entries(container["volumeMounts"]):
        at = mount["mountPath"].text.rstrip("/")
        if (path == at or path.startswith(f"{at}/")) and len(at) >= len(best):
            best, found = at, mount
    return (named(case.pods.spec["volumes"], found["name"].text) or found) if found else found


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template."""
    yield from _lost(case)
    yield from _gcsfuse(case)
    yield from _shared_claims(case)


def _lost(case: Case) -> Iterator[Finding]:
    if not (case.matters and case.whole):
        return
    told: set[str] = set()
    places = list(islice(checkpoints_of(case), _MOST_PLACES))
    if not places:
        yield from _nowhere(case)
    for written in places:
        where = _why_lost(case, written)
        if where and written.text not in told:
            told.add(written.text)
            sure = case.evidence.trains and not _is_copied(case, written.volume) and not _may_be_shared(written)
            message = f"{case.name} keeps its checkpoints at {written.text}, {where}"
            yield DIES_WITH_POD.at(written.node, message, severity=ERROR if sure else WARNING)


def _may_be_shared(written: Written) -> bool:
    """A node's folder may be a file system that all nodes mount, unless its name says that it is a local disk."""
    path = written.volume.at("hostPath", "path")
    return path.is_set and _LOCAL_DISK.search(path.text) is None


def _nowhere(case: Case) -> Iterator[Finding]:
    """A training that is given neither a volume that lasts nor any URL; its program may have one of its own."""
    if not case.evidence.trains or case.pods.spec["volumes"].is_unknown or case.workload.kind.startswith("Ray"):
        return
    if any(map(_lasts, entries(case.pods.spec["volumes"]))) or case.pods.spec["volumeClaimTemplates"].is_set:
        return
    for container in case.pods.containers:
        values = [one.text for one in (*container["command"], *container["args"])]
        values += [one["value"].text for one in entries(container["env"])]
        elsewhere = container["envFrom"].is_set or any(one["valueFrom"].is_set for one in entries(container["env"]))
        if elsewhere or any("://" in one or "${" in one or "$(" in one for one in values):
            return
    where = case.pods.containers[0]
    told = f"{case.name} trains, but has no volume that outlives its pods, and is told of no bucket"
    yield DIES_WITH_POD.at(where, told, severity=WARNING)


def _why_lost(case: Case, written: Written) -> str:
    if _REMOTE.fullmatch(written.text):
        return "a file of the container" if written.text.startswith("file://") else ""
    volume = written.volume
    if not volume:
        unknown = any(one["mountPath"].is_unknown for one in _mounts(case)) or case.pods.spec["volumes"].is_unknown
        return "" if unknown else "below no volume, in the container's own file system"
    if "emptyDir" in volume:
        memory = volume.at("emptyDir", "medium").text == "Memory"
        return "on an emptyDir in memory" if memory else "on an emptyDir, which is deleted with the pod"
    if "hostPath" in volume:
        return f"on a hostPath ({volume.at('hostPath', 'path').text}), which stays behind on one node"
    if "ephemeral" in volume:
        return "on an ephemeral volume, which is deleted with the pod"
    return ""


def _mounts(case: Case) -> Iterator[Node]:
    for container in case.pods.containers:
        yield from entries(container["volumeMounts"])


def _is_copied(case: Case, volume: Node) -> bool:
    """Whether another container sees the volume too, and may copy it away, or a command copies to a bucket."""
    name = volume["name"].text
    users = [one for one in case.pods.containers if name and named(one["volumeMounts"], name)]
    texts = [one.text for box in case.pods.containers for one in (*box["command"], *box["args"])]
    copies = ("gsutil", "gcloud storage", "aws s3", "rclone", "azcopy", "s5cmd")
    return len(users) > 1 or any(tool in text for text in texts for tool in copies)


def _gcsfuse(case: Case) -> Iterator[Finding]:
    volume = next((one for one in entries(case.pods.spec["volumes"]) if _is_gcsfuse(case, one)), None)
    if volume is None or case.pods.partial:
        return
    flag = case.pods.annotations[gke_labels.GCSFUSE_ANNOTATION]
    if case.pods.annotations.is_unknown or flag.is_unknown:
        return
    if flag.text.lower() != "true":
        given = f"is {flag.text!r}" if flag.is_set else "is missing"
        higher = gke_labels.GCSFUSE_ANNOTATION in case.workload.annotations and case.workload.kind != "Pod"
        told = f"{case.name} mounts a bucket, but the annotation {gke_labels.GCSFUSE_ANNOTATION} {given} in its pods"
        told += f"; the one on the {case.workload.kind} does not count" if higher and not flag.is_set else ""
        yield NO_SIDECAR.at(flag if flag.is_set else volume, told)
    if unset(case.pods.spec, "serviceAccountName") and unset(case.pods.spec, "serviceAccount"):
        yield NO_IDENTITY.at(volume, f"{case.name} mounts a bucket, but names no serviceAccountName")


def _is_gcsfuse(case: Case, volume: Node) -> bool:
    if volume.at("csi", "driver").text == gke_labels.GCSFUSE_DRIVER:
        return True
    claim = case.manifest.find("PersistentVolumeClaim", volume.at("persistentVolumeClaim", "claimName").text)
    holder = case.manifest.find("PersistentVolume", claim.at("spec", "volumeName").text) if claim else None
    return holder is not None and holder.at("spec", "csi", "driver").text == gke_labels.GCSFUSE_DRIVER


def _shared_claims(case: Case) -> Iterator[Finding]:
    count = case.pods.count
    if count is None or count < 2 or not (case.workload.ends or case.evidence.trains):
        return
    for volume in entries(case.pods.spec["volumes"]):
        name = volume.at("persistentVolumeClaim", "claimName")
        claim = case.manifest.find("PersistentVolumeClaim", name.text) if name.is_set and not name.is_unknown else None
        modes = claim.at("spec", "accessModes").texts if claim else []
        if modes == ["ReadWriteOncePod"]:
            told = f"{count} pods of {case.name} share {name.text}, which is ReadWriteOncePod: one pod may use it"
            yield ONE_NODE_ONLY.at(name, told, severity=ERROR)
        elif modes and set(modes) <= {"ReadWriteOnce", "ReadWriteOncePod"}:
            told = (
                f"{count} pods of {case.name} share {name.text}, which is ReadWriteOnce: they have to fit on one node"
            )
            yield ONE_NODE_ONLY.at(name, told, severity=ERROR if case.evidence.tpu else WARNING)
