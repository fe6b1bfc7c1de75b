"""Reduces a context that changes an answer to the smallest part that still changes it.

A unit is the content of one question: one picture, or a batch. The last unit contains the suspect and is always kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity.replay_session import (
    Questions,
    ReplaySession,
    SessionGenerator,
    SessionPurpose,
    SessionTrace,
    is_decision,
)

MAX_SANDBOXES = 24
"""The most sandboxes spent on the reduction of one context."""
MAX_OTHER_VERSIONS = 3
"""The most other versions of the suspect that are tried one by one."""
MAX_CONTROL_SETS = 8
"""The most sets of other pictures that are tried in place of a version that changes the answer."""


@dataclass(frozen=True, eq=False)
class QuestionContext:
    """A suspect with the questions before it.

    `units` are the questions before, `last_unit` is the one with the suspect at `offset`; `answer_alone` is the
    suspect's answer without them.
    """

    units: tuple[Questions, ...]
    last_unit: Questions
    offset: int
    batch: int
    answer_alone: int

    @property
    def suspect(self) -> tuple[int, int]:
        """The suspect's cell and picture."""
        cell, picture = self.last_unit[self.offset].tolist()
        return cell, picture

    @property
    def position(self) -> int:
        """The suspect's position in the whole sequence."""
        return sum(len(unit) for unit in self.units) + self.offset

    @property
    def questions(self) -> Questions:
        """The whole sequence [k, 2]."""
        return np.concatenate([*self.units, self.last_unit])

    def with_units(self, units: Sequence[Questions]) -> "QuestionContext":
        """Returns the same suspect after other questions."""
        return QuestionContext(tuple(units), self.last_unit, self.offset, self.batch, self.answer_alone)


@dataclass(frozen=True, slots=True)
class MinimalContext:
    """The smallest sequence found, the kind of cheat that its shape shows, and the number of the session with it."""

    context: QuestionContext
    kind: FindingKind
    session: int


def deviates(
    trace: SessionTrace, context: QuestionContext, purpose: SessionPurpose = SessionPurpose.MINIMISE
) -> SessionGenerator[bool]:
    """Plays a context in a fresh sandbox; returns whether the suspect gets another decision than alone."""
    answers = yield from trace.play_session(ReplaySession(purpose, context.questions, context.batch))
    answer = int(answers.answers[context.position])
    return is_decision(answer) and answer != context.answer_alone


def minimise_context(trace: SessionTrace, context: QuestionContext) -> SessionGenerator[MinimalContext | None]:
    """Returns the smallest sequence found that still changes the suspect's answer, or None if none does any more."""
    budget = trace.last_number + MAX_SANDBOXES
    found = (yield from _try_other_versions(trace, context)) or (yield from _try_repeats(trace, context))
    if found:
        return found
    smallest = context
    for least in (context.units[-1:], context.units[-2:]):
        if (yield from deviates(trace, context.with_units(least))):
            return MinimalContext(context.with_units(least), FindingKind.STATE, trace.last_number)
    while len(smallest.units) > 1 and trace.last_number < budget:
        second_half = smallest.with_units(smallest.units[len(smallest.units) // 2 :])
        if not (yield from deviates(trace, second_half)):
            break
        smallest = second_half
    size = max(1, len(smallest.units) // 2)
    while trace.last_number < budget:
        shorter = yield from _without_one_part(trace, smallest, size, budget)
        if shorter is not None:
            smallest = shorter
        elif size == 1:
            break
        size = max(1, min(size, len(smallest.units)) // 2)
    if not (yield from deviates(trace, smallest)):
        return None
    return MinimalContext(smallest, FindingKind.STATE, trace.last_number)


def _try_other_versions(trace: SessionTrace, context: QuestionContext) -> SessionGenerator[MinimalContext | None]:
    """Tries other versions of the suspect before it, with as many questions about other pictures as a control."""
    _, picture = context.suspect
    suspect = context.last_unit[context.offset].tolist()
    kin = [u for u in context.units if (u[:, 1] == picture).any() and suspect not in u.tolist()]
    others = [u for u in context.units if not (u[:, 1] == picture).any()]
    for part in (*([one] for one in kin[:MAX_OTHER_VERSIONS]), kin if len(kin) > MAX_OTHER_VERSIONS else []):
        if part and (yield from deviates(trace, context.with_units(part))):
            session = trace.last_number
            for strangers in _similar_units(trace, part, others):
                if (yield from deviates(trace, context.with_units(strangers))):
                    return MinimalContext(context.with_units(strangers), FindingKind.STATE, trace.last_number)
            return MinimalContext(context.with_units(part), FindingKind.MEMORY, session)
    return None


def _similar_units(
    trace: SessionTrace, part: Sequence[Questions], others: Sequence[Questions]
) -> Sequence[Sequence[Questions]]:
    """Returns sets of as many other questions as `part` has; first those with the same answer as the first of `part`.

    A defence that averages over recent pictures is influenced most by pictures of the same class.
    """
    answers: dict[tuple[int, ...], int] = {}
    for session, session_answers in trace.sessions:
        answers |= zip(map(tuple, session.questions.tolist()), session_answers.answers.tolist(), strict=True)
    first = answers.get(tuple(part[0][0].tolist()))
    alike = sorted(others, key=lambda unit: answers.get(tuple(unit[0].tolist())) != first)
    return [alike[at : at + len(part)] for at in range(0, len(alike), len(part))][:MAX_CONTROL_SETS]


def _try_repeats(trace: SessionTrace, context: QuestionContext) -> SessionGenerator[MinimalContext | None]:
    """Asks the suspect as often as its context is long, which shows counters and state that any picture changes."""
    if context.batch > 1 or not context.units:
        return None
    repeats = np.tile(context.last_unit, (len(context.units) + 1, 1))
    answers = yield from trace.play_session(ReplaySession(SessionPurpose.MINIMISE, repeats))
    other = [i for i, a in enumerate(answers.answers.tolist()) if is_decision(a) and a != context.answer_alone]
    if not other or other[0] == 0:
        return None
    return MinimalContext(context.with_units([context.last_unit] * other[0]), FindingKind.STATE, trace.last_number)


def _without_one_part(
    trace: SessionTrace, context: QuestionContext, size: int, budget: int
) -> SessionGenerator[QuestionContext | None]:
    """Returns the context without the first `size` units that it does not need, or None if it needs all of them."""
    for start in range(0, len(context.units), size):
        if trace.last_number >= budget:
            return None
        rest = context.units[:start] + context.units[start + size :]
        if (yield from deviates(trace, context.with_units(rest))):
            return context.with_units(rest)
    return None
