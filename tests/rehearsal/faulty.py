"""Faulty programs of many kinds, each a good one with one change, with the verdict and the reason that it must get."""

from dataclasses import dataclass

from proving import PROGRAMS, Case


@dataclass(frozen=True)
class Faulty:
    """`edits` are pairs (text, what stands in its place); `reasons` are parts that the reasons must have;
    " || " stands between what may show first, as the moments fall."""

    name: str
    base: str
    edits: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    verdict: str = "not-survived"
    command: tuple[str, ...] = ("{python}", "program.py")
    results: tuple[str, ...] = ()

    def missing(self, reasons: str) -> list[str]:
        """What the reasons do not have."""
        return [part for part in self.reasons if not any(one in reasons for one in part.split(" || "))]

    @property
    def case(self) -> Case:
        source = (PROGRAMS / "good" / f"{self.base}.py").read_text()
        for old, new in self.edits:
            assert old in source, f"{self.name}: {old!r} is not in {self.base}"
            source = source.replace(old, new)
        compile(source, self.name, "exec")
        return Case(self.name, source, command=self.command, results=self.results)


NOT_WHAT = "is not what the uninterrupted run made"
CUT = "after a kill just before"
_SAVE_JSON = """    with open("state.tmp", "w") as file:
        json.dump({"step": step, "total": total}, file)
    os.replace("state.tmp", "state.json")
"""
_LAST_LINES = """with open("result.json", "w") as file:
    json.dump({"total": total}, file)
print("total", total)
"""
_REMOVE_STATE = """    if os.path.exists("state.json"):
        os.remove("state.json")
"""
_PUT_MANIFEST = """    put("manifest.new", json.dumps({"step": step, "files": files}).encode())
    os.replace("manifest.new", "manifest.json")
"""
_PUT_PARTS = """    for part, values in (("weights", weights), ("moments", moments)):
        put(f"{part}-{step}.json", json.dumps(values).encode())
"""
_PUT_CACHE = """    open("cache.new", "w").write(str(seed + 1))
    os.replace("cache.new", "cache")
"""
_PUT_SHARD = """    draft = target.with_suffix(".draft")
    draft.write_text(f"{value}\\n")
    os.replace(draft, target)
"""
_JOB_STATE = 'state = {"weights": weights, "momentum": momentum, "rng": rng}'

FAULTY = [
    Faulty(
        "forgets the optimizer",
        "numpy_loop",
        (('            momentum[:] = saved["momentum"]\n', ""),),
        ("weights.npy", NOT_WHAT, "array[0]: expected"),
    ),
    Faulty(
        "saves no optimizer",
        "outlast_numpy",
        ((_JOB_STATE, 'state = {"weights": weights, "rng": rng}'),),
        ("weights.npy", NOT_WHAT, "state['weights']["),
    ),
    Faulty(
        "forgets the random state",
        "pickle_rename",
        (('        random.setstate(parts["random"])\n', ""),),
        ("position.txt", NOT_WHAT, "line 1: expected"),
    ),
    Faulty(
        "draws from a generator that no checkpoint has",
        "outlast_numpy",
        ((_JOB_STATE, 'state = {"weights": weights, "momentum": momentum}'),),
        ("weights.npy", NOT_WHAT),
    ),
    Faulty(
        "counts one too many on the way out",
        "json_state",
        (('        json.dump({"step": step, ', '        json.dump({"step": step + 1, '),),
        ("result.json", NOT_WHAT, "$.total: expected"),
    ),
    Faulty(
        "counts one too few on the way in",
        "generator",
        (('return kept["taken"], ', 'return kept["taken"] - 1, '),),
        ("sums.json", NOT_WHAT, "expected"),
    ),
    Faulty(
        "saves before the step is done",
        "json_state",
        (
            (
                "    step += 1\n    if step % 4 == 0:\n        save(step, total)\n",
                "    if step % 4 == 0:\n        save(step, total)\n    step += 1\n",
            ),
        ),
        ("result.json", NOT_WHAT),
    ),
    Faulty(
        "writes the marker before the data",
        "multi_file",
        (
            (_PUT_MANIFEST, ""),
            ("        put(name, data)\n        files[part] = {", "        files[part] = {"),
            (
                "    for name in os.listdir",
                _PUT_MANIFEST + _PUT_PARTS + "    for name in os.listdir",
            ),
        ),
        (f"{CUT} || was killed while it wrote manifest", "open weights- || weights-", "FileNotFoundError"),
    ),
    Faulty(
        "ignores SIGTERM",
        "generator",
        (
            ("signal.signal(signal.SIGTERM, hear)", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
            ("COUNT = 36", "COUNT = 220"),
        ),
        ("does not handle SIGTERM",),
    ),
    Faulty(
        "hears SIGTERM and goes on",
        "json_journal",
        (("        if stop:\n            sys.exit(143)\n", ""), ("STEPS = 36", "STEPS = 240")),
        ("catches SIGTERM but did not end within",),
    ),
    Faulty(
        "leaves with 0 on a notice",
        "json_state",
        (("sys.exit(143)", "sys.exit(0)"),),
        ("it left with 0, so the platform records success", "leave with 143", "result.json"),
    ),
    Faulty(
        "leaves with 1 when it is done",
        "generator",
        (("    json.dump(sums, file)\n", "    json.dump(sums, file)\nsys.exit(1)\n"),),
        ("the uninterrupted run failed in the copy with exit code 1",),
        verdict="could-not-rehearse",
    ),
    Faulty(
        "appends its results again",
        "appended_results",
        (('    results.truncate(state["length"])\n', ""),),
        ("results.jsonl", NOT_WHAT, "records are too many"),
    ),
    Faulty(
        "results hold the time",
        "json_state",
        (('json.dump({"total": total}, file)', 'json.dump({"total": total, "at": time.time()}, file)'),),
        ("not deterministic", "result.json", "$.at"),
        verdict="could-not-rehearse",
    ),
    Faulty(
        "results hold the attempt",
        "json_state",
        (
            (
                'json.dump({"total": total}, file)',
                'json.dump({"total": total, "attempt": os.environ["CLOUD_RUN_TASK_ATTEMPT"]}, file)',
            ),
        ),
        ("result.json", NOT_WHAT, "$.attempt: expected"),
    ),
    Faulty(
        "writes its checkpoint in place",
        "json_state",
        (("state.tmp", "state.json"), ('    os.replace("state.json", "state.json")\n', "")),
        ("state.json", "JSONDecodeError"),
    ),
    Faulty(
        "loads half a checkpoint for a whole one",
        "json_journal",
        (
            ('                if not line.endswith(b"\\n"):\n                    break\n', ""),
            (
                '        journal.write(json.dumps({"step": step, "total": total}).encode() + b"\\n")',
                "        journal.write(b'{\"step\": %d, ' % step)\n        journal.write(b'\"total\": %d}\\n' % total)",
            ),
        ),
        ("journal.jsonl", "JSONDecodeError"),
    ),
    Faulty(
        "restores into a copy that nobody uses",
        "pickle_rename",
        (("walk.restore()", "Walk().restore()"),),
        ("began again", "Load what was saved"),
    ),
    Faulty(
        "leaves while its child still writes",
        "subprocess_worker",
        (
            ("    worker.wait()\n    if stopped:\n        sys.exit(143)\n", "    worker.wait()\n"),
            ("        stopped.append(1)\n        worker.terminate()", "        os._exit(143)"),
            ("    stopped = []\n    signal", "    stopped = []\n    log = open('log.txt', 'a')\n    signal"),
        ),
        ("was still running", "writing log.txt"),
        results=("all.txt",),
    ),
    Faulty(
        "a shell keeps the signal",
        "json_journal",
        (("STEPS = 36", "STEPS = 240"),),
        ("does not handle SIGTERM and, as PID 1, ignores it", "(its child) would"),
        command=("sh", "-c", "{python} program.py; true"),
    ),
    Faulty(
        "keeps its state outside of the copy",
        "json_state",
        (
            ("state.tmp", "../outside.tmp"),
            ("state.json", "../outside.json"),
            ('print("total", total)', 'os.unlink("../outside.json")\nprint("total", total)'),
        ),
        ("outside.json", "outside of the copy"),
        verdict="could-not-rehearse",
    ),
    Faulty(
        "keeps its state in the container's own memory",
        "json_state",
        (
            ("STEPS = 36", 'STEPS = 36\nTEMPORARY = "/dev/shm"'),
            ('"state.tmp"', 'TEMPORARY + "/state.tmp"'),
            ('"state.json"', 'TEMPORARY + "/state.json"'),
        ),
        ("/dev/shm/state.json", "goes with the attempt"),
    ),
    Faulty(
        "draws another order after a resume",
        "epochs_batches",
        (("random.Random(epoch)", 'random.Random(epoch + len(os.environ["CLOUD_RUN_TASK_ATTEMPT"].strip("0")))'),),
        ("history.json", NOT_WHAT, "$["),
    ),
    Faulty(
        "drops the last batch after a resume",
        "epochs_batches",
        (
            (
                '        while state["seen"] < ITEMS:',
                '        resumed = state["seen"] > 0\n        while state["seen"] < ITEMS - resumed * BATCH:',
            ),
        ),
        ("history.json", NOT_WHAT, "$["),
    ),
    Faulty(
        "is marked finished before its result is there",
        "json_state",
        (
            (_LAST_LINES, 'open("done", "w").close()\n' + _LAST_LINES),
            ("step, total = load()", 'if os.path.exists("done"):\n    sys.exit(0)\nstep, total = load()'),
        ),
        (CUT, "result.json", "missing after the rehearsal"),
        results=("result.json",),
    ),
    Faulty(
        "begins from scratch and calls it success",
        "multi_file",
        (("step, weights, moments = load()", "step, weights, moments = 0, [1.0, 2.0], [0.0, 0.0]"),),
        ("began again", "Load what was saved"),
    ),
    Faulty(
        "x05 leaves in the middle of a window of gradients",
        "json_state",
        (
            ("step, total = load()", "step, total = load()\npart = 0"),
            (
                "    total = (total * 31 + step) % (2**61 - 1)\n    step += 1\n",
                "    part += step\n    step += 1\n    if step % 4 == 0:\n        total, part = total * 3 + part, 0\n",
            ),
        ),
        ("result.json", NOT_WHAT),
    ),
    Faulty(
        "b07 takes any error for a first run",
        "json_state",
        (
            (
                _SAVE_JSON,
                _SAVE_JSON.replace("state.tmp", "state.json").replace(
                    '    os.replace("state.json", "state.json")\n', ""
                ),
            ),
            ("step, total = load()", "try:\n    step, total = load()\nexcept ValueError:\n    step, total = 0, 0"),
        ),
        (CUT + " `write state.json`", "began again", "were done before", "os.replace()"),
    ),
    Faulty(
        "keeps a cache that changes results",
        "json_state",
        (
            (
                "step, total = load()",
                'step, total = load()\nseed = int(open("cache").read()) if os.path.exists("cache") else 31',
            ),
            (
                "    total = (total * 31 + step)",
                _PUT_CACHE + "    total = (total * seed + step)",
            ),
        ),
        ("result.json", NOT_WHAT),
    ),
    Faulty(
        "saves in the middle of a step",
        "own_handler",
        (
            (
                '    with undisturbed():\n        state["sum"] += state["step"]\n',
                '    if True:\n        state["sum"] += state["step"]\n        time.sleep(0.01)\n',
            ),
        ),
        (f"numbers.txt {NOT_WHAT} || its handler saved at once (`open state.bin.tmp`)",),
    ),
    Faulty(
        "commits a row and its progress apart",
        "sqlite_state",
        (('sqlite3.connect("work.db")', 'sqlite3.connect("work.db", isolation_level=None)'),),
        ("work.db", "IntegrityError"),
    ),
    Faulty(
        "forgets the history",
        "epochs_batches",
        (
            ('        state["history"].append(state["loss"])\n', '        lines.append(state["loss"])\n'),
            ('    return state["history"]', "    return lines"),
            ("def train(state):\n", "def train(state):\n    lines = []\n"),
        ),
        ("history.json", NOT_WHAT, "$["),
    ),
    Faulty(
        "saves with half the precision",
        "pickle_rename",
        (('"position": self.position,', '"position": float(f"{self.position:.6g}"),'),),
        ("position.txt", NOT_WHAT, "a relative difference of"),
    ),
    Faulty(
        "hangs after a resume",
        "generator",
        (('    return kept["taken"]', '    time.sleep(1000)\n    return kept["taken"]'),),
        ("hung",),
    ),
    Faulty(
        "saves on the way out only half of it",
        "finally_cleanup",
        (("        keep(step, value)\n        sys.exit(143)", "        keep(step, 7)\n        sys.exit(143)"),),
        ("value.txt", NOT_WHAT),
    ),
    Faulty(
        "drops a shard that was begun",
        "shards",
        ((_PUT_SHARD, '    target.write_text(f"{value}\\n")\n'),),
        ("shards/", "merged.txt"),
    ),
    Faulty(
        "begins from scratch when its checkpoint is torn",
        "json_state",
        (
            ("state.tmp", "state.json"),
            ('    os.replace("state.json", "state.json")\n', ""),
            (
                "            state = json.load(file)\n",
                '            state = json.loads(file.read() or \'{"step": 0, "total": 0}\')\n',
            ),
            ("step % 4 == 0", "step % 2 == 0"),
        ),
        ("began again", "the last good save must stand until the next one is complete || Load what was saved"),
    ),
    Faulty(
        "removes its last checkpoint before the next one is there",
        "json_state",
        (
            (
                '    with open("state.tmp", "w") as file:\n',
                _REMOVE_STATE + '    with open("state.tmp", "w") as file:\n',
            ),
            ("step % 4 == 0", "step % 2 == 0"),
        ),
        ("began again", "the last good save must stand until the next one is complete || Load what was saved"),
    ),
    Faulty(
        "a loop that saves nothing",
        "json_state",
        ((_SAVE_JSON, "    pass\n"), ("signal.signal(signal.SIGTERM, lambda *_: stop.append(1))", "")),
        ("does not handle SIGTERM", "was not seen to save"),
    ),
]
