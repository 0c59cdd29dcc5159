"""Whether and how a program goes on from where it was."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from outlast.lint.programs.keeping import is_broad, only_tells
from outlast.lint.programs.mounts import on_bucket
from outlast.lint.programs.program import Program
from outlast.lint.programs.rules import FROM_SCRATCH, NEVER_RESUMES, NO_RUN, REPEATS
from outlast.lint.programs.saving import CHECKPOINT, Load
from outlast.lint.programs.shapes import Shape
from outlast.lint.rule import ERROR, WARNING, At, Finding

# The same in each execution of a job.
_SAME_EACH_RUN = {
    "CLOUD_RUN_JOB", "CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT", "JOB_COMPLETION_INDEX",
    "AWS_BATCH_JOB_ARRAY_INDEX", "JOB_NAME", "TASK_INDEX", "RANK",
}  # fmt: skip
# Another one in each attempt.
_NEW_EACH_ATTEMPT = {
    "CLOUD_RUN_TASK_ATTEMPT": "the attempt's number", "AWS_BATCH_JOB_ATTEMPT": "the attempt's number",
    "SLURM_RESTART_COUNT": "the attempt's number", "HOSTNAME": "the host's or pod's name", "POD_NAME": "the pod's name",
    "POD_UID": "the pod's identity",
}  # fmt: skip


def check_resuming(program: Program) -> Iterator[Finding]:
    """The findings on loads."""
    if program.keeps_checkpoints and program.flow.is_program:
        yield from _never(program)
    if program.keeps_checkpoints:
        yield from _repeats(program)
        yield from _from_scratch(program)
        yield from _keys(program)


def _never(program: Program) -> Iterator[Finding]:
    if program.names_resuming or program.loads_before:
        return
    starts: list[ast.AST] = [*program.training_loops, *(fit.call for fit in program.fits)]
    if any(word.arg == "ckpt_path" for fit in program.fits for word in fit.call.keywords):
        return
    if not starts:  # long work that is no training: where it saves again and again
        starts = [chain.loops[-1] for save, chain in program.repeated if chain.loops and program.is_checkpoint(save)]
    if not starts:
        return
    start = min(starts, key=lambda one: int(getattr(one, "lineno", 0)))
    what = "what is saved is never loaded" if program.storage.saves else "nothing is saved or loaded"
    yield NEVER_RESUMES.at(_at(start), f"the training starts at zero each time: {what}")


def _at(node: ast.AST) -> At:
    return At(int(getattr(node, "lineno", 1)), int(getattr(node, "col_offset", 0)) + 1)


# --- off by one ---


@dataclass(frozen=True, slots=True)
class _Saved:
    """A key of a saved dictionary that holds a loop's variable as it is."""

    key: str
    variable: str


def _repeats(program: Program) -> Iterator[Finding]:
    """`{"epoch": epoch}` is saved, `start = checkpoint["epoch"]` is read, and `range(start, n)` runs it again."""
    saved = set(_saved_variables(program))
    for loop in program.module.nodes:
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        start = _start_of_range(loop.iter)
        if start is None:
            continue
        key = _loaded_key(program, start)
        if key is not None and _Saved(key, loop.target.id) in saved:
            message = f"`{key}` is saved as the {loop.target.id} that is done, and the loop starts at it again"
            yield REPEATS.at(_at(loop), message)


def _saved_variables(program: Program) -> Iterator[_Saved]:
    """Keys with a loop's variable, where the loop's own work is before the save; parameters are looked up above."""
    for save in program.storage.saves:
        value = save.value
        if isinstance(value, ast.Name):
            found = program.module.bindings.get((program.module.function_of(value), value.id), [])
            value = found[0] if len(found) == 1 else None
        if not isinstance(value, ast.Dict):
            continue
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(item, ast.Name):
                yield from (_Saved(key.value, name) for name in _given_as(program, save.call, item))


def _given_as(program: Program, call: ast.Call, item: ast.Name) -> Iterator[str]:
    """The names that a parameter stands for where the function is called; `epoch + 1` is none."""
    function = program.module.function_of(call)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        yield item.id
        return
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    if item.id not in names:
        yield item.id
        return
    names = names[1:] if names[:1] == ["self"] else names
    for above in program.flow.calls_of.get(function.name, []):
        place = names.index(item.id) if item.id in names else -1
        given = next((word.value for word in above.keywords if word.arg == item.id), None)
        if given is None and 0 <= place < len(above.args):
            given = above.args[place]
        if isinstance(given, ast.Name):
            yield given.id


def _start_of_range(node: ast.expr) -> ast.expr | None:
    while isinstance(node, ast.Call) and node.args:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("range", "trange"):
            return node.args[0] if len(node.args) >= 2 else None
        node = node.args[0]  # tqdm(range(...)), enumerate
    return None


def _loaded_key(program: Program, start: ast.expr) -> str | None:
    """The key that a loop's start comes from, taken as it is: `start + 1` or an addition later is none."""
    if not isinstance(start, ast.Name | ast.Attribute):
        return None
    values: list[ast.expr | None]
    if isinstance(start, ast.Name):
        scope = program.module.function_of(start)
        values = program.module.bindings.get((scope, start.id)) or program.module.bindings.get((None, start.id), [])
    else:
        values = [*program.module.attributes_anywhere.get(start.attr, [])]
    if None in values:
        return None
    keys = {key for value in values if (key := _key_of(value)) is not None}
    others = [value for value in values if _key_of(value) is None and not _is_plain_start(value)]
    return keys.pop() if len(keys) == 1 and not others else None


def _is_plain_start(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant | ast.Attribute)


def _key_of(value: ast.expr | None) -> str | None:
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "int" and value.args:
        value = value.args[0]
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "get"
        and value.args
    ):
        inner: ast.expr | None = value.args[0]
    elif isinstance(value, ast.Subscript):
        inner = value.slice
    else:
        return None
    return inner.value if isinstance(inner, ast.Constant) and isinstance(inner.value, str) else None


# --- from scratch at any error ---


def _from_scratch(program: Program) -> Iterator[Finding]:
    """`try: load except Exception: start new`, which takes a broken mount for a first start."""
    told: set[ast.AST] = set()
    for load in program.storage.loads:
        child: ast.AST = load.call
        for one in program.module.above(load.call):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            if not isinstance(one, ast.Try) or child not in one.body or one in told:
                child = one
                continue
            if not program.module.loops_of(one) and _is_of_checkpoint(program, load):  # a loop tries several
                told.add(one)
                over = program.storage.shape(load.path).text in program.kept
                yield from _scratched(program, one, load, over=over)
            child = one


def _scratched(program: Program, node: ast.Try, load: Load, *, over: bool) -> Iterator[Finding]:
    for handler in node.handlers:
        if is_broad(program.module, handler) and only_tells(program.module, handler) and not node.orelse:
            end = ", and the next save overwrites it" if over else ""
            message = f"any error of {load.name} is taken for a first start: the program begins at zero{end}"
            yield FROM_SCRATCH.at(_at(handler), message, severity=ERROR if over else WARNING)


def _is_of_checkpoint(program: Program, load: Load) -> bool:
    function = program.module.function_of(load.call)
    name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ""
    return bool(CHECKPOINT.search(f"{program.storage.shape(load.path).text} {name} {load.name.rsplit('.', 1)[-1]}"))


# --- keys ---


def _keys(program: Program) -> Iterator[Finding]:
    """The same path in each execution, or another one in each attempt, where the program goes on from it."""
    told: set[str] = set()
    for load in program.storage.loads:
        shape = program.storage.shape(load.path)
        if load.path is None or shape.text in told or shape.moves or shape.text not in program.kept:
            continue
        told.add(shape.text)
        place = _where(program, shape) or _at(load.call)
        new = [gap.env for gap in shape.gaps if gap.env in _NEW_EACH_ATTEMPT]
        if new:
            message = f"`{shape.text}` holds {_NEW_EACH_ATTEMPT[str(new[0])]}: the next attempt looks elsewhere"
            yield NO_RUN.at(place, message)
        elif _is_same_each_run(program, shape) and not _has_done_mark(program):
            message = f"`{shape.text}` is the same in each execution of the job: the second finds the end of the first"
            yield NO_RUN.at(place, message)


def _is_same_each_run(program: Program, shape: Shape) -> bool:
    if any(gap.env not in _SAME_EACH_RUN for gap in shape.gaps):
        return False
    return bool(shape.gaps) or on_bucket(program.module, shape)


def _has_done_mark(program: Program) -> bool:
    """Whether something marks the end of a run."""
    words = (
        "done",
        "finished",
        "success",
        "complete_marker",
        "completed_marker",
        "run_id",
        "unlink",
        "rmtree",
        "remove",
    )
    names = {name.lower() for name in program.module.identifiers}
    texts = {
        node.value.upper()
        for node in program.module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40
    }
    return any(word in names for word in words) or any(
        text.endswith(("DONE", "_SUCCESS", "FINISHED")) for text in texts
    )


def _where(program: Program, shape: Shape) -> At | None:
    """The place where the path is put together, when it has a name of its own at the top."""
    for (scope, _name), values in program.module.bindings.items():
        if scope is None and len(values) == 1 and values[0] is not None:
            value = values[0]
            if not isinstance(value, ast.Constant | ast.Name) and program.storage.shaper.of(value).text == shape.text:
                return _at(value)
    return None
