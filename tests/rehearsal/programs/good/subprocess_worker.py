"""A parent that hands chunks to a worker process, and passes SIGTERM on to it and waits for its end."""

import os
import signal
import subprocess
import sys
import time

CHUNKS, ITEMS = 9, 4


def work():
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    for line in sys.stdin:
        chunk = int(line)
        total = 0
        for item in range(ITEMS):
            time.sleep(0.009)
            total = total * 31 + chunk * ITEMS + item
            if stopped:
                return
        with open(f"chunk-{chunk}.tmp", "w") as file:
            file.write(f"{total}\n")
        os.replace(f"chunk-{chunk}.tmp", f"chunk-{chunk}.txt")
        print(chunk, flush=True)


def lead():
    stopped = []
    worker = subprocess.Popen(
        [sys.executable, __file__, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def on_term(number, frame):
        stopped.append(1)
        worker.terminate()

    signal.signal(signal.SIGTERM, on_term)
    print("leading", flush=True)
    for chunk in range(CHUNKS):
        if os.path.exists(f"chunk-{chunk}.txt") or stopped:
            continue
        try:
            worker.stdin.write(f"{chunk}\n")
            worker.stdin.flush()
        except BrokenPipeError:
            break
        worker.stdout.readline()
    try:
        worker.stdin.close()
    except BrokenPipeError:
        pass
    worker.wait()
    if stopped:
        sys.exit(143)
    with open("all.txt", "w") as out:
        for chunk in range(CHUNKS):
            with open(f"chunk-{chunk}.txt") as part:
                out.write(part.read())


if sys.argv[1:] == ["worker"]:
    work()
else:
    lead()
