"""The rounds of an unrestricted contest: which defences are asked about which pictures, and the events that follow."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.contest_events import ContestEvent, FormatEvent, RoleGranted, RoleRevoked, TeamAdded
from orchestrator.domain.contest_format import LedgerFold, Observations, RoundPlan
from orchestrator.domain.outcomes import ABSTAINED, NOT_PLAYED, Answers
from orchestrator.domain.plan import Cell
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.fold import apply
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS, defence_of, week_of
from orchestrator.formats.unrestricted.rules import OnFault, UnrestrictedRules
from orchestrator.formats.unrestricted.state import Defence, DefenceStatus, State


class ContestFold(LedgerFold):
    """Folds a contest's ledger, to play a round or to check the events that a round recorded.

    In a `redacted` ledger it skips the events about people and roles, because placeholders stand for these people.
    """

    def __init__(self, rules: UnrestrictedRules, *, redacted: bool = False) -> None:
        self._state = State(rules, redacted=redacted)

    def apply(self, event: ContestEvent, at: datetime) -> None:
        """Applies the next event, with its time. Raises Rejected if the event is not allowed there."""
        if not (self._state.redacted and isinstance(event, TeamAdded | RoleGranted | RoleRevoked)):
            apply(self._state, event, at)

    def round_plan(self, name: str) -> RoundPlan:
        """Returns the defences and pictures of a round: one defence on the eligibility set, or a week's pictures.

        In a week's round each picture occurs five times, each time with a seed of its own (U13).
        """
        state = self._state
        if defence := state.defences.get(defence_of(name)):
            return RoundPlan((defence.id,), tuple(state.pictures[each].digest for each in defence.tested_on), True)
        pictures = state.closed_weeks.get(week_of(name), [])
        digests = tuple(state.pictures[each].digest for each in pictures)
        return RoundPlan(
            tuple(each.id for each in state.defences.values() if _plays(state, each, pictures)),
            digests * (1 + OTHER_SEEDS),
        )

    def round_events(self, name: str, observed: Observations, actor: str) -> tuple[FormatEvent, ...]:
        """Returns the event with a defence's test results, or one event for each defence with its answers of a week."""
        state = self._state
        if defence := state.defences.get(defence_of(name)):
            return _tested(state, defence, observed, actor)
        week = week_of(name)
        played = [state.defences[each.id] for each in observed.roster if each.id in state.defences]
        found = (_answered(state, each, week, observed, actor) for each in played)
        return tuple(each for each in found if each is not None)


def _plays(state: State, defence: Defence, pictures: Sequence[str]) -> bool:
    """Returns whether a defence still has to be asked about any of these pictures, or was asked and so stays in it."""
    if not state.season.entries[defence.id].is_active:
        return False
    return state.is_asked(defence, pictures) or any(each in defence.answers for each in pictures)


def _tested(state: State, defence: Defence, observed: Observations, actor: str) -> tuple[FormatEvent, ...]:
    """Returns the event with a defence's results on the eligibility set and the pictures accepted before (U1, U2).

    Returns none if its test was recorded already, or was not played.
    """
    answers, labels = observed.answers_of(defence.id).get(Cell(defence.id)), observed.labels
    if answers is None or labels is None or defence.status is not DefenceStatus.READABLE:
        return ()
    count = len(answers) - len(defence.tested_on)
    own, truth = answers[:count], labels[:count]
    right, abstained, faults = (int(each.sum()) for each in (own == truth, own == ABSTAINED, _is_fault(own)))
    event = events.DefenceTested(
        actor=actor,
        defence=defence.id,
        right=right,
        wrong=count - right - abstained - faults,
        abstained=abstained,
        faults=faults,
        accepted=len(defence.tested_on),
        broken_by=[
            picture
            for picture, answer in zip(defence.tested_on, answers[count:], strict=True)
            if _breaks(state, picture, int(answer), observed.classes)
        ],
        timed_pictures=max(1, int((answers != NOT_PLAYED).sum())),
        seconds=round(observed.seconds_of(defence.id), 3),
    )
    return (event,)


def _breaks(state: State, picture: str, answer: int, classes: Sequence[str]) -> bool:
    """Returns whether an answer to an accepted picture breaks the defence (U7); False if the picture is now invalid."""
    shown = state.pictures[picture].class_name
    if shown is None or answer == ABSTAINED:
        return False
    return state.rules.on_fault is OnFault.BREAK if answer < 0 else classes[answer] != shown


def _answered(
    state: State, defence: Defence, week: str, observed: Observations, actor: str
) -> events.AnswersRecorded | None:
    """Returns the event with a defence's answers to those pictures of a week that have none recorded; None if none."""
    answers, pictures = observed.answers_of(defence.id).get(Cell(defence.id)), state.closed_weeks.get(week, [])
    if answers is None:
        return None
    by_seed = answers.reshape(1 + OTHER_SEEDS, len(pictures))
    given: dict[str, str | None] = {}
    faults: list[str] = []
    others: dict[str, list[str | None]] = {}
    for place, picture in enumerate(pictures):
        if not state.is_asked(defence, [picture]):
            continue
        named = [observed.classes[answer] if answer >= 0 else None for answer in by_seed[:, place]]
        given[picture] = named[0]
        if bool(_is_fault(by_seed[:1, place])[0]):
            faults.append(picture)
        if named[0] is not None:
            others[picture] = named[1:]
    if not given:
        return None
    return events.AnswersRecorded(
        actor=actor, defence=defence.id, week=week, answers=given, faults=faults, other_seeds=others
    )


def _is_fault(answers: Answers) -> NDArray[np.bool_]:
    """Returns which of the answers [n] are faults, or were not played because of faults (U7)."""
    found: NDArray[np.bool_] = (answers < 0) & (answers != ABSTAINED)
    return found
