"""Contexts made small: what is found, and that the search ends."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.outcomes import FAULTED
from orchestrator.integrity.minimise import (
    MAX_OTHER_VERSIONS,
    MAX_SANDBOXES,
    MinimalContext,
    QuestionContext,
    minimise_context,
)
from orchestrator.integrity.replay_session import ReplaySession, SessionAnswers, SessionTrace

ALONE, OTHER = 1, 2
Rule = Callable[[list[tuple[int, int]]], bool]
"""Whether the last of these questions is answered otherwise than alone."""


def shrunk(context: QuestionContext, rule: Rule, said: int = OTHER) -> tuple[MinimalContext | None, SessionTrace]:
    """Returns what is left of a context, played with a defence that follows a rule."""
    trace = SessionTrace()
    searching = minimise_context(trace, context)
    try:
        session = next(searching)
        while True:
            session = searching.send(answered(session, rule, said))
    except StopIteration as end:
        return end.value, trace


def answered(session: ReplaySession, rule: Rule, other: int) -> SessionAnswers:
    """Returns what a defence says that follows a rule, question by question."""
    asked = [tuple(row) for row in session.questions.tolist()]
    answers = np.array([other if rule(asked[: place + 1]) else ALONE for place in range(len(asked))], np.int32)
    none = np.zeros(len(asked), bool)
    return SessionAnswers(answers, np.zeros(len(asked), np.float32), np.zeros(len(asked)), none, none)


def context(questions: list[tuple[int, int]], batch: int = 1) -> QuestionContext:
    """Returns a context whose last question is the suspect."""
    asked = np.array(questions, np.int32)
    start = (len(asked) - 1) // batch * batch
    units = tuple(asked[at : at + batch] for at in range(0, start, batch))
    return QuestionContext(units, asked[start:], len(asked) - 1 - start, batch, ALONE)


STRANGERS = [(0, picture) for picture in range(1, 200)]


def test_a_sibling_is_found() -> None:
    """Where another version of the picture changes the answer, that one question is all that is left."""
    kin = (1, 0)
    found, _ = shrunk(context([*STRANGERS[:90], kin, *STRANGERS[90:], (0, 0)]), lambda asked: kin in asked[:-1])
    assert found.kind is FindingKind.MEMORY
    assert found.context.questions.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("needed", [2, MAX_OTHER_VERSIONS + 2])
def test_siblings_together_are_found(needed) -> None:
    """Where it takes several versions, it is still memory, and all of them are shown."""
    kin = [(cell, 0) for cell in range(1, MAX_OTHER_VERSIONS + 3)]
    rule = lambda asked: len({*asked} & {*kin}) >= needed  # noqa: E731  says it best
    found, _ = shrunk(context([*kin, *STRANGERS, (0, 0)]), rule)
    if needed == 2:
        assert found.context.questions.tolist().count([0, 0]) == 1
        assert rule([tuple(row) for row in found.context.questions.tolist()])
    else:
        assert found.kind is FindingKind.MEMORY
        assert len(found.context.units) == len(kin)


def test_a_sibling_that_any_picture_replaces_is_no_memory() -> None:
    """Where as many strangers do the same, it is state: nothing is said of memory."""
    found, _ = shrunk(context([(1, 0), *STRANGERS, (0, 0)]), lambda asked: len(asked) > 1)
    assert found.kind is FindingKind.STATE
    assert len(found.context.questions) == 2


def test_a_sibling_that_some_picture_replaces_is_no_memory() -> None:
    """Where one of several strangers does the same, it is state, and that stranger is shown."""
    rule = lambda asked: len(asked) > 1 and asked[-2] in [(1, 0), (0, 5)]  # noqa: E731  says it best
    found, _ = shrunk(context([*STRANGERS, (1, 0), (0, 0)]), rule)
    assert found.kind is FindingKind.STATE
    assert found.context.questions.tolist() == [[0, 5], [0, 0]]


def test_a_counter_is_shown_by_the_suspect_itself() -> None:
    """The sequence is the one picture, as often as it takes."""
    found, trace = shrunk(context([*STRANGERS, (0, 0)]), lambda asked: len(asked) % 70 == 0)
    assert found.kind is FindingKind.STATE
    assert found.context.questions.tolist() == [[0, 0]] * 70
    assert len(trace.sessions) == 1


@pytest.mark.parametrize("window", [1, 2, 3, 8])
def test_a_window_of_recent_pictures_is_found(window) -> None:
    """What depends on the last few pictures is shrunk to them."""
    recent = STRANGERS[-window:]
    found, _ = shrunk(context([*STRANGERS, (0, 0)]), lambda asked: asked[-1 - window : -1] == recent)
    assert found.kind is FindingKind.STATE
    assert found.context.questions.tolist() == [list(q) for q in [*recent, (0, 0)]]


def test_one_picture_among_many_is_found() -> None:
    """A single stranger anywhere in the context is found, within the runs that are allowed."""
    for place in (0, 57, 130):
        stranger = STRANGERS[place]
        found, trace = shrunk(context([*STRANGERS, (0, 0)]), lambda asked, it=stranger: it in asked[:-1])
        assert tuple(stranger) in {tuple(row) for row in found.context.questions.tolist()}
        assert len(found.context.units) <= 8
        assert len(trace.sessions) <= MAX_SANDBOXES + 2


def test_units_are_whole_questions() -> None:
    """In batches a question is kept or left out as a whole, and the suspect keeps its place in its own."""
    asked = [*STRANGERS[:43], (0, 0)]
    found, _ = shrunk(context(asked, batch=4), lambda asked: STRANGERS[1] in asked[:-1])
    assert [len(unit) for unit in found.context.units] == [4]
    assert found.context.suspect == (0, 0)
    assert found.context.position == 7


def test_what_does_not_happen_again_is_nothing() -> None:
    """Where no sequence changes the answer any more, there is no proof."""
    found, trace = shrunk(context([*STRANGERS, (0, 0)]), lambda asked: False)
    assert found is None
    assert len(trace.sessions) <= MAX_SANDBOXES + 2


def test_a_fault_is_not_another_answer() -> None:
    """Who ends itself in the middle of a sequence has not shown anything."""
    found, trace = shrunk(context([(1, 0), (0, 1), (0, 0)]), lambda asked: True, said=FAULTED)
    assert found is None
    assert trace.sessions


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.randoms(use_true_random=False))
def test_the_search_ends(length, chance) -> None:
    """However the answers fall, no more sandboxes are spent than allowed; what is returned was seen to deviate."""
    asked = [(chance.randint(0, 3), chance.randint(0, 20)) for _ in range(length)]
    found, trace = shrunk(context([*asked, (0, 0)]), lambda _: chance.random() < 0.5)
    assert len(trace.sessions) <= MAX_SANDBOXES + MAX_OTHER_VERSIONS + 5
    if found is not None:
        session, said = trace.sessions[found.session]
        assert session.questions[: found.context.position + 1].tolist() == found.context.questions.tolist()
        assert said.answers[found.context.position] == OTHER
