"""What a text of Kubernetes objects holds: its workloads, and what else in it says something about them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from outlast.lint.kubernetes.workloads import Workload, workload_of
from outlast.lint.reading.yaml_nodes import Node, read_yaml

_GKE_GROUPS = ("cloud.google.com", "gke.io", "monitoring.googleapis.com")
_ACCOUNT = "iam.gke.io/gcp-service-account"


@dataclass(frozen=True)
class Manifest:
    """The objects of one text, in their order, those in lists and wrappers too; `lines` are those of the text."""

    objects: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    lines: tuple[str, ...] = ()
    named: dict[tuple[str, str], Node | None] = field(default_factory=dict, repr=False)

    def of_kind(self, *kinds: str) -> Iterator[Node]:
        """The objects of some kinds."""
        return (one for one in self.objects if one["kind"].text in kinds)

    def find(self, kind: str, name: str) -> Node | None:
        """The object of a kind and a name; a second one of that name, in another namespace, makes it unknown."""
        return self.named.get((kind, name))

    @cached_property
    def on_gke(self) -> bool:
        """Whether some of the objects are GKE's own, or bound to Google's accounts."""
        for one in self.objects:
            group = one["apiVersion"].text.split("/")[0]
            if group.endswith(_GKE_GROUPS) or _ACCOUNT in one.at("metadata", "annotations"):
                return True
        return False


def read_manifest(text: str) -> Manifest:
    """The objects of a text; none where it is something else. Raises Unreadable when it is no YAML."""
    return manifest_of(read_yaml(text), tuple(text.split("\n")))


def manifest_of(documents: Iterable[Node], lines: tuple[str, ...] = ()) -> Manifest:
    """The objects among some documents; `lines`: the text that their places are in."""
    objects = tuple(one for document in documents for one in _objects(document))
    named: dict[tuple[str, str], Node | None] = {}
    for one in objects:
        key = (one["kind"].text, one.at("metadata", "name").text)
        named[key] = one if key not in named else None
    workloads = tuple(made for made in map(workload_of, objects) if made is not None)
    return Manifest(objects, workloads, lines, named)


def _objects(document: Node) -> Iterator[Node]:
    """An object, or those that it carries: a List's items, an AppWrapper's components, a JSON list of documents."""
    if document.kind == "list":
        for one in document:
            yield from _objects(one)
        return
    if not (document["apiVersion"] and document["kind"]):
        return
    kind = document["kind"].text
    if kind.endswith("List"):
        for item in document["items"]:
            yield from _objects(item)
    elif kind == "AppWrapper":
        for component in document.at("spec", "components"):
            yield from _objects(component["template"])
    else:
        yield document
