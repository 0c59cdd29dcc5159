"""The figures of the report, the limit that each is held against, and the goals."""

from dataclasses import dataclass

LIMITS = "limits"
LIMIT_TITLES = {
    "copy_1": "memory copy, warm, 1 thread",
    "copy_2": "memory copy, warm, 2 threads",
    "write": "raw write of a new file, O_DIRECT, 2 threads",
    "overwrite": "raw write over an old file",
    "read_cold": "raw read, cold, 2 threads",
    "read_warm": "raw read, warm, 2 threads",
    "step_bare": "bare range()",
    "drain_item_by_hand": "loop by hand: lease, store, acknowledge",
    "publish_item_by_hand": "loop by hand: publish",
    "model_idle_bare": "bare loop with threads for the loads",
    "lint_parse": "PyYAML alone, its C loader",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. `unit`: s, %, points (of a percentage), or x (of the state's size).

    `limit` is a key of LIMIT_TITLES.
    """

    key: str
    title: str
    unit: str = "s"
    limit: str | None = None


FIGURES = (
    Figure("stall_first", "stall, first save", limit="copy_1"),
    Figure("stall", "stall, later save", limit="copy_1"),
    Figure("durable_first", "until durable, first save", limit="write"),
    Figure("durable", "until durable, later save", limit="write"),
    Figure("stall_running", "stall, training runs on", limit="copy_1"),
    Figure("durable_running", "until durable, training runs on", limit="write"),
    Figure("slowdown_seconds", "slow-down of training, beside the stall"),
    Figure("slowdown_percent", "slow-down as share of the persist time", "%"),
    Figure("lost", "training lost in all", limit="copy_1"),
    Figure("memory_save", "extra memory at saves", "x"),
    Figure("disk", "size on disk", "x"),
    Figure("restore_cold", "restore, cold", limit="read_cold"),
    Figure("restore_warm", "restore, warm", limit="read_warm"),
    Figure("memory_restore", "extra memory at restore", "x"),
    Figure("written_for_changed", "incremental: bytes written ÷ bytes changed", "x"),
    Figure("stall_incremental", "incremental: stall"),
    Figure("durable_incremental", "incremental: until durable"),
    Figure("step", "one step, no save due", limit="step_bare"),
    Figure("went_on", "notice to the first new step elsewhere", limit="read_cold"),
    Figure("left", "of that, from the notice to the stop, all saved"),
    Figure("came_back", "of that, from the made model to the step"),
    Figure("ended", "not in that: from the stop to the end of the interpreter"),
    Figure("heard", "SIGTERM: heard inside a 3 s C call"),
    Figure("stopped", "SIGTERM: stop with 50 MB of state, exit 143"),
    Figure("drain_item", "lease, store and acknowledge an item that takes no time", limit="drain_item_by_hand"),
    Figure("publish_item", "publish an item", limit="publish_item_by_hand"),
    Figure("item_overhead", "on top of an item of 50 ms, one by one", "%"),
    Figure("item_overhead_of_8", "on top of an item of 50 ms, in chunks of 8", "%"),
    Figure("worker_start", "from run() to the first item"),
    Figure("worker_end", "from the last item to the end of run()"),
    Figure("model_idle", "model waits", "%", limit="model_idle_bare"),
    Figure("lint", "lint of 1,000 manifests", limit="lint_parse"),
    Figure("idle_above_bare", "model waits, more than in the bare loop", "points"),
)
BEST_PEER = "best peer"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of one of our cases that is to be at most so much, in its unit.

    It is over its limit with `of_limit`, and over the same figure of another case with `than`: its name, or BEST_PEER.
    `beside` is granted besides, in the figure's unit. `state`: only there; None is everywhere.
    """

    case: str
    figure: str
    at_most: float
    of_limit: bool = False
    beside: float = 0.0
    than: str | None = None
    state: str | None = None


GOALS = (
    Goal("outlast background", "stall", 1.15, of_limit=True),
    Goal("outlast background", "stall_first", 1.15, of_limit=True),
    Goal("outlast lazy", "stall_running", 0.05, of_limit=True),
    Goal("outlast blocking", "durable", 1 / 0.9, of_limit=True),
    Goal("outlast background", "slowdown_percent", 3.0),
    Goal("outlast", "restore_cold", 1.2, of_limit=True),
    Goal("outlast", "restore_warm", 1.2, of_limit=True),
    Goal("outlast", "memory_restore", 0.05),
    Goal("outlast background", "written_for_changed", 1.1),
    Goal("outlast", "went_on", 1.2, of_limit=True, beside=1.0),
    Goal("outlast", "step", 20e-6),
    Goal("outlast", "drain_item", 1 / 5, than=BEST_PEER, state="batch: SQLite"),
    Goal("outlast", "drain_item", 2.0, of_limit=True, state="batch: SQLite"),
    Goal("outlast", "drain_item", 1 / 4, than="pgqueuer", state="batch: PostgreSQL"),
    Goal("outlast", "drain_item", 1 / 20, than="procrastinate", state="batch: PostgreSQL"),
    Goal("outlast", "drain_item", 1 / 5, than="streaming pull", state="batch: Pub/Sub"),
    Goal("outlast", "item_overhead", 1.0),
    Goal("outlast", "item_overhead_of_8", 1.0),
    Goal("outlast", "idle_above_bare", 3.0),
    Goal("outlast", "lint", 10.0),
)
