"""The part of the GKE API that node pools and credentials need, for the real gcloud: clusters and pools in memory."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
LOCATION = "europe-west4-a"
_PATH = re.compile(
    r"/v1(?:beta1)?/projects/(?P<project>[^/?]+)/locations/(?P<location>[^/?]+)/(?P<rest>[^?]+)(?:\?.*)?"
)


class GkeApi:
    """One cluster, and what was asked for. `url` is the address of the API."""

    def __init__(self, cluster: str) -> None:
        self.pools: dict[str, Json] = {}
        self.cluster: Json = {
            "name": cluster,
            "status": "RUNNING",
            "zone": LOCATION,
            "location": LOCATION,
            "currentNodeVersion": "1.35.1-gke.1000000",
            "endpoint": "127.0.0.1",
            "masterAuth": {"clusterCaCertificate": "bm9uZQ=="},
            "currentMasterVersion": "1.35.1-gke.1000000",
        }
        self.changes: list[Json] = []
        self.url = ""

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """What the API says."""
        matched = _PATH.fullmatch(path)
        if matched is None:
            return 404, {}
        rest = matched["rest"].split("/")
        if rest[0] == "operations":
            return 200, self._done(rest[1])
        if rest[:2] != ["clusters", self.cluster["name"]]:
            return 404, {"error": {"code": 404, "message": f"Not found: {matched['rest']}", "status": "NOT_FOUND"}}
        if len(rest) == 2:
            return self._on_cluster(method, body)
        return self._on_pool(method, rest[3] if len(rest) > 3 else "", body)

    def _on_cluster(self, method: str, body: Json) -> tuple[int, Json]:
        if method == "GET":
            return 200, {**self.cluster, "nodePools": list(self.pools.values())}
        self.changes.append(body)
        update = body["update"]
        if pool := update.get("desiredWorkloadIdentityConfig"):
            self.cluster["workloadIdentityConfig"] = pool
        if addons := update.get("desiredAddonsConfig"):
            self.cluster["addonsConfig"] = addons
        return 200, self._done("update")

    def _on_pool(self, method: str, name: str, body: Json) -> tuple[int, Json]:
        if method == "POST":
            self.changes.append(body)
            pool = body["nodePool"]
            self.pools[pool["name"]] = pool
            return 200, self._done("create")
        if name not in self.pools:
            return 404, {"error": {"code": 404, "message": f"Not found: {name}.", "status": "NOT_FOUND"}}
        if method == "DELETE":
            del self.pools[name]
            return 200, self._done("delete")
        return 200, self.pools[name]

    def _done(self, name: str) -> Json:
        return {"name": name, "status": "DONE", "operationType": "CREATE_NODE_POOL", "targetLink": f"{self.url}/x"}


@contextmanager
def gke_api(cluster: str) -> Iterator[GkeApi]:
    """The API, served on loopback."""
    api = GkeApi(cluster)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            code, said = api.answer(self.command, self.path, body)
            data = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def gcloud_environment(api: GkeApi, folder: Path) -> dict[str, str]:
    """The variables that lead gcloud to the API, without a login, and away from this user's own settings."""
    return {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"{api.url}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_SHOULD_PROMPT_TO_ENABLE_API": "false",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "KUBECONFIG": str(folder / "kubeconfig"),
    }
