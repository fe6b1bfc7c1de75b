"""Plays a round and kills itself after NUMBER events of a KIND are stored: `die_at.py CONTEST OUT NUMBER KIND`."""

import os
import signal
import sys
from pathlib import Path

from orchestrator.application.rounds import play_rounds
from orchestrator.domain.events import Event
from orchestrator.intake.contest_file import Contest


class Watch:
    """Counts events of one kind."""

    def __init__(self, number: int, kind: str) -> None:
        self._left, self._kind = number, kind

    def __call__(self, event: Event) -> None:
        """Counts an event that was stored, before anything follows from it."""
        self._left -= event.kind == self._kind
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    contest, out, number, kind = sys.argv[1:]
    options = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
    play_rounds.play_round(Contest(Path(contest)), Path(out), options, Watch(int(number), kind))
