"""Announces a picture of 256 MiB in a reply of 16 bytes."""

from _frames import ask, frame, ready, serve, write

ready()
header, _ = ask()
lie = {"type": "candidates", "id": header["id"], "index": [0], "dtype": "u8", "shape": [1, 1, 16384, 16384]}
write(frame(lie, bytes(16)))
serve()
