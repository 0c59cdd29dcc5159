"""What containers start: who hears SIGTERM, and what exit code comes back (K026, K027; K008, K034, CR031)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from outlast.lint.command_line import Word
from outlast.lint.commands.entry import Entry, Hears, ShellText, Surroundings, follow, follow_text
from outlast.lint.commands.roles import MINOR, TRAINING, role_of
from outlast.lint.commands.rules import CODE_LOST, FIRST_WITHOUT_HANDLER, ZERO_AT_TERM
from outlast.lint.commands.shells import is_shell, sh_of_image
from outlast.lint.inner_text import InnerText, inner_text
from outlast.lint.kubernetes.cases import Case
from outlast.lint.kubernetes.fields import entries, known_text
from outlast.lint.kubernetes.work import variables_of
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, INFO, WARNING, Finding, Place, Rule

SIGNAL_LOST = Rule(
    "K026",
    WARNING,
    "SIGTERM does not reach the program, or its restarts are hidden",
    "Only the container's first process gets SIGTERM. A shell that stays there passes nothing on, and the program is "
    "killed without a last save. With restartPolicy OnFailure the kubelet restarts it in place: the attempts have no "
    "pods of their own, and no rule for DisruptionTarget is allowed.",
    "start the program with exec, name it without a shell, or put `outlast run --` or an init before it",
    "Kubernetes, Pod lifecycle, Termination of Pods; what shells do, measured 2026-11-30",
)
NOT_FIRST = Rule(
    "K027",
    INFO,
    "the program is not the first process of its process namespace",
    "With shareProcessNamespace the pod's pause container is process 1, with hostPID the host's init: code that looks "
    "at process 1, or signals it, meets another one.",
    "signal the program by its own process id, or give the pod its own namespaces",
    "Kubernetes, Share process namespace between containers in a Pod (2026-11-30)",
)
RULES = (SIGNAL_LOST, NOT_FIRST)

_OPEN = re.compile(r"\{\{|<[A-Za-z][\w.-]*>|\$[({A-Za-z]")


@dataclass(frozen=True)
class _Container:
    """A container, and the scripts that it starts from ConfigMaps of the same text."""

    case: Case
    node: Node
    used: dict[str, InnerText] = field(default_factory=dict)

    def entry(self) -> Entry | None:
        """What becomes of its command; None where it starts what its image says."""
        command, arguments = list(self.node["command"]), list(self.node["args"])
        first = known_text((command or arguments)[0]) if command or arguments else None
        if first is None or not (command or is_shell(first.rsplit("/", 1)[-1])):
            return None
        around = Surroundings(sh=sh_of_image(known_text(self.node["image"])), script=self.script, inner=self.inner)
        return follow([_word(one) for one in (*command, *arguments)], around)

    def inner(self, word: Word) -> ShellText:
        """The text behind `sh -c`, with its places."""
        nodes = (*self.node["command"], *self.node["args"])
        node = next((one for one in nodes if (one.line, one.column) == (word.line, word.column)), None)
        if node is None:
            return ShellText(word.text or "", word.line, word.column)
        self.used[""] = inner_text(node, self.case.manifest.lines)
        return self.used[""].shell

    def script(self, name: str) -> str | None:
        """A script that a ConfigMap of the same text puts there."""
        for mount in entries(self.node["volumeMounts"]):
            found = self._mounted(mount, name)
            if found is not None:
                self.used[name] = inner_text(found, self.case.manifest.lines)
                return found.text
        return None

    def _mounted(self, mount: Node, name: str) -> Node | None:
        at, part = mount["mountPath"].text.rstrip("/"), mount["subPath"].text
        if name != at and not name.startswith(f"{at}/"):
            return None
        volumes = entries(self.case.pods.spec["volumes"])
        volume = next((one["configMap"] for one in volumes if one["name"].text == mount["name"].text), None)
        holder = self.case.manifest.find("ConfigMap", volume["name"].text) if volume else None
        if holder is None or volume is None:
            return None
        file = part if name == at else name.removeprefix(f"{at}/")
        keys = {one["path"].text: one["key"].text for one in entries(volume["items"])}
        found = holder["data"][keys.get(file, file)]
        return found if found.kind == "scalar" else None

    def place(self, entry: Entry, at: Place) -> Place:
        """Where a place of an entry is in the file."""
        held = self.used.get(entry.in_script or "")
        if held is None:
            return at
        if entry.in_script is None:
            return held.mapped(at)
        return at if isinstance(at, Word) else held.outer(at)


def _word(node: Node) -> Word:
    """A word of a command. A text for a shell has variables of its own; another word with one is open."""
    is_text = re.search(r"\s", node.text) is not None and not node.text.lstrip().startswith("{{")
    open_from = None if is_text else _OPEN.search(node.text)
    if open_from is None:
        return Word(node.text, node.line, node.column, raw=node.text)
    return Word(None, node.line, node.column, raw=node.text, prefix=node.text[: open_from.start()])


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template's containers."""
    if not case.is_batch:
        return
    for node in case.pods.containers:
        container = _Container(case, node)
        yield from _zero_by_setting(case, node)
        entry = container.entry()
        if entry is not None:
            yield from _of_entry(case, container, entry)
    yield from _in_place(case)
    yield from _namespaces(case)
    yield from _entrypoint_of_ray(case)


def _of_entry(case: Case, container: _Container, entry: Entry) -> Iterator[Finding]:
    if entry.zero_on_term is not None and case.workload.ends:
        place = container.place(entry, entry.zero_on_term)
        yield ZERO_AT_TERM.at(place, f"the command of {case.name} ends with 0 at SIGTERM, and counts as complete")
    if entry.lost is not None and case.workload.ends:
        yield from _lost(case, entry, container.place(entry, entry.lost.place))
    known = bool(entry.main) and bool(entry.main[0].start) and role_of(entry.main) >= MINOR
    if known and entry.hears in (Hears.NO, Hears.SOME):
        place = container.place(entry, entry.place)
        severity = WARNING if case.matters and entry.hears is Hears.NO else INFO
        yield SIGNAL_LOST.at(place, f"{case.name}: {entry.deaf_told}", severity=severity)
    elif entry.unseen and case.matters:
        place = container.place(entry, entry.place)
        yield SIGNAL_LOST.at(place, f"{case.name}: {entry.unseen_told}", severity=INFO)
    elif entry.first and case.evidence.trains and _is_python(entry.main) and not _shares_processes(case):
        told = f"{entry.main_told} is the first process of {case.name}: SIGTERM does nothing unless it handles it"
        yield FIRST_WITHOUT_HANDLER.at(container.place(entry, entry.place), told, severity=INFO)


def _lost(case: Case, entry: Entry, place: Place) -> Iterator[Finding]:
    role = role_of(entry.main) if entry.main else MINOR
    if entry.lost is None or role < MINOR:
        return
    told = f"{case.name} completes even when {entry.main_told} fails: {entry.lost.why}"
    sure = role == TRAINING or (role > MINOR and case.evidence.trains)
    yield CODE_LOST.at(place, told, severity=ERROR if sure else WARNING)


def _is_python(words: tuple[Word, ...]) -> bool:
    name = (words[0].text or "").rsplit("/", 1)[-1] if words else ""
    return name.startswith("python") or name.endswith(".py")


def _zero_by_setting(case: Case, container: Node) -> Iterator[Finding]:
    own = variables_of(container).get("OUTLAST_EXIT_CODE")
    if own is not None and own["value"].text == "0" and case.workload.ends:
        told = f"OUTLAST_EXIT_CODE is 0 in {case.name}: an interrupted attempt counts as complete"
        yield ZERO_AT_TERM.at(own["value"], told)


def _in_place(case: Case) -> Iterator[Finding]:
    if case.pods.job and case.pods.policy.text == "OnFailure" and (case.in_job or case.matters):
        told = f"{case.name} is restarted in place: its attempts have no pods of their own, and interruptions count"
        yield SIGNAL_LOST.at(case.pods.policy, told, severity=INFO, fix="set restartPolicy: Never")


def _namespaces(case: Case) -> Iterator[Finding]:
    for name in ("shareProcessNamespace", "hostPID"):
        if case.pods.spec[name].truth:
            told = f"{case.name} has {name}: its program is not process 1"
            yield NOT_FIRST.at(case.pods.spec[name], told)


def _shares_processes(case: Case) -> bool:
    return any(case.pods.spec[name].truth for name in ("shareProcessNamespace", "hostPID"))


def _entrypoint_of_ray(case: Case) -> Iterator[Finding]:
    """Ray runs a job's entrypoint by a shell; told at the first template."""
    node = case.workload.spec["entrypoint"]
    if case.workload.kind != "RayJob" or case.pods is not case.workload.pods[0] or known_text(node) is None:
        return
    held = inner_text(node, case.manifest.lines)
    entry = follow_text(held.shell, shell=None)
    if entry.lost is not None:
        yield from _lost(case, entry, held.mapped(entry.lost.place))
