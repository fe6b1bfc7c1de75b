"""Lets a child of its own run into the memory limit, lives on, says what became of it, and ends with the code given."""

import os
import subprocess
import sys

child = subprocess.run([sys.executable, "-c", "x = bytearray(1 << 30)"], check=False)
os.write(1, str(child.returncode).encode() + b"\n")
os._exit(int(sys.argv[1]))
