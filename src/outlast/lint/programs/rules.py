"""The rules for programs: what a kill between two lines loses, and what a second start finds."""

from outlast.lint.rule import ERROR, WARNING, Rule

_MOUNT = "Cloud Run, Cloud Storage volume mounts for jobs (2026-11-29)"
_SEMANTICS = "GoogleCloudPlatform/gcsfuse, docs/semantics.md (2026-11-29)"
_TUTORIAL = "Cloud Run, Design resilient long-running GPU jobs (2026-11)"
NO_LOCKS = Rule(
    "C001",
    ERROR,
    "a lock or a database file on a mounted bucket",
    "Cloud Storage FUSE has no file locking, and when two writers meet the last one wins: locks protect nothing, and a "
    "SQLite file gets corrupted.",
    "keep the database on a disk or a server (PostgreSQL), and use an object with a generation condition as a lock",
    _MOUNT + "; " + _SEMANTICS,
)
RENAME = Rule(
    "C002",
    ERROR,
    "a rename as commit on a mounted bucket",
    "On a bucket without hierarchical namespace a directory cannot be renamed, and a file's rename is a copy and a "
    "delete: it is not atomic, and a kill in between leaves both names or an old one.",
    "write new files under unique names, close them, read them back, and write one small record last (outlast does)",
    _SEMANTICS,
)
FSYNC = Rule(
    "C003",
    WARNING,
    "fsync as commit on a mounted bucket",
    "With streaming writes fsync does not finalize the object: it becomes durable and visible when the file is closed.",
    "close the file, open it again and check what it holds before anything relies on it",
    _SEMANTICS,
)
APPEND = Rule(
    "C004",
    WARNING,
    "appends to one growing file on a mounted bucket",
    "Objects cannot be appended to: each save downloads, stages in memory and uploads the whole file again, and a kill "
    "leaves the last upload.",
    "write a new file for each save",
    _SEMANTICS,
)
INSERT = Rule(
    "C005",
    WARNING,
    "INSERT without ON CONFLICT for results of a queue",
    "A queue delivers a message again when its worker dies between the store and the acknowledgement: the row is "
    "there twice.",
    "give the message's id a unique key and use INSERT ... ON CONFLICT (id) DO UPDATE",
    "Surviving eviction: resilient AI workloads on GKE, section 3 (2026-11); Pub/Sub, at-least-once delivery",
)
ACK = Rule(
    "C006",
    ERROR,
    "acknowledges before the result is stored",
    "After the acknowledgement the queue forgets the message: a worker that dies before the store loses it for good.",
    "store first, acknowledge then; extend the deadline while the work goes on",
    "Surviving eviction: resilient AI workloads on GKE, section 4 (2026-11); Pub/Sub, synchronous pull",
)
ONLY_AT_STOP = Rule(
    "C007",
    ERROR,
    "saves only when the stop signal comes",
    "The signal leaves 10 to 30 s, too short for a large state, and an out-of-memory kill, a host error or a lost node "
    "gives none: then everything since the start is lost.",
    "save in the loop every few minutes, and at the signal besides (job.steps does both)",
    _TUTORIAL + "; GKE, Manage disruption of GPU and TPU nodes (2026-11)",
)
NO_RUN = Rule(
    "C008",
    WARNING,
    "the checkpoint's name does not tell one run from the next",
    "The job's name and the task's index are the same in each execution: the second execution finds the finished "
    "checkpoint of the first and does nothing, or goes on from another run's state.",
    "put a run's id into the path, or mark a run as finished and start a new one then (outlast.Job does)",
    _TUTORIAL + "; Cloud Run, Container runtime contract: environment variables (2026-04-08)",
)
IN_PLACE = Rule(
    "C009",
    ERROR,
    "overwrites the only checkpoint in place",
    "A kill during the save leaves half a file where the only good checkpoint was: all work is lost.",
    "write to a new name and keep the older one until the new one has been read back",
    "outlast, docs/how-it-works; 8 of 43 public training programs do this (looked at 2026-11)",
)
NEVER_RESUMES = Rule(
    "C010",
    WARNING,
    "never resumes",
    "Each retry and each preemption starts at zero: where interruptions come faster than a run takes, it never ends.",
    "load the newest checkpoint before the loop and go on from its step; outlast.Job(...) does both",
    _TUTORIAL,
)
NOT_ALL = Rule(
    "C011",
    WARNING,
    "the checkpoint leaves out a part of the state",
    "Without the optimizer's state and the step a resumed run is another run: momenta start at zero, the learning rate "
    "at its warm-up, the data at its beginning.",
    "save model, optimizer, scheduler, step and random state together",
    "PyTorch, Saving and loading a general checkpoint (2026-11)",
)
ONLY_AT_END = Rule(
    "C012",
    WARNING,
    "saves only after the loop",
    "An interruption before the end loses all work.",
    "save inside the loop, every few minutes",
    _TUTORIAL,
)
REPEATS = Rule(
    "C013",
    WARNING,
    "a resume repeats the last epoch",
    "The number of the epoch that is done is saved, and the loop starts at that number again: one epoch is trained "
    "twice, and counters and schedules are off by one.",
    "save epoch + 1, or start the loop at the saved epoch + 1",
    "PyTorch, Saving and loading a general checkpoint (2026-11)",
)
KEYBOARD = Rule(
    "C014",
    WARNING,
    "waits for KeyboardInterrupt to save",
    "KeyboardInterrupt is raised at SIGINT, the Ctrl-C of a terminal; platforms send SIGTERM, which does not raise it.",
    "handle SIGTERM too: signal.signal(signal.SIGTERM, ...), or outlast.Job",
    "Python, signal: default handlers (3.11); Cloud Run, Container runtime contract (2026-04-08)",
)
FROM_SCRATCH = Rule(
    "C015",
    ERROR,
    "starts from scratch when the checkpoint cannot be read",
    "A mount that is not ready, a refused login or a torn file looks like a first start: it begins at zero and then "
    "overwrites the checkpoint that was good.",
    "start new only when there is no checkpoint (FileNotFoundError); try the older one, else stop with an error",
    "outlast, docs/how-it-works: exit code 78",
)
SAVE_SWALLOWED = Rule(
    "C016",
    WARNING,
    "a failed save is swallowed",
    "The program goes on as if it had saved: when it is interrupted, the newest checkpoint is hours old or missing.",
    "let the error out, or count it and stop after a few; the final save must not fail silently",
    "outlast, docs/how-it-works: exit code 75",
)
RULES = (
    NO_LOCKS, RENAME, FSYNC, APPEND, INSERT, ACK, ONLY_AT_STOP, NO_RUN, IN_PLACE, NEVER_RESUMES, NOT_ALL, ONLY_AT_END,
    REPEATS, KEYBOARD, FROM_SCRATCH, SAVE_SWALLOWED,
)  # fmt: skip
