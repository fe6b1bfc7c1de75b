"""What a replay asks and what comes back: the words that the examination and whoever plays it share."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import FAULTED, NOT_ASKED
from orchestrator.domain.plan import Cell

Questions = NDArray[np.int32]
"""Rows [k, 2]: position of the cell in `DefencePlay.cells`, picture."""


class SessionPurpose(StrEnum):
    """Why a session is played."""

    SHUFFLED = "shuffled"
    """The drawn questions in a fresh sandbox and another order; some of them again at its end."""
    SAME_ORDER = "twin"
    """The first questions of one sandbox of the play, in the same order, in a fresh sandbox."""
    SINGLE = "alone"
    """Some of the drawn questions one at a time, where play asked several pictures at once."""
    AS_IN_PLAY = "refused"
    """Questions that were answered in play and not in a replay, asked again as in play: one cell a sandbox."""
    TRIGGER = "provoked"
    """What was not answered, or was asked of a suspect that was not, once more: to see whether the asking matters."""
    TRIGGER_CONTROL = "calm"
    """As many questions of the play, as play asked them: the control of `TRIGGER`."""
    BURSTS = "repeated"
    """One suspect picture in bursts with pauses between them."""
    CONTEXT = "context"
    """What a sandbox had been asked up to a suspect answer, again in a fresh one."""
    DELAY = "waited"
    """One suspect picture, asked as long after the start as in its context."""
    MINIMISE = "shrunk"
    """A part of a context, to find the smallest that still shows it."""
    PROOF = "proof"
    """The sequence that changes an answer, in a fresh sandbox with a fresh seed."""
    PROOF_CONTROL = "proof-control"
    """The same suspect without the sequence. The second of the two is told the seed of the first."""
    RATES = "rates"
    """Many questions, to compare how often sandboxes disagree."""
    OTHER_BATCH = "company"
    """Many questions in other company than in play, to see how often that changes an answer."""


PLANNED_PURPOSES = frozenset({SessionPurpose.SHUFFLED, SessionPurpose.SAME_ORDER, SessionPurpose.SINGLE})
"""What every defence is asked."""


@dataclass(frozen=True, eq=False)
class ReplaySession:
    """One fresh sandbox and what it is asked, in order.

    `batch` pictures go into one question. `pauses` are seconds of silence before the question at a position; a
    ValueError where one is no finite number of seconds, which no record could keep. Its sandbox is told a fresh seed,
    or that of an earlier session, whose number is `same_seed_as`.
    """

    purpose: SessionPurpose
    questions: Questions
    batch: int = 1
    pauses: Mapping[int, float] = field(default_factory=dict)
    same_seed_as: int | None = None

    def __post_init__(self) -> None:
        if not all(isfinite(seconds) and seconds >= 0 for seconds in self.pauses.values()):
            raise ValueError(f"no session has pauses of {dict(self.pauses)} seconds")

    @property
    def is_diagnostic(self) -> bool:
        """Whether it looks into a mismatch. Then its faults are counted by themselves.

        Else who ends itself in the first of these sessions would not be asked the others.
        """
        return self.purpose not in PLANNED_PURPOSES


@dataclass(frozen=True, eq=False)
class SessionAnswers:
    """What a session's questions were answered, each array [k].

    `answers` as in domain.outcomes. `margins`: the two highest scores' difference over the largest absolute score, NaN
    where the defence gave no scores. `answer_times`: seconds after the sandbox was ready. `refused`: it ended or broke
    the protocol instead of answering. `late`: the deadline passed. What is neither and has no answer was never put,
    because the job had given up.
    """

    answers: NDArray[np.int32]
    margins: NDArray[np.float32]
    answer_times: NDArray[np.float64]
    refused: NDArray[np.bool_]
    late: NDArray[np.bool_]

    @property
    def failed_mask(self) -> NDArray[np.bool_]:
        """Which questions were put and not answered [k]."""
        found: NDArray[np.bool_] = self.refused | self.late
        return found

    @property
    def asked_mask(self) -> NDArray[np.bool_]:
        """Which questions were put [k]."""
        found: NDArray[np.bool_] = self.failed_mask | (self.answers > FAULTED)
        return found


def is_decision(answer: int) -> bool:
    """Returns whether an answer is a label or an abstention: a fault decides nothing."""
    return answer > FAULTED


Result = TypeVar("Result")
SessionGenerator = Generator[ReplaySession, SessionAnswers, Result]
"""Yields the sessions to play, takes what they said, returns its result; the same answers give the same sessions."""


@dataclass(frozen=True)
class DefencePlay:
    """A defence's play. `sandboxes` are rows [k, 3] (cell, picture, answer) in the order in which each was asked."""

    cells: tuple[Cell, ...]
    sandboxes: tuple[NDArray[np.int32], ...]
    picture_count: int
    batch: int = 1
    mixes_versions: bool = False
    """Whether a sandbox saw several versions of one picture (isolation `round`)."""
    uncharged_pictures: int = 0
    """Pictures of questions that ended with a fault and were then asked alone (A7): faults of the play, in no row."""

    @cached_property
    def clean_cell(self) -> int:
        """The position of the clean pictures' cell."""
        return next(position for position, cell in enumerate(self.cells) if cell.attack is None)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Every question and its answer [N, 3]."""
        return np.concatenate([np.empty((0, 3), np.int32), *self.sandboxes])

    @cached_property
    def decided_rows(self) -> NDArray[np.int32]:
        """The questions that were answered, and their answers [N, 3]: what can be compared."""
        found: NDArray[np.int32] = self.rows[self.rows[:, 2] > FAULTED]
        return found

    @cached_property
    def answer_table(self) -> NDArray[np.int32]:
        """The answers [cells, pictures], `NOT_ASKED` where there is none."""
        table = np.full((len(self.cells), self.picture_count), NOT_ASKED, np.int32)
        table[self.rows[:, 0], self.rows[:, 1]] = self.rows[:, 2]
        return table

    def answers_to(self, questions: Questions) -> NDArray[np.int32]:
        """Returns the played answers to questions [k, 2]."""
        found: NDArray[np.int32] = self.answer_table[questions[:, 0], questions[:, 1]]
        return found


class SessionTrace:
    """The sessions of one examination, in order. Their numbers are the numbers of the job's steps on record."""

    def __init__(self) -> None:
        self.sessions: list[tuple[ReplaySession, SessionAnswers]] = []

    @property
    def last_number(self) -> int:
        """The number of the session played last."""
        return len(self.sessions) - 1

    def sessions_since(self, first: int) -> list[tuple[ReplaySession, SessionAnswers]]:
        """Returns the sessions from a number on."""
        return self.sessions[first:]

    def play_session(self, session: ReplaySession) -> SessionGenerator[SessionAnswers]:
        """Plays a session and returns what it said."""
        answers = yield session
        self.sessions.append((session, answers))
        return answers
