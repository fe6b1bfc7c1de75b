"""The planned replays: a sample in other company, all of it twice, and some questions in the play's own order.

A replay shows pictures in a way in which play did not. If no sandbox of the play saw two versions of a picture, the
replay first shows one version of each picture, against a defence that stores answers outside its sandbox, and then the
clean version before every attacked one, which is what rule A9 is about. If one sandbox saw everything, each sandbox of
the replay shows one version only. So a defence whose answer depends on more than the picture has to give it again
without what it depended on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.replay_session import (
    DefencePlay,
    Questions,
    ReplaySession,
    SessionAnswers,
    SessionPurpose,
    is_decision,
)

TINY_MARGIN = 1e-4
"""A margin that floating-point noise may cross, as a share of the largest score."""
MAX_COMPARISONS = 2
"""How often a question is compared in the session that decides whether it differs: with the play, and once more."""
MAX_TINY_SHARE = 0.1
"""Margins are believed unless a larger share of a session's answers has a tiny one."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One question with two decisions, and where the second was given: the session's number and the position in it.

    `margin` is that of the defence's scores in the replay, NaN if it gave no scores.
    """

    cell: int
    picture: int
    first: int
    second: int
    session: int
    position: int
    margin: float = float("nan")


@dataclass
class ScreeningResult:
    """The result of the planned replays.

    `sample` are the questions drawn, `decided` those of them with a decision in play and in a replay, from which the
    achieved power follows. `compared_count` counts all pairs of decisions. `comparable` are questions that the same
    arithmetic has to decide in the same way again, because the picture was asked alone, or in the company and at the
    place that it had in play; each was compared at most `MAX_COMPARISONS` times. `differing` are those of them that
    disagreed, whatever their margin. `refused` and `late` are questions with a decision in play that were asked and not
    answered, `undecided` all that got no decision.
    """

    sample: frozenset[tuple[int, int]] = frozenset()
    decided: set[tuple[int, int]] = field(default_factory=set)
    asked_count: int = 0
    compared_count: int = 0
    comparable: set[tuple[int, int]] = field(default_factory=set)
    differing: set[tuple[int, int]] = field(default_factory=set)
    mismatches: list[Mismatch] = field(default_factory=list)
    within_margin: list[Mismatch] = field(default_factory=list)
    refused: set[tuple[int, int]] = field(default_factory=set)
    late: set[tuple[int, int]] = field(default_factory=set)
    undecided: dict[tuple[int, int], None] = field(default_factory=dict)
    failing_sessions: set[int] = field(default_factory=set)
    """The numbers of the sessions in which questions were refused or late."""


def draw_sample(play: DefencePlay, design: SamplingDesign, rng: np.random.Generator) -> Questions:
    """Returns the sample [n, 2], drawn uniformly and without replacement from all decided questions of the play."""
    count = detection_power.sample_size(len(play.decided_rows), design)
    return play.decided_rows[rng.choice(len(play.decided_rows), count, replace=False)][:, :2]


def planned_sessions(play: DefencePlay, sample: Questions, rng: np.random.Generator) -> list[ReplaySession]:
    """Returns the planned sessions for a sample; every drawn question is asked again at the end of its session."""
    sessions = []
    if play.mixes_versions:
        for wave in split_by_version(sample):
            shuffled = wave[rng.permutation(len(wave))]
            sessions.append(ReplaySession(SessionPurpose.SHUFFLED, np.concatenate([shuffled, shuffled]), play.batch))
    else:
        shuffled = one_version_first(sample, play.clean_cell, rng)
        again = shuffled[_rows_in(shuffled, sample)]
        sessions.append(ReplaySession(SessionPurpose.SHUFFLED, np.concatenate([shuffled, again]), play.batch))
    twin = play.sandboxes[int(rng.integers(len(play.sandboxes)))]
    count = detection_power.round_up(detection_power.SAME_ORDER_QUESTIONS, play.batch)
    sessions.append(ReplaySession(SessionPurpose.SAME_ORDER, twin[:count, :2], play.batch))
    if play.batch > 1:
        sessions.append(ReplaySession(SessionPurpose.SINGLE, sample[: detection_power.SINGLE_QUESTIONS]))
    return [replace(session, planned_after=len(sessions) - place) for place, session in enumerate(sessions, 1)]


def one_version_first(sample: Questions, clean: int, rng: np.random.Generator) -> Questions:
    """Returns the sample and its clean versions: first one version of each picture, then the others, clean ones first.

    A sandbox of the play may have stored an answer where later ones find it. So the first version is asked before any
    other version of its picture; when it is asked again at the end, the clean version is before it, as for the others.
    """
    first = next(split_by_version(sample))
    first = first[rng.permutation(len(first))]
    shuffled = clean_first(sample, clean, rng)
    return np.concatenate([first, shuffled[~_rows_in(shuffled, first)]])


def sessions_as_in_play(play: DefencePlay, questions: Questions, rng: np.random.Generator) -> Iterator[ReplaySession]:
    """Yields sessions that cannot be told from the play: of one cell, or with one version of each picture.

    A defence that did not answer a planned session because it recognised the replay is asked the same questions here.
    """
    if play.mixes_versions:
        parts = list(split_by_version(questions))
    else:
        parts = [questions[questions[:, 0] == cell] for cell in np.unique(questions[:, 0])]
    for part in parts:
        yield ReplaySession(SessionPurpose.AS_IN_PLAY, part[rng.permutation(len(part))], play.batch)


def clean_first(sample: Questions, clean: int, rng: np.random.Generator) -> Questions:
    """Returns the sample and its clean versions in a random order, each clean version before its attacked ones."""
    companions = np.column_stack([np.full(len(sample), clean, np.int32), sample[:, 1]])
    everything = np.unique(np.concatenate([sample, companions]).astype(np.int32), axis=0)
    shuffled = everything[rng.permutation(len(everything))]
    earliest: dict[int, int] = {}
    for place, (cell, picture) in enumerate(shuffled.tolist()):
        first = earliest.setdefault(picture, place)
        if cell == clean and first != place:
            shuffled[[first, place]] = shuffled[[place, first]]
    return shuffled


def split_by_version(sample: Questions) -> Iterator[Questions]:
    """Yields the sample in parts; each part has at most one version of a picture."""
    left = sample
    while len(left):
        _, first = np.unique(left[:, 1], return_index=True)
        yield left[np.sort(first)]
        left = np.delete(left, first, axis=0)


def compare_session(
    result: ScreeningResult, play: DefencePlay, number: int, session: ReplaySession, answers: SessionAnswers
) -> None:
    """Adds the comparisons of session `number`: with the play, and of a sandbox's second answer with its first."""
    result.asked_count += len(session.questions)
    draws = session.purpose in {SessionPurpose.SHUFFLED, SessionPurpose.AS_IN_PLAY}
    first: dict[tuple[int, int], int] = {}
    believed = float(np.mean(answers.margins <= TINY_MARGIN)) <= MAX_TINY_SHARE
    before = play.answers_to(session.questions)
    alike = play.batch == 1 or session.purpose is SessionPurpose.SAME_ORDER
    new = set() if not alike else {tuple(row) for row in session.questions.tolist()} - result.comparable
    for place, (cell, picture) in enumerate(session.questions.tolist()):
        question, answer = (cell, picture), int(answers.answers[place])
        earlier = first.get(question, int(before[place]))
        if not is_decision(earlier):
            continue
        if not is_decision(answer):
            _note_failure(result, question, number, answers, place)
            continue
        result.compared_count += 1
        if draws and question in result.sample:
            result.decided.add(question)
        first.setdefault(question, answer)
        if question in new:
            result.comparable.add(question)
        if earlier != answer:
            if question in new:
                result.differing.add(question)
            mismatch = Mismatch(cell, picture, earlier, answer, number, place, float(answers.margins[place]))
            noise = believed and mismatch.margin <= TINY_MARGIN
            (result.within_margin if noise else result.mismatches).append(mismatch)


def _note_failure(
    result: ScreeningResult, question: tuple[int, int], number: int, answers: SessionAnswers, place: int
) -> None:
    """Adds a question that was decided in play and has no decision now."""
    if question not in result.decided:
        result.undecided[question] = None
    if answers.refused[place]:
        result.refused.add(question)
    elif answers.late[place]:
        result.late.add(question)
    else:
        return
    result.failing_sessions.add(number)


def _rows_in(rows: Questions, among: Questions) -> NDArray[np.bool_]:
    members = {tuple(row) for row in among.tolist()}
    return np.array([tuple(row) in members for row in rows.tolist()], bool)
