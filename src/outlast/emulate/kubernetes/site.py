"""What all nodes of an emulated cluster share: its store and logs, its images, its folder, its scale of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outlast.emulate.kubernetes.images import Image
from outlast.emulate.kubernetes.pod_logs import LogBook
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.scale import TimeScale


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster on this machine.

    `folder` holds claims, buckets, disks of nodes and folders of pods. `api` is the address of the API server for pods,
    over TLS; None where there is none. `environment`: what every container starts with. `buckets`: folders of buckets
    that are not the cluster's own.
    """

    store: Store
    logs: LogBook
    folder: Path
    scale: TimeScale = field(default_factory=TimeScale)
    images: Mapping[str, Image] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    buckets: Mapping[str, Path] = field(default_factory=dict)
    api: tuple[str, int] | None = None

    @property
    def account(self) -> Path:
        """The files of the service account that every pod gets."""
        return self.folder / "serviceaccount"

    def bucket(self, name: str) -> Path:
        """The folder of a bucket: the one that was given for it, or one of the cluster's own."""
        return self.buckets.get(name) or self.folder / "buckets" / name

    @property
    def claims(self) -> Path:
        """A folder for each claim: NAMESPACE_NAME."""
        return self.folder / "claims"

    def disk(self, node_uid: str) -> Path:
        """The disk of a node, which ends with its machine."""
        return self.folder / "nodes" / node_uid
