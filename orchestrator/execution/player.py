"""A running player: a sandbox, a protocol session, and deadlines.

Replies that arrived before a deadline count. After any fault the player is asked nothing more, because a late reply
must never be read as the reply to the next question: its sandbox is stopped and the job continues with another.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Pixels
from orchestrator.domain.tasks import Limits
from orchestrator.errors import (
    AmbiguousExit,
    Cancelled,
    DeadlinePassed,
    InfrastructureFault,
    OutOfMemory,
    OutputFlood,
    PlayerDied,
)
from orchestrator.execution.ambiguous_exits import AmbiguousExitTracker
from orchestrator.execution.round_context import Clock
from orchestrator.protocol import session as wire
from orchestrator.protocol.messages import LimitsHeader, TaskHeader
from orchestrator.sandboxes.base import POLL_SECONDS, Ending, Exit, Sandbox

QueryAnswer = Callable[[wire.AttackQuery], wire.QueryReply]
"""Returns the reply to an attack's query."""
GRACE_SECONDS = 1.0
"""Seconds after a deadline in which bytes that were already on their way are still read."""
EXIT_SECONDS = 0.5
"""Seconds a player has to exit by itself after `bye`."""


class Player:
    """One player, from start to end.

    Every question raises SubmissionFault for a fault of the player, InfrastructureFault for a fault of ours, or
    Cancelled.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        session: wire.Session,
        clock: Clock,
        cancelled: Callable[[], bool],
        ambiguous_exits: AmbiguousExitTracker | None = None,
        *,
        decides_by_scores: bool = False,
    ) -> None:
        self._sandbox, self._session = sandbox, session
        self._clock, self._cancelled = clock, cancelled
        self._ambiguous_exits = ambiguous_exits or AmbiguousExitTracker()
        self._decides_by_scores = decides_by_scores
        self.paused_seconds = 0.0
        """Seconds for which the player waited for replies to its queries; they count in no limit of its own."""

    def say_hello(self, task: TaskHeader, limits: LimitsHeader, seed: int) -> None:
        """Sends `hello` and waits until the player has loaded and is ready."""
        self._ask(self._session.ask_hello(task, limits, seed), limits.ready_seconds)

    def perturb(
        self, pixels: Pixels, labels: list[int] | None, limits: Limits, answer: QueryAnswer | None = None
    ) -> Iterator[wire.CandidatesReply]:
        """Yields an attack's candidates for pixels [n, c, h, w] as they arrive, each position once (rule A15).

        `answer` is called with each query of the attack and returns the reply; the attack's time limit is paused
        meanwhile, unless the query is refused.
        """
        seconds = limits.perturb_limit(len(pixels))
        deadline = self._send(self._session.ask_perturb(pixels, labels), seconds)
        while self._session.has_open_question:
            query = None
            for reply in self._replies(deadline):
                if isinstance(reply, wire.CandidatesReply):
                    yield reply
                elif isinstance(reply, wire.AttackQuery):
                    query = reply
                    break  # before the deadline is checked: the attack's time is paused now
            if query is not None:
                deadline += self._answer_query(query, answer, deadline)

    def _answer_query(self, query: wire.AttackQuery, answer: QueryAnswer | None, deadline: float) -> float:
        """Sends the reply to a query; returns for how many seconds the attack's time was paused.

        A refused query pauses nothing: the attack waits for no defence, and could otherwise ask for ever.
        """
        if answer is None:  # pragma: no cover  the session allows queries only if the caller answers them
            raise TypeError("the caller does not answer queries")
        began = self._clock()
        if began - deadline > GRACE_SECONDS:
            raise DeadlinePassed("a query after the deadline")
        reply = answer(query)
        paused = 0.0 if reply.refused else self._clock() - began
        self.paused_seconds += paused
        self._hear_nothing()
        self._send(self._session.answer_query(reply), max(deadline - began, GRACE_SECONDS), "the answer to its query")
        return paused

    def _hear_nothing(self) -> None:
        """Raises OutputFlood if the player wrote while it had to wait for a reply, in whatever pieces that arrived."""
        data = self._receive(self._clock())
        if data == b"":
            self._raise_player_died()
        if data:
            next(self._session.feed(data), None)

    def classify(self, pixels: Pixels, limits: Limits, seeds: list[int] | None = None) -> wire.AnswersReply:
        """Returns a defence's labels for pixels [n, c, h, w], None where it abstains, and scores if it gives them.

        Where scores decide, the label is the class with the largest score, of several the first (B1, B3).
        `seeds` has one seed for each picture if a defence may use randomness (U13).
        """
        reply = self._ask(self._session.ask_classify(pixels, seeds), limits.classify_seconds)
        if not isinstance(reply, wire.AnswersReply):  # pragma: no cover  the session allows nothing else
            raise TypeError(f"{reply} does not answer classify")
        if self._decides_by_scores and reply.scores is not None:
            return replace(reply, labels=tuple(reply.scores.argmax(axis=1).tolist()))
        return reply

    @property
    def gives_gradients(self) -> bool:
        """Whether the player said in `ready` that it gives gradients."""
        return self._session.gives_gradients

    def gradient(self, pixels: Pixels, labels: list[int], limits: Limits) -> NDArray[np.float32]:
        """Returns the gradient of a defence's loss for these labels at pixels [n, c, h, w], f32 of the same shape."""
        reply = self._ask(self._session.ask_gradient(pixels, labels), limits.classify_seconds)
        if not isinstance(reply, wire.GradientsReply):  # pragma: no cover  the session allows nothing else
            raise TypeError(f"{reply} does not answer gradient")
        return reply.gradients

    def say_bye(self) -> OutputFlood | None:
        """Sends `bye` and gives the player a moment to exit; returns a fault if it wrote after its last reply.

        The caller still has to stop the player.
        """
        until = self._clock() + EXIT_SECONDS
        count = self._session.unread_bytes
        with suppress(InfrastructureFault):  # if the engine goes down, `stop` reports how it ended
            if not count and self._sandbox.send(self._session.close_conversation(), until):
                count = len(self._sandbox.receive(until) or b"")
        return OutputFlood(f"{count} bytes after the last reply") if count else None

    def stop(self) -> Exit:
        """Ends the sandbox. Safe to call twice."""
        return self._sandbox.stop()

    def _ask(self, question: bytes, seconds: float) -> wire.PlayerReply:
        deadline = self._send(question, seconds)
        while True:
            for reply in self._replies(deadline):
                return reply

    def _send(self, message: bytes, seconds: float, what: str = "its question") -> float:
        deadline = self._clock() + seconds
        try:
            sent = self._sandbox.send(message, deadline, self._cancelled)
        except AmbiguousExit as end:
            raise self._ambiguous_exits.resolve(end) from end
        if not sent:
            self._raise_if_cancelled()
            if self._receive(self._clock()) == b"":
                self._raise_player_died()
            raise DeadlinePassed(f"the player did not read {what} of {len(message)} bytes in {seconds:g} s")
        return deadline

    def _replies(self, deadline: float) -> Iterator[wire.PlayerReply]:
        """Yields the replies that the next bytes complete, perhaps none."""
        self._raise_if_cancelled()
        now = self._clock()
        data = self._receive(min(deadline, now + POLL_SECONDS))
        if data == b"":
            self._raise_player_died()
        if data:
            yield from self._session.feed(data)
        late = self._clock() - deadline
        if self._session.has_open_question and (late > GRACE_SECONDS or (late >= 0 and data is None)):
            raise DeadlinePassed("no complete answer before the deadline")

    def _raise_if_cancelled(self) -> None:
        if self._cancelled():
            raise Cancelled("cancelled by the operator")

    def _receive(self, deadline: float) -> bytes | None:
        """Returns bytes from the sandbox; `AmbiguousExitTracker` decides what an ambiguous exit is raised as."""
        try:
            return self._sandbox.receive(deadline)
        except AmbiguousExit as end:
            raise self._ambiguous_exits.resolve(end) from end

    def _raise_player_died(self) -> None:
        player_exit = self.stop()
        if player_exit.ending is Ending.OUT_OF_MEMORY:
            raise OutOfMemory("the player was killed at its memory limit")
        code = "" if player_exit.code is None else f" with exit code {player_exit.code}"
        raise PlayerDied(f"the player ended{code} before it answered")
