"""How `outlast nodes` tells people what it saw: a line for each thing, the most urgent first."""

from collections.abc import Iterator, Sequence

from outlast.clock import format_duration
from outlast.monitor.nodes import ClusterSight, HandlerSight, NodeSight, PodSight
from outlast.monitor.nodes_cloud_run import CloudRunSight, ExecutionSight, TaskSight
from outlast.monitor.nodes_losses import AtRisk
from outlast.sources.moments import moment_text

_STATES = {
    "ending": "its machine is being taken away",
    "lost": "it does not answer",
    "draining": "it takes no new pods",
    "planned": "maintenance is planned",
}
_LONGEST = 400


def cluster_lines(sight: ClusterSight) -> Iterator[str]:
    """A cluster: nodes with their pods, pods without a node, handlers, and what to ask by hand."""
    disrupted = sum(one.is_disrupted for one in sight.nodes)
    planned = len(sight.nodes) - disrupted
    context = "" if sight.context in (None, sight.cluster) else f" (context {sight.context})"
    yield _short(
        f"cluster {sight.cluster}{context}: {sight.nodes_in_all} nodes, {disrupted} disrupted"
        + (f", {planned} with maintenance planned" if planned else "")
    )
    for node in sight.nodes:
        yield ""
        yield from _node_lines(node)
    yield from _group("waiting for a node, with outlast:", sight.waiting)
    yield from _group("ended by a disruption within the last hour, with outlast:", sight.ended)
    for handler in sight.handlers:
        if handler.lines:
            yield from _handler_lines(handler)
    yield from _by_hand(sight)
    for problem in sight.problems:
        yield _short(f"not seen: {problem}")


def time_left(node: NodeSight) -> str:
    """How long a node has, in words; empty where nothing is known."""
    if node.seconds_left is not None and node.marks.state == "planned":
        return f"begins in {format_duration(node.seconds_left)}"
    if node.seconds_left is not None:
        return f"{format_duration(node.seconds_left)} left" if node.seconds_left > 0 else "any moment now"
    if node.marks.longest_seconds is not None:
        return f"{format_duration(node.marks.longest_seconds)} at most"
    return ""


def _node_lines(node: NodeSight) -> Iterator[str]:
    marks = node.marks
    words = [f"{_STATES[marks.state]}", *marks.classes]
    left = time_left(node)
    yield _short(f"{marks.name}: {', '.join(words)}{f'; {left}' if left else ''}")
    for sign in marks.signs:
        yield _short(f"  {sign}")
    ours = [one for one in node.pods if one.is_ours]
    for pod in ours:
        yield from _pod_lines(pod)
    others = len(node.pods) - len(ours)
    if others:
        named = ", ".join(f"{one.marks.namespace}/{one.marks.name}" for one in node.pods if not one.is_ours)
        yield _short(f"  and {others} without outlast: {named}")
    if not node.pods:
        yield "  no pods of those that were looked at"


def _pod_lines(pod: PodSight) -> Iterator[str]:
    yield _short(f"  pod {_pod_name(pod)}: {_pod_state(pod)}")
    for risk in pod.at_risk:
        yield _short(f"    {risk_words(risk)}")
    if not pod.at_risk and pod.state != "waiting":
        yield "    its store is not named in its manifest; see --at, and outlast status"
    for why in pod.marks.unseen:
        yield _short(f"    {why}")


def _pod_name(pod: PodSight) -> str:
    marks = pod.marks
    above = f"jobset/{marks.jobset}" if marks.jobset else ""
    owners = ", ".join(one for one in (above, marks.owner) if one)
    index = "" if marks.index is None else f", index {marks.index}"
    return f"{marks.namespace}/{marks.name}{f' ({owners}{index})' if owners else ''}"


def _pod_state(pod: PodSight) -> str:
    reason = f" ({pod.marks.disrupted})" if pod.marks.disrupted else ""
    if pod.state == "being ended":
        left = "its grace is over" if not pod.seconds_left else f"{format_duration(pod.seconds_left)} of its grace left"
        return f"being ended{reason}, {left}"
    if pod.state == "on the node":
        return f"{pod.marks.phase or 'unknown'}{reason}, has {format_duration(pod.grace_seconds)} of grace"
    if pod.state == "waiting":
        return f"Pending{f': {pod.marks.waits_for}' if pod.marks.waits_for else ''}"
    return f"ended{reason}"


def risk_words(risk: AtRisk) -> str:
    """What would be lost, in one line."""
    what = f"{risk.url} {risk.what}".strip()
    if risk.problem:
        return f"{what}: {risk.problem}"
    words = [risk.state] if risk.state else []
    if risk.checkpoint_age_seconds is not None:
        step = "" if risk.checkpoint_step is None else f" of step {risk.checkpoint_step}"
        words.append(f"last checkpoint{step} {format_duration(risk.checkpoint_age_seconds)} ago")
    elif risk.state == "running":
        words.append("no checkpoint yet")
    if risk.risk_seconds is not None:
        steps = "" if risk.risk_steps is None else f" ({risk.risk_steps} steps)"
        words.append(f"would lose {format_duration(risk.risk_seconds)} of work{steps}")
    return f"{what}: {', '.join(words)}"


def _group(title: str, pods: Sequence[PodSight]) -> Iterator[str]:
    if pods:
        yield ""
        yield title
    for pod in pods:
        yield _short(f"  pod {_pod_name(pod)}: {_pod_state(pod)}")


def _handler_lines(handler: HandlerSight) -> Iterator[str]:
    yield ""
    yield _short(f"maintenance handler {handler.namespace}/{handler.name} on {handler.node}:")
    for line in handler.lines:
        yield _short(f"  {line}")


def _by_hand(sight: ClusterSight) -> Iterator[str]:
    yield ""
    yield "by hand:"
    for command in sight.commands:
        yield f"  $ {command}"
    yield "Logs Explorer:" + (f" {sight.logs_address}" if sight.logs_address else "")
    for line in sight.logs_query.splitlines():
        yield f"  {line}"


# --- Cloud Run --------------------------------------------------------------------------------------


def cloud_run_lines(sight: CloudRunSight) -> Iterator[str]:
    """The executions, each with its tasks and preemptions, and what to ask by hand."""
    if not sight.executions:
        yield "no executions"
    for execution in sight.executions:
        yield from _execution_lines(execution)
        yield ""
    if sight.executions:
        yield "by hand:"
        for command in sight.commands:
            yield f"  $ {command}"
        yield "Logs Explorer:"
        for line in sight.logs_query.splitlines():
            yield f"  {line}"
    for problem in sight.problems:
        yield _short(f"not seen: {problem}")


def _execution_lines(one: ExecutionSight) -> Iterator[str]:
    retried = f", {one.retried_tasks} of them retried" if one.retried_tasks else ""
    tasks = "1 task" if one.tasks_in_all == 1 else f"{one.tasks_in_all} tasks"
    yield _short(f"execution {one.name} of job {one.job} in {one.region}: {one.state}, {tasks}{retried}")
    if one.message:
        yield _short(f"  {one.message}")
    for task in one.tasks:
        yield _short(f"  task {task.index}: {_task_words(task)}")
        for risk in task.at_risk:
            yield _short(f"    {risk_words(risk)}")
    if one.state == "running" and one.runs_outlast and not one.urls:
        yield "  its store is not named in its job; see outlast status"
    for entry in one.preemptions:
        task_words = "" if entry.task is None else f", task {entry.task}"
        yield _short(f"  preempted at {_moment(entry.at)}{task_words}: {entry.message}")


def _task_words(task: TaskSight) -> str:
    most = "" if task.most_attempts is None else f" of at most {task.most_attempts}"
    words = [task.state, f"attempt {task.attempts}{most}", *(["no retry is left"] if task.is_last_attempt else [])]
    if task.last_exit is not None or task.last_message:
        code = "" if task.last_exit is None else f"exit code {task.last_exit}"
        words.append("last ended with " + ", ".join(part for part in (code, task.last_message) if part))
    return ", ".join(words)


def _moment(at: float | None) -> str:
    return "a moment that is not known" if at is None else moment_text(at)


def _short(line: str) -> str:
    """In one line, whatever names say."""
    one = line.replace("\n", "\\n").replace("\t", " ")
    return one if len(one) <= _LONGEST else f"{one[:_LONGEST]}…"
