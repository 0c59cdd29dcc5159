"""The house rules that a machine can hold: floors, sizes, names, platforms as facts, reasons, no foreign hosts."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.registry import PLATFORMS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "outlast"

# A module (or package) and its floor. Imports go down only; a module that is not here fails the test.
FLOOR_OF = {
    "errors": "words", "clock": "words", "events": "words", "console": "words", "threads": "words", "garbage": "words",
    "firmware": "words", "machine": "words", "mounts": "words", "urls": "words", "sqlite_files": "words",
    "sqlite_errors": "words",
    "postgresql": "words", "yaml_keys": "words", "paging": "words", "drift": "parts",
    "ports": "seams", "items": "seams", "disruptions": "seams", "limits": "seams", "registry": "seams",
    "rehearsal_place": "seams", "sharding": "seams", "metering": "seams",
    "settings": "seams",
    "stores": "adapters", "queues": "adapters", "sinks": "adapters", "platforms": "adapters", "frameworks": "adapters",
    "sources": "adapters", "exporters": "adapters",
    "state": "parts", "checkpoint": "parts", "schedule": "parts", "notices": "parts", "exits": "parts",
    "ranks": "parts", "telemetry": "parts",
    "planning": "parts",
    "job": "engine", "options": "engine", "loops": "engine", "driven": "engine", "session": "engine",
    "hearing": "engine", "restoring": "engine", "joining": "engine",
    "account": "engine", "leaving": "engine", "costs": "engine", "lessons": "engine",
    "saves": "engine", "saver": "engine", "wanted": "engine", "lazy": "engine", "copies": "engine",
    "company": "engine",
    "worker": "engine", "supervise": "engine",
    "metrics": "tools",
    "containers": "tools", "emulate": "tools", "rehearse": "tools", "deploy": "tools", "monitor": "tools",
    "installed_sdk": "tools", "item_files": "tools", "lint": "tools", "pages": "tools", "timeline": "tools",
    "cli": "faces", "__init__": "faces", "testing": "faces", "pytest_plugin": "faces", "callbacks": "faces",
}  # fmt: skip
# What each floor may import; "own": modules of the same floor too, else only those of its own package.
MAY_IMPORT = {
    "words": {"own"},
    "seams": {"own", "words"},
    "adapters": {"seams", "words"},
    "parts": {"own", "seams", "words"},
    "engine": {"own", "parts", "seams", "words"},
    "tools": {"own", "engine", "parts", "adapters", "seams", "words"},
    "faces": {"own", "tools", "engine", "parts", "adapters", "seams", "words"},
}

# The starter is a link to an example, which is a file to copy and no module.
FILES = sorted(path for path in SOURCE.rglob("*.py") if "starter" not in path.relative_to(SOURCE).parts)
ALL_PYTHON = FILES + sorted(
    path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _dotted(path: Path) -> list[str]:
    """("outlast", "cli", "main") for src/outlast/cli/main.py."""
    parts = ["outlast", *path.relative_to(SOURCE).with_suffix("").parts]
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports_of(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, top module) of every import from outlast, wherever it stands. `package`: of the importing file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            dotted = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in dotted:
            parts = name.split(".")
            if parts[0] == "outlast":
                known = len(parts) > 1 and parts[1] in FLOOR_OF
                is_file = len(parts) > 1 and (SOURCE / f"{parts[1]}.py").exists()
                yield node.lineno, parts[1] if known or is_file else "__init__"


def broken_floors(source: str, module: list[str], *, is_package: bool = False) -> list[str]:
    """What the imports of a file break, in words; `module` is its dotted name in parts."""
    own = module[1] if len(module) > 1 else "__init__"
    if own not in FLOOR_OF:
        return [f"{own} has no floor: add it to FLOOR_OF"]
    floor, package = FLOOR_OF[own], module if is_package else module[:-1]
    found = []
    for line, target in imports_of(ast.parse(source), package):
        if target == own:
            continue
        target_floor = FLOOR_OF.get(target, "no floor")
        allowed = MAY_IMPORT[floor]
        if target_floor not in allowed and not ("own" in allowed and target_floor == floor):
            found.append(f"line {line}: {own} ({floor}) imports {target} ({target_floor})")
    return found


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_imports_go_down_only(path: Path) -> None:
    assert broken_floors(path.read_text(), _dotted(path), is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("clock", "import outlast.ports"),
        ("clock", "import outlast"),
        ("errors", "from outlast import __version__"),
        ("registry", "def f():\n    from outlast.stores.directory import DirectoryStore"),
        ("registry", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import outlast.job"),
        ("stores.directory", "from outlast.platforms.local import LocalPlatform"),
        ("stores.directory", "from outlast import state"),
        ("stores.directory", "from ..platforms import local"),
        ("checkpoint.read", "from outlast.stores.directory import DirectoryStore"),
        ("notices", "from outlast.job import Job"),
        ("job", "from outlast.cli import main"),
        ("rehearse.runner", "import outlast.testing"),
        ("helpful", "import json"),
    ],
)
def test_the_floor_test_sees_an_import_that_goes_up(module: str, source: str) -> None:
    assert broken_floors(source, ["outlast", *module.split(".")])


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("stores.directory", "from outlast.stores import files\nfrom . import files\nimport outlast.ports"),
        ("cli.main", "from outlast.rehearse import runner\nfrom outlast import Job"),
        ("job", "from outlast import notices, schedule"),
        ("clock", "import json\nfrom outlast.errors import SettingsError"),
    ],
)
def test_the_floor_test_lets_imports_go_down(module: str, source: str) -> None:
    assert broken_floors(source, ["outlast", *module.split(".")]) == []


# --- sizes and names --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL_PYTHON, ids=_id)
def test_a_file_says_first_what_it_is_for_and_stays_short(path: Path) -> None:
    source = path.read_text()
    purpose = ast.get_docstring(ast.parse(source))
    assert source.startswith('"""'), "the first line is no docstring"
    assert purpose is not None
    assert len(purpose.splitlines()[0].split()) >= 3, "the first line says nothing"
    assert len(source.splitlines()) <= 500


@pytest.mark.parametrize("path", ALL_PYTHON, ids=_id)
def test_functions_stay_short(path: Path) -> None:
    long = [
        f"{node.name}: {lines} lines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > 60
    ]
    assert long == []


@pytest.mark.parametrize("path", ALL_PYTHON, ids=_id)
def test_no_file_is_named_for_nothing(path: Path) -> None:
    empty = {"util", "utils", "helper", "helpers", "common", "base", "core", "manager", "misc"}
    assert not {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts} & empty


# --- platforms are facts, not branches --------------------------------------------------------------


def platform_branches(source: str) -> list[int]:
    """Lines that compare something with a platform's name."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            operands: list[ast.AST] = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            operands = list(node.args)
        else:
            continue
        inner = [leaf for operand in operands for leaf in ast.walk(operand)]
        if any(isinstance(leaf, ast.Constant) and leaf.value in PLATFORMS for leaf in inner):
            lines.append(node.lineno)
    return lines


OUTSIDE_PLATFORMS = [path for path in FILES if path.relative_to(SOURCE).parts[0] != "platforms"]


@pytest.mark.parametrize("path", OUTSIDE_PLATFORMS, ids=_id)
def test_nobody_outside_platforms_asks_which_platform_it_is(path: Path) -> None:
    assert platform_branches(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "if facts.name == 'cloud-run': ...",
        "x = 'local' != name",
        "if name in ('local', 'cloud-run'): ...",
        "match name:\n    case 'cloud-run': ...",
        "match name:\n    case 'a' | 'local': ...",
        "name.startswith('cloud-run')",
    ],
)
def test_the_platform_test_sees_a_branch(source: str) -> None:
    assert platform_branches(source)


# --- reasons ----------------------------------------------------------------------------------------

_REASONED = {
    "noqa": re.compile(r"#\s*noqa: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*\s*(?P<reason>.*)"),
    "type: ignore": re.compile(r"#\s*type: ignore\[[a-z-]+(?:, ?[a-z-]+)*\]\s*(?P<reason>.*)"),
}


def ignores_without_reason(source: str) -> list[str]:
    """Comments that silence a checker without naming a code and giving a reason of two words or more."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        for mark, pattern in _REASONED.items():
            if re.search(rf"#\s*{mark}\b", token.string):
                match = pattern.search(token.string)
                if match is None or len(re.findall(r"\w{2,}", match["reason"])) < 2:
                    found.append(f"line {token.start[0]}: {token.string}")
    return found


@pytest.mark.parametrize("path", ALL_PYTHON, ids=_id)
def test_every_ignore_has_its_code_and_its_reason(path: Path) -> None:
    assert ignores_without_reason(path.read_text()) == []


def test_the_ignore_test_sees_a_missing_code_or_reason() -> None:
    noqa, ignore = "# no" + "qa", "# type: ig" + "nore"
    for comment in (
        noqa,
        f"{noqa}: S101",
        f"{noqa} because it is so",
        ignore,
        f"{ignore}[arg-type]",
        f"{ignore} so be it",
    ):
        assert ignores_without_reason(f"x = 1  {comment}\n"), comment
    for comment in (f"{noqa}: S101  the user asked", f"{ignore}[arg-type]  # bad values are the point"):
        assert ignores_without_reason(f"x = 1  {comment}\n") == [], comment


# --- the repository ---------------------------------------------------------------------------------

_KNOWN_HOSTS = {
    "127.0.0.1", "localhost", "metadata.google.internal", "github.com", "www.apache.org",
    "keepachangelog.com", "semver.org", "storage.googleapis.com", "www.googleapis.com", "console.cloud.google.com",
    "json.schemastore.org",
}  # fmt: skip
_MADE_UP = (".test", ".example", ".invalid")  # nobody's, by RFC 2606
_URL = re.compile(r"https?://([A-Za-z0-9.-]+)")
# Where people and build machines keep their things. Examples use /mnt, /checkpoints, /tmp.
_OWN_FOLDER = re.compile(r"(?<![\w.$}])/(?:home|root|Users|opt|srv|work|workspace|builds)/\w[\w./-]*")


def _tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        names = [name for name in names if not any(part.startswith((".", "__pyc")) for part in name.parts)]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_no_file_names_a_strange_host_or_a_folder_of_one_machine() -> None:
    files = _tracked_files()
    assert ROOT / "README.md" in files
    found = []
    for path in files:
        text = path.read_bytes().decode(errors="replace")
        hosts = [host for host in _URL.findall(text) if host not in _KNOWN_HOSTS and not host.endswith(_MADE_UP)]
        found += [f"{_id(path)}: {host}" for host in hosts]
        found += [f"{_id(path)}: {folder}" for folder in _OWN_FOLDER.findall(text)]
    assert found == []


def test_the_account_of_rehearse_names_each_of_its_modules() -> None:
    package = SOURCE / "rehearse"
    account = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert modules - set(re.findall(r"[a-z_]+", account)) == set()
