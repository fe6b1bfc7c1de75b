"""Writes terminal escapes, NUL and HTML to stderr, and is honest otherwise."""

from _frames import ready, serve, write

write(b"\x1b[2J\x1b[3;1Hno findings\x00\xff\xfe<script>alert(1)</script>\r\n" * 20, to=2)
ready()
serve()
