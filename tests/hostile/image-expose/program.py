"""Listens on the port that it declares, and looks for an interface on which anybody could call."""

import json
import socket
from contextlib import suppress

with socket.socket() as line:
    with suppress(OSError):  # taken, where the network is the host's, and then only its loopback
        line.bind(("127.0.0.1", 8080))
        line.listen()
    names = [name for _, name in socket.if_nameindex()]
with open("/proc/net/route", encoding="ascii") as file:
    routes = file.read().splitlines()[1:]
print(json.dumps({"harm": bool(routes), "evidence": f"{len(routes)} routes, interfaces {' '.join(names)}"}))
