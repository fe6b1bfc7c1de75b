"""Has a name that clears the screen, fakes a line of ours, and is a script on a page."""

from _frames import ready, serve

ready("\x1b[2J\x1b[H\u202eok\r\nround finished <script>alert(1)</script>")
serve()
