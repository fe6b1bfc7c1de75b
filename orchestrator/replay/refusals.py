"""Who ends itself, or breaks the protocol, instead of answering again, and when that accuses.

It never does at once: a defence may crash on a picture, or now and then, and has paid for that in play (A7). It has to
refuse again, beyond the contest's `noise`, and more often than it faulted in play. A late answer is no refusal.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from orchestrator.domain.rulings import FAULTED
from orchestrator.replay import suspects
from orchestrator.replay.power import Design
from orchestrator.replay.rates import ALPHA, Rate
from orchestrator.replay.screening import Screened
from orchestrator.replay.sessions import PLANNED, Examination, Played, Purpose, Said, Session, Trace

CONTROLS = 4
"""So many pictures that nobody suspects are asked in bursts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused again: the numbers of the sessions that show it, and how probable that is without intent."""

    sessions: tuple[int, ...]
    improbable: float


def once_more(trace: Trace, played: Played, design: Design, seen: Screened) -> Examination[Refusal | None]:
    """Asks once more what the planned replays were refused."""
    questions = np.array(seen.refused, np.int32)
    said = yield from trace.ask(Session(Purpose.REFUSED, questions, played.batch))
    again = int((said.refused | (said.answers <= FAULTED)).sum())
    # What was never put, because the job had given up, is no question that it answered.
    rate = Rate(again, seen.compared + len(seen.refused))
    improbable = max(rate.beyond(design.noise), rate.exceeds(_in_play(played)))
    return _refusal((*sorted(seen.refusing), trace.last), improbable)


def met_bursts(trace: Trace, first: int) -> bool:
    """Returns whether bursts were refused since session number `first`."""
    asked = trace.played[first:]
    return any(said.refused.any() for session, said in asked if session.purpose is Purpose.REPEATED)


def in_bursts(trace: Trace, played: Played, design: Design, chance: np.random.Generator) -> Examination[Refusal | None]:
    """Asks other pictures in such bursts as a suspect refused: who knows an examination by them refuses these as well.

    The suspect may be a bad picture, and so may all suspects: what makes an answer vary may also make a player crash.
    So these are drawn from everything that was answered in play. They have to be refused too often both question by
    question, which is for who crashes now and then, and picture by picture, which is for who has some bad pictures.
    """
    first = trace.last + 1
    drawn = chance.choice(len(played.decided), min(CONTROLS, len(played.decided)), replace=False)
    for question in played.decided[drawn, :2]:
        yield from trace.ask(suspects.bursts(question, Purpose.CONTROL))
    rates = {number: _refused(played, [trace.played[number]]) for number in range(first, trace.last + 1)}
    sessions = tuple(number for number, rate in rates.items() if rate.disagreements)
    questions = _refused(played, trace.played[first:])
    pictures = Rate(len(sessions), len(rates))
    return _refusal(sessions, max(_improbable(trace, played, design, rate) for rate in (questions, pictures)))


def in_twins(trace: Trace, played: Played, design: Design) -> Refusal | None:
    """Returns what the twins of the rates, the last two sessions, show: each of them was refused too often."""
    sessions = (trace.last - 1, trace.last)
    rates = [_refused(played, [trace.played[number]]) for number in sessions]
    return _refusal(sessions, max(_improbable(trace, played, design, rate) for rate in rates))


def _improbable(trace: Trace, played: Played, design: Design, rate: Rate) -> float:
    """Returns how probable a rate of refusals is for who refuses no more often than in play and in planned replays.

    The latter is for who ends by itself after some questions, where a sandbox of the play was never asked so many.
    """
    planned = _refused(played, [each for each in trace.played if each[0].purpose in PLANNED])
    return max(rate.beyond(design.noise), rate.exceeds(_in_play(played)), rate.exceeds(planned))


def _in_play(played: Played) -> Rate:
    charged = int((played.rows[:, 2] == FAULTED).sum())
    return Rate(charged + played.uncharged, len(played.rows) + played.uncharged)


def _refused(played: Played, asked: Iterable[tuple[Session, Said]]) -> Rate:
    """Returns how many questions that were answered in play were refused, of all that were answered or refused."""
    refused = put = 0
    for session, said in asked:
        before = played.at(session.questions) > FAULTED
        refused += int((before & said.refused).sum())
        put += int((before & (said.refused | (said.answers > FAULTED))).sum())
    return Rate(refused, put)


def _refusal(sessions: tuple[int, ...], improbable: float) -> Refusal | None:
    return Refusal(sessions, improbable) if improbable < ALPHA else None
