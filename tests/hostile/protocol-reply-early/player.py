"""Answers the first question together with `ready`, before it was asked."""

from _frames import LIE, answers, ready, serve

ready(then=answers(2, LIE))
serve()
