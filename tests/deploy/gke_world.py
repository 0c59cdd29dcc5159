"""The gcloud of `gcloud_world`, for GKE too: a cluster, its features, node pools, and who may act as whom.

Of the flags for a cluster and its pools the real gcloud judges (tests/deploy/test_gke_gcloud.py); here they are taken.
"""

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # its own folder is where it looks for modules
    import gcloud_world
else:
    from deploy import gcloud_world

_PLACE = {"--location"}
_POOL = {
    "--cluster", "--machine-type", "--workload-metadata", "--spot", "--node-taints", "--accelerator",
    "--enable-autoscaling", "--num-nodes", "--total-min-nodes", "--total-max-nodes", "--location-policy",
    "--system-config-from-file", *_PLACE,
}  # fmt: skip
_IAM = {"--member", "--role"}
gcloud_world.FLAGS.update({
    "iam service-accounts add-iam-policy-binding": (_IAM, 1, 1),
    "iam service-accounts remove-iam-policy-binding": (_IAM, 1, 1),
    "iam service-accounts get-iam-policy": (set(), 1, 1),
    "container clusters update": ({"--workload-pool", "--update-addons", *_PLACE}, 1, 1),
    "container clusters describe": (_PLACE, 1, 1),
    "container clusters get-credentials": (_PLACE, 1, 1),
    "container node-pools create": (_POOL, 1, 1),
    "container node-pools describe": ({"--cluster", *_PLACE}, 1, 1),
    "container node-pools delete": ({"--cluster", *_PLACE}, 1, 1),
})  # fmt: skip
gcloud_world._BARE.update({"--spot", "--enable-autoscaling"})


class GkeGcloud(gcloud_world._Gcloud):
    """One call."""

    def add_binding(self, kind: str) -> None:
        if kind != "accounts":
            super().add_binding(kind)
            return
        self.there(kind, self.arguments[0])  # who may act as it is of the cluster, and no account here
        self.new("bindings", self.binding())

    def iam_service_accounts_add_iam_policy_binding(self) -> None:
        self.add_binding("accounts")

    def iam_service_accounts_remove_iam_policy_binding(self) -> None:
        self.gone("bindings", self.binding())

    def iam_service_accounts_get_iam_policy(self) -> list[str]:
        return self.get_policy("accounts")

    def container_clusters_update(self) -> None:
        self.needs("container")
        for flag in ("--workload-pool", "--update-addons"):
            if flag in self.flags:
                self.all("features")[flag] = self.flags[flag]

    def container_clusters_describe(self) -> list[str]:
        self.needs("container")
        features: dict[str, Any] = self.all("features")
        if "workloadPool" in self.flags["--format"]:
            return [features.get("--workload-pool", "")]
        return ["True" if "--update-addons" in features else ""]

    def container_clusters_get_credentials(self) -> None:
        """The kubeconfig of the test has it."""

    def container_node_pools_create(self) -> None:
        self.needs("container")
        if "--workload-pool" not in self.all("features"):
            self.fail("GKE_METADATA needs Workload Identity on the cluster")
        config = self.flags.get("--system-config-from-file")
        self.new("pools", self.arguments[0], None if config is None else Path(config).read_text())

    def container_node_pools_describe(self) -> list[str]:
        return self.there("pools", self.arguments[0])

    def container_node_pools_delete(self) -> None:
        self.gone("pools", self.arguments[0])


if __name__ == "__main__":
    gcloud_world._policies()
    GkeGcloud(Path(sys.argv[1]), sys.argv[2:]).run()
