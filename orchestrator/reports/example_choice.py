"""Chooses the pictures that a report shows."""

import numpy as np

from orchestrator.domain.outcomes import NOT_ASKED, NOT_ATTACKED, Forfeit, answer_text
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import AdversarialExamples, Samples
from orchestrator.domain.submissions import Side
from orchestrator.ledger.read_model import RoundView
from orchestrator.reports.examples import Example
from orchestrator.scoring.fault_texts import FORFEIT_TEXTS
from orchestrator.scoring.round_scoring import RoundScoring

EXAMPLES_PER_ATTACK = 2


def choose_examples(record: RoundView, scoring: RoundScoring, count: int = EXAMPLES_PER_ATTACK) -> list[Example]:
    """Returns up to `count` pictures per attack: first those that fooled the first defence, then the others in order.

    They are for the organizers only: candidates are made from hidden data, so a team's page must not show them (A2).
    """
    samples = record.samples
    defences = record.round.roster.by_side(Side.DEFENCE)
    if not defences:
        return []
    defence = defences[0]
    answers = record.answers(defence.id, len(samples))
    clean = answers.get(Cell(defence.id))
    examples = []
    for attack in record.round.roster.by_side(Side.ATTACK):
        cell = Cell(defence.id, attack.id)
        attacked, candidates = answers.get(cell), scoring.examples_of(cell)
        if clean is None or attacked is None or candidates is None:
            continue
        fooled = (clean == samples.labels) & (attacked != samples.labels) & (attacked != NOT_ASKED)
        permutation = np.argsort(~fooled | (attacked == NOT_ATTACKED), kind="stable")
        for picture in permutation[: min(count, int((attacked != NOT_ATTACKED).sum()))]:
            before, after = int(clean[picture]), int(attacked[picture])
            examples.append(_example(samples, candidates, cell, int(picture), before, after))
    return examples


def _example(
    samples: Samples, candidates: AdversarialExamples, cell: Cell, picture: int, before: int, after: int
) -> Example:
    return Example(
        attack=cell.attack or "",
        defence=cell.defence,
        picture=picture,
        label=samples.classes[samples.labels[picture]],
        clean_answer=answer_text(before, samples.classes),
        adversarial_answer=answer_text(after, samples.classes),
        forfeit=FORFEIT_TEXTS.get(Forfeit(int(candidates.forfeits[picture])).reason, ""),
        clean=samples.pixels[picture],
        adversarial=candidates.pixels[picture],
    )
