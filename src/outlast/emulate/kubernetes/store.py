"""The cluster's objects: versions, conflicts, graceful deletion, finalizers, and watches of what changes.

Objects are plain dicts as in a manifest. What goes in and what comes out are copies; every method may be called
from any thread, and no two changes have the same version. Semantics: Kubernetes API conventions and
k8s.io/apiserver `registry/generic/registry/store.go`, 2026-11-30.
"""

import queue
import threading
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from outlast.emulate import rfc3339
from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.kinds import BY_NAME, Kind
from outlast.emulate.kubernetes.pods import is_over, own_grace_seconds
from outlast.emulate.kubernetes.problems import already_exists, conflict, expired, not_found
from outlast.emulate.kubernetes.selecting import Chosen, by_fields, by_labels
from outlast.emulate.kubernetes.watching import Change, Subscription, Watch, WatchEvent
from outlast.emulate.names import SUFFIX_LETTERS, random_suffix

Json = dict[str, Any]
Key = tuple[str, str, str]  # kind, namespace ("" for kinds without), name
Propagation = Literal["Background", "Foreground", "Orphan"]

DEFAULT_NAMESPACE = "default"
FOREGROUND = "foregroundDeletion"  # the finalizer of an object that waits for those that it owns
HISTORY = 20_000  # changes that are kept for watches from an earlier version
_MODIFIED_SINCE = "the object has been modified; please apply your changes to the latest version and try again"
_LONGEST_PREFIX = 63 - SUFFIX_LETTERS  # of a generated name (k8s.io/apiserver, storage/names)


class Listing(NamedTuple):
    """Objects sorted by namespace and name, and the version of the store that they were read at."""

    objects: list[Json]
    version: str


class Store:
    """All objects of one cluster.

    `now` is the cluster's clock, in UTC; `history` is how many changes a watch can go back.
    """

    def __init__(self, *, now: Callable[[], datetime] = lambda: datetime.now(UTC), history: int = HISTORY) -> None:
        self.now = now
        self._lock = threading.RLock()
        self._objects: dict[Key, Json] = {}
        self._number = 100
        self._history: deque[Change] = deque(maxlen=history)
        self._forgotten = self._number  # watches from before this version have expired
        self._subscribers: list[Subscription] = []

    @property
    def version(self) -> str:
        """The version of the newest change."""
        return str(self._number)

    def timestamp(self, *, plus_seconds: float = 0) -> str:
        """The cluster's time as manifests have it: "2026-11-30T12:00:00Z"."""
        return rfc3339.in_seconds(self.now() + timedelta(seconds=plus_seconds))

    # Reading

    def get(self, kind: str, name: str, namespace: str = "") -> Json:
        """The object; Refused (NotFound) if there is none."""
        with self._lock:
            found: Json = copied(self._stored(_key(kind, name, namespace)))
            return found

    def find(self, kind: str, name: str, namespace: str = "") -> Json | None:
        """The object, or None."""
        with self._lock:
            found: Json | None = copied(self._objects.get(_key(kind, name, namespace)))
            return found

    def listing(self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """The objects of a kind, in one namespace or (None) in all, that both selectors choose."""
        chosen = _both(BY_NAME[kind], labels, fields)
        with self._lock:
            keys = sorted(key for key in self._objects if key[0] == kind and namespace in (None, key[1]))
            return Listing([copied(self._objects[key]) for key in keys if chosen(self._objects[key])], self.version)

    def free_name(self, kind: str, namespace: str, prefix: str) -> str:
        """A name that no object of the kind has: the prefix and five letters."""
        with self._lock:
            while True:
                name = prefix[:_LONGEST_PREFIX] + random_suffix()
                if _key(kind, name, namespace) not in self._objects:
                    return name

    # Changing

    def create(self, new: Json, *, dry_run: bool = False) -> Json:
        """Adds an object and returns it with uid, version, generation and times.

        Refused (AlreadyExists) if its name is taken. `metadata.generateName` makes a free name.
        """
        made: Json = copied(new)
        kind, meta = BY_NAME[made["kind"]], made["metadata"]
        if kind.namespaced:
            meta["namespace"] = meta.get("namespace") or DEFAULT_NAMESPACE
        with self._lock:
            if not meta.get("name"):
                meta["name"] = self.free_name(kind.name, meta.get("namespace", ""), meta["generateName"])
            key = _key_of(made)
            if key in self._objects:
                raise already_exists(kind, meta["name"])
            for left in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
                meta.pop(left, None)
            meta |= {"uid": meta.get("uid") or str(uuid.uuid4()), "creationTimestamp": self.timestamp()}
            if "spec" in made:
                meta["generation"] = 1
            return self._keep(key, None, made, dry_run=dry_run)

    def update(self, new: Json, *, dry_run: bool = False) -> Json:
        """Replaces an object. A `resourceVersion` in it must be the stored one, else Refused (Conflict).

        What only the server sets (uid, times, deletion) stays. An update that changes nothing makes no new version.
        The last finalizer's going removes an object under deletion.
        """
        made: Json = copied(new)
        key = _key_of(made)
        with self._lock:
            old = self._stored(key)
            meta = made["metadata"]
            _check(BY_NAME[key[0]], key[2], old, meta)
            for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
                meta.pop(name, None)
                if name in old["metadata"]:
                    meta[name] = old["metadata"][name]
            meta["resourceVersion"] = old["metadata"]["resourceVersion"]
            if "generation" in meta and _desired(made) != _desired(old):
                meta["generation"] += 1
            if made == old:
                return made
            if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta["deletionGracePeriodSeconds"]:
                return self._remove(key, made, dry_run=dry_run)
            return self._keep(key, old, made, dry_run=dry_run)

    def change(self, kind: str, name: str, namespace: str, edit: Callable[[Json], None]) -> Json:
        """Reads, lets `edit` change the copy in place, and writes, with no other writer in between.

        An exception from `edit` leaves the object as it was. `edit` must not wait.
        """
        with self._lock:
            made = self.get(kind, name, namespace)
            edit(made)
            return self.update(made)

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> Json:
        """Removes an object, or marks it for deletion; returns its last or its marked state.

        A pod that runs on a node stays with its `deletionTimestamp` for its grace (`grace_seconds`, else its
        own `terminationGracePeriodSeconds`, else 30) until somebody deletes it with 0; asking again can shorten
        the grace. An object with finalizers stays until they are gone. Objects that the removed one owns follow
        ("Background"), go before it ("Foreground") or stay ("Orphan"). `uid` and `version` are preconditions:
        Refused (Conflict) where they differ.
        """
        key = _key(kind, name, namespace)
        with self._lock:
            old = self._stored(key)
            _check(BY_NAME[kind], name, old, {"uid": uid, "resourceVersion": version})
            made: Json = copied(old)
            meta = made["metadata"]
            grace = _grace(made, grace_seconds)
            if "deletionTimestamp" in meta:
                grace = min(grace, meta["deletionGracePeriodSeconds"])
            if propagation == "Orphan" and not dry_run:
                self._orphan(meta["uid"])
            owned = self._owned(meta["uid"]) if propagation == "Foreground" else []
            if owned and FOREGROUND not in meta.get("finalizers", []):
                meta["finalizers"] = [*meta.get("finalizers", []), FOREGROUND]
            if not grace and not meta.get("finalizers"):
                return self._remove(key, made, dry_run=dry_run)
            if meta.get("deletionGracePeriodSeconds") == grace:
                return made  # asked for before
            if "generation" in meta and "deletionTimestamp" not in meta:
                meta["generation"] += 1
            meta |= {"deletionTimestamp": self.timestamp(plus_seconds=grace), "deletionGracePeriodSeconds": grace}
            answer = self._keep(key, old, made, dry_run=dry_run)
            for one in owned if not dry_run else []:
                self.delete(one[0], one[2], one[1])
            return answer

    # Hearing of changes

    def watch(
        self,
        kind: str | None = None,
        namespace: str | None = None,
        *,
        since: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Watch:
        """Changes from now on, for a thread. See `subscribe`."""
        events: queue.SimpleQueue[WatchEvent | None] = queue.SimpleQueue()
        wanted = self.subscribe(events.put, kind, namespace, since=since, labels=labels, fields=fields)
        return Watch(events, lambda: self.unsubscribe(wanted))

    def subscribe(
        self,
        deliver: Callable[[WatchEvent], None],
        kind: str | None = None,
        namespace: str | None = None,
        *,
        since: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Subscription:
        """Calls `deliver` with every change after version `since`, in order; give the answer to `unsubscribe`.

        None or "0": first every present object as ADDED. `kind` None means every kind. `deliver` is called
        under the store's lock, from the thread that changes: it must hand over and return. Refused (Expired) if
        that version's history is no longer kept.
        """
        chosen = _both(BY_NAME[kind], labels, fields) if kind else by_labels(labels)
        wanted = Subscription(kind, namespace, chosen, deliver)
        with self._lock:
            for change in self._present() if since in (None, "", "0") else self._after(int(str(since))):
                wanted.tell(change)
            self._subscribers.append(wanted)
        return wanted

    def unsubscribe(self, wanted: Subscription) -> None:
        """Nothing is delivered after this; a second time does nothing."""
        with self._lock:
            self._subscribers = [one for one in self._subscribers if one is not wanted]

    def compact(self) -> None:
        """Forgets the history, as a server does now and then: watches from before now get Expired."""
        with self._lock:
            self._history.clear()
            self._forgotten = self._number

    # Under the lock

    def _stored(self, key: Key) -> Json:
        found = self._objects.get(key)
        if found is None:
            raise not_found(BY_NAME[key[0]], key[2])
        return found

    def _keep(self, key: Key, old: Json | None, made: Json, *, dry_run: bool) -> Json:
        if not dry_run:
            self._objects[key] = made
            self._publish("MODIFIED" if old else "ADDED", old, made)
        answer: Json = copied(made)
        return answer

    def _remove(self, key: Key, made: Json, *, dry_run: bool) -> Json:
        if not dry_run:
            old = self._objects.pop(key)
            self._publish("DELETED", old, made)
            for owned in self._owned(made["metadata"]["uid"]):
                self.delete(owned[0], owned[2], owned[1])
            for owner in _owners(made):
                self._release(owner)
            self._release_namespace(key[1])
        answer: Json = copied(made)
        return answer

    def _publish(self, kind: str, old: Json | None, made: Json) -> None:
        self._number += 1
        made["metadata"]["resourceVersion"] = str(self._number)
        change = Change(self._number, kind, old, made)
        if len(self._history) == self._history.maxlen:
            self._forgotten = self._history[0].number
        self._history.append(change)
        for wanted in self._subscribers:
            wanted.tell(change)

    def _owned(self, uid: str) -> list[Key]:
        """Objects that have this owner and no other one that is still there."""
        present = {one["metadata"]["uid"] for one in self._objects.values()}
        owners = {key: {one["uid"] for one in _owners(made)} for key, made in self._objects.items()}
        return [key for key, uids in owners.items() if uid in uids and not (uids - {uid}) & present]

    def _release(self, owner: Json) -> None:
        """Lets an owner go that waited for those that it owns, if none is left."""
        for old in list(self._objects.values()):
            waits = old["metadata"]["uid"] == owner["uid"] and FOREGROUND in old["metadata"].get("finalizers", [])
            if waits and not self._owned(owner["uid"]):
                made = copied(old)
                made["metadata"]["finalizers"].remove(FOREGROUND)
                self.update(made)

    def _release_namespace(self, name: str) -> None:
        """Lets a namespace go that is being deleted, when nothing is left in it."""
        home = self._objects.get(("Namespace", "", name))
        if home and "deletionTimestamp" in home["metadata"] and not any(key[1] == name for key in self._objects):
            self.change("Namespace", name, "", lambda made: made["metadata"].pop("finalizers", None))

    def _orphan(self, uid: str) -> None:
        for key, old in list(self._objects.items()):
            if any(one["uid"] == uid for one in _owners(old)):
                made = copied(old)
                made["metadata"]["ownerReferences"] = [one for one in _owners(old) if one["uid"] != uid]
                self._keep(key, old, made, dry_run=False)

    def _present(self) -> list[Change]:
        return [Change(0, "ADDED", None, self._objects[key]) for key in sorted(self._objects)]

    def _after(self, number: int) -> list[Change]:
        if number < self._forgotten:
            raise expired(f"too old resource version: {number} ({self._forgotten})")
        return [change for change in self._history if change.number > number]


def _key(kind: str, name: str, namespace: str) -> Key:
    return kind, (namespace or DEFAULT_NAMESPACE) if BY_NAME[kind].namespaced else "", name


def _key_of(made: Json) -> Key:
    return _key(made["kind"], made["metadata"]["name"], made["metadata"].get("namespace", ""))


def _owners(made: Json) -> list[Json]:
    found: list[Json] = made["metadata"].get("ownerReferences") or []
    return found


def _desired(made: Json) -> Json:
    return {name: value for name, value in made.items() if name not in ("metadata", "status")}


def _both(kind: Kind, labels: str, fields: str) -> Chosen:
    if not labels and not fields:
        return lambda _: True
    label_test, field_test = by_labels(labels), by_fields(fields, kind)
    return lambda found: label_test(found) and field_test(found)


def _check(kind: Kind, name: str, old: Json, meta: Json) -> None:
    """Preconditions: a uid and a version that the writer takes the object to have."""
    stored = old["metadata"]
    if meta.get("uid") and meta["uid"] != stored["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {stored['uid']}"
        raise conflict(kind, name, why)
    if meta.get("resourceVersion") and meta["resourceVersion"] != stored["resourceVersion"]:
        raise conflict(kind, name, _MODIFIED_SINCE)


def _grace(made: Json, asked: int | None) -> int:
    """Seconds that a deletion waits; only a pod that was given a node and has not ended has any."""
    if made["kind"] != "Pod":
        return 0
    if not (made.get("spec") or {}).get("nodeName") or is_over(made):
        return 0
    grace = own_grace_seconds(made) if asked is None else asked
    return max(1, grace) if grace else 0
