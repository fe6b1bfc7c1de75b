"""Writes a PNG of a few KiB with 24000 x 24000 pixels."""

import struct
import sys
import zipfile
import zlib
from pathlib import Path

SIDE = 24_000


def chunk(kind: bytes, data: bytes) -> bytes:
    """Returns one chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


packer = zlib.compressobj(9)
rows = [packer.compress(bytes(1 + SIDE // 8)) for _ in range(SIDE)]
picture = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 1, 0, 0, 0, 0))
    + chunk(b"IDAT", b"".join(rows) + packer.flush())
    + chunk(b"IEND", b"")
)
with zipfile.ZipFile(Path(sys.argv[1], "upload.zip"), "w") as archive:
    archive.writestr("label.txt", "0.png 0\n1.png 1\n")
    archive.writestr("images/0.png", picture)
    archive.writestr("images/1.png", picture)
