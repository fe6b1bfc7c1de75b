"""Answers honestly, and in the same write the next question too."""

from _frames import LIE, answers, ask, ready, serve, write

ready()
header, payload = ask()
write(answers(header["id"], payload[0]) + answers(header["id"] + 1, LIE))
serve()
