"""Reports a fault whose words are terminal escapes and HTML."""

from _frames import ask, frame, ready, write

ready()
header, _ = ask()
text = "\x1b]0;owned\x07\x1b[1A\x1b[2Kall fine <script>alert(1)</script>\n" * 10
write(frame({"type": "fault", "id": header["id"], "code": "\x1b[31m<script>", "text": text}))
