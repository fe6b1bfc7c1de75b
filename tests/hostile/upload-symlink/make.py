"""Writes a folder of pictures, one of which is a link to a picture outside it: a secret."""

import sys
from pathlib import Path

from PIL import Image

folder = Path(sys.argv[1])
images = folder / "upload" / "images"
images.mkdir(parents=True)
Image.new("L", (4, 4), 200).save(folder.parent / "secret.png")
Image.new("L", (4, 4), 1).save(images / "0.png")
(images / "1.png").symlink_to("../../../secret.png")
(folder / "upload" / "label.txt").write_text("0.png 0\n1.png 1\n", "ascii")
