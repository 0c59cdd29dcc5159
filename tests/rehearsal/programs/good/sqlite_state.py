"""Work rows and their state in one SQLite database, one transaction a step."""

import signal
import sqlite3
import sys
import time

STEPS = 30
stopping = False


def on_term(number, frame):
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, on_term)
db = sqlite3.connect("work.db")
db.execute("CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, step INTEGER, value INTEGER)")
db.execute("CREATE TABLE IF NOT EXISTS rows (step INTEGER PRIMARY KEY, value INTEGER)")
db.commit()
found = db.execute("SELECT step, value FROM progress WHERE name = 'walk'").fetchone()
step, value = found or (0, 1)
print("step", step, flush=True)
while step < STEPS:
    time.sleep(0.01)
    value = (value * 48271 + step) % 2147483647
    with db:
        db.execute("INSERT INTO rows VALUES (?, ?)", (step, value))
        step += 1
        db.execute("INSERT OR REPLACE INTO progress VALUES ('walk', ?, ?)", (step, value))
    if stopping:
        db.close()
        sys.exit(143)
total = db.execute("SELECT count(*), sum(value) FROM rows").fetchone()
db.close()
with open("total.txt", "w") as file:
    file.write(f"{total[0]} rows, sum {total[1]}\n")
