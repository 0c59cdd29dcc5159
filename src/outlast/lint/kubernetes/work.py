"""What a container's command does, as far as its words tell: trains a model, serves one, or nothing."""

import re
from collections.abc import Iterator
from itertools import pairwise

from outlast.lint.kubernetes.fields import entries
from outlast.lint.reading.yaml_nodes import Node

_TRAINING = {
    "train", "training", "trainer", "pretrain", "pretraining", "finetune", "finetuning", "sft", "dpo", "grpo", "ppo",
    "distill", "torchrun", "deepspeed", "maxtext", "megatron", "axolotl", "torchtune", "torchtitan",
}  # fmt: skip
_SERVING = {"serve", "server", "serving", "vllm", "sglang", "tritonserver", "uvicorn", "gunicorn", "jetstream"}
_WORKING = {"worker", "workers", "consumer", "celery", "rq", "dramatiq", "subscriber", "consume", "batchworker"}
_AMOUNTS_OF_TRAINING = ("--epochs", "--num_epochs", "--num-epochs", "--num_train_epochs", "--max_train_steps")
_DOES_NOTHING = {"sleep", "echo", "pause", "nvidia-smi", "true", "env", "printenv", "date", "hostname", "ls", "exit"}
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SCRIPTS = (".py", ".sh")
_BEFORE_PROGRAMS = ("", "exec", "&&", ";", "accelerate", "run", "--")


def words_of(container: Node) -> list[str]:
    """The words of a container's command and arguments; a text for a shell is split at its blanks."""
    return [word for place in ("command", "args") for word in words_in(container[place])]


def words_in(node: Node) -> Iterator[str]:
    """The words of one field."""
    for one in node.elements if node.kind == "list" else (node,):
        yield from (part for word in one.text.split() if (part := word.strip("'\"();`")))


def trains(words: list[str]) -> bool:
    """Whether a command runs a script or a module whose name says training, or tells one for how many epochs."""
    found = {part for name in _names(words) for part in _parts(name)}
    if found & _SERVING:
        return False
    return bool(found & _TRAINING) or any(word.startswith(_AMOUNTS_OF_TRAINING) for word in words)


def is_named_for_training(name: Node) -> bool:
    """Whether an object's name says training: a weaker sign than what it runs."""
    found = set(_parts(name.text))
    return bool(found & _TRAINING) and not found & (_SERVING | {"data", "download", "operator", "load", "loader"})


def serves(words: list[str]) -> bool:
    """Whether a command is a server's."""
    return bool({part for name in _names(words) for part in _parts(name)} & _SERVING)


def works(words: list[str]) -> bool:
    """Whether a command takes items from a queue: its program, script or module is called so."""
    found = {part for name in _names(words) for part in _parts(name)}
    return (bool(found & _WORKING) or words[:2] == ["outlast", "work"]) and not found & _SERVING


def _names(words: list[str]) -> Iterator[str]:
    """The names of programs, scripts and modules."""
    for before, word in zip(["", *words], words, strict=False):
        if before == "-m":
            yield word
        elif word.endswith(_SCRIPTS) or before in _BEFORE_PROGRAMS or before.endswith(";"):
            yield word.rsplit("/", 1)[-1]


def _parts(name: str) -> Iterator[str]:
    """The words in a name, in small letters, and pairs of them: fine_tune.py has "finetune", too."""
    parts = [name.lower(), *(part.lower() for part in _PARTS.findall(name))]
    yield from parts
    yield from (first + second for first, second in pairwise(parts))


def idles(container: Node) -> bool:
    """Whether it only waits, or tells what is there: a sample, a test of a queue or of a driver."""
    image = container["image"].text.rsplit("/", 1)[-1].split(":")[0]
    words = words_of(container)
    if image in ("sleep", "pause") or (image == "agnhost" and words[:1] == ["pause"]):
        return True
    text = " ".join(one.text for place in ("command", "args") for one in (container[place].elements or ()))
    if not text:
        return False
    commands = [part.split() for part in re.split(r"[;\n|]|&&", re.sub(r"^\S*sh -\w*c\s", "", text)) if part.split()]
    return all(command[0].rsplit("/", 1)[-1] in _DOES_NOTHING or command[0] == "set" for command in commands)


def variables_of(container: Node) -> dict[str, Node]:
    """Its variables with the nodes that give them."""
    return {one["name"].text: one for one in entries(container["env"])}
