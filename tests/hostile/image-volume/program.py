"""Writes to its volume, beside a root that is read-only."""

import json
import os
from pathlib import Path

try:
    Path("/data/left").write_bytes(bytes(4 * 1024 * 1024))
    room = os.statvfs("/data")
    said = {
        "harm": True,
        "evidence": f"wrote 4 MiB to the host, {room.f_bavail * room.f_frsize // 1024**2} MiB are free there",
    }
except OSError as error:
    said = {"harm": False, "evidence": str(error)}
print(json.dumps(said))
