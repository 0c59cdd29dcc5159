"""What a text of Kubernetes objects holds: its workloads, and what else in it says something about them."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.lint.kubernetes.fields import entries
from outlast.lint.kubernetes.workloads import Workload, workload_of
from outlast.lint.reading.yaml_nodes import Node, read_yaml


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of one text, in their order, those in lists and wrappers too; `lines` are those of the text."""

    objects: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    lines: tuple[str, ...] = ()

    def of_kind(self, *kinds: str) -> Iterator[Node]:
        """The objects of some kinds."""
        return (one for one in self.objects if one["kind"].text in kinds)

    def find(self, kind: str, name: str) -> Node | None:
        """The object of a kind and a name; a second one of that name, in another namespace, makes it unknown."""
        found = [one for one in self.of_kind(kind) if one.at("metadata", "name").text == name]
        return found[0] if len(found) == 1 else None


def read_manifest(text: str) -> Manifest:
    """The objects of a text; none where it is something else. Raises Unreadable when it is no YAML."""
    objects = tuple(one for document in read_yaml(text) for one in _objects(document))
    workloads = tuple(made for made in map(workload_of, objects) if made is not None)
    return Manifest(objects, workloads, tuple(text.split("\n")))


def _objects(document: Node) -> Iterator[Node]:
    """An object, or those that it carries: a List's items, an AppWrapper's components, a JSON list of documents."""
    if document.kind == "list":
        for one in entries(document):
            yield from _objects(one)
        return
    if not (document["apiVersion"] and document["kind"]):
        return
    kind = document["kind"].text
    if kind.endswith("List"):
        for item in entries(document["items"]):
            yield from _objects(item)
    elif kind == "AppWrapper":
        for component in entries(document.at("spec", "components")):
            yield from _objects(component["template"])
    else:
        yield document
