"""Answers a question that was not asked."""

from _frames import LIE, answers, ask, ready, serve, write

ready()
header, _ = ask()
write(answers(header["id"] + 5, LIE))
serve()
