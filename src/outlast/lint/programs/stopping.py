"""What a program does when it is told to stop: whether only then it saves, and which exit code it leaves with."""

import ast
import re
from collections.abc import Iterator

from outlast.lint.commands.rules import ZERO_AT_TERM
from outlast.lint.programs.flow import Chain
from outlast.lint.programs.program import Program
from outlast.lint.programs.rules import KEYBOARD, ONLY_AT_STOP
from outlast.lint.reading.python import Function
from outlast.lint.rule import At, Finding

_EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit"}
# Programs that a controller always starts again, or that have no end: 0 is right for them.
_SERVERS = {
    "flask", "fastapi", "uvicorn", "aiohttp", "grpc", "http", "socketserver", "tornado", "celery", "django",
    "starlette", "sanic", "bottle", "gunicorn", "rq", "dramatiq", "kafka", "pika", "streamlit", "gradio",
}  # fmt: skip


def check_stopping(program: Program) -> Iterator[Finding]:
    """The findings on signals."""
    if not program.keeps_checkpoints and not _saves_at_stop(program):
        return
    yield from _only_at_stop(program)
    yield from _keyboard(program)
    if not program.module.packages & _SERVERS and not _takes_messages(program):
        yield from _zero(program)


def _saves_at_stop(program: Program) -> bool:
    return any(
        program.is_checkpoint(save) and _is_at_stop(program, chain)
        for save in program.storage.saves
        for chain in program.flow.chains(save.call)
    )


def _is_at_stop(program: Program, chain: Chain) -> bool:
    return chain.root in program.flow.handlers or any(program.flow.is_flagged(test) for test in chain.tests)


def _only_at_stop(program: Program) -> Iterator[Finding]:
    """All saves but those after the work stand in the handler, or behind the flag that it sets."""
    if program.repeated:
        return
    ways = [(save, chain) for save in program.storage.saves for chain in program.flow.chains(save.call)]
    at_stop = [(save, chain) for save, chain in ways if _is_at_stop(program, chain)]
    if not at_stop or any(not program.flow.is_known(chain) and (_save, chain) not in at_stop for _save, chain in ways):
        return
    save, chain = at_stop[0]
    where = chain.outermost if chain.root in program.flow.handlers else save.call
    message = f"{save.name} is called only when SIGTERM has come: a kill without notice loses all since the start"
    yield ONLY_AT_STOP.at(_at(where), message)


def _keyboard(program: Program) -> Iterator[Finding]:
    if program.flow.registers_term:
        return
    told: set[ast.ExceptHandler] = set()
    for save in program.storage.saves:
        for chain in program.flow.chains(save.call):
            for handler in chain.handlers:
                if handler not in told and _is_keyboard(program, handler):
                    told.add(handler)
                    message = f"{save.name} waits for KeyboardInterrupt, which SIGTERM does not raise"
                    yield KEYBOARD.at(_at(handler), message)


def _is_keyboard(program: Program, handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is not None and program.module.dotted(kind) == "KeyboardInterrupt" for kind in kinds)


# --- exit code 0 ---


def _zero(program: Program) -> Iterator[Finding]:
    found = False
    for handler in program.flow.handlers:
        for node in _reached(program, handler):
            if _is_exit_zero(program, node):
                found = True
                yield ZERO_AT_TERM.at(_at(node), "the SIGTERM handler exits with 0: unfinished work counts as done")
    if not found:
        yield from _zero_by_flag(program)


def _reached(program: Program, handler: Function) -> Iterator[ast.AST]:
    """A handler's nodes, and those of functions that it calls."""
    yield from ast.walk(handler)
    for call in ast.walk(handler):
        if isinstance(call, ast.Call):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            for function in program.module.functions.get(name, []):
                if function is not handler:
                    yield from ast.walk(function)


def _is_exit_zero(program: Program, node: ast.AST) -> bool:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
        return node.exc.id == "SystemExit"
    if not isinstance(node, ast.Call) or program.module.dotted(node.func) not in _EXITS:
        return False
    if not node.args:
        return True
    code = node.args[0]
    return isinstance(code, ast.Constant) and (code.value is None or (isinstance(code.value, int) and code.value == 0))


def _zero_by_flag(program: Program) -> Iterator[Finding]:
    """The handler sets a flag, the loop ends at it, and no code but 0 follows."""
    if not program.flow.flags or not program.flow.is_program:
        return
    leaves = [node for node in program.module.nodes if _leaves_at_flag(program, node)]
    if not leaves or _has_other_code(program):
        return
    place = leaves[0]
    name = next(iter(sorted(program.flow.flags)))
    yield ZERO_AT_TERM.at(
        _at(place), f"the loop ends when SIGTERM has set `{name}`, and the program then leaves with 0"
    )


def _leaves_at_flag(program: Program, node: ast.AST) -> bool:
    """`while not stop`, or `if stop: break` (or return) in a loop."""
    if isinstance(node, ast.While):
        return program.flow.names_flag(node.test) and _is_work(program, node)
    if not isinstance(node, ast.If) or not program.flow.names_flag(node.test):
        return False
    loops = program.module.loops_of(node)
    ends = any(isinstance(one, ast.Break | ast.Return) for one in node.body)
    return ends and any(_is_work(program, loop) for loop in loops)


def _is_work(program: Program, loop: ast.AST) -> bool:
    """Whether a loop is the training, or saves as it goes; a heartbeat's is neither."""
    if any(
        loop is one or loop in program.module.loops_of(one) or _is_inside(program, loop, one)
        for one in program.training_loops
    ):
        return True
    return any(loop in chain.loops for save in program.storage.saves for chain in program.flow.chains(save.call))


def _is_inside(program: Program, loop: ast.AST, outer: ast.AST) -> bool:
    return any(one is outer for one in program.module.above(loop))


def _has_other_code(program: Program) -> bool:
    """Whether anything may leave with another code, or an exception, or the work's own count decides."""
    for node in program.module.nodes:
        if (
            isinstance(node, ast.Call)
            and program.module.dotted(node.func) in _EXITS
            and not _is_exit_zero(program, node)
        ):
            return True
        if isinstance(node, ast.Raise) and any(
            isinstance(one, ast.If) and program.flow.names_flag(one.test) for one in program.module.above(node)
        ):
            return True
        if isinstance(node, ast.Call) and re.search(
            r"requeue|os\.kill|raise_signal|exec[lv]", program.module.dotted(node.func)
        ):
            return True
    return False


def _takes_messages(program: Program) -> bool:
    names = {name.lower() for name in program.module.identifiers}
    return bool(names & {"pubsub_v1", "receive_message", "subscriberclient", "acknowledge", "basic_consume"})


def _at(node: ast.AST) -> At:
    return At(int(getattr(node, "lineno", 1)), int(getattr(node, "col_offset", 0)) + 1)
