"""Changes in a manifest that exists: only what survival needs; every other character stays.

Facts as of 2026-11-30, beside those of `outlast.deploy.gke.workloads`. Kubernetes, "CronJob": concurrencyPolicy is
Allow unless set. Kubeflow training operator: restartPolicy ExitCode starts a replica again after 128 to 255 and takes
1 to 127 for good; with OnFailure a pod that went with its node is not made again (kubeflow/trainer#1570).
"""

import itertools
import math
import reprlib
from dataclasses import dataclass, field
from typing import Any

import yaml

from outlast.deploy.description import Description
from outlast.deploy.gke import nodes, workloads
from outlast.deploy.gke.explained import plain
from outlast.deploy.gke.grace import Grace, choose_grace, most_seconds, needed_seconds
from outlast.deploy.gke.pods import GCSFUSE_ANNOTATION, GCSFUSE_DRIVER
from outlast.deploy.gke.reading import Found, find_pods, is_cloud_run, kinds_of, main_container
from outlast.deploy.patched import Patched
from outlast.deploy.plain_data import at, list_at, scalar_text, text_at
from outlast.deploy.yaml_edits import Path, add_to, load_documents, remove_in, set_in
from outlast.errors import EXIT_HUMAN, SettingsError
from outlast.platforms import gke_gpu, gke_spot, gke_tpu, kubernetes
from outlast.ports import NODE_CLASS, POD_GRACE

Json = dict[str, Any]
_FEW_RETRIES = 3
_INSIDE = ("outlast", "run", "--retries", "3", "--")  # of a 75, which ExitCode takes for good
# The volumes that go with the pod or its node, and those that nothing is written to.
_NOT_KEPT = {"name", "emptyDir", "configMap", "secret", "projected", "downwardAPI", "ephemeral", "image"}
_PLAIN = ("outlast", "run", "--")
_KNOWN_FIRST = ("outlast",)
_CODE = "OUTLAST_EXIT_CODE"
_RULES = f"what the platform ends costs no retry, {EXIT_HUMAN} needs a human, {workloads.INTERRUPTED} left early"
_NODE = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}


def patch(text: str, file: str, description: Description | None = None) -> Patched:
    """The text with what its pods need to survive. Raises SettingsError where there is nothing that can be patched."""
    documents = load_documents(text, file)
    if not find_pods(documents, file):
        says = f"`outlast lint {file}` says what to change by hand"
        if any(is_cloud_run(one) for one in documents):
            says = f"it is for Cloud Run: `outlast deploy cloud-run --patch {file}`"
        raise SettingsError(
            f"{file}: there is no Job, CronJob, JobSet or PyTorchJob in it, so nothing is changed; {says}"
        )
    done = []
    for part in _documents(text):  # each by itself: a change costs as much as its document is long
        patching = _Patching(part, file, description)
        for one in find_pods(load_documents(part, file), file):
            _PATCHES[one.controller](patching, one)
            _pod(patching, one)
        done.append(patching)
    changes = tuple(said for one in done for said in one.changes)
    return Patched("".join(one.text for one in done), changes, tuple(said for one in done for said in one.by_hand))


def _documents(text: str) -> list[str]:
    """The text in pieces with a document each; together they are the text."""
    events = yaml.parse(text, Loader=yaml.SafeLoader)
    marks = [one.start_mark for one in events if isinstance(one, yaml.DocumentStartEvent) and one.explicit]
    borders = [0, *(mark.index for mark in marks if mark is not None and mark.index), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(borders)]


@dataclass(slots=True)
class _Patching:
    """One manifest while it is changed."""

    text: str
    file: str
    description: Description | None
    changes: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    _loaded: tuple[str, list[Any]] | None = None

    def get(self, found: Found, path: Path) -> Any:
        """What is there now."""
        if self._loaded is None or self._loaded[0] != self.text:
            self._loaded = (self.text, load_documents(self.text, self.file))
        return at(self._loaded[1][found.document], path)

    def set(self, found: Found, path: Path, value: object, why: str) -> None:
        """Sets it, unless it is so already."""
        if self.get(found, path) == value:
            return
        before = self.get(found, path)
        said = f"{_said(value)}" if before is None else f"{_said(value)} instead of {_said(before)}"
        self._do(found, path, f"{said}: {why}", set_in, value)

    def add(self, found: Found, path: Path, item: object, why: str, *, first: bool = False) -> None:
        """Adds it to a list. Without a reason it belongs to the next change, and is not told by itself."""
        self._do(found, path, f"+ {_said(item)}: {why}" if why else "", add_to, item, first=first)

    def remove(self, found: Found, path: Path, why: str) -> None:
        """Takes it away."""
        self._do(found, path, f"- {_said(self.get(found, path))}: {why}", remove_in)

    def note(self, found: Found, said: str) -> None:
        """What a person has to do."""
        where = f"{self.file}: {self.name(found)}: {said}"
        if where not in self.by_hand:
            self.by_hand.append(where)

    def name(self, found: Found) -> str:
        """Of the object, for people."""
        kind, name = self.get(found, (*found.top, "kind")), self.get(found, (*found.top, "metadata", "name"))
        return f"{kind} {name or '(no name)'}"

    def _do(self, found: Found, path: Path, said: str, edit: Any, *arguments: Any, **more: Any) -> None:
        place = ".".join(str(part) for part in path[len(found.top) :])
        try:
            self.text = edit(self.text, path, *arguments, document=found.document, file=self.file, **more)
        except SettingsError as error:
            self.by_hand.append(f"{error} ({said})")
            return
        if said:
            self.changes.append(f"{self.name(found)}: {place}: {said}")


def _said(value: object) -> str:
    """A value in short; of one that aliases make huge, its beginning."""
    short = reprlib.Repr()
    short.maxlevel, short.maxdict, short.maxlist, short.maxstring = 7, 8, 8, 60
    return value if isinstance(value, str) else short.repr(value).replace("'", "")


# --- what starts the pods -----------------------------------------------------------------------------


def _job(patching: _Patching, found: Found) -> None:
    """A Job, or that of a CronJob."""
    rules = (workloads.DISRUPTED, workloads.HUMAN_NEEDED, workloads.LEFT_EARLY)
    _failure_rules(patching, found, rules)
    _one_writer(patching, found)
    limit = patching.get(found, (*found.starter, "backoffLimit"))
    if isinstance(limit, int) and limit < _FEW_RETRIES:
        usual = kubernetes.FACTS.default_retries
        patching.set(found, (*found.starter, "backoffLimit"), usual, "the storage may fail too, which costs a retry")
    if text_at(patching.get(found, found.top), ("kind",)) == "CronJob":
        path = (*found.top, "spec", "concurrencyPolicy")
        if patching.get(found, path) in (None, "Allow"):
            patching.set(found, path, "Forbid", "two runs would write the same checkpoints")


def _jobset(patching: _Patching, found: Found) -> None:
    """One Job of a JobSet, and the JobSet."""
    rules = (workloads.HUMAN_NEEDED, workloads.RANK_DISRUPTED, workloads.RANK_LEFT_EARLY)
    _failure_rules(patching, found, rules)
    _one_writer(patching, found)
    if patching.get(found, (*found.starter, "backoffLimit")) is None:
        patching.set(found, (*found.starter, "backoffLimit"), 0, "a rank is not replaced alone")
    policy, wanted = (
        (*found.top, "spec", "failurePolicy"),
        plain(workloads.restart_policy(kubernetes.FACTS.default_retries)),
    )
    if patching.get(found, policy) is None:
        patching.set(found, policy, wanted, "all ranks start again, and disruptions cost no restart")
        return
    if not patching.get(found, (*policy, "maxRestarts")):
        patching.set(found, (*policy, "maxRestarts"), wanted["maxRestarts"], "unless set it is 0: one loss ends it")
    why = "no new rank starts while an old one may still write"
    patching.set(found, (*policy, "restartStrategy"), wanted["restartStrategy"], why)
    known = {text_at(one, ("action",)) for one in list_at(patching.get(found, policy), ("rules",))}
    if wanted["rules"][1]["action"] not in known:
        for rule in reversed(wanted["rules"]):
            why = "disruptions cost no restart, and 78 needs a human"
            patching.add(found, (*policy, "rules"), rule, why, first=True)


def _pytorch_job(patching: _Patching, found: Found) -> None:
    """One replica of a PyTorchJob; the operator makes its pods without a Job."""
    path = (*found.starter, "restartPolicy")
    if patching.get(found, path) != "ExitCode":
        patching.set(found, path, "ExitCode", "143 and 137 are started again, also after a node is gone; 78 is not")


_PATCHES = {"Job": _job, "JobSet": _jobset, "PyTorchJob": _pytorch_job}


def _one_writer(patching: _Patching, found: Found) -> None:
    why = "podFailurePolicy needs it; and each attempt is a pod whose end can be read"
    patching.set(found, (*found.pod, "restartPolicy"), "Never", why)
    why = "a successor starts once the pod is over, so that two never write the same checkpoints"
    patching.set(found, (*found.starter, "podReplacementPolicy"), "Failed", why)


def _failure_rules(patching: _Patching, found: Found, wanted: tuple[Json, ...]) -> None:
    """Puts the rules before all others, in their order; those that stand there already in that order stay."""
    path = (*found.starter, "podFailurePolicy", "rules")
    named = [_named(patching, found, rule) for rule in wanted]
    present = list_at(patching.get(found, found.starter), ("podFailurePolicy", "rules"))
    if [_key(one) for one in present[: len(wanted)]] == [_key(one) for one in wanted]:
        return
    if not present:
        patching.set(found, path[:-1], {"rules": named}, _RULES)
        return
    for number in reversed(range(len(present))):
        if _key(present[number]) in [_key(one) for one in wanted] and len(present) > 1:
            patching.remove(found, (*path, number), "it comes first: the first rule that matches counts")
            present.pop(number)
    for place, rule in reversed(list(enumerate(named))):
        why = "" if place else f"and those for {EXIT_HUMAN} and {workloads.INTERRUPTED}, first: {_RULES}"
        patching.add(found, path, rule, why, first=True)


def _key(rule: Any) -> tuple[str, str]:
    """What a rule comes to: its action, and what it is about."""
    conditions = [text_at(one, ("type",)) for one in list_at(rule, ("onPodConditions",))]
    values = [scalar_text(one) for one in list_at(rule, ("onExitCodes", "values"))]
    codes = (text_at(rule, ("onExitCodes", "operator")), values)
    return text_at(rule, ("action",)), str(conditions or codes)


def _named(patching: _Patching, found: Found, rule: Json) -> Json:
    """The rule for the program's container, where there are others."""
    pod = patching.get(found, found.pod)
    number, containers = main_container(pod), list_at(pod, ("containers",))
    if "onExitCodes" not in rule or number is None or len(containers) < 2:
        return rule
    return {**rule, "onExitCodes": {"containerName": text_at(containers[number], ("name",)), **rule["onExitCodes"]}}


# --- the pods ----------------------------------------------------------------------------------------


def _pod(patching: _Patching, found: Found) -> None:
    pod = patching.get(found, found.pod)
    number = main_container(pod)
    if number is None:
        patching.note(found, "it has no containers here, so nothing could be told them")
        return
    container = (*found.pod, "containers", number)
    grace = _grace(patching, found)
    _tolerations(patching, found)
    _bucket(patching, found)
    _command(patching, found, container)
    _variables(patching, found, container, grace)


def _grace(patching: _Patching, found: Found) -> int:
    pod, path = patching.get(found, found.pod), (*found.pod, "terminationGracePeriodSeconds")
    save = None if patching.description is None else patching.description.measured.save_seconds
    chosen: Grace = choose_grace(kinds_of(pod), save_seconds=save, long_shutdown=False)
    if chosen.warning is not None:
        patching.note(found, chosen.warning)
    present = at(pod, ("terminationGracePeriodSeconds",))
    most = most_seconds(kinds_of(pod), long_shutdown=True) or math.inf  # the pool may have that budget
    least = 1.0 if save is None else min(needed_seconds(save), chosen.seconds)
    if isinstance(present, int) and least <= present <= most:
        return present
    usual = int(kubernetes.FACTS.grace_seconds)
    if present is None and save is None and kinds_of(pod) == (kubernetes.FACTS,):
        return usual  # nothing is known that would ask for more
    patching.set(found, path, chosen.seconds, chosen.reason)
    return chosen.seconds


def _tolerations(patching: _Patching, found: Found) -> None:
    path = (*found.pod, "tolerations")
    present = list_at(patching.get(found, found.pod), ("tolerations",))
    bad = [number for number, one in enumerate(present) if _tolerates_the_end(one)]
    why = "with it the pod is started on a node that is about to go; taints of your own pools need their keys"
    for key in _taints(patching.get(found, found.pod)) if bad else ():
        if key not in [at(one, ("key",)) for one in present]:
            wanted = {"key": key, "operator": "Exists", "effect": "NoSchedule"}
            patching.add(found, path, wanted, "the taint of such nodes, by its key")
    left = list_at(patching.get(found, found.pod), ("tolerations",))
    if bad and len(bad) == len(left):
        patching.remove(found, path, why)
        return
    for number in reversed(bad):
        patching.remove(found, (*path, number), why)


def _taints(pod: Any) -> list[str]:
    """The taints that nodes of the pod's kinds have from the start."""
    keys = (
        (gke_spot.FACTS, nodes.SPOT),
        (gke_gpu.FACTS, nodes.GPU_RESOURCE),
        (gke_tpu.FACTS, nodes.TPU_RESOURCE),
    )
    return [key for facts, key in keys if any(one is facts for one in kinds_of(pod))]


def _tolerates_the_end(toleration: Any) -> bool:
    key = at(toleration, ("key",))
    return key in nodes.ENDING_TAINTS or (not key and text_at(toleration, ("operator",)) == "Exists")


def _bucket(patching: _Patching, found: Found) -> None:
    pod = patching.get(found, found.pod)
    drivers = [text_at(one, ("csi", "driver")) for one in list_at(pod, ("volumes",))]
    if GCSFUSE_DRIVER not in drivers:
        return
    path = (*found.template, "metadata", "annotations", GCSFUSE_ANNOTATION)
    patching.set(found, path, "true", "without it no sidecar mounts the bucket")
    if not text_at(pod, ("serviceAccountName",)):
        patching.note(found, "name a serviceAccountName that may use the bucket (Workload Identity)")


def _command(patching: _Patching, found: Found, container: Path) -> None:
    """`outlast run` before the command; with only the image's own entry point known, a person has to do that."""
    prefix = _INSIDE if found.controller == "PyTorchJob" else _PLAIN
    command = list_at(patching.get(found, container), ("command",))
    if not command:
        said = f"the image's entry point is not in the manifest; begin it with `{' '.join(prefix)}`"
        patching.note(found, said)
    elif command[0] not in _KNOWN_FIRST:
        why = "process 1 has to hear SIGTERM, pass it on, and leave with the right code; the image needs outlast"
        for word in reversed(prefix):
            patching.add(found, (*container, "command"), word, "" if word != prefix[0] else why, first=True)


def _outlives(pod: Any) -> bool:
    """Whether a volume may keep checkpoints when the pod has gone."""
    return any(set(one) - _NOT_KEPT for one in list_at(pod, ("volumes",)) if isinstance(one, dict))


def _variables(patching: _Patching, found: Found, container: Path, grace: int) -> None:
    env = (*container, "env")
    present = {text_at(one, ("name",)): place for place, one in enumerate(list_at(patching.get(found, env), ()))}
    if _CODE in present and scalar_text(patching.get(found, (*env, present[_CODE], "value"))) == "0":
        code = str(kubernetes.FACTS.interrupted_exit_code)
        why = "it takes 0 for done, and the rest of the work is lost"
        patching.set(found, (*env, present[_CODE], "value"), code, why)
    kinds = ",".join(one.name for one in kinds_of(patching.get(found, found.pod)))
    wanted: list[tuple[Json, str]] = [
        ({"name": NODE_CLASS, "value": kinds}, "how much grace such nodes leave"),
        ({"name": POD_GRACE, "value": str(grace)}, "the pod cannot read its terminationGracePeriodSeconds"),
        (_NODE, "to hear of the node's maintenance, where the pod may read it"),
    ]
    if patching.description is not None and patching.description.url is not None:
        wanted.insert(0, ({"name": "OUTLAST_URL", "value": patching.description.url}, "where the checkpoints are"))
    elif "OUTLAST_URL" not in present and not _outlives(patching.get(found, found.pod)):
        said = "nothing in it outlives a pod: give --url gs://BUCKET/FOLDER for the checkpoints, or mount a volume"
        patching.note(found, said)
    for one, why in wanted:
        if one["name"] not in present:
            patching.add(found, env, one, why)
        elif one["name"] == POD_GRACE:
            patching.set(found, (*env, present[POD_GRACE], "value"), one["value"], why)
