"""Results of a queue: acknowledged after they are stored, stored so that a second delivery changes nothing."""

import ast
import re
from collections.abc import Iterator

from outlast.lint.programs.program import Program
from outlast.lint.programs.rules import ACK, INSERT
from outlast.lint.rule import ERROR, WARNING, At, Finding

_INSERT = re.compile(r"^\s*INSERT\s+INTO\b", re.IGNORECASE)
_MERGES = re.compile(
    r"ON\s+CONFLICT|ON\s+DUPLICATE\s+KEY|OR\s+(?:IGNORE|REPLACE)|WHERE\s+NOT\s+EXISTS|\bMERGE\b", re.IGNORECASE
)
_TAKES = {
    "pull", "receive_message", "receive_messages", "basic_get", "basic_consume", "blpop", "brpop", "brpoplpush",
    "xreadgroup", "subscribe", "poll",
}  # fmt: skip
_QUEUES = {"google", "boto3", "botocore", "pika", "kafka", "confluent_kafka", "redis", "aioboto3", "nats"}
_WORKS = re.compile(
    r"^_*(?:process|handle|infer|predict|label|classify|store|save|insert|upsert|upload|write|put|execute|compute|run|work"
    r"|transform|embed|generate|train)",
    re.IGNORECASE,
)
_TELLS = re.compile(r"(?:^|\.)(?:print|log|logger|logging|info|debug|warning|append)(?:\.|$)")


def check_queues(program: Program) -> Iterator[Finding]:
    """The findings on workers of a queue."""
    if not program.module.packages & _QUEUES:
        return
    takes = [call for call in program.module.calls if _method(call) in _TAKES]
    if not takes:
        return
    yield from _inserts(program)
    for call in takes:
        if _method(call) in ("pull", "receive_message"):
            yield from _early(program, call)
    yield from _deadlines(program)


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _at(node: ast.expr) -> At:
    return At(node.lineno, node.col_offset + 1)


def _inserts(program: Program) -> Iterator[Finding]:
    for call in program.module.calls:
        if _method(call) not in ("execute", "executemany", "fetchrow", "run") or not call.args:
            continue
        text = _sql(program, call.args[0])
        if text is not None and _INSERT.match(text) and not _MERGES.search(text):
            table = [*text.split(), "", "", ""][2].split("(")[0]
            yield INSERT.at(
                _at(call), f"INSERT INTO {table} without ON CONFLICT: a message that comes twice is stored twice"
            )


def _sql(program: Program, node: ast.expr) -> str | None:
    """A statement's text, gaps left out; None where it is not known."""
    if isinstance(node, ast.Call) and node.args:  # text("INSERT ...")
        node = node.args[0]
    if isinstance(node, ast.Name):
        for scope in (program.module.function_of(node), None):
            values = program.module.bindings.get((scope, node.id), [])
            if len(values) == 1 and values[0] is not None:
                node = values[0]
                break
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return " ".join(texts) if texts else None


# --- acknowledge first ---


def _early(program: Program, take: ast.Call) -> Iterator[Finding]:
    """In the function that pulls: what is done with the messages after they were acknowledged."""
    function = program.module.function_of(take)
    body = [node for node in program.module.nodes if program.module.function_of(node) is function]
    acks = [one for one in body if isinstance(one, ast.Call) and _is_ack(one) and one.lineno >= take.lineno]
    names = _message_names(program, take, body)
    for ack in acks:
        calls = (one for one in body if isinstance(one, ast.Call))
        used = next((one for one in calls if _is_use(program, one, ack, names)), None)
        if used is not None:
            what = program.module.dotted(used.func)
            severity = ERROR if _WORKS.search(what.rsplit(".", 1)[-1]) else WARNING
            message = f"{_method(ack)} comes before {what}: a worker that dies in between loses the message"
            yield ACK.at(_at(ack), message, severity=severity)
            return


def _is_ack(call: ast.Call) -> bool:
    return _method(call) in ("acknowledge", "delete_message", "delete_message_batch")


def _message_names(program: Program, take: ast.Call, body: list[ast.AST]) -> set[str]:
    """The names of the response and of the messages in it."""
    found: set[str] = set()
    for one in program.module.above(take):
        if isinstance(one, ast.Assign):
            found |= {node.id for target in one.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            break
    for _ in range(3):
        for node in body:
            source: ast.expr | None = None
            targets: list[ast.expr] = []
            if isinstance(node, ast.For | ast.comprehension):
                source, targets = node.iter, [node.target]
            elif isinstance(node, ast.Assign):
                source, targets = node.value, list(node.targets)
            if source is not None and any(isinstance(one, ast.Name) and one.id in found for one in ast.walk(source)):
                found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found - {"ack_ids", "ack_id", "receipt_handle", "receipt"}


def _is_use(program: Program, node: ast.Call, ack: ast.Call, names: set[str]) -> bool:
    """Whether a call works on a message after the acknowledgement, in the same turn of the same loop."""
    if _is_ack(node) or node.lineno <= (ack.end_lineno or ack.lineno):
        return False
    if _TELLS.search(program.module.dotted(node.func)) or _method(node) in ("modify_ack_deadline", "get", "decode"):
        return False
    if isinstance(node.func, ast.Name) and node.func.id in ("len", "print", "str", "int", "list", "range", "enumerate"):
        return False
    uses = any(isinstance(one, ast.Name) and one.id in names for part in node.args for one in ast.walk(part))
    if not uses:
        return False
    inner, outer = program.module.loops_of(ack), program.module.loops_of(node)
    return not inner or inner[0] in outer or inner == outer


def _deadlines(program: Program) -> Iterator[Finding]:
    """Pub/Sub takes 10 to 600 s."""
    for call in program.module.calls:
        for word in call.keywords:
            value = word.value.value if isinstance(word.value, ast.Constant) else None
            if word.arg == "ack_deadline_seconds" and isinstance(value, int) and not 10 <= value <= 600:
                if _method(call).startswith("modify"):
                    continue
                yield ACK.at(_at(word.value), f"an acknowledgement deadline of {value} s: Pub/Sub takes 10 to 600 s")
