"""gcloud command lines: track, command, flags with their values, and the Cloud Run job that they describe."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from outlast.lint.cloud_run.job import CloudRunJob, Container, Form, Mount, Volume, missing
from outlast.lint.command_line import CommandLine, Word
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Place

TRACKS = ("alpha", "beta", "preview")
_MENTIONS = {
    "echo",
    "printf",
    "which",
    "type",
    "hash",
    "command",
    "man",
    "grep",
    "log",
    "info",
    "warn",
    "error",
    "print",
}
# Switches: the next word is no value of theirs. gcloud 528.0.0, `gcloud alpha run jobs deploy --help` and `execute`.
_SWITCHES = {
    "--async", "--wait", "--execute-now", "--quiet", "-q", "--help", "-h", "--log-http", "--gpu-zonal-redundancy",
    "--user-output-enabled", "--cpu-boost", "--cpu-throttling", "--allow-unauthenticated", "--tail-logs",
}  # fmt: skip
_MAKING = ("create", "deploy")
_KEEPING = ("update", "execute")
# What `--add-volume` calls its kinds.
_VOLUMES = {"cloud-storage": "bucket", "nfs": "nfs", "in-memory": "memory", "secret": "secret"}
_MOST_PARTS = 2_000
_DELIMITER = re.compile(r"\^(.+?)\^")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as written. `value` is missing for switches and where nothing follows."""

    name: str
    value: Node
    word: Word


@dataclass(frozen=True, slots=True)
class GcloudCommand:
    """A gcloud command line. `complete` False: it may have more flags than are seen (`"$@"`, `$FLAGS`)."""

    place: Place
    track: str
    path: tuple[str, ...]
    names: tuple[Word, ...]
    flags: tuple[Flag, ...]
    complete: bool

    @property
    def of_jobs(self) -> str | None:
        """The verb of `gcloud run jobs VERB`; None for all else."""
        return self.path[2] if self.path[:2] == ("run", "jobs") and len(self.path) > 2 else None

    @property
    def told(self) -> str:
        """The command for a message."""
        return " ".join(("gcloud", *((self.track,) if self.track else ()), *self.path))

    def flag(self, *names: str) -> Flag | None:
        """The last flag of some names: gcloud lets it win."""
        return next((one for one in reversed(self.flags) if one.name in names), None)

    def value(self, *names: str) -> Node:
        """Its value."""
        found = self.flag(*names)
        return found.value if found is not None else missing(self.place)


def find_command(line: CommandLine) -> GcloudCommand | None:
    """The gcloud command in a command line, also behind `sudo`, `time` or a function of one's own that repeats it."""
    words = list(line.words)
    start = next((place for place, word in enumerate(words) if (word.text or "").rsplit("/", 1)[-1] == "gcloud"), None)
    if start is None or (start > 0 and _only_mentions(line)):
        return None
    program, rest = words[start], deque(words[start + 1 :])
    flags: list[Flag] = []
    plain: list[Word] = []
    complete = line.complete
    while rest:
        word = rest.popleft()
        if word.start == "--":
            break
        if word.start.startswith("-") and word.start != "-":
            flags.append(_flag(word, rest))
        else:
            plain.append(word)
    track = plain[0].text if plain and plain[0].text in TRACKS else ""
    parts = plain[1:] if track else plain
    length = _length_of_command(parts)
    names = tuple(parts[length:])
    complete &= not any(word.text is None and not word.raw.startswith(('"', "'")) for word in names[1:])
    complete &= all(flag.name != "--flags-file" for flag in flags)
    path = tuple(word.text or "" for word in parts[:length])
    return GcloudCommand(program, track or "", path, names, tuple(flags), complete)


def _only_mentions(line: CommandLine) -> bool:
    """Whether the words are told, not run: `echo gcloud run ...`, `command -v gcloud`."""
    program = (line.program or "").lower()
    return program in _MENTIONS or program.startswith(("log_", "print_", "info_", "echo_")) or program.endswith("_log")


def _length_of_command(parts: list[Word]) -> int:
    """How many words name the command: `run jobs deploy`, `run jobs executions describe`."""
    texts = [word.text for word in parts]
    if texts[:2] == ["run", "jobs"]:
        deeper = len(texts) > 2 and texts[2] in ("executions", "logs")
        deepest = deeper and len(texts) > 3 and texts[3] in ("tasks", "logs")
        return min(len(parts), 5 if deepest else 4 if deeper else 3)
    return min(len(parts), 3)


def _flag(word: Word, rest: deque[Word]) -> Flag:
    name, equals, _ = word.start.partition("=")
    if equals:
        return Flag(name, _value(word, name), word)
    if name in _SWITCHES or name.startswith(("--no-", "--clear-")):
        return Flag(name, missing(word), word)
    if rest and not (rest[0].start.startswith("--") and len(rest[0].start) > 2):
        return Flag(name, scalar(rest.popleft()), word)
    return Flag(name, missing(word), word)


def scalar(word: Word) -> Node:
    """A word as a value; one that is open keeps its variables, and so is unknown."""
    text = word.text if word.text is not None else re.sub(r"[\"']", "", word.raw)
    return Node("scalar", word.line, word.column, text=text, key_line=word.line, quoted=word.raw[:1] in "\"'")


def _value(word: Word, name: str) -> Node:
    whole = scalar(word)
    return replace(whole, text=whole.text.partition("=")[2], quoted=False, key=name)


def parts_of(value: Node) -> Iterator[Node]:
    """The elements of a list: `a,b`, or with a delimiter of its own, `^:^a:b`."""
    if not value.is_set:
        return
    text, delimiter = value.text, ","
    own = _DELIMITER.match(text)
    if own is not None:
        text, delimiter = text[own.end() :], own[1]
    for part in text.split(delimiter, _MOST_PARTS)[:_MOST_PARTS]:
        if part:
            yield replace(value, text=part)


def pairs_of(value: Node) -> Iterator[tuple[Node, Node]]:
    """The pairs of `A=1,B=2`."""
    for part in parts_of(value):
        name, _, rest = part.text.partition("=")
        yield replace(part, text=name.strip()), replace(part, text=rest)


@dataclass(slots=True)
class _Gathered:
    """The flags of one container: those behind a `--container`, or all."""

    flags: list[Flag] = field(default_factory=list)

    def all(self, *names: str) -> list[Node]:
        return [flag.value for flag in self.flags if flag.name in names and flag.value.is_set]

    def last(self, place: Place, *names: str) -> Node:
        found = self.all(*names)
        return found[-1] if found else missing(place)


def job_of(command: GcloudCommand) -> CloudRunJob | None:
    """The job that `gcloud run jobs create`, `deploy`, `update` or `execute` asks for; None for other commands."""
    verb = command.of_jobs
    if verb not in (*_MAKING, *_KEEPING):
        return None
    place = command.place
    name = scalar(command.names[0]) if command.names else missing(place)
    redundancy = command.flag("--gpu-zonal-redundancy", "--no-gpu-zonal-redundancy")
    off = missing(place) if redundancy is None else scalar(redundancy.word)
    if redundancy is not None:
        off = replace(off, text="true" if redundancy.name.startswith("--no-") else "false")
    return CloudRunJob(
        form=Form.COMMAND,
        place=place,
        task=place,
        name=name,
        timeout=command.value("--task-timeout"),
        retries=command.value("--max-retries"),
        tasks=command.value("--tasks"),
        parallelism=command.value("--parallelism"),
        gpu_type=command.value("--gpu-type"),
        redundancy_off=off,
        service_account=command.value("--service-account"),
        region=command.value("--region"),
        preview=bool(command.track),
        containers=tuple(_container(group, command) for group in _groups(command)),
        volumes=tuple(_volumes(command)),
        partial=verb in _KEEPING or not command.complete,
    )


def _groups(command: GcloudCommand) -> list[_Gathered]:
    groups = [_Gathered()]
    for flag in command.flags:
        if flag.name == "--container":
            groups.append(_Gathered())
        groups[-1].flags.append(flag)
    return groups[1:] if len(groups) > 1 and not groups[0].all("--image", "--command") else groups


def _container(group: _Gathered, command: GcloudCommand) -> Container:
    place = command.place
    variables = group.all("--set-env-vars", "--update-env-vars")
    return Container(
        node=missing(place),
        image=group.last(place, "--image", "--source"),
        command=_list(place, group.all("--command")),
        arguments=_list(place, group.all("--args")),
        environment=tuple(pair for value in variables for pair in pairs_of(value)),
        mounts=tuple(_mount(value) for value in group.all("--add-volume-mount")),
        cpu=group.last(place, "--cpu"),
        memory=group.last(place, "--memory"),
        gpus=group.last(place, "--gpu"),
        open=bool(group.all("--env-vars-file")) or not command.complete,
    )


def _list(place: Place, values: list[Node]) -> Node:
    """gcloud joins the lists of a flag that is given several times."""
    if not values:
        return missing(place)
    elements = tuple(part for value in values for part in parts_of(value))
    return Node("list", values[0].line, values[0].column, elements=elements, key_line=values[0].line)


def _mount(value: Node) -> Mount:
    given = {name.text: one for name, one in pairs_of(value)}
    return Mount(given.get("volume", missing(value)), given.get("mount-path", missing(value)))


def _volumes(command: GcloudCommand) -> Iterator[Volume]:
    for flag in command.flags:
        if flag.name == "--add-volume" and flag.value.is_set:
            given = {name.text: one for name, one in pairs_of(flag.value)}
            nothing = missing(flag.value)
            kind = given.get("type", nothing)
            known = "unknown" if kind.is_unknown else _VOLUMES.get(kind.text, "unknown")
            read_only = given.get("readonly", nothing)
            yield Volume(given.get("name", nothing), known, read_only, given.get("bucket", nothing), flag.value)
