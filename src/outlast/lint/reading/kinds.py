"""Which language a file is in: by its name first, then by how it begins."""

from pathlib import Path

from outlast.lint.source import Kind

_BY_SUFFIX = {
    ".yaml": Kind.YAML, ".yml": Kind.YAML, ".json": Kind.YAML,
    ".sh": Kind.SHELL, ".bash": Kind.SHELL, ".sbatch": Kind.SHELL, ".slurm": Kind.SHELL, ".slrm": Kind.SHELL,
    ".dockerfile": Kind.CONTAINERFILE, ".containerfile": Kind.CONTAINERFILE,
    ".tf": Kind.HCL,
    ".py": Kind.PYTHON,
}  # fmt: skip
_OF_CONTAINERS = ("dockerfile", "containerfile")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")


def kind_of(path: Path, head: str) -> Kind | None:
    """The language of a file by its name, else by its first line; None for what is not read."""
    found = _BY_SUFFIX.get(path.suffix.lower())
    if found is not None:
        return found
    name = path.name.lower()
    if name.startswith(_OF_CONTAINERS) or name.endswith(_OF_CONTAINERS):
        return Kind.CONTAINERFILE
    return _by_first_line(head) if not path.suffix or head.startswith("#!") else None


def _by_first_line(head: str) -> Kind | None:
    if not head.startswith("#!"):
        return None
    words = head[2:].split()
    names = [Path(word).name for word in words if not word.startswith("-")]
    program = names[1] if len(names) > 1 and names[0] == "env" else (names[0] if names else "")
    if program in _SHELLS:
        return Kind.SHELL
    return Kind.PYTHON if program.startswith("python") else None
