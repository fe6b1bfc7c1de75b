"""Begins a reply and never ends it."""

import time

from _frames import answers, ask, ready, write

ready()
header, _ = ask()
write(answers(header["id"], 1)[:-5])
time.sleep(60)
