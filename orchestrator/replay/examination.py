"""The examination of one defence: planned replays, then, only where decisions clash, what it takes to be sure.

It is a generator: it yields the sessions it wants played and is sent what they said, so that it can be played in real
sandboxes, from a record, or in a simulation of thousands of rounds. The same answers always give the same verdict.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from orchestrator.domain.findings import FindingKind
from orchestrator.replay import power, rates, refusals, screening
from orchestrator.replay.power import Design
from orchestrator.replay.rates import Rates
from orchestrator.replay.refusals import Refusal
from orchestrator.replay.screening import Clash, Screened
from orchestrator.replay.sessions import Examination, Played, Trace
from orchestrator.replay.suspects import Proof, investigate

SUSPECTS = 4
"""So many clashing questions are looked into."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the replays of one defence covered.

    `questions` were answered in play, `changed` of them would a cheat of the contest's size change; `drawn` were asked
    again and `decided` compared, which catches such a cheat with probability `achieved`. `asked` are all planned
    questions, companions included, `compared` all pairs. `clashes` disagreed, `noise` more of them only within the
    floating-point margin that the defence claimed. `refused` were answered in play only.
    """

    questions: int
    changed: int
    drawn: int
    decided: int
    achieved: float
    asked: int
    compared: int
    clashes: int
    noise: int
    refused: int
    sandboxes: int


@dataclass(frozen=True, eq=False)
class Accusation:
    """What is held against a defence: a kind, and a proof or a rate. `sessions` show it."""

    kind: FindingKind
    sessions: tuple[int, ...]
    proof: Proof | None = None
    improbable: float | None = None
    rates: Rates | None = None


@dataclass(frozen=True, eq=False)
class Verdict:
    """How an examination ended. Clashes without an accusation were not confirmed: they accuse nobody."""

    coverage: Coverage
    clashes: tuple[Clash, ...] = ()
    accusation: Accusation | None = None
    trace: Trace = field(default_factory=Trace)


def examine(played: Played, design: Design, chance: np.random.Generator) -> Examination[Verdict]:
    """Examines a defence by its play. `chance` is seeded by the round's secret: nobody foresees the sample."""
    trace, seen = Trace(), Screened()
    if not len(played.decided) or not design.power:
        return Verdict(_coverage(played, design, seen, 0), trace=trace)
    sample = screening.draw(played, design, chance)
    seen.drawn = len(sample)
    for session in screening.sessions(played, sample, chance):
        said = yield from trace.ask(session)
        screening.compare(seen, played, sample, trace.last, session, said)
    planned = trace.last + 1
    accusation = None
    if seen.refused:  # first: who refuses what is asked again would spoil whatever else is tried
        accusation = _withheld((yield from refusals.once_more(trace, played, design, seen)))
    if accusation is None and (seen.clashes or seen.noise):
        accusation = yield from _confirm(trace, played, design, seen, chance)
    return Verdict(_coverage(played, design, seen, planned), tuple(seen.clashes), accusation, trace)


def _confirm(
    trace: Trace, played: Played, design: Design, seen: Screened, chance: np.random.Generator
) -> Examination[Accusation | None]:
    """Looks into some of the clashes; a proof accuses, else the rates do.

    Who claims to be on its boundary is believed as far as the contest's `noise` goes: the rates are measured all the
    same. With one picture a question a proof outweighs the claim, too: rounding gives no sequence that repeats.
    """
    hints: Counter[FindingKind] = Counter()
    controlled = False
    suspects = [seen.clashes[place] for place in chance.permutation(len(seen.clashes))]
    if played.batch == 1:
        suspects += [seen.noise[place] for place in chance.permutation(len(seen.noise))]
    for clash in suspects[:SUSPECTS]:
        first = trace.last + 1
        outcome = yield from investigate(trace, played, clash)
        if isinstance(outcome, Proof):
            return Accusation(outcome.kind, outcome.sessions, proof=outcome)
        if outcome is not None:
            hints[outcome] += 1
            break
        if not controlled and refusals.met_bursts(trace, first):
            controlled = True
            if refusal := (yield from refusals.in_bursts(trace, played, design, chance)):
                return _withheld(refusal)
    measured = yield from rates.measure(trace, played, chance)
    found = measured.verdict(design.noise)
    if found is None:
        return _withheld(refusals.in_twins(trace, played, design))
    kind, improbable = found
    if hints:
        kind = hints.most_common(1)[0][0]
    return Accusation(kind, (trace.last - 1, trace.last), improbable=improbable, rates=measured)


def _withheld(refusal: Refusal | None) -> Accusation | None:
    if refusal is None:
        return None
    return Accusation(FindingKind.REFUSED, refusal.sessions, improbable=refusal.improbable)


def _coverage(played: Played, design: Design, seen: Screened, sandboxes: int) -> Coverage:
    questions = len(played.decided)
    changed = power.deviating(questions, design.cheat) if questions else 0
    return Coverage(
        questions=questions,
        changed=changed,
        drawn=seen.drawn,
        decided=seen.decided,
        achieved=power.catch(questions, changed, seen.decided) if seen.decided else 0.0,
        asked=seen.asked,
        compared=seen.compared,
        clashes=len(seen.clashes),
        noise=len(seen.noise),
        refused=len(seen.refused),
        sandboxes=sandboxes,
    )
