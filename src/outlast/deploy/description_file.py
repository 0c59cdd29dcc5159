"""Reads a description from outlast.yaml, or from [tool.outlast] of pyproject.toml: each mistake with its line."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from outlast.deploy.description import (
    ACCESSES,
    DEFAULT_FILE,
    KINDS,
    BadSetting,
    BatchWork,
    Description,
    Hardware,
    Kubernetes,
    Measured,
)
from outlast.deploy.toml_nodes import parse_toml_table
from outlast.emulate.quantities import amount
from outlast.errors import SettingsError
from outlast.registry import PLATFORMS
from outlast.yaml_keys import MOST_CHARACTERS, Key, did_you_mean, parse_yaml, read_text

PYPROJECT = "pyproject.toml"
_TABLE = ("tool", "outlast")
Read = Callable[[Key], object]
Argument = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Described:
    """A description, and the folder that its relative paths count from. `file` None: it was all said by arguments."""

    description: Description
    folder: Path
    file: Path | None


def find_description(folder: Path) -> Path | None:
    """outlast.yaml of the folder, else its pyproject.toml if that describes a job; None: neither."""
    if (folder / DEFAULT_FILE).exists():
        return folder / DEFAULT_FILE
    pyproject = folder / PYPROJECT
    if pyproject.exists() and parse_toml_table(_text_of(pyproject), str(pyproject), _TABLE) is not None:
        return pyproject
    return None


def load_description(
    file: Path | None = None, *, folder: Path = Path(), arguments: Mapping[str, Argument] | None = None
) -> Described:
    """The description in `file`, None: the one that `find_description` sees in `folder`.

    `arguments` are settings by their key in the file ("hardware.gpu"), as text, and beat it; "" takes one away. Raises
    SettingsError naming the file, the line and the key of what is unknown, of another type, or impossible.
    """
    found = file or find_description(folder)
    if found is None and not arguments:
        raise SettingsError(
            f"there is no {DEFAULT_FILE} in {folder.resolve()}, and no [tool.outlast] in a {PYPROJECT}; write one with "
            "`outlast init`, or name the file"
        )
    keys = {} if found is None else _keys_of_file(found)
    for path, said in (arguments or {}).items():
        key = _argument(path, said)
        if said:
            keys[path] = key
        else:
            keys.pop(path, None)
    return Described(_build(keys, str(found or "arguments")), found.parent if found else folder, found)


def read_description(text: str, file: str = DEFAULT_FILE) -> Description:
    """The description that a text in YAML holds."""
    return _build(_flat(parse_yaml(text, file)), file)


def description_from(arguments: Mapping[str, Argument]) -> Description:
    """A description that arguments alone make, whatever file there is. Raises SettingsError."""
    keys = {path: _argument(path, said) for path, said in arguments.items() if said}
    return _build(keys, "arguments")


def _keys_of_file(file: Path) -> dict[str, Key]:
    text = _text_of(file)
    if file.suffix != ".toml":
        return _flat(parse_yaml(text, str(file)))
    table = parse_toml_table(text, str(file), _TABLE if file.name == PYPROJECT else ())
    if table is None:
        raise SettingsError(f"{file}: it has no table [tool.outlast]; `outlast init` shows what goes there")
    return _flat(table)


def _text_of(file: Path) -> str:
    try:
        return read_text(file, most_bytes=4 * MOST_CHARACTERS)
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror or error}") from error


def _argument(path: str, said: Argument) -> Key:
    """The key of a setting that stands in no file. Raises SettingsError for one that nobody knows."""
    if path not in _READERS:
        raise SettingsError(f"{path!r} is no setting of a job{did_you_mean(path, list(_READERS))}")
    return Key("argument", path, _argument_node(said))


def _argument_node(said: Argument) -> yaml.Node:
    if isinstance(said, str):
        tag = "bool" if said in ("true", "false") else "str"
        return yaml.ScalarNode(f"tag:yaml.org,2002:{tag}", said)
    words: list[yaml.Node] = [yaml.ScalarNode("tag:yaml.org,2002:str", one) for one in said]
    return yaml.SequenceNode("tag:yaml.org,2002:seq", words)


def _flat(whole: Key) -> dict[str, Key]:
    """Each setting's key by its path; raises SettingsError for one that nobody knows."""
    tops = list(dict.fromkeys(path.partition(".")[0] for path in _READERS))
    found: dict[str, Key] = {}
    for name, key in whole.fields(tops).items():
        if name in _READERS:
            found[name] = key
            continue
        inner = [path.partition(".")[2] for path in _READERS if path.startswith(f"{name}.")]
        found[name] = key
        found |= {f"{name}.{each}": one for each, one in key.fields(inner).items()}
    return found


def _build(keys: Mapping[str, Key], file: str) -> Description:
    values = {path: _READERS[path](key) for path, key in keys.items() if path in _READERS}
    try:
        return _description(values)
    except BadSetting as error:
        nearest = keys.get(error.key) or keys.get(error.key.partition(".")[0])
        if nearest is None:
            raise SettingsError(f"{file}: {error}") from error
        if nearest.path == error.key:
            nearest.wrong(error.why)
        nearest.wrong(str(error))


def _description(values: Mapping[str, object]) -> Description:
    """The values, told by their keys in the file, in the fields of the objects."""
    fields: dict[str, dict[str, Any]] = {"": {}, **{section: {} for section in _SECTIONS}}
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        fields[section][_FIELDS.get(path, name)] = value
    hardware = fields["hardware"]
    for accelerator, count in (("gpu", "gpus"), ("tpu", "tpus")):
        if accelerator in hardware:
            hardware.setdefault(count, 1)
    missing = [name for name in ("function", "queue", "sink") if fields["batch"] and name not in fields["batch"]]
    if missing:
        raise BadSetting(f"batch.{missing[0]}", "it is missing; a batch has a function, a queue and a sink")
    if "name" not in fields[""]:
        raise BadSetting("name", "it is missing: what the job is called")
    sections = {name: kind(**fields[name]) for name, kind in _SECTIONS.items() if fields[name]}
    return Description(**fields[""], **cast(dict[str, Any], sections))


def _command(key: Key) -> tuple[str, ...]:
    """A list, or a line as a shell would read it. No shell runs it."""
    if key.is_list:
        return tuple(item.text() for item in key.items())
    try:
        return tuple(shlex.split(key.text()))
    except ValueError as error:
        key.wrong(f"{key.text()!r} is no command: {error}; write it as a list")


def _texts(key: Key) -> tuple[str, ...]:
    return tuple(item.text() for item in key.items())


def _variables(key: Key) -> tuple[tuple[str, str], ...]:
    return tuple((name, value.text()) for name, value in key.entries())


def _bytes(key: Key) -> int:
    try:
        return int(amount(key.text()))
    except ValueError:
        key.wrong(f"{key.text()!r} is no amount; write one such as 500Mi or 2Gi")


def _one_of(choices: Sequence[str]) -> Read:
    return lambda key: key.choice(choices)


def _retries(key: Key) -> int:
    return key.count(least=0)


_SECTIONS: dict[str, Callable[..., object]] = {
    "hardware": Hardware,
    "measured": Measured,
    "batch": BatchWork,
    "kubernetes": Kubernetes,
}
# Where a key of the file, which is for people, has another name than the field, which tells its unit.
_FIELDS = {
    "run_time": "run_seconds",
    "timeout": "timeout_seconds",
    "measured.save_time": "save_seconds",
    "measured.state_size": "state_bytes",
    "kubernetes.grace": "grace_seconds",
}
_READERS: dict[str, Read] = {
    "name": Key.text,
    "platform": _one_of(sorted(PLATFORMS)),
    "command": _command,
    "image": Key.text,
    "source": Key.text,
    "url": Key.text,
    "access": _one_of(ACCESSES),
    "mount_path": Key.text,
    "hardware.cpu": Key.text,
    "hardware.memory": Key.text,
    "hardware.gpu": Key.text,
    "hardware.gpus": Key.count,
    "hardware.tpu": Key.text,
    "hardware.topology": Key.text,
    "hardware.tpus": Key.count,
    "hardware.spot": Key.yes_or_no,
    "hardware.flex_start": Key.yes_or_no,
    "hardware.machine_type": Key.text,
    "run_time": Key.seconds,
    "timeout": Key.seconds,
    "retries": _retries,
    "tasks": Key.count,
    "parallelism": Key.count,
    "project": Key.text,
    "region": Key.text,
    "repository": Key.text,
    "service_account": Key.text,
    "env": _variables,
    "python": Key.text,
    "packages": _texts,
    "requirements": Key.text,
    "price_per_gpu_hour": Key.number_above_0,
    "currency": Key.text,
    "measured.save_time": Key.seconds,
    "measured.state_size": _bytes,
    "batch.function": Key.text,
    "batch.queue": Key.text,
    "batch.sink": Key.text,
    "batch.chunk": Key.count,
    "kubernetes.kind": _one_of(KINDS),
    "kubernetes.cluster": Key.text,
    "kubernetes.location": Key.text,
    "kubernetes.namespace": Key.text,
    "kubernetes.service_account": Key.text,
    "kubernetes.node_pool": Key.text,
    "kubernetes.queue_name": Key.text,
    "kubernetes.nodes": Key.count,
    "kubernetes.autopilot": Key.yes_or_no,
    "kubernetes.grace": lambda key: int(key.seconds(most=86400)),
}
KEYS = tuple(_READERS)
