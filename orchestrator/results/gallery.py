"""Chooses the pictures that a report shows."""

import numpy as np

from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import NOT_ASKED, Forfeit, spoken
from orchestrator.domain.samples import Candidates, Samples
from orchestrator.domain.submissions import Side
from orchestrator.record import Record
from orchestrator.results.examples import Example
from orchestrator.results.faults import FORFEITS
from orchestrator.results.scoring import Scoring

PER_ATTACK = 2


def choose(record: Record, scoring: Scoring, count: int = PER_ATTACK) -> list[Example]:
    """Returns up to `count` pictures per attack: ones that fooled the first defence first, then the others in order.

    They are the organizers' to see: candidates come from hidden data, so they are not for a team's page (rule A2).
    """
    samples = record.samples
    defences = record.round.roster.side(Side.DEFENCE)
    if not defences:
        return []
    defence = defences[0]
    answers = record.answers(defence.id, len(samples))
    clean = answers.get(Cell(defence.id))
    examples = []
    for attack, made in scoring.candidates.items():
        attacked = answers.get(Cell(defence.id, attack))
        if clean is None or attacked is None:
            continue
        fooled = (clean == samples.labels) & (attacked != samples.labels) & (attacked != NOT_ASKED)
        order = np.argsort(~fooled, kind="stable")
        for picture in order[:count]:
            before, after = int(clean[picture]), int(attacked[picture])
            examples.append(_example(samples, made, Cell(defence.id, attack), int(picture), before, after))
    return examples


def _example(samples: Samples, made: Candidates, cell: Cell, picture: int, before: int, after: int) -> Example:
    return Example(
        attack=cell.attack or "",
        defence=cell.defence,
        picture=picture,
        label=samples.classes[samples.labels[picture]],
        before=spoken(before, samples.classes),
        after=spoken(after, samples.classes),
        forfeit=FORFEITS.get(Forfeit(int(made.forfeits[picture])).reason, ""),
        clean=samples.pixels[picture],
        adversarial=made.pixels[picture],
    )
