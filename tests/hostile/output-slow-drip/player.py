"""Sends a reply whose header is 64 KiB long, one byte at a time, so that there is always something to read."""

import time

from _frames import ask, frame, ready, write

ready()
header, _ = ask()
reply = frame({"type": "answers", "id": header["id"], "labels": [1], "filler": " " * 60_000})
for byte in reply:
    write(bytes([byte]))
    time.sleep(0.01)
