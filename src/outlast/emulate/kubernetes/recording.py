"""Events: what controllers and kubelets say of an object, as `kubectl describe` and `kubectl get events` show it."""

from typing import Any, Literal

from outlast.emulate.kubernetes.kinds import BY_NAME
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.store import Store

Json = dict[str, Any]


class Recorder:
    """Records events of one component in the store."""

    def __init__(self, store: Store, component: str, host: str = "") -> None:
        self._store, self._component, self._host = store, component, host
        self._last: dict[str, tuple[str, str]] = {}

    def say(self, about: Json, reason: str, message: str, *, kind: Literal["Normal", "Warning"] = "Normal") -> None:
        """Records an event; the same one again about the same object counts up."""
        meta, of = about["metadata"], BY_NAME[about["kind"]]
        namespace, stamp = meta.get("namespace") or "default", self._store.timestamp()
        key = f"{meta.get('uid')} {self._component} {reason} {message}"
        if key in self._last and self._again(*self._last[key], stamp):
            return
        made = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}.", "namespace": namespace},
            "involvedObject": {
                "kind": of.name,
                "apiVersion": of.api_version,
                "name": meta["name"],
                "uid": meta.get("uid", ""),
                **({"namespace": namespace} if of.namespaced else {}),
            },
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "eventTime": None,
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        self._last[key] = (self._store.create(made)["metadata"]["name"], namespace)

    def _again(self, name: str, namespace: str, stamp: str) -> bool:
        def count(event: Json) -> None:
            event["count"] += 1
            event["lastTimestamp"] = stamp

        try:
            self._store.change("Event", name, namespace, count)
        except Refused:
            return False  # it was deleted
        return True
