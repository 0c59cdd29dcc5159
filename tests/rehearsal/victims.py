"""Small programs without outlast that survive an interruption, or do not, each in its own way."""

# The tutorial's pattern: save to a temporary name, rename, hear SIGTERM, leave with 143.
SURVIVOR = """
import json, os, signal, subprocess, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
step, acc = 0, 0
if os.path.exists("state.json"):
    with open("state.json") as file:
        step, acc = json.load(file)
def save():
    with open("state.tmp", "w") as file:
        json.dump([step, acc], file)
    os.replace("state.tmp", "state.json")
print("begin", flush=True)
while step < 40:
    time.sleep(0.01)
    acc = (acc * 31 + step) % (2**61 - 1)
    step += 1
    if step % 5 == 0:
        save()
    if stop:
        save()
        sys.exit(143)
print(acc)
"""

LONGER_SURVIVOR = SURVIVOR.replace("step < 40", "step < 100")

LEAVES_WITH_0 = SURVIVOR.replace("sys.exit(143)", "sys.exit(0)")

NEVER_SAVES = """
import time
acc = 0
print("begin", flush=True)
for step in range(40):
    time.sleep(0.01)
    acc = (acc * 31 + step) % (2**61 - 1)
print(acc)
"""

NOT_DETERMINISTIC = (
    SURVIVOR
    + """
with open("out.txt", "w") as file:
    file.write(f"loss {1 + time.time() % 1:.6f}")
"""
)

# Writes its state in place, in two parts, and cannot read one part.
TORN_IN_PLACE = SURVIVOR.replace(
    """    with open("state.tmp", "w") as file:
        json.dump([step, acc], file)
    os.replace("state.tmp", "state.json")
""",
    """    with open("state.json", "w") as file:
        file.write("[%d, " % step); file.flush(); time.sleep(0.02); file.write("%d]" % acc)
""",
)

HANGS_AFTER_RESUME = SURVIVOR.replace("step, acc = json.load(file)", "time.sleep(1000)")

# Saves all along, and never looks at what it saved.
NEVER_RESUMES = SURVIVOR.replace('if os.path.exists("state.json")', "if False")

# Catches the signal and does not act on it.
DEAF = LONGER_SURVIVOR.replace("if stop:", "if False:")

# Ends on the notice while a process that it started goes on writing, which has begun to before any work does.
LEAVES_A_WRITER = SURVIVOR.replace(
    'print("begin"',
    """
open("growing.bin", "w").close()
subprocess.Popen([sys.executable, "writer.py"])
while not os.path.getsize("growing.bin"):
    time.sleep(0.001)
print("begin\"""",
)
WRITER = """
import time
with open("growing.bin", "wb") as file:
    while True:
        file.write(b"x"); file.flush(); time.sleep(0.02)
"""

# What an outlast Job tells the rehearsal, told by hand.
TELLS_EVENTS = SURVIVOR.replace(
    'print("begin"',
    """
from outlast.clock import SystemClock
from outlast.events import LoopStarted, NoticeHeard, Restored, to_line
def tell(event):
    with open(os.environ["OUTLAST_EVENTS_FILE"], "ab") as file:
        file.write(to_line(event, SystemClock()))
signal.signal(signal.SIGTERM, lambda *_: (tell(NoticeHeard("SIGTERM", "test", 10.0)), stop.append(1)))
if step:
    tell(Restored(step, "c", 0.0))
tell(LoopStarted(step, 60))
print("begin\"""",
)
