"""What can be done with objects, as the API server does it: decode, fill in, admit, check, keep.

Without HTTP: the emulator's own controllers use it too, so that what they make went through the same checks.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from outlast.emulate.kubernetes import applying, defaulting
from outlast.emulate.kubernetes.admitting import admit, admit_change
from outlast.emulate.kubernetes.applying import Writer
from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.findings import shown
from outlast.emulate.kubernetes.kinds import BY_NAME, Kind
from outlast.emulate.kubernetes.pods import CRITICAL_CLASSES
from outlast.emulate.kubernetes.problems import Refused, bad_patch, bad_request, conflict, forbidden, not_found
from outlast.emulate.kubernetes.schemas import decode
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.validating import check, check_change

Json = dict[str, Any]
Sign = Callable[[Json], None]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_TRIES = 5  # of a patch, when others write the same object
_SERVER_ONLY = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def populate(store: Store) -> None:
    """Adds what a new cluster has: its namespaces, their default accounts, and the system's priority classes."""
    verbs = Verbs(store)
    for name in NAMESPACES:
        verbs.create("Namespace", {"metadata": {"name": name}})
    for name, value in CRITICAL_CLASSES.items():
        store.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": "PreemptLowerPriority",
            }
        )


@dataclass(frozen=True, slots=True)
class How:
    """How a write is to be done. `field_validation`: "Strict" refuses unknown fields, "Warn" drops and tells them.

    `manager`: the writer's name in managedFields; "" writes without a trace. `force`: an apply takes fields over.
    """

    field_validation: str = "Warn"
    dry_run: bool = False
    manager: str = ""
    force: bool = False


def _nothing(_: Json) -> None:
    """Neither refuses nor signs."""


class Verbs:
    """The verbs over one store. `warnings` of a call are what a client prints as `Warning: …`.

    `also` looks at every object that is to be made or changed, by whichever verb, after all other checks, and raises
    Refused for what must not be: so a cluster says no to what it would otherwise ignore.
    """

    def __init__(self, store: Store, *, also: Callable[[Json], None] = _nothing) -> None:
        self.store, self._also = store, also

    def create(
        self, kind_name: str, body: Any, namespace: str = "", how: How = How(), warnings: list[str] | None = None
    ) -> Json:
        """Adds an object. Refused in the API server's words if it may not be."""
        kind = BY_NAME[kind_name]
        made = self._decoded(kind, body, how, warnings)
        made["metadata"].pop("managedFields", None)
        self._place(kind, made, namespace)
        if made["metadata"].get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        writer = Writer(how.manager)
        sign = partial(applying.track, None, writer=writer, now=self.store.timestamp()) if how.manager else _nothing
        return self._created(kind, made, how, sign)

    def replace(
        self,
        kind_name: str,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        how: How = How(),
        warnings: list[str] | None = None,
    ) -> Json:
        """Replaces an object, or (`subresource` "status") its status alone."""
        kind = BY_NAME[kind_name]
        made = self._decoded(kind, body, how, warnings)
        self._place(kind, made, namespace)
        if made["metadata"].get("name", name) != name:
            meta_name = made["metadata"]["name"]
            raise bad_request(f"the name of the object ({meta_name}) does not match the name on the URL ({name})")
        made["metadata"]["name"] = name
        old = self.store.get(kind_name, name, namespace)
        sign = self._signer(old, made, subresource, how)
        return self._replaced(kind, old, made, subresource=subresource, how=how, sign=sign)

    def patch(
        self,
        kind_name: str,
        name: str,
        patch: Any,
        change: Callable[[Json, Any], Any],
        namespace: str = "",
        *,
        subresource: str = "",
        how: How = How(),
        warnings: list[str] | None = None,
    ) -> Json:
        """Writes what `change` makes of a copy of the object and the patch; again where another writer was faster."""
        kind = BY_NAME[kind_name]

        def write() -> Json:
            old = self.store.get(kind_name, name, namespace)
            asked = change(copied(old), patch)
            if not isinstance(asked, dict):
                raise bad_request("a patch makes an object of an object")
            told: list[str] = []
            made = self._decoded(kind, asked, how, told, patch=patch)
            _keep_identity(kind, old, made)
            sign = self._signer(old, made, subresource, how)
            answer = self._replaced(kind, old, made, subresource=subresource, how=how, sign=sign)
            if warnings is not None:
                warnings.extend(told)
            return answer

        return _tried(write)

    def apply(
        self,
        kind_name: str,
        name: str,
        config: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        how: How = How(),
        warnings: list[str] | None = None,
    ) -> Json:
        """Server-side apply: makes the object, or what the configuration says of it, so; `how.manager` owns it."""
        kind = BY_NAME[kind_name]
        if not how.manager:
            raise bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
            )
        wanted = self._decoded(kind, config, how, warnings, patch=config)
        if wanted["metadata"].pop("managedFields", None):
            raise bad_request("metadata.managedFields must be nil")
        self._place(kind, wanted, namespace)
        if wanted["metadata"].setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({wanted['metadata']['name']}) does not match the one on the URL"
            )
        writer, now = Writer(how.manager, "Apply", subresource), self.store.timestamp()

        def write() -> Json:
            old = self.store.find(kind_name, name, namespace)
            if old is None and subresource:
                raise not_found(kind, name)
            sign = partial(_own, old, config=wanted, writer=writer, now=now)
            if old is None:
                return self._created(kind, copied(wanted), how, sign)
            made = applying.apply(old, wanted, writer, force=how.force)
            return self._replaced(kind, old, made, subresource=subresource, how=how, sign=sign)

        return _tried(write)

    def delete(self, kind_name: str, name: str, namespace: str = "", options: Json | None = None) -> Json:
        """Deletes an object as DeleteOptions say; a namespace takes all that is in it along."""
        options = options or {}
        check_delete_options(options)
        preconditions = options.get("preconditions") or {}
        propagation = options.get("propagationPolicy")
        if options.get("orphanDependents") is not None:
            propagation = "Orphan" if options["orphanDependents"] else "Background"
        dry_run = bool(options.get("dryRun"))
        if kind_name == "Namespace":
            return self._end_namespace(name, dry_run=dry_run)
        return self.store.delete(
            kind_name,
            name,
            namespace,
            grace_seconds=options.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            version=preconditions.get("resourceVersion"),
            propagation=propagation or "Background",
            dry_run=dry_run,
        )

    # Parts

    def _decoded(self, kind: Kind, body: Any, how: How, warnings: list[str] | None, *, patch: Any = None) -> Json:
        if not isinstance(body, dict):
            raise bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: no object')
        body = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        for name, wanted in (("apiVersion", kind.api_version), ("kind", kind.name)):
            if body[name] != wanted:
                what = "API version in the data" if name == "apiVersion" else "kind in the data"
                raise bad_request(f"the {what} ({body[name]}) does not match the expected one ({wanted})")
        made, unknown = decode(kind, body)
        if unknown and how.field_validation == "Strict":
            why = f"strict decoding error: {', '.join(unknown)}"
            if patch is not None:
                raise bad_patch(shown(patch), why)
            name, version = kind.name, kind.version
            raise bad_request(f'{name} in version "{version}" cannot be handled as a {name}: {why}')
        if unknown and how.field_validation == "Warn" and warnings is not None:
            warnings.extend(unknown)
        made.setdefault("metadata", {})
        return made

    def _created(self, kind: Kind, made: Json, how: How, sign: Sign) -> Json:
        meta = made["metadata"]
        for name in (*_SERVER_ONLY, "selfLink"):
            meta.pop(name, None)
        meta["uid"] = str(uuid.uuid4())
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self.store.free_name(kind.name, meta.get("namespace", ""), meta["generateName"])
        if kind.has_status and kind.name not in ("Node", "Namespace"):
            made.pop("status", None)
        defaulting.fill(made)
        admit(self.store, made)
        check(made)
        self._also(made)
        sign(made)
        answer = self.store.create(made, dry_run=how.dry_run)
        if kind.name == "Namespace" and not how.dry_run:
            account = {"metadata": {"name": "default"}}
            self.create("ServiceAccount", account, namespace=meta["name"])
        return answer

    def _signer(self, old: Json, made: Json, subresource: str, how: How) -> Sign:
        """Who owns what after a write; a client may also write managedFields itself."""
        asked, known = made["metadata"].get("managedFields"), old["metadata"].get("managedFields")
        if how.manager and asked in (None, known):
            writer = Writer(how.manager, subresource=subresource)
            return partial(applying.track, old, writer=writer, now=self.store.timestamp())
        return partial(_sign_as, known if asked is None else asked)

    def _place(self, kind: Kind, made: Json, namespace: str) -> None:
        meta = made["metadata"]
        if not kind.namespaced:
            if meta.pop("namespace", None):
                raise bad_request("namespace can not be set on a cluster-scoped object")
            return
        namespace = namespace or meta.get("namespace") or "default"
        if meta.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace

    def _replaced(self, kind: Kind, old: Json, made: Json, *, subresource: str, how: How, sign: Sign) -> Json:
        if subresource == "status":
            only = copied(old)
            only["status"] = made.get("status") or {}
            only["metadata"] |= {
                name: made["metadata"][name] for name in ("resourceVersion",) if made["metadata"].get(name)
            }
            for name in ("labels", "annotations"):
                if kind.name in ("Pod", "Node") and name in made["metadata"]:
                    only["metadata"][name] = made["metadata"][name]
            made = only
        elif kind.has_status:
            made.pop("status", None)
            if "status" in old:
                made["status"] = copied(old["status"])
        before = copied(old)
        for one in (before, made):  # a controller may have made it without defaults
            defaulting.fill(one)
        admit_change(kind, before, made)
        check_change(before, made)
        if not subresource:
            self._also(made)
        sign(made)
        return self.store.update(made, dry_run=how.dry_run)

    def _end_namespace(self, name: str, *, dry_run: bool) -> Json:
        """Deletes what is in a namespace, and the namespace when nothing is left."""
        if name in NAMESPACES:
            raise forbidden(BY_NAME["Namespace"], name, "this namespace may not be deleted")
        home = self.store.get("Namespace", name)
        if dry_run:
            return home
        ending = copied(home)
        ending["metadata"]["finalizers"] = ["kubernetes"]
        ending["status"] = {**(ending.get("status") or {}), "phase": "Terminating"}
        self.store.update(ending)
        answer = self.store.delete("Namespace", name)
        for kind in BY_NAME.values():
            if kind.namespaced:
                for one in self.store.listing(kind.name, name).objects:
                    if self.store.find(kind.name, one["metadata"]["name"], name) is not None:
                        self.store.delete(kind.name, one["metadata"]["name"], name)
        return answer


def _tried(write: Callable[[], Json]) -> Json:
    """What `write` returns; it is tried again where it conflicts, as another writer may only have been faster."""
    for _ in range(_TRIES - 1):
        try:
            return write()
        except Refused as refused:
            if refused.reason not in ("Conflict", "AlreadyExists"):
                raise
    return write()


def _sign_as(fields: Any, made: Json) -> None:
    made["metadata"].pop("managedFields", None)
    if fields:
        made["metadata"]["managedFields"] = copied(fields)


def _own(old: Json | None, made: Json, *, config: Json, writer: Writer, now: str) -> None:
    applying.own(old, made, config, writer, now=now)


def _keep_identity(kind: Kind, old: Json, made: Json) -> None:
    """A patch may not rename an object."""
    for name in ("name", "namespace", "uid"):
        before = old["metadata"].get(name)
        now = made["metadata"].get(name, before)
        if now != before:
            if name == "uid":
                raise conflict(kind, old["metadata"]["name"], "the UID of an object cannot be changed")
            raise bad_request(f"the {name} of the object ({now}) does not match the {name} on the URL ({before})")
        if before is not None:
            made["metadata"][name] = before


def check_delete_options(options: Json) -> None:
    """Refused (BadRequest) for fields that DeleteOptions have not, and for values that they do not take."""
    known = {
        "apiVersion", "kind", "dryRun", "gracePeriodSeconds", "orphanDependents", "preconditions", "propagationPolicy",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
    }  # fmt: skip
    if unknown := sorted(set(options) - known):
        raise bad_request(f'unknown field "{unknown[0]}" in DeleteOptions')
    policy = options.get("propagationPolicy")
    if policy not in (None, "Background", "Foreground", "Orphan"):
        raise bad_request(f'DeleteOptions "" is invalid: propagationPolicy: Unsupported value: "{policy}"')
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or grace < 0):
        raise bad_request(f'DeleteOptions "" is invalid: gracePeriodSeconds: Invalid value: {grace}')
