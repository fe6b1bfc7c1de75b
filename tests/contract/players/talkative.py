"""Writes 200 KiB to stderr, then a last line, and crashes."""

import sys

for number in range(200):
    sys.stderr.write(f"{number:05d}".ljust(1023, ".") + "\n")
sys.stderr.write("the last line\n")
sys.exit(3)
