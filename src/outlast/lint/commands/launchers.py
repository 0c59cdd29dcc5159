"""Programs that start another program: what they do with a SIGTERM that they get, and what stands after them.

Read 2026-11-30 in each one's manual or source; `conda run`: conda/conda#10351; npm: npm/cli#6684; `accelerate
launch` with one process: huggingface/accelerate#929; torchrun: torch.distributed.elastic's agent; uv: its manual,
"Signal handling"; poetry and pipenv use execvpe on POSIX; tini and dumb-init: their READMEs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from outlast.lint.command_line import Word


class Passing(StrEnum):
    """What a launcher does with a SIGTERM."""

    BECOMES = "becomes the program"
    FORWARDS = "passes it on"
    TELLS_GROUP = "passes it to the whole group"
    KEEPS = "keeps it"
    MAY_KEEP = "keeps it in some versions"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Hop:
    """One launcher: what it does, and the words of what it starts. `rest` empty: not known what that is.

    `why`: for the message where the signal stays here.
    """

    name: str
    passing: Passing
    rest: tuple[Word, ...]
    why: str = ""


_Finder = Callable[[Sequence[Word]], Hop | None]


@dataclass(frozen=True, slots=True)
class _Launcher:
    """`valued`: options that take the next word. `skip`: words before the program (a user, a duration)."""

    passing: Passing
    valued: frozenset[str] = frozenset()
    skip: int = 0
    assigns: bool = False
    why: str = ""


def _plain(passing: Passing, valued: str = "", skip: int = 0, *, assigns: bool = False, why: str = "") -> _Launcher:
    return _Launcher(passing, frozenset(valued.split()), skip, assigns, why)


_BECOMES, _FORWARDS, _KEEPS, _UNKNOWN = Passing.BECOMES, Passing.FORWARDS, Passing.KEEPS, Passing.UNKNOWN
_LAUNCHERS = {
    "exec": _plain(_BECOMES, "-a"),
    "command": _plain(_BECOMES),
    "env": _plain(_BECOMES, "-u --unset -C --chdir -S", assigns=True),
    "nice": _plain(_BECOMES, "-n --adjustment"),
    "ionice": _plain(_BECOMES, "-c -n -p --class --classdata"),
    "chrt": _plain(_BECOMES, skip=1),
    "nohup": _plain(_BECOMES),
    "stdbuf": _plain(_BECOMES, "-i -o -e"),
    "taskset": _plain(_BECOMES, skip=1),
    "numactl": _plain(_BECOMES, "-N -m -C -i --cpunodebind --membind --physcpubind --interleave"),
    "setsid": _plain(_BECOMES),
    "gosu": _plain(_BECOMES, skip=1),
    "su-exec": _plain(_BECOMES, skip=1),
    "setpriv": _plain(_BECOMES),
    "chpst": _plain(_BECOMES, "-u -e -m"),
    "ddtrace-run": _plain(_BECOMES),
    "opentelemetry-instrument": _plain(_BECOMES),
    "wait-for-it.sh": _plain(_BECOMES, "-t", skip=1),
    "nvidia_entrypoint.sh": _plain(_BECOMES),
    "catatonit": _plain(_FORWARDS),
    "docker-init": _plain(_FORWARDS),
    "timeout": _plain(_FORWARDS, "-s -k --signal --kill-after", skip=1),
    "time": _plain(_KEEPS, "-f -o", why="`time` waits for its program and passes no signal on"),
    "xvfb-run": _plain(_KEEPS, "-n -s -e -f -w", why="`xvfb-run` is a shell script that passes no signal on"),
    "sudo": _plain(_UNKNOWN, "-u -g -E -H"),
    "mpirun": _plain(_UNKNOWN),
    "mpiexec": _plain(_UNKNOWN),
    "horovodrun": _plain(_UNKNOWN),
    "deepspeed": _plain(_UNKNOWN),
    "srun": _plain(_FORWARDS),
    "supervisord": _plain(_FORWARDS),
    "make": _plain(_UNKNOWN),
    "parallel": _plain(_UNKNOWN),
    "xargs": _plain(_UNKNOWN),
    "doppler": _plain(_UNKNOWN),
    "chamber": _plain(_UNKNOWN),
    "nsys": _plain(_UNKNOWN),
}
_NO_REST = {"supervisord", "make", "parallel", "xargs", "doppler", "chamber", "nsys", "mpirun", "mpiexec", "horovodrun"}
_NPM = {"npm", "yarn", "pnpm", "npx", "bunx"}
_NPM_WHY = "`{}` starts a shell, and some of its versions pass no signal on (npm 9.6.7 to 10.2)"


def find_hop(words: Sequence[Word]) -> Hop | None:
    """The launcher that a command begins with; None where its first word is the program itself."""
    if not words or words[0].text is None:
        return None
    name = _name(words)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    launcher = _LAUNCHERS.get(name)
    if launcher is None:
        return None
    rest = () if name in _NO_REST else _after_options(words[1:], launcher)
    return Hop(name, launcher.passing, rest, launcher.why)


def _name(words: Sequence[Word]) -> str:
    return (words[0].text or "").rsplit("/", 1)[-1]


def _after_options(words: Sequence[Word], launcher: _Launcher) -> tuple[Word, ...]:
    """The program's words: behind options, their values, assignments, and what the launcher wants first."""
    place, skip = 0, launcher.skip
    while place < len(words):
        start = words[place].start
        if start == "--":
            return tuple(words[place + 1 + skip :])
        if start.startswith("-") and len(start) > 1:
            place += 2 if start in launcher.valued else 1
        elif launcher.assigns and "=" in start:
            place += 1
        elif skip:
            place, skip = place + 1, skip - 1
        else:
            break
    return tuple(words[place:])


def _tini(words: Sequence[Word]) -> Hop:
    place, group = 1, False
    while place < len(words) and words[place].start.startswith("-"):
        start = words[place].start
        place += 2 if start in ("-e", "-p") else 1
        group |= start.startswith("-") and not start.startswith("--") and "g" in start
        if start == "--":
            break
    passing = Passing.TELLS_GROUP if group else Passing.FORWARDS
    return Hop(_name(words), passing, tuple(words[place:]))


def _dumb_init(words: Sequence[Word]) -> Hop:
    place, single = 1, False
    while place < len(words) and words[place].start.startswith("-"):
        start = words[place].start
        place += 2 if start in ("-r", "--rewrite") else 1
        single |= start in ("-c", "--single-child")
        if start == "--":
            break
    return Hop(_name(words), Passing.FORWARDS if single else Passing.TELLS_GROUP, tuple(words[place:]))


def _outlast(words: Sequence[Word]) -> Hop | None:
    if len(words) < 2 or words[1].text != "run":
        return None
    # A shell dies of the signal that it keeps to itself; what it leaves behind is then told, too.
    return Hop("outlast run", Passing.TELLS_GROUP, _after_dashes(words))


def _runner(passing: Passing, verbs: str, valued: str = "", why: str = "") -> _Finder:
    """`poetry run CMD` and its like: a launcher only with one of its verbs."""
    wanted = frozenset(verbs.split())
    launcher = _plain(passing, valued, why=why)

    def find(words: Sequence[Word]) -> Hop | None:
        place = 1
        while place < len(words) and words[place].start.startswith("-"):
            place += 2 if words[place].start in launcher.valued else 1
        verb = words[place].text if place < len(words) else None
        if verb not in wanted:
            return None
        return Hop(f"{_name(words)} {verb}", passing, _after_options(words[place + 1 :], launcher), why)

    return find


def _accelerate(words: Sequence[Word]) -> Hop | None:
    """One process is waited for; several are torchrun's, which passes the signal on; else a file decides."""
    if len(words) < 2 or words[1].text != "launch":
        return None
    texts = [word.start for word in words]
    processes = _value_of("--num_processes", texts)
    several = bool({"--multi_gpu", "--use_fsdp", "--tpu"} & set(texts)) or (
        processes is not None and processes.isdigit() and int(processes) > 1
    )
    passing = Passing.UNKNOWN
    if several:
        passing = Passing.FORWARDS
    elif processes == "1" or "--cpu" in texts:
        passing = Passing.KEEPS
    why = "`accelerate launch` with one process waits for it and passes no signal on"
    return Hop("accelerate launch", passing, _script_and_after(words[2:]), why)


def _torchrun(words: Sequence[Word]) -> Hop:
    return Hop("torchrun", Passing.FORWARDS, _script_and_after(words[1:]))


def _python(words: Sequence[Word]) -> Hop | None:
    """`python -m torch.distributed.run` and `-m accelerate.commands.launch`; else Python is the program."""
    texts = [word.text for word in words[:4]]
    if "-m" not in texts:
        return None
    place = texts.index("-m") + 1
    module = texts[place] if place < len(texts) else None
    if module in ("torch.distributed.run", "torch.distributed.launch"):
        return Hop(module, Passing.FORWARDS, _script_and_after(words[place + 1 :]))
    if module == "accelerate.commands.launch":
        launch = Word("launch", words[place].line, words[place].column)
        return _accelerate((words[0], launch, *words[place + 1 :]))
    return None


def _npm(words: Sequence[Word]) -> Hop | None:
    name = _name(words)
    verb = next((word.text for word in words[1:] if not word.start.startswith("-")), None)
    if name in ("npm", "pnpm") and verb not in ("start", "run", "run-script", "test", "exec"):
        return None
    if name == "yarn" and verb in ("install", "add", "build"):
        return None
    return Hop(f"{name} {verb}" if verb else name, Passing.MAY_KEEP, (), _NPM_WHY.format(name))


def _after_dashes(words: Sequence[Word]) -> tuple[Word, ...]:
    dashes = next((place for place, word in enumerate(words) if word.text == "--"), None)
    return tuple(words[dashes + 1 :]) if dashes is not None else ()


def _script_and_after(words: Sequence[Word]) -> tuple[Word, ...]:
    """From the first word that looks like a script: a launcher's own options need not be known then."""
    for place, word in enumerate(words):
        if word.start.endswith(".py") or word.text in ("-m", "--module"):
            return tuple(words[place:])
    return ()


def _value_of(option: str, texts: Sequence[str]) -> str | None:
    for place, text in enumerate(texts):
        if text.startswith(option + "="):
            return text.partition("=")[2]
        if text == option and place + 1 < len(texts):
            return texts[place + 1]
    return None


_CONDA_WHY = "`{} run` waits for its program and passes no SIGTERM on"
_CONDA_VALUED = "-n --name -p --prefix --cwd"
_SPECIAL: dict[str, _Finder] = {
    "tini": _tini,
    "tini-static": _tini,
    "dumb-init": _dumb_init,
    "outlast": _outlast,
    "accelerate": _accelerate,
    "torchrun": _torchrun,
    "python": _python,
    "python3": _python,
    "poetry": _runner(Passing.BECOMES, "run"),
    "pipenv": _runner(Passing.BECOMES, "run"),
    "rye": _runner(Passing.BECOMES, "run"),
    "uv": _runner(Passing.FORWARDS, "run", "--with --extra --group -p --python --project --directory --env-file"),
    "pdm": _runner(Passing.UNKNOWN, "run", "-p --project"),
    "hatch": _runner(Passing.UNKNOWN, "run"),
    "pixi": _runner(Passing.UNKNOWN, "run", "-e --environment --manifest-path"),
    "newrelic-admin": _runner(Passing.BECOMES, "run-program"),
    "conda": _runner(Passing.KEEPS, "run", _CONDA_VALUED, _CONDA_WHY.format("conda")),
    "mamba": _runner(Passing.UNKNOWN, "run", _CONDA_VALUED),
    "micromamba": _runner(Passing.UNKNOWN, "run", _CONDA_VALUED),
    "bun": _runner(Passing.UNKNOWN, "run"),
    **dict.fromkeys(sorted(_NPM), _npm),
}
