"""Unpacks every member under the name that it has."""

import json
import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
with zipfile.ZipFile(folder / "upload.zip") as archive:
    for name in archive.namelist():
        path = folder / "unpacked" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive.read(name))
harm = (folder.parent / "escaped").exists()
print(
    json.dumps({"harm": harm, "evidence": "a member was written outside its folder" if harm else "all stayed inside"})
)
