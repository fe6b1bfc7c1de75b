"""Writes a zip of 250 KiB whose one picture unpacks to 256 MiB."""

import sys
import zipfile
from pathlib import Path

with zipfile.ZipFile(Path(sys.argv[1], "upload.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("label.txt", "0.png 0\n1.png 1\n")
    for name in ("images/0.png", "images/1.png"):
        with archive.open(name, "w") as member:
            for _ in range(256):
                member.write(bytes(1024 * 1024))
