"""Lets the first question's deadline pass, then answers the next one without having read it."""

import time

from _frames import LIE, answers, ask, ready, write

ready()
header, _ = ask()
time.sleep(2.8)
write(answers(header["id"] + 1, LIE))
time.sleep(60)
