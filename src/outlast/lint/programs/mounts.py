"""Locks, renames, fsync and appends on a mounted bucket, where they do not do what they do on a disk."""

import ast
import re
from collections.abc import Iterator

from outlast.lint.programs.program import Program
from outlast.lint.programs.rules import APPEND, FSYNC, NO_LOCKS, RENAME
from outlast.lint.programs.shapes import Shape
from outlast.lint.reading.python import Module
from outlast.lint.rule import WARNING, At, Finding

# Vertex AI mounts all buckets below /gcs; the rest is what people call the folder.
_BUCKET = re.compile(r"^/(?:mnt/)?(?:disks/)?(?:gcs|gcsfuse|gcs-fuse|gcs_fuse|bucket|buckets|gcp_bucket)(?:[-_/]|$)")
# On Cloud Run all is memory but mounts, so that a path elsewhere that something is kept in is one.
_IN_MEMORY = ("/tmp", "/var", "/dev", "/proc", "/app", "/usr", "/etc", "/root", "/home", "/run", "/src", "/code")  # noqa: S108  names to compare with
_CLOUD_RUN = re.compile(r"^CLOUD_RUN_(?:JOB|TASK|EXECUTION|WORKER)")
_RENAMES = {"os.rename", "os.replace", "os.renames", "shutil.move"}
_LOCKS = {
    "fcntl.flock",
    "fcntl.lockf",
    "portalocker.lock",
    "filelock.FileLock",
    "portalocker.Lock",
    "fasteners.InterProcessLock",
}
_LOGS = re.compile(r"log|metrics|history|\.csv|\.tsv|\.txt|\.out|\.jsonl|events", re.IGNORECASE)


def on_bucket(module: Module, shape: Shape) -> bool:
    """Whether a path is on a mounted bucket, as far as the program tells."""
    start = shape.start
    if _BUCKET.match(start):
        return True
    return start.startswith("/") and len(start) > 1 and not start.startswith(_IN_MEMORY) and _on_cloud_run(module)


def _on_cloud_run(module: Module) -> bool:
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and _CLOUD_RUN.match(node.value) is not None
        for node in module.nodes
    )


def check_mounts(program: Program) -> Iterator[Finding]:
    """What is done to files on a mounted bucket."""
    for call in program.module.calls:
        name = program.module.dotted(call.func)
        yield from _locks(program, call, name)
        yield from _renames(program, call, name)
        if name == "os.fsync":
            yield from _fsync(program, call)
        yield from _appends(program, call, name)


def _at(node: ast.Call) -> At:
    return At(node.lineno, node.col_offset + 1)


def _first_shape(program: Program, call: ast.Call, path: ast.expr | None) -> Shape:
    """A path on the first of the ways to a call that tell it."""
    shapes = [program.shape_on(chain, path) for chain in program.flow.chains(call)]
    return next((shape for shape in shapes if shape.start), shapes[0] if shapes else program.storage.shape(path))


def _locks(program: Program, call: ast.Call, name: str) -> Iterator[Finding]:
    if name in _LOCKS or name.endswith(".FileLock"):
        path = _opened_path(program, call.args[0]) if call.args else None
        what = name.rsplit(".", 1)[-1]
    elif name in ("sqlite3.connect", "aiosqlite.connect", "sqlitedict.SqliteDict", "sqlalchemy.create_engine"):
        path, what = (call.args[0] if call.args else None), "SQLite"
    else:
        return
    shape = _first_shape(program, call, path)
    text = shape.start.removeprefix("sqlite:///") if shape.start.startswith("sqlite:///") else shape.start
    if on_bucket(program.module, Shape((text, *shape.parts[1:]))):
        yield NO_LOCKS.at(_at(call), f"{what} on `{shape.text}`, a mounted bucket, which has no locks")


def _opened_path(program: Program, node: ast.expr) -> ast.expr:
    """The path of the file that a lock is put on: `f` or `f.fileno()` of an `open(path)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fileno":
        node = node.func.value
    values: list[ast.expr | None] = []
    if isinstance(node, ast.Name):
        values = program.module.bindings.get((program.module.function_of(node), node.id), [])
    elif isinstance(node, ast.Attribute):
        values = list(program.module.attributes.get(node.attr, []))
    for value in values:
        if (
            isinstance(value, ast.Call)
            and value.args
            and program.module.dotted(value.func) in ("open", "os.open", "io.open")
        ):
            return value.args[0]
    return node


def _renames(program: Program, call: ast.Call, name: str) -> Iterator[Finding]:
    ends = _ends_of_rename(call, name)
    if ends is None:
        return
    source, target = (_first_shape(program, call, one) for one in ends)
    if not on_bucket(program.module, target) and not on_bucket(program.module, source):
        return
    told = name.rsplit(".", 1)[-1]
    if _is_folder(program, source, target):
        yield RENAME.at(_at(call), f"{told} of a directory to `{target.text}`: buckets without a hierarchy refuse it")
    else:
        message = f"{told} to `{target.text}` as commit: on a mounted bucket it is a copy and a delete, not atomic"
        yield RENAME.at(_at(call), message, severity=WARNING)


def _ends_of_rename(call: ast.Call, name: str) -> tuple[ast.expr, ast.expr] | None:
    if name in _RENAMES and len(call.args) >= 2:
        return call.args[0], call.args[1]
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("rename", "replace") and len(call.args) == 1:
        return call.func.value, call.args[0]  # text.replace has two
    return None


def _is_folder(program: Program, source: Shape, target: Shape) -> bool:
    """Whether it is a directory that is renamed: something makes it, or saves into it as one."""
    for call in program.module.calls:
        name = program.module.dotted(call.func)
        made: ast.expr | None = None
        if name in ("os.makedirs", "os.mkdir", "tempfile.mkdtemp", "shutil.copytree", "shutil.rmtree"):
            made = call.args[-1] if call.args else None
        elif name.endswith((".mkdir", ".save_pretrained", ".save_state", ".save_checkpoint", ".save_model")):
            is_mkdir = name.endswith(".mkdir") and isinstance(call.func, ast.Attribute)
            made = (
                call.func.value
                if is_mkdir and isinstance(call.func, ast.Attribute)
                else call.args[0]
                if call.args
                else None
            )
        if made is not None and program.storage.shape(made).text in (source.text, target.text):
            return True
    return False


def _fsync(program: Program, call: ast.Call) -> Iterator[Finding]:
    path = _opened_path(program, call.args[0]) if call.args else None
    shape = _first_shape(program, call, path)
    if on_bucket(program.module, shape):
        yield FSYNC.at(_at(call), f"fsync of `{shape.text}` does not make it durable: on a mounted bucket close does")


def _appends(program: Program, call: ast.Call, name: str) -> Iterator[Finding]:
    if name not in ("open", "io.open") or not call.args:
        return
    mode = next(
        (word.value for word in call.keywords if word.arg == "mode"), call.args[1] if len(call.args) > 1 else None
    )
    text = mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else ""
    if not ("a" in text or text.startswith("r+") or text == "rb+"):
        return
    shape = _first_shape(program, call, call.args[0])
    if on_bucket(program.module, shape) and not _LOGS.search(shape.text):
        yield APPEND.at(_at(call), f"mode {text!r} on `{shape.text}`: the whole file is uploaded again at each save")
