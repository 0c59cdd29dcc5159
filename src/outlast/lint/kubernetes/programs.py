"""Python inside a manifest: in ConfigMaps, behind `python -c`, and in here-documents of a container's shell."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.lint.catalogue import checks_of
from outlast.lint.commands.entry import ShellText
from outlast.lint.commands.rules import ZERO_AT_TERM
from outlast.lint.inner_text import InnerText, inner_text
from outlast.lint.known import Known
from outlast.lint.kubernetes.cases import Case
from outlast.lint.kubernetes.fields import entries
from outlast.lint.kubernetes.manifest import Manifest
from outlast.lint.programs.flow import Flow
from outlast.lint.reading.python import Module, read_python
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import At, Finding, Place
from outlast.lint.source import Kind, Source, Unreadable

_EXITS = {"sys.exit", "exit", "quit", "os._exit"}


@dataclass(frozen=True, slots=True)
class Program:
    """A Python text in a manifest; `inner`: where it begins in the scalar that holds it."""

    text: str
    held: InnerText
    inner: ShellText

    def place(self, at: Place) -> Place:
        """A place in the program as one in the file."""
        return self.held.mapped(self.inner.outer(At(at.line, at.column)))


def programs_of_containers(case: Case) -> Iterator[Program]:
    """What a template's containers run: arguments, here-documents, mounted ConfigMaps."""
    for container in case.pods.containers:
        words = [*container["command"], *container["args"]]
        for before, node in zip([None, *words], words, strict=False):
            held = inner_text(node, case.manifest.lines)
            if before is not None and before.text == "-c" and _is_python(words):
                yield Program(node.text, held, held.shell)
            elif "<<" in node.text:
                yield from _in_heredocs(held)
    for volume in entries(case.pods.spec["volumes"]):
        holder = case.manifest.find("ConfigMap", volume.at("configMap", "name").text)
        if holder is not None:
            yield from _in_config_map(holder, case.manifest)


def _is_python(words: list[Node]) -> bool:
    return words[0].text.rsplit("/", 1)[-1].startswith("python")


def _in_config_map(holder: Node, manifest: Manifest) -> Iterator[Program]:
    for name, node in holder["data"].fields.items():
        if name.endswith(".py") and node.kind == "scalar":
            held = inner_text(node, manifest.lines)
            yield Program(node.text, held, held.shell)


def _in_heredocs(held: InnerText) -> Iterator[Program]:
    try:
        script = read_shell(held.shell.text)
    except Unreadable:
        return
    for statement, command in script.commands():
        targets = [one.target.text or "" for one in statement.redirects]
        # Kubeflow's SDK reads its script into a variable, and prints that into a file.
        python = (command.program or "").startswith("python") or command.program == "read"
        python |= any(one.endswith(".py") for one in targets)
        for one in statement.heredocs if python else ():
            start = held.shell.outer(At(one.line, 1))
            cut = one.shift[0] if one.shift else 0
            yield Program(one.text, held, ShellText(one.text, start.line, start.column + cut, held.shell.shift + cut))


def check(manifest: Manifest, cases: list[Case], known: Known) -> Iterator[Finding]:
    """What is found in the Python texts of a manifest, each text once; what its Job makes of it is told instead."""
    stopped = [one for case in cases for one in _zero_when_stopped(case)]
    yield from stopped
    told = {(one.rule.id, one.line, one.column) for one in stopped}
    seen: set[tuple[int, int]] = set()
    maps = (one for holder in manifest.of_kind("ConfigMap") for one in _in_config_map(holder, manifest))
    for program in (*(made for case in cases for made in programs_of_containers(case)), *maps):
        start = (program.inner.line, program.inner.column)
        if start in seen:
            continue
        seen.add(start)
        source = Source(Path("program.py"), program.text, Kind.PYTHON, known)
        for one in _found_in(source, program):
            if (one.rule.id, one.line, one.column) not in told:
                yield one


def _found_in(source: Source, program: Program) -> Iterator[Finding]:
    for one in checks_of(Kind.PYTHON):
        try:
            for finding in one(source):
                place = program.place(At(finding.line, finding.column))
                yield replace(finding, line=place.line, column=place.column)
        except Unreadable:
            return


def _zero_when_stopped(case: Case) -> Iterator[Finding]:
    """A handler of SIGTERM that ends with 0, in a program of a Job."""
    if not (case.workload.ends and case.is_batch):
        return
    for program in programs_of_containers(case):
        if "SIGTERM" not in program.text:
            continue
        place = _exit_zero(program.text)
        if place is not None:
            told = f"the handler of SIGTERM in {case.name} ends with 0, and an interrupted attempt counts as complete"
            yield ZERO_AT_TERM.at(program.place(place), told)


def _exit_zero(text: str) -> At | None:
    try:
        module = read_python(text)
    except Unreadable:
        return None
    return next((at for one in Flow(module).handlers if (at := _only_zero(module, one)) is not None), None)


def _only_zero(module: Module, body: ast.AST) -> At | None:
    """Where a handler ends with 0; None where it may end with another code, too, for then it has thought of it."""
    exits = [
        (one, arguments)
        for one in ast.walk(body)
        if isinstance(one, ast.expr | ast.stmt) and (arguments := _exit_of(module, one)) is not None
    ]
    if not exits or not all(_is_zero(arguments) for _, arguments in exits):
        return None
    return At(exits[0][0].lineno, exits[0][0].col_offset + 1)


def _exit_of(module: Module, node: ast.AST) -> list[ast.expr] | None:
    """The arguments of `sys.exit(...)`, `os._exit(...)`, `raise SystemExit(...)`; None for all else."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        arguments = node.exc.args if isinstance(node.exc, ast.Call) else []
        return arguments if module.dotted(made) == "SystemExit" else None
    if isinstance(node, ast.Call) and module.dotted(node.func) in _EXITS:
        return node.args
    return None


def _is_zero(arguments: list[ast.expr]) -> bool:
    if not arguments:
        return True
    return isinstance(arguments[0], ast.Constant) and arguments[0].value in (0, None)
