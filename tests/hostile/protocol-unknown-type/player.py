"""Replies with a message that no protocol knows, and with the fields of one that it knows."""

from _frames import LIE, ask, frame, ready, serve, write

ready()
header, _ = ask()
write(frame({"type": "verdict", "id": header["id"], "labels": [LIE]}))
serve()
