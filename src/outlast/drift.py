"""Drift: what changed since a checkpoint was made, in the program and below it, told at a resume in one line."""

import math
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from outlast.events import EnvironmentSeen

OnDrift = Literal["tell", "refuse"]

_LARGEST_SCRIPT = 16 << 20
_MOST_ARGUMENTS, _LONGEST_ARGUMENT = 200, 200
_MOST_PACKAGES = 200
_MOST_CHANGES = 12  # in the one line; the journal has all
# What outlast itself imports: other versions of these change nothing in a training.
_OWN = frozenset(
    {
        "click",
        "rich",
        "obstore",
        "requests",
        "urllib3",
        "google",
        "xxhash",
        "pathspec",
        "watchdog",
        "certifi",
        "idna",
        "charset_normalizer",
        "pygments",
        "markdown_it",
        "mdurl",
    }
)
# Modules of these names have no __version__ in some of their versions.
_ASK_METADATA = ("jaxlib", "optax", "orbax", "deepspeed", "flash_attn", "triton", "torchdata", "lightning")
# "token" and the like as words of their own: a tokenizer, or how many tokens, is no secret.
_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|credential|authorization|(?:api|access|private|account|signing|encryption)[-_]?key"
    r"|(?:^|[-_.])(?:token|auth|pwd|pass|key|sas|sig|signature|bearer)(?:$|[-_.])|[a-z]Token$",
    re.I,
)
_SECRET_VALUE = re.compile(
    r"://[^/\s]*@"  # a password in a URL
    r"|[?&](?:sig|signature|token|key|x-amz-[a-z]+)="  # a signed URL
    r"|\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA|AIza|ya29\.|eyJ)[\w.-]{8,}"  # well-known tokens
    r"|\b(?:bearer|basic)\s+\S+",
    re.I,
)
_WORD = re.compile(r"[A-Za-z0-9_+/=-]{24,}")


def look_at_environment(tasks: int, *, salt: str) -> EnvironmentSeen:
    """What this process runs, and on what. Imports nothing, and asks no device that the program has not asked.

    Arguments that look like secrets are kept as digests of 32 bits, made with `salt`: enough to see a change, and too
    little to tell the secret from millions of other guesses.
    """
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    script = os.fspath(file) if isinstance(file, str | os.PathLike) else ""
    return EnvironmentSeen(
        script=Path(script).name if script else "",
        script_digest=_digest_of(script) if script else "",
        arguments=list(_safe_arguments(_arguments(), salt)),
        python=platform.python_version(),
        system=f"{sys.platform}-{os.uname().machine}" if hasattr(os, "uname") else sys.platform,
        accelerator=_accelerator(sys.modules),
        tasks=tasks,
        packages=_packages(sys.modules),
    )


def drift_between(then: EnvironmentSeen, now: EnvironmentSeen) -> list[str]:
    """What changed, in words, what is most likely to matter first. What one of the two does not know is no change."""
    return [
        *_script_changes(then, now),
        *_argument_changes(then.arguments, now.arguments),
        *(
            f"{name} {then.packages[name]} is now {now.packages[name]}"
            for name in sorted(then.packages.keys() & now.packages.keys())
            if then.packages[name] != now.packages[name]
        ),
        *_plain_change("Python", then.python, now.python),
        *_plain_change("the accelerator", then.accelerator, now.accelerator),
        *_plain_change("the system", then.system, now.system),
        *_plain_change("the number of tasks", str(then.tasks), str(now.tasks)),
    ]


def in_one_line(changes: Sequence[str]) -> str:
    """The changes as one text, of a length that a person reads."""
    more = len(changes) - _MOST_CHANGES
    said = "; ".join([*changes[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])
    return "\\n".join(said.splitlines())


def _script_changes(then: EnvironmentSeen, now: EnvironmentSeen) -> Iterator[str]:
    if not then.script or not now.script:
        return
    if then.script != now.script:
        yield f"the script was {then.script} and is {now.script}"
    elif then.script_digest and now.script_digest and then.script_digest != now.script_digest:
        yield f"{now.script} was edited"


def _argument_changes(then: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    if list(then) == list(now):
        return
    gone, come = _without(then, now), _without(now, then)
    said = [f"without {' '.join(gone)}"] * bool(gone) + [f"with {' '.join(come)}"] * bool(come)
    yield f"the arguments changed: {', '.join(said) or 'their order'}"


def _without(some: Sequence[str], others: Sequence[str]) -> list[str]:
    """Those arguments that the others lack; a value brings the option before it, which says what it is."""
    left = list(others)
    missing: list[int] = []
    for number, argument in enumerate(some):
        if argument in left:
            left.remove(argument)
        else:
            missing.append(number)
    shown = sorted({*missing, *(n - 1 for n in missing if n and _is_option(some[n - 1]) and not _is_option(some[n]))})
    return [some[number] for number in shown]


def _plain_change(what: str, then: str, now: str) -> Iterator[str]:
    if then and now and then != now:
        yield f"{what} was {then} and is {now}"


# --- arguments --------------------------------------------------------------------------------------


def _arguments() -> list[str]:
    """A program may have put anything there, and an embedded interpreter has none."""
    arguments = getattr(sys, "argv", None)
    return [str(argument) for argument in arguments[1:]] if isinstance(arguments, list | tuple) else []


def _safe_arguments(arguments: Sequence[str], salt: str) -> Iterator[str]:
    """Arguments without secrets, and not too long."""
    secret_follows = False
    for argument in arguments[:_MOST_ARGUMENTS]:
        option, equals, value = argument.partition("=") if _is_option(argument) else ("", "", argument)
        if secret_follows and not option:
            yield _hidden(argument, salt)
        elif equals and (_SECRET_NAME.search(option) or _looks_secret(value)):
            yield f"{option}={_hidden(value, salt)}"
        elif not option and _looks_secret(argument):
            yield _hidden(argument, salt)
        else:
            yield argument if len(argument) <= _LONGEST_ARGUMENT else _shortened(argument)
        secret_follows = bool(option) and not equals and bool(_SECRET_NAME.search(option))
    rest = arguments[_MOST_ARGUMENTS:]
    if rest:
        yield _hidden("\0".join(rest), salt)


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and argument.lstrip("-")[:1].isalpha()


def _looks_secret(value: str) -> bool:
    """Whether a value is of a kind that secrets are: known tokens, URLs with a password or a signature, long words
    with as much disorder as random letters have. A name=value is judged by its name, too."""
    name, equals, _ = value.partition("=")
    if _SECRET_VALUE.search(value) or (equals and _SECRET_NAME.search(name)):
        return True
    return any(_is_disorder(word) for word in _WORD.findall(value))


def _is_disorder(word: str) -> bool:
    """Letters and digits mixed, with 3.5 bits or more for each; paths and names of people's files have less."""
    if "/" in word.strip("/") or not re.search(r"\d", word) or not re.search(r"[A-Za-z]", word):
        return False
    bits = -sum(n / len(word) * math.log2(n / len(word)) for n in (word.count(letter) for letter in set(word)))
    return bits >= 3.5 and len(re.findall(r"[A-Za-z]\d|\d[A-Za-z]", word)) >= 4


def _hidden(value: str, salt: str) -> str:
    salted = "\0".join((salt, value)).encode(errors="surrogatepass")
    return f"(hidden:{sha256(salted).hexdigest()[:8]})"


def _shortened(argument: str) -> str:
    digest = sha256(argument.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{argument[: _LONGEST_ARGUMENT - 20]}…({digest})"


# --- what is below the program ------------------------------------------------------------------------


def _digest_of(script: str) -> str:
    """Of the script's content; "" where it cannot be read, or is no script."""
    try:
        path = Path(script)
        if not path.is_file() or path.stat().st_size > _LARGEST_SCRIPT:
            return ""
        return sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return ""


def _packages(modules: Mapping[str, ModuleType]) -> dict[str, str]:
    """The versions of what the program has imported, as the modules themselves have them."""
    found: dict[str, str] = {}
    for name, module in list(modules.items()):
        if "." in name or name.startswith("_") or name in sys.stdlib_module_names or name in _OWN:
            continue
        version = _own_version(module)
        if version is None and name in _ASK_METADATA:
            from importlib import metadata  # noqa: PLC0415 - it takes longer than all else here, and few need it

            with suppress(Exception):  # a damaged installation, or none: what it raises depends on what is missing
                version = metadata.version(name)
        if isinstance(version, str) and len(version) < 80:
            found[name] = version
    return dict(sorted(found.items())[:_MOST_PACKAGES])


def _own_version(module: object) -> object:
    """Asked of the dictionary alone: the module's own way to look names up would make a lazy one import, or raise."""
    try:
        return object.__getattribute__(module, "__dict__").get("__version__")
    except AttributeError:  # what stands there is no module
        return None


def _accelerator(modules: Mapping[str, Any]) -> str:
    """The devices that the program has asked already, say "2x NVIDIA H200"; "" where it has asked none, or they are in
    trouble: that is for the program to find."""
    try:
        return _devices(modules)
    except Exception:  # noqa: BLE001 - a driver's error may be of any type, and nothing rests on the answer
        return ""


def _devices(modules: Mapping[str, Any]) -> str:
    torch = modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return _counted([str(cuda.get_device_name(number)) for number in range(cuda.device_count())])
    bridge = modules.get("jax._src.xla_bridge")  # jax.devices() would start a backend that is not running yet
    running = getattr(bridge, "backends_are_initialized", None)
    if running is not None and running():
        return _counted([str(device.device_kind) for device in modules["jax"].devices()])
    return ""


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
