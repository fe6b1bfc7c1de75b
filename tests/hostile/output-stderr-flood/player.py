"""Is honest on stdout, and writes to stderr without end before."""

import os

from _frames import MIB, ready, serve

for _ in range(64):
    os.write(2, b"x" * (MIB - 1) + b"\n")
ready()
serve()
