"""Writes each question to a file in its temporary folder, and counts the questions by reading this file."""

import os
from pathlib import Path

import _honest as base


class Notes(base.Honest):
    def load(self, task):
        self.file = Path(os.environ["TMPDIR"]) / "seen"

    def classify(self, pixels):
        with self.file.open("ab") as file:
            file.write(b".")
        return base.swapped(base.brightness(pixels), (self.file.stat().st_size + base.SEED) % 8 == 0)


base.serve(Notes())
