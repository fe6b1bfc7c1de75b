"""Writes and writes, on stdout or stderr (the file descriptor it was given)."""

import os
import sys

while True:
    os.write(int(sys.argv[1]), b"x" * 65536)
