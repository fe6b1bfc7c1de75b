"""Waits for what its health check leaves."""

import json
import time
from pathlib import Path

MARK = Path("/tmp/health")
until = time.monotonic() + 8
while not MARK.exists() and time.monotonic() < until:
    time.sleep(0.2)
print(json.dumps({"harm": MARK.exists(), "evidence": "the health check ran" if MARK.exists() else "nothing ran"}))
