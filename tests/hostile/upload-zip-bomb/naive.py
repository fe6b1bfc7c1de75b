"""Reads every member whole."""

import json
import sys
import zipfile
from pathlib import Path

total = 0
with zipfile.ZipFile(Path(sys.argv[1], "upload.zip")) as archive:
    size = Path(sys.argv[1], "upload.zip").stat().st_size
    for name in archive.namelist():
        total += len(archive.read(name))
print(json.dumps({"harm": total > 100 * size, "evidence": f"{size} bytes became {total} in memory"}))
