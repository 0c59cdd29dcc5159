"""Small programs without outlast that survive an interruption, or do not, each in its own way."""

# The tutorial's pattern: save to a temporary name, rename, hear SIGTERM, leave with 143.
SURVIVOR = """
import json, os, signal, sys, time
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
print("begin", step, flush=True)
while step < 100:
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

# Hears SIGTERM and leaves as if all were done.
LEAVES_WITH_0 = SURVIVOR.replace("sys.exit(143)", "sys.exit(0)")

# Works on through the notice, and never saves.
NEVER_SAVES = """
import time
acc = 0
print("begin", flush=True)
for step in range(60):
    time.sleep(0.01)
    acc = (acc * 31 + step) % (2**61 - 1)
print(acc)
"""

# Another number each time.
NOT_DETERMINISTIC = SURVIVOR.replace(
    "print(acc)",
    "open('out.txt', 'w').write('loss %.3f' % (1 + os.getpid() % 97 / 100 + time.time() % 0.01)); print('done')",
)

# Writes its state in place, in two halves, and cannot read one half.
TORN_IN_PLACE = SURVIVOR.replace(
    """    with open("state.tmp", "w") as file:
        json.dump([step, acc], file)
    os.replace("state.tmp", "state.json")
""",
    """    with open("state.json", "w") as file:
        file.write("[%d, " % step); file.flush(); time.sleep(0.05); file.write("%d]" % acc)
""",
)

# Never gets beyond its first resume.
HANGS_AFTER_RESUME = SURVIVOR.replace("step, acc = json.load(file)", "time.sleep(1000)")

# Leaves a writer behind when it hears the notice.
LEAVES_A_WRITER = SURVIVOR.replace(
    'print("begin"',
    'import subprocess; subprocess.Popen([sys.executable, "writer.py"])\nprint("begin"',
)
WRITER = """
import time
with open("growing.bin", "wb") as file:
    while True:
        file.write(b"x"); file.flush(); time.sleep(0.02)
"""
