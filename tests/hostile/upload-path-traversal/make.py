"""Writes a zip with a member that leads out of its folder, by a relative and by an absolute path."""

import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
with zipfile.ZipFile(folder / "upload.zip", "w") as archive:
    archive.writestr("label.txt", f"../../escaped 0\n{folder.parent / 'escaped'} 1\n..\\escaped 0\n")
    archive.writestr("images/../../escaped", "left")
    archive.writestr("../escaped", "left")
    archive.writestr(str(folder.parent / "escaped"), "left")
