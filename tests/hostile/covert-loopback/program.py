"""The first listens on a port of 127.0.0.1; the second calls it."""

import socket
import time

from _report import PORT, ROLE, report

HERE = ("127.0.0.1", 20_000 + PORT % 10_000)
until = time.monotonic() + 6
met = False
while not met and time.monotonic() < until:
    with socket.socket() as line:
        line.settimeout(0.5)
        try:
            if ROLE == "first":
                line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                line.bind(HERE)
                line.listen()
                line.accept()[0].close()
            else:
                line.connect(HERE)
            met = True
        except OSError:
            time.sleep(0.1)
report(met, f"{ROLE} {'met the other one' if met else 'was alone'}")
