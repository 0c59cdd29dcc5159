"""Kubernetes inside shell scripts: manifests in here-documents, and what kubectl's own commands make."""

from collections.abc import Iterator
from dataclasses import replace

from outlast.lint.command_line import CommandLine, Word
from outlast.lint.inner_text import InnerText, moved, moved_out_of
from outlast.lint.known import Known
from outlast.lint.kubernetes.checking import check_manifest
from outlast.lint.kubernetes.manifest import Manifest, read_manifest
from outlast.lint.kubernetes.workloads import workload_of
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.statements import Heredoc, Script
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Finding
from outlast.lint.source import Source, Unreadable

_KUBECTL = ("kubectl", "oc", "microk8s.kubectl")
# Flags of `kubectl run` and `create` that take a value as the next word; the others say it behind `=` or are switches.
_VALUED = (
    "--image", "--restart", "--from", "--schedule", "--namespace", "-n", "--env", "--labels", "-l", "--limits",
    "--requests", "--overrides", "--serviceaccount", "--context", "--port", "-o", "--output", "--selector",
    "--max-unavailable", "--min-available", "--image-pull-policy", "--annotations", "--override-type", "--kubeconfig",
)  # fmt: skip
_KINDS = {"job": "Job", "jobs": "Job", "cronjob": "CronJob", "cj": "CronJob"}
_BUDGETS = ("poddisruptionbudget", "pdb")


def check(source: Source) -> Iterator[Finding]:
    """The findings of a script's manifests and kubectl commands."""
    yield from check_script(source.read(read_shell), source.known)


def check_script(script: Script, known: Known) -> Iterator[Finding]:
    """The same of a script that has been read, wherever it stood."""
    for statement, command in script.commands():
        for one in statement.heredocs:
            yield from _of_heredoc(one, known)
        made = _made_by(command)
        if made is not None:
            yield from check_manifest(made, known)


def check_inner(inner: InnerText, known: Known) -> Iterator[Finding]:
    """The same of a shell text inside a file of another language; one that cannot be read has no findings."""
    text = inner.shell.text
    if "apiVersion:" not in text and not any(program in text for program in _KUBECTL):
        return
    try:
        script = read_shell(text)
    except Unreadable:
        return
    yield from moved(check_script(script, known), inner.outer)


def _of_heredoc(document: Heredoc, known: Known) -> Iterator[Finding]:
    """A document that no program of Kubernetes may ever see is looked at too: it is written to a file mostly."""
    if "apiVersion:" not in document.text or "kind:" not in document.text:
        return
    try:
        manifest = read_manifest(document.text)
    except Unreadable:
        return
    yield from moved_out_of(document, check_manifest(manifest, known))


def _made_by(command: CommandLine) -> Manifest | None:
    """The object that `kubectl run` or `kubectl create job` makes; None for other commands, and for mere drafts."""
    if command.program not in _KUBECTL:
        return None
    flags, names, rest = _parted(command)
    if not names or "--dry-run" in flags or "--overrides" in flags or "--from" in flags:
        return None
    verb = names[0].text
    made = None
    if verb == "run" and len(names) > 1:
        made = _run(command, flags, names[1:], rest)
    elif verb == "create" and len(names) > 2:
        made = _create(flags, names[1:], rest)
    workload = workload_of(made) if made is not None else None
    return Manifest((made,), (workload,) if workload else ()) if made is not None else None


def _parted(command: CommandLine) -> tuple[dict[str, Word], list[Word], list[Word]]:
    """Flags with their values, other words, and what stands behind `--`."""
    flags: dict[str, Word] = {}
    names: list[Word] = []
    words = list(command.arguments)
    while words:
        word = words.pop(0)
        if word.text == "--":
            return flags, names, words
        if not word.start.startswith("-"):
            names.append(word)
            continue
        name, equals, value = word.start.partition("=")
        if equals:
            flags[name] = replace(word, text=value if word.text is not None else None, prefix=value)
        else:
            flags[name] = words.pop(0) if name in _VALUED and words else word
    return flags, names, words


def _scalar(word: Word, text: str | None = None) -> Node:
    """A word as a value; one that is open is a placeholder, as in templates."""
    told = text if text is not None else word.text
    return Node("scalar", word.line, word.column, text=told if told is not None else "${unknown}", key_line=word.line)


def _map(place: Word, fields: dict[str, Node]) -> Node:
    return Node("map", place.line, place.column, fields=fields, key_line=place.line)


def _list(place: Word, elements: list[Node]) -> Node:
    return Node("list", place.line, place.column, elements=tuple(elements), key_line=place.line)


def _object(place: Word, version: str, kind: str, name: Word, spec: Node) -> Node:
    return _map(
        place,
        {
            "apiVersion": _scalar(place, version),
            "kind": _scalar(place, kind),
            "metadata": _map(name, {"name": _scalar(name)}),
            "spec": spec,
        },
    )


def _pod(place: Word, flags: dict[str, Word], command: list[Word], restart: Node, *, as_command: bool) -> Node:
    words = _list(command[0] if command else place, [_scalar(one) for one in command])
    container = {"name": _scalar(place, "main"), "command" if as_command else "args": words}
    if "--image" in flags:
        container["image"] = _scalar(flags["--image"])
    amounts = _amounts(flags["--limits"]) if "--limits" in flags else {}
    if amounts:
        container["resources"] = _map(place, {"limits": _map(place, amounts)})
    return _map(place, {"restartPolicy": restart, "containers": _list(place, [_map(place, container)])})


def _amounts(word: Word) -> dict[str, Node]:
    """`--limits=cpu=200m,nvidia.com/gpu=1` of older versions."""
    pairs = (part.partition("=") for part in (word.text or "").split(","))
    return {name: _scalar(word, value) for name, equals, value in pairs if equals}


def _run(command: CommandLine, flags: dict[str, Word], names: list[Word], rest: list[Word]) -> Node:
    """Words behind `--` are arguments there, unless `--command` says otherwise."""
    place = command.words[0]
    restart = _scalar(flags["--restart"]) if "--restart" in flags else _scalar(place, "Always")
    if "-i" in flags or "-it" in flags or "--rm" in flags:
        restart = _scalar(place, "Always")  # somebody sits before it
    given = rest or names[1:]
    spec = _pod(place, flags, given, restart, as_command="--command" in flags)
    return _object(place, "v1", "Pod", names[0], spec)


def _create(flags: dict[str, Word], names: list[Word], rest: list[Word]) -> Node | None:
    place, kind = names[0], _KINDS.get(names[0].text or "")
    if names[0].text in _BUDGETS:
        limits = {"maxUnavailable": "--max-unavailable", "minAvailable": "--min-available"}
        fields = {name: _scalar(flags[flag]) for name, flag in limits.items() if flag in flags}
        return _object(place, "policy/v1", "PodDisruptionBudget", names[1], _map(place, fields))
    if kind is None:
        return None
    # `create job` says Never, `create cronjob` OnFailure unless told otherwise.
    restart = _scalar(flags["--restart"]) if "--restart" in flags else _scalar(place, "Never")
    if kind == "CronJob" and "--restart" not in flags:
        restart = _scalar(place, "OnFailure")
    pod = _map(place, {"spec": _pod(place, flags, rest, restart, as_command=True)})
    job = _map(place, {"template": pod})
    spec = job if kind == "Job" else _map(place, {"jobTemplate": _map(place, {"spec": job})})
    return _object(place, "batch/v1", kind, names[1], spec)
