"""A pipeline of generators that is fast-forwarded on a resume; what it yielded is summed up in numbered parts."""

import json
import os
import signal
import sys
import time

COUNT = 36
flag = False


def numbers(seed):
    value = seed
    while True:
        value = value * 1103515245 + 12345 & 0x7FFFFFFF
        yield value


def pairs(source):
    last = 0
    for number in source:
        yield number ^ last
        last = number


def hear(number, frame):
    global flag
    flag = True


def load():
    if not os.path.exists("position.json"):
        return 0, []
    with open("position.json") as file:
        kept = json.load(file)
    return kept["taken"], kept["sums"]


def save(taken, sums):
    text = json.dumps({"taken": taken, "sums": sums})
    with open("position.new", "w") as file:
        file.write(text)
    os.replace("position.new", "position.json")


signal.signal(signal.SIGTERM, hear)
taken, sums = load()
stream = pairs(numbers(5))
for _ in range(taken):
    next(stream)
print("taken", taken, flush=True)
while taken < COUNT:
    time.sleep(0.01)
    number = next(stream)
    if taken % 9 == 0:
        sums.append(0)
    sums[-1] += number
    taken += 1
    if taken % 2 == 0:
        save(taken, sums)
    if flag:
        save(taken, sums)
        sys.exit(143)
with open("sums.json", "w") as file:
    json.dump(sums, file)
