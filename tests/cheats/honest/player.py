"""Answers the brightest quarter."""

from _honest import Honest, serve

serve(Honest())
