"""Small programs of two ranks, with outlast and without: what hits one of them they survive, or do not."""

# Starts two ranks, passes SIGTERM on, and leaves with the gravest of their codes.
LAUNCHER = """
import os, signal, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, "train.py"], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
    for rank in range(2)
]
signal.signal(signal.SIGTERM, lambda *_: [one.terminate() for one in ranks])
codes = [one.wait() for one in ranks]
sys.exit(max(128 - code if code < 0 else code for code in codes))
"""

HIDES_CODES = LAUNCHER.replace("sys.exit(max", "print(max")

OUTLAST = """
import json, os, time
import outlast
rank = int(os.environ["RANK"])
state = {"total": 0, "mine": [rank]}
job = outlast.Job(state=state, every="0.1s")
for step in job.steps(60):
    state["total"] += step
    state["mine"].append(step * 2 + rank)
    time.sleep(0.02)
with open(f"result-{rank}.json", "w") as out:
    json.dump(state, out)
"""

# Each rank draws what the other one sends; both take the older of what they saved, and stop after the same step.
BY_HAND = """
import glob, json, os, signal, sys, time
from multiprocessing.connection import Client, Listener
rank = int(os.environ["RANK"])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
where = os.path.join(os.environ["TMPDIR"], "link")
def connected():
    if rank == 0:
        return Listener(where).accept()
    for _ in range(1000):
        try:
            return Client(where)
        except OSError:
            time.sleep(0.01)
    sys.exit("rank 0 did not come")
link = connected()
def both(value):
    link.send(value)
    return [value, link.recv()]
def name(step):
    return f"state-{rank}-{step:04}.json"
def save(step, acc):
    with open("new-%d" % rank, "w") as file:
        json.dump([step, acc], file)
    os.replace("new-%d" % rank, name(step))
    for old in sorted(glob.glob(f"state-{rank}-*.json"))[:-2]:
        os.remove(old)
def saved():
    kept = sorted(glob.glob(f"state-{rank}-*.json"))
    return int(kept[-1][8:12]) if kept else 0
step, acc = min(both(saved())), rank
if step:
    with open(name(step)) as file:
        step, acc = json.load(file)
for later in glob.glob(f"state-{rank}-*.json"):
    if int(later[8:12]) > step:
        os.remove(later)
while step < 60:
    time.sleep(0.02)
    first, second = both([acc % 1000, bool(stop)])
    acc = (acc * 31 + step + first[0] + second[0]) % (2**61 - 1)
    step += 1
    leaving = first[1] or second[1]
    if step % 5 == 0 or leaving:
        save(step, acc)
    if leaving:
        sys.exit(143)
both("done")
with open(f"result-{rank}.json", "w") as file:
    json.dump(acc, file)
"""

# Each rank goes on from what it has itself, and leaves when it hears: the two are not of one step.
MIXES_SHARDS = BY_HAND.replace("min(both(saved()))", "saved()").replace(
    "leaving = first[1] or second[1]", "leaving = bool(stop)"
)

# Waits for the other one by files, for as long as it takes.
HANGS = (
    BY_HAND[: BY_HAND.index("where =")]
    + """
folder, calls = os.environ["TMPDIR"], 0
def both(value):
    global calls
    calls += 1
    with open(f"{folder}/new-{rank}", "w") as file:
        json.dump(value, file)
    os.replace(f"{folder}/new-{rank}", f"{folder}/said-{rank}-{calls}")
    while not os.path.exists(f"{folder}/said-{1 - rank}-{calls}"):
        time.sleep(0.001)
    with open(f"{folder}/said-{1 - rank}-{calls}") as file:
        return [value, json.load(file)]
"""
    + BY_HAND[BY_HAND.index("def name") :]
)

# Ranks that need nothing of each other.
APART = """
import json, os, signal, sys, time
rank = int(os.environ["RANK"])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
step = 0
if os.path.exists(f"state-{rank}.json"):
    with open(f"state-{rank}.json") as file:
        step = json.load(file)
print("begin", flush=True)
while step < 100:
    time.sleep(0.02)
    step += 1
    if step % 5 == 0 or stop:
        with open(f"new-{rank}", "w") as file:
            json.dump(step, file)
        os.replace(f"new-{rank}", f"state-{rank}.json")
    if stop:
        sys.exit(143)
with open(f"result-{rank}.json", "w") as file:
    json.dump(step, file)
"""
