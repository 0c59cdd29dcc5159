"""What a job gives away about its work: whether it trains a model, and where it keeps its checkpoints."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from outlast.lint.cloud_run.job import CloudRunJob, Container
from outlast.lint.reading.yaml_nodes import Node

_MOST_SETTINGS = 500
_TRAINING = {
    "train", "training", "trainer", "retrain", "pretrain", "pretraining", "finetune", "finetuning", "sft", "dpo",
    "lora", "distill", "torchrun", "deepspeed", "epochs",
}  # fmt: skip
_OTHER_WORK = {"serve", "server", "serving", "inference", "predict", "eval", "evaluate", "migrate", "trigger"}
_PIECES = re.compile(r"[a-z]+")
_KEEPING = re.compile(r"check_?points?|ckpts?|outlast_url|save_(dir|path|folder)", re.IGNORECASE)
# A checkpoint that is only read: the weights that the program begins with, or serves.
_READING = re.compile(r"resume|load|init|pretrained|base_?model|model_?checkpoint$|from_checkpoint", re.IGNORECASE)
_WEIGHTS = re.compile(r"\.(pth?|ckpt|safetensors|bin|onnx|gguf|h5|pkl|tar|zip|gz)$", re.IGNORECASE)
_FAR = re.compile(r"(gs|s3|az|https?|postgres(ql)?|mysql|hf|wandb)://|/gcs/")
# Names of variables and flags that lead out of the container: results go there, and so may checkpoints.
_FAR_NAMES = re.compile(r"bucket|gcs|s3_|database|db_|redis|firestore|blob|storage|dataset|table|_uri\b", re.IGNORECASE)
_UNITS = {"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "mins": 60, "minute": 60,
          "minutes": 60, "h": 3600, "hour": 3600, "hours": 3600}  # fmt: skip
_INTERVAL = re.compile(
    r"(?:check_?point|ckpt|save|outlast)_?(?:interval|every|freq(?:uency)?|period)?_?(?:in_)?"
    r"(s|secs?|seconds?|mins?|minutes?|hours?|h)$"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A named value that a program is given: a variable, or a flag among its arguments."""

    name: str
    value: Node

    @property
    def is_checkpoint(self) -> bool:
        """Whether its name says that checkpoints go there."""
        name = self.name.replace("-", "_")
        return _KEEPING.search(name) is not None and _READING.search(name) is None


def settings_of(job: CloudRunJob) -> Iterator[Setting]:
    """Variables, `--name value` and `--name=value` of every container."""
    return islice(_settings_of(job), _MOST_SETTINGS)


def _settings_of(job: CloudRunJob) -> Iterator[Setting]:
    for container in job.containers:
        for name, value in container.environment:
            if name.kind == "scalar" and value.kind == "scalar":
                yield Setting(name.text, value)
        yield from _flags_in(container)


def _flags_in(container: Container) -> Iterator[Setting]:
    words = [one for node in (container.command, container.arguments) for one in node if one.kind == "scalar"]
    for place, word in enumerate(words):
        if not word.text.startswith("--"):
            continue
        name, equals, value = word.text[2:].partition("=")
        if equals:
            yield Setting(name, Node("scalar", word.line, word.column, text=value))
        elif place + 1 < len(words) and not words[place + 1].text.startswith("--"):
            yield Setting(name, words[place + 1])


def trains(job: CloudRunJob) -> bool:
    """Whether its name, image, command or settings speak of training."""
    texts = [job.name.text if not job.name.is_unknown else ""]
    for one in job.containers:
        texts.append(one.image.text.rsplit("/", 1)[-1] if one.image.kind == "scalar" else "")
        texts += [word.text for node in (one.command, one.arguments) for word in node]
    pieces = {piece for text in texts for piece in _PIECES.findall(text.lower())}
    names = {piece for one in settings_of(job) for piece in _PIECES.findall(one.name.lower())}
    if (pieces | names) & _TRAINING:
        return not pieces & _OTHER_WORK
    joined = " ".join(texts).lower()
    return "fine-tun" in joined or "fine_tun" in joined


def checkpoint_paths(job: CloudRunJob) -> list[Setting]:
    """Where the job is told to keep checkpoints, where that is a folder of the container.

    Without training, a file of weights is one that is read, and a folder may be.
    """
    training = trains(job)
    return [
        one
        for one in settings_of(job)
        if one.is_checkpoint
        and one.value.text.startswith("/")
        and not one.value.is_unknown
        and (training or not _WEIGHTS.search(one.value.text))
    ]


def leads_out(job: CloudRunJob) -> bool:
    """Whether anything that it is told leads out of the container: a bucket, a database, or what is not known."""
    if job.open:
        return True
    for container in job.containers:
        for node in (container.command, container.arguments):
            if any(_FAR.search(one.text) or one.is_unknown for one in node):
                return True
    return any(
        _FAR.search(one.value.text) or _FAR_NAMES.search(one.name) or (one.is_checkpoint and one.value.is_unknown)
        for one in settings_of(job)
    )


def mentions(job: CloudRunJob, text: str) -> bool:
    """Whether a command, an argument or a variable has a text in it."""
    words = (one.text for each in job.containers for node in (each.command, each.arguments) for one in node)
    return any(text in word for word in words) or any(text in one.value.text for one in settings_of(job))


def interval_seconds(setting: Setting) -> float | None:
    """The time between checkpoints, where a setting's name says that it is one and in which unit."""
    name = setting.name.lower().replace("-", "_")
    found = _INTERVAL.search(name)
    if found is None or not re.fullmatch(r"\d+(\.\d+)?", setting.value.text.strip()):
        return None
    if not re.search(r"interval|every|freq|period", name):
        return None
    return float(setting.value.text) * _UNITS.get(found[1], 1)
