"""The first listens on an abstract unix name; the second calls it."""

import socket
import time

from _report import ROLE, TOKEN, report

NAME = f"\0covert-{TOKEN}"
until = time.monotonic() + 6
with socket.socket(socket.AF_UNIX) as line:
    line.settimeout(0.5)
    if ROLE == "first":
        line.bind(NAME)
        line.listen()
    met = False
    while not met and time.monotonic() < until:
        try:
            if ROLE == "first":
                line.accept()[0].close()
            else:
                line.connect(NAME)
            met = True
        except OSError:
            time.sleep(0.1)
report(met, f"{ROLE} {'met the other one' if met else 'was alone'}")
