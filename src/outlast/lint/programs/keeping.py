"""What is saved, and over what: the only checkpoint in place, a part of the state, after the loop, errors swallowed."""

import ast
import re
from collections.abc import Iterator

from outlast.lint.programs.flow import Chain
from outlast.lint.programs.program import Fit, Program
from outlast.lint.programs.rules import IN_PLACE, NOT_ALL, ONLY_AT_END, SAVE_SWALLOWED
from outlast.lint.programs.saving import Save, What, is_best
from outlast.lint.programs.shapes import Shape
from outlast.lint.reading.python import Module
from outlast.lint.rule import ERROR, WARNING, At, Finding, Severity

_RENAMES = {"rename", "replace", "renames", "move", "mv", "copy2", "copytree", "link", "symlink"}
_TEMPORARY = re.compile(
    r"(?:^|[^a-z])(?:tmp|temp|partial|incomplete|staging|new)(?:[^a-z]|$)|temporary|mkdtemp|mkstemp", re.IGNORECASE
)
_OPTIMIZER = re.compile(r"optim|(?:^|_)opt(?:_|$)|opt_state|train_?state|ts\.|solver|^state$", re.IGNORECASE)
_STEP = re.compile(r"epoch|step|iter|batch|progress|counter|global|round|num_", re.IGNORECASE)
_REMOTE = re.compile(r"^(?:gs|s3|az|abfs|hdfs|http|https|hf)://")
_TELLS = re.compile(
    r"^(?:print|repr|str|type|format|len|int|float|warn|traceback\.\w+|warnings\.warn|(?:\w+\.)*(?:log|logg\w*)\.\w+|logging\.\w+"
    r"|(?:\w+\.)*(?:warn|warning|error|exception|info|debug|critical|write|flush|print|echo|log|format_exc|print_exc|secho))$"
)
_BETTER = re.compile(r"best|improv|lowest|highest|(?:^|_)(?:min|max)_\w*(?:loss|acc|hr|metric|score)", re.IGNORECASE)
_IS_FORMAT = re.compile(r"[{%]|format|pattern|template")
_CALLBACKS = re.compile(r"Checkpoint|BackupAndRestore|Backup")


def check_keeping(program: Program) -> Iterator[Finding]:
    """The findings on saves."""
    if program.keeps_checkpoints:
        yield from _in_place(program)
        yield from _by_callback(program)
        yield from _parts(program)
    if program.is_training and program.flow.is_program:
        yield from _at_end(program)
    yield from _swallowed(program)


# --- in place ---


def _in_place(program: Program) -> Iterator[Finding]:
    repeated = program.repeated
    shapes = {save: program.shape_on(chain, save.path) for save, chain in repeated}
    if any(save.manages or save.opaque or shapes[save].moves for save, _chain in repeated if not is_best(shapes[save])):
        return  # another of its saves keeps several
    loaded = {
        program.shape_on(chain, load.path).text
        for load in program.loads_before
        if load.path is not None
        for chain in program.flow.chains(load.call)
    }
    told: set[str] = set()
    for save, chain in repeated:
        shape = shapes[save]
        if not chain.loops or shape.text in told or not _is_whole_file(program, save, shape):
            continue
        others = len({one.text for one in shapes.values() if not is_best(one)} - {shape.text}) > 0
        best = is_best(shape) or any(_is_of_best(test) for test in chain.tests)
        severity = _severity(program, save, shape, loaded, others=others, best=best)
        if severity is not None:
            told.add(shape.text)
            message = (
                f"{save.name} writes `{shape.text}` anew each time: a kill during the save leaves no good checkpoint"
            )
            yield IN_PLACE.at(save, message, severity=severity)


def _by_callback(program: Program) -> Iterator[Finding]:
    """Keras' ModelCheckpoint with one name: it writes over the last one, too."""
    if not program.module.packages & {"keras", "tensorflow", "tf_keras"}:
        return
    for call in program.module.calls:
        name = program.module.dotted(call.func)
        if not name.endswith("ModelCheckpoint") or "lightning" in name:
            continue
        path = next(
            (word.value for word in call.keywords if word.arg == "filepath"), call.args[0] if call.args else None
        )
        shape = program.storage.shape(path)
        names = " ".join((shape.fixed, *(gap.name for gap in shape.gaps)))
        if path is None or shape.is_open or shape.moves or _IS_FORMAT.search(names):
            continue
        loaded = any(program.storage.shape(load.path).text == shape.text for load in program.loads_before)
        message = (
            f"ModelCheckpoint writes `{shape.text}` anew each time: a kill during the save leaves no good checkpoint"
        )
        yield IN_PLACE.at(At(call.lineno, call.col_offset + 1), message, severity=ERROR if loaded else WARNING)


def _is_whole_file(program: Program, save: Save, shape: Shape) -> bool:
    """Whether the save goes straight over what was there: one place, no temporary name, no rename behind it."""
    if (
        save.path is None
        or save.opaque
        or shape.is_open
        or shape.moves
        or _TEMPORARY.search(shape.text.rsplit("/", 1)[-1])
    ):
        return False
    if _REMOTE.match(shape.start) or save.name.rsplit(".", 1)[-1].startswith("upload"):
        return False  # an object is replaced as a whole when it is complete
    function = program.module.function_of(save.call)
    return not any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _RENAMES
        and program.module.function_of(call) is function
        and call.lineno >= save.line
        and not _is_copy_to_best(call)
        and not _is_text_replace(call)
        for call in program.module.calls
    )


def _is_copy_to_best(call: ast.Call) -> bool:
    return False if not call.args else "best" in ast.unparse(call.args[-1])


def _is_text_replace(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute) and call.func.attr == "replace" and len(call.args) == 2 and _is_text(call)
    )


def _is_text(call: ast.Call) -> bool:
    return any(isinstance(one, ast.Constant) for one in call.args)


def _is_of_best(test: ast.expr) -> bool:
    """Whether a condition asks for an improvement, and for nothing else beside it."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return all(_is_of_best(one) for one in test.values)
    return any(
        _BETTER.search(one.id if isinstance(one, ast.Name) else one.attr)
        for one in ast.walk(test)
        if isinstance(one, ast.Name | ast.Attribute)
    )


def _severity(
    program: Program, save: Save, shape: Shape, loaded: set[str], *, others: bool, best: bool
) -> Severity | None:
    """An error where this is what the program goes on from; None for a result that is only exported."""
    is_loaded = shape.text in loaded
    if best:
        return WARNING if is_loaded or (not others and len(program.repeated) == 1) else None
    if others:
        return WARNING if is_loaded or program.is_checkpoint(save) else None
    if is_loaded or (program.is_checkpoint(save) and (program.loads_before or program.names_resuming)):
        return ERROR
    return WARNING


# --- parts of the state ---


def _parts(program: Program) -> Iterator[Finding]:
    """Of what is saved again and again, whether optimizer and step are in it."""
    repeated = [(save, chain) for save, chain in program.repeated if chain.loops]
    if any(save.what is What.ALL for save, _chain in program.repeated) or not _has_optimizer(program.module):
        return
    shapes = {save: program.shape_on(chain, save.path) for save, chain in repeated}
    kept = [save for save, _chain in repeated if not is_best(shapes[save]) and save.what in (What.MODEL, What.DICT)]
    if any(
        _OPTIMIZER.search(f"{shapes[save].text} {_told(save.value)}") for save, _chain in repeated if save not in kept
    ):
        return  # what a file of its own holds
    if any(_OPTIMIZER.search(shapes[save].text) for save in kept):
        return
    missing = [(save, _missing(program, save, shapes[save])) for save in kept]
    if missing and all(parts for _save, parts in missing):
        save, parts = missing[0]
        yield NOT_ALL.at(save, f"{save.name} to `{shapes[save].text}` leaves out {' and '.join(parts)}")


def _has_optimizer(module: Module) -> bool:
    """Whether there is one with a state of its own; plain SGD has none, but a schedule may."""
    names = [module.dotted(call.func) for call in module.calls]
    return any(re.search(r"(?:^|\.)optim(?:izers?)?\.\w|Adam|optax\.", name) for name in names)


def _missing(program: Program, save: Save, shape: Shape) -> list[str]:
    """What a save leaves out; empty where its value is not known."""
    if save.what is What.MODEL:
        step = [] if shape.moves else ["the step"]
        return ["the optimizer's state", *step]
    value = _dictionary(program.module, save.value)
    if value is None or any(key is None for key in value.keys):
        return []
    text = " ".join((*(_told(key) for key in value.keys), *(_told(one) for one in value.values)))
    missing = [] if _OPTIMIZER.search(text) else ["the optimizer's state"]
    has_step = any(_STEP.search(_told(key)) for key in value.keys) or shape.moves
    return missing if has_step else [*missing, "the step"]


def _dictionary(module: Module, node: ast.expr | None) -> ast.Dict | None:
    """A dictionary that is written out, here or where its name is given its only value, and not added to later."""
    if isinstance(node, ast.Name):
        values = module.bindings.get((module.function_of(node), node.id), [])
        added = any(
            isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name) and one.value.id == node.id
            for one in module.nodes
        )
        node = values[0] if len(values) == 1 and not added else None
    return node if isinstance(node, ast.Dict) else None


def _told(node: ast.expr | None) -> str:
    if node is None or sum(1 for _ in ast.walk(node)) > 200:
        return ""
    return ast.unparse(node)


# --- after the loop ---


def _at_end(program: Program) -> Iterator[Finding]:
    """Saves there are, and every one of them when the work is over."""
    saves = [
        save
        for save in program.storage.saves
        if (save.what is not What.OTHER or program.is_checkpoint(save)) and (not save.opaque or program.training_loops)
    ]
    if not saves or program.repeated or _keeps_by_callback(program):
        return
    ways = [(save, chain) for save in saves for chain in program.flow.chains(save.call)]
    if any(
        chain.root in program.flow.handlers or _is_flagged(program, chain) or chain.handlers for _save, chain in ways
    ):
        return  # C007's, C014's
    for fit in program.fits:
        if fit.kind != "keras" and not _is_switched_off(program, fit):
            return  # Lightning and the Trainer save as they go
    first = min((save for save, _chain in ways), key=lambda save: save.line)
    starts = [*program.training_loops, *(fit.call for fit in program.fits)]
    if all(first.line < start.lineno for start in starts):
        return
    yield ONLY_AT_END.at(first, f"{first.name} is the first save, and it comes when the training is over")


def _is_flagged(program: Program, chain: Chain) -> bool:
    return any(program.flow.is_flagged(test) for test in chain.tests)


def _keeps_by_callback(program: Program) -> bool:
    return any(_CALLBACKS.search(name) for name in program.module.identifiers)


def _is_switched_off(program: Program, fit: Fit) -> bool:
    """Whether a framework's own saving is off: `save_strategy="no"`, `enable_checkpointing=False`."""
    wanted = {"trainer": ("save_strategy", "no"), "lightning": ("enable_checkpointing", False)}[fit.kind]
    return any(
        word.arg == wanted[0] and isinstance(word.value, ast.Constant) and word.value.value == wanted[1]
        for call in program.module.calls
        for word in call.keywords
    )


# --- errors of a save ---


def _swallowed(program: Program) -> Iterator[Finding]:
    """`try: save except Exception: print`: the program goes on as if it had saved."""
    told: set[ast.AST] = set()
    for save in program.storage.saves:
        if not program.keeps_checkpoints or not (program.is_checkpoint(save) or save.what is What.MODEL):
            continue
        child: ast.AST = save.call
        for one in program.module.above(save.call):
            if isinstance(one, ast.Try) and child in one.body and one not in told:
                told.add(one)
                for handler in one.handlers:
                    if is_broad(program.module, handler) and only_tells(program.module, handler):
                        message = f"when {save.name} fails, the program goes on as if it had saved"
                        yield SAVE_SWALLOWED.at(At(handler.lineno, handler.col_offset + 1), message)
            child = one


def is_broad(module: Module, handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes any error."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or module.dotted(kind) in ("Exception", "BaseException") for kind in kinds)


def only_tells(module: Module, handler: ast.ExceptHandler) -> bool:
    """Whether a handler does nothing about the error: it prints, logs, sets a value, passes, returns one."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise | ast.Continue | ast.Break | ast.AugAssign | ast.For | ast.While):
            return False
        if isinstance(node, ast.Call) and not _TELLS.search(module.dotted(node.func)):
            return False
    return True
