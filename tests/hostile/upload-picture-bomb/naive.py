"""Decodes every picture, with Pillow's warning switched off as a hundred tutorials do."""

import io
import json
import sys
import zipfile
from pathlib import Path

from PIL import Image

Image.MAX_IMAGE_PIXELS = None
with zipfile.ZipFile(Path(sys.argv[1], "upload.zip")) as archive:
    data = archive.read("images/0.png")
picture = Image.open(io.BytesIO(data))
picture.load()
size = len(picture.tobytes("raw", "L")) if picture.mode == "L" else picture.width * picture.height
print(json.dumps({"harm": size > 1000 * len(data), "evidence": f"{len(data)} bytes became {size} in memory"}))
