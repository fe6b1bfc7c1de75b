"""Reads as many bytes as it is told to in four mouthfuls, with a pause before each, and says their SHA-256."""

import hashlib
import sys
import time

count = int(sys.argv[1])
read = hashlib.sha256()
for mouthful in range(4):
    time.sleep(0.8)
    read.update(sys.stdin.buffer.read(count * (mouthful + 1) // 4 - count * mouthful // 4))
sys.stdout.write(read.hexdigest())
