"""The sessions of a determinism check and their answers: types that the check shares with the code that plays it."""

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
    """Why a session is played. The ledger records these names; docs/replay.md explains the planned ones."""

    SHUFFLED = "shuffled"
    """The drawn questions in a fresh sandbox and another order; some of them again at its end."""
    SAME_ORDER = "same-order"
    """The first questions of one sandbox of the play, in the same order, in a fresh sandbox."""
    SINGLE = "single"
    """Some of the drawn questions one at a time, where play asked several pictures at once."""
    AS_IN_PLAY = "as-in-play"
    """Questions that were answered in play and not in a replay, asked again as in play: one cell in each sandbox."""
    TRIGGER = "trigger"
    """A session like one that was not answered, asked again to see whether the way of asking is the cause."""
    TRIGGER_CONTROL = "trigger-control"
    """As many questions of the play, asked as in play: the control of `TRIGGER`."""
    BURSTS = "bursts"
    """One suspect picture in bursts with pauses between them."""
    CONTEXT = "context"
    """The questions of a sandbox up to a suspect answer, asked again in a fresh one."""
    DELAY = "delay"
    """One suspect picture, asked as long after the start as in its context."""
    MINIMISE = "minimise"
    """A part of a context, to find the smallest part that still changes the answer."""
    PROOF = "proof"
    """The sequence that changes an answer, in a fresh sandbox with a fresh seed."""
    PROOF_CONTROL = "proof-control"
    """The same suspect without the sequence. The second of the pair gets the seed of the first."""
    RATES = "rates"
    """Many questions, to compare how often sandboxes disagree."""
    OTHER_BATCH = "other-batch"
    """Many questions with other pictures beside them than in play, to measure how often that changes an answer."""


PLANNED_PURPOSES = frozenset({SessionPurpose.SHUFFLED, SessionPurpose.SAME_ORDER, SessionPurpose.SINGLE})
"""The purposes of the sessions that every defence gets."""


@dataclass(frozen=True, eq=False)
class ReplaySession:
    """The questions to one fresh sandbox, in order.

    `batch` pictures go into one question. `pauses` are seconds of silence before the question at a position; raises
    ValueError if one is negative or not finite, which no ledger could store. The sandbox gets a fresh seed, or that of
    the earlier session with the number `same_seed_as`. `planned_after` sessions follow, whatever is answered, each with
    a fresh seed, so that their sandboxes may start ahead.
    """

    purpose: SessionPurpose
    questions: Questions
    batch: int = 1
    pauses: Mapping[int, float] = field(default_factory=dict)
    same_seed_as: int | None = None
    planned_after: int = 0

    def __post_init__(self) -> None:
        if not all(isfinite(seconds) and seconds >= 0 for seconds in self.pauses.values()):
            raise ValueError(f"no session has pauses of {dict(self.pauses)} seconds")

    @property
    def is_diagnostic(self) -> bool:
        """Whether the session is not planned, but follows a mismatch. Then it has a fault budget of its own.

        Otherwise a defence that ends itself in the first of these sessions would not be asked the others.
        """
        return self.purpose not in PLANNED_PURPOSES


@dataclass(frozen=True, eq=False)
class SessionAnswers:
    """The answers to a session's questions, each array [k].

    `answers` as in domain.outcomes. `margins`: the two highest scores' difference over the largest absolute score, NaN
    where the defence gave no scores. `answer_times`: seconds after the sandbox was ready. `refused`: the defence ended
    or broke the protocol instead of answering. `late`: the deadline passed. A question that is neither and has no
    answer was never asked, because the job had given up.
    """

    answers: NDArray[np.int32]
    margins: NDArray[np.float32]
    answer_times: NDArray[np.float64]
    refused: NDArray[np.bool_]
    late: NDArray[np.bool_]

    @property
    def failed_mask(self) -> NDArray[np.bool_]:
        """Which questions were asked and not answered [k]."""
        found: NDArray[np.bool_] = self.refused | self.late
        return found

    @property
    def asked_mask(self) -> NDArray[np.bool_]:
        """Which questions were asked [k]."""
        found: NDArray[np.bool_] = self.failed_mask | (self.answers > FAULTED)
        return found


def is_decision(answer: int) -> bool:
    """Returns whether an answer is a label or an abstention: a fault decides nothing."""
    return answer > FAULTED


Result = TypeVar("Result")
SessionGenerator = Generator[ReplaySession, SessionAnswers, Result]
"""Yields the sessions to play, is sent their answers, returns its result; equal answers give equal sessions."""


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
    """Pictures of questions that ended with a fault and were then asked alone (A7): faults that no row shows."""

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
        """The questions that got a decision, with it [N, 3]: those that can be compared."""
        found: NDArray[np.int32] = self.rows[self.rows[:, 2] > FAULTED]
        return found

    @cached_property
    def answer_table(self) -> NDArray[np.int32]:
        """The answers [cells, pictures], `NOT_ASKED` where there is none."""
        table = np.full((len(self.cells), self.picture_count), NOT_ASKED, np.int32)
        table[self.rows[:, 0], self.rows[:, 1]] = self.rows[:, 2]
        return table

    def answers_to(self, questions: Questions) -> NDArray[np.int32]:
        """Returns the answers in play to questions [k, 2]."""
        found: NDArray[np.int32] = self.answer_table[questions[:, 0], questions[:, 1]]
        return found


class SessionTrace:
    """The sessions of one determinism check, in order. Their numbers are those of the job's steps in the ledger."""

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
        """Yields a session, records the answers that are sent, and returns them."""
        answers = yield session
        self.sessions.append((session, answers))
        return answers
