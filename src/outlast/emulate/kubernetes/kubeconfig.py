"""A kubeconfig that leads kubectl and the official client to the emulated cluster."""

import json

NAME = "outlast"


def kubeconfig(url: str, *, namespace: str = "default") -> str:
    """The text of a kubeconfig file (JSON, which is YAML) for a server at this URL; there is nothing to log in to."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "users": [{"name": NAME, "user": {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    }
    return json.dumps(config, indent=2) + "\n"
