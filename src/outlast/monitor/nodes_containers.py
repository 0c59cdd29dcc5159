"""What a container's description says: its variables and words, what is mounted, and so which store it works at.

Facts as of 2026-11-29. Kubernetes, "Define dependent environment variables" ($(NAME) in values and arguments). GKE,
"Cloud Storage FUSE CSI driver", and Cloud Run, "Cloud Storage volume mounts for jobs": volumeAttributes bucketName and
mountOptions; gcsfuse: only-dir.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from outlast.platforms import cloud_run_limits, gke_labels
from outlast.sources.kubernetes_api import Json, part, text

_PROGRAM = "outlast"
_URL = re.compile(r"(?:gs|s3|az|sqlite|postgresql|postgres|pubsub)://[^\s'\"]+")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_FUSE_DRIVERS = (gke_labels.GCSFUSE_DRIVER, cloud_run_limits.BUCKET_DRIVER)
_LONGEST_URL = 1000


class ContainerMarks:
    """One container, of a pod or of a Cloud Run task. `env`: the variables whose values stand in its description."""

    def __init__(self, container: Json, volumes: Sequence[Json]) -> None:
        self._name = text(container.get("name"))
        self._given = [one for one in rows(container.get("env")) if text(one.get("name"))]
        sources = rows(container.get("envFrom"))
        self._from = [kind for one in sources for kind in ("configMapRef", "secretRef") if kind in one]
        self.env: dict[str, str] = {}
        for one in self._given:
            if isinstance(value := one.get("value"), str):
                self.env[text(one["name"])] = _expanded(value, self.env)
        words = [*_texts(container.get("command")), *_texts(container.get("args"))]
        self._words = [_expanded(word, self.env) for word in words]
        self._buckets = dict(_buckets(container, volumes))

    def runs_outlast(self) -> str:
        """What says that it runs outlast, if anything does."""
        for one in self._given:
            if text(one["name"]).startswith("OUTLAST_"):
                return f"variable {text(one['name'])}"
        for word in self._words:
            inner = word.split()
            if any(part.rpartition("/")[2] == _PROGRAM for part in inner[:6]) or "-m outlast" in word:
                return "its command"
        return ""

    def urls(self, *, guess: bool) -> Iterator[str]:
        """Stores and queues that it names. `guess`: a mounted bucket is one, too, if nothing else is named."""
        named = [one for one in self._named() if len(one) <= _LONGEST_URL and one.isprintable()]
        yield from named
        if guess and not named:
            yield from self._buckets.values()

    def _named(self) -> Iterator[str]:
        told = self.env.get("OUTLAST_URL", "")
        if told:
            yield self._outside(told)
        for word in [*self._words, *(value for name, value in self.env.items() if name != "OUTLAST_URL")]:
            if found := _URL.findall(word):
                yield from found
            elif any(_is_below(word.rpartition("=")[2], folder) for folder in self._buckets):
                yield self._outside(word.rpartition("=")[2])

    def unseen(self) -> Iterator[str]:
        """What its manifest does not tell."""
        for one in self._given:
            if text(one["name"]) == "OUTLAST_URL" and "value" not in one:
                yield f"container {self._name} takes OUTLAST_URL from elsewhere"
        for kind in self._from:
            yield f"container {self._name} has variables from a {kind.removesuffix('Ref')}"

    def _outside(self, place: str) -> str:
        """A path in a mounted bucket as the bucket's URL."""
        for folder, url in sorted(self._buckets.items(), key=lambda one: -len(one[0])):
            if _is_below(place, folder):
                return url + place[len(folder) :].rstrip("/")
        return place


def _buckets(container: Json, volumes: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """(folder, URL) of each bucket that is mounted in a container."""
    by_name = {text(one.get("name")): one for one in volumes}
    for mount in rows(container.get("volumeMounts")):
        csi = part(by_name.get(text(mount.get("name")), {}), "csi")
        bucket = text(part(csi, "volumeAttributes").get("bucketName"))
        if csi.get("driver") in _FUSE_DRIVERS and bucket not in ("", "_"):
            options = text(part(csi, "volumeAttributes").get("mountOptions")).split(",")
            inner = next((one.partition("=")[2] for one in options if one.strip().startswith("only-dir")), "")
            path = [one.strip("/") for one in (bucket, inner, text(mount.get("subPath"))) if one.strip("/")]
            yield text(mount.get("mountPath")).rstrip("/"), f"gs://{'/'.join(path)}"


def _is_below(place: str, folder: str) -> bool:
    return bool(folder) and (place == folder or place.startswith(f"{folder}/"))


def _expanded(value: str, env: Mapping[str, str]) -> str:
    """With $(NAME) as Kubernetes expands it: names that are not known stay as they are."""
    return _REFERENCE.sub(lambda found: env.get(found[1], found[0]), value)


def rows(value: object) -> list[Json]:
    """The objects in what should be a list of them."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: object) -> Iterable[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
