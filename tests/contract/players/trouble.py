"""A defence that answers its first question and does at the second what it was told to: `trouble.py KIND`.

`loading` and `late` do it before they are ready, and `deaf` says that it is ready and never reads again.
"""

import json
import os
import struct
import sys
import time

kind = sys.argv[1]


def exactly(count):
    data = b""
    while len(data) < count:
        more = os.read(0, count - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data


def read():
    _, header, payload = struct.unpack("<4sII", exactly(12))
    question = json.loads(exactly(header))
    exactly(payload)
    return question


def frame(**header):
    data = json.dumps(header).encode()
    return struct.pack("<4sII", b"SPI1", len(data), 0) + data


def write(data):
    while data:
        data = data[os.write(1, data) :]


hello = read()
if kind == "loading":
    sys.exit(7)
if kind == "late":
    time.sleep(600)
write(frame(type="ready", id=hello["id"], gives=["label"]))
if kind == "deaf":
    time.sleep(600)
asked = 0
while True:
    question = read()
    if question["type"] == "bye":
        sys.exit(0)
    asked += 1
    answer = frame(type="answers", id=question["id"], labels=[0])
    if asked == 2:
        if kind == "crash":
            os._exit(3)
        if kind == "leave":
            os._exit(0)
        if kind == "signal":
            os.kill(os.getpid(), 11)
        if kind == "hang":
            time.sleep(600)
        if kind == "memory":
            hoard = [bytearray(b"x" * (8 << 20)) for _ in range(128)]
        if kind == "flood":
            while True:
                os.write(1, b"\0" * 65536)
        if kind == "complaints":
            while True:  # with a pause: without one the test would take seconds of the processor
                os.write(2, b"x" * 65536)
                time.sleep(0.002)
        if kind == "mute":
            os.close(1)
            time.sleep(600)
        if kind == "half":
            write(answer[:-5])
            os._exit(3)
        if kind == "stall":
            write(answer[:-5])
            time.sleep(600)
        if kind == "print":
            write(b"Downloading weights ... 100%\n")
        if kind == "behind":
            answer += b"done\n"
    write(answer)
