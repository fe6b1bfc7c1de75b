"""Uses memory and a processor for a moment and ends, before anybody can look: MIB, and the exit code."""

import os
import sys

block = bytearray(int(sys.argv[1]) << 20)
for place in range(0, len(block), 4096):
    block[place] = 1
os._exit(int(sys.argv[2]))
