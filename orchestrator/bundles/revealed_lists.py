"""The lists of a full round: labels, answers, forfeits, and what opens every commitment."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from orchestrator.bundles.layout import ATTACKS, CELLS, PICTURES
from orchestrator.bundles.pseudonyms import PicturePseudonyms, commitments
from orchestrator.bundles.sealed_lists import sorted_cells
from orchestrator.domain import events
from orchestrator.domain.samples import AdversarialExamples
from orchestrator.domain.submissions import Side
from orchestrator.ledger.read_model import RoundView

_PICTURE_ARRAYS = frozenset({"candidates", "sampled_pixels", "shown", "shown_gradients"})
"""The arrays of a step that contain pictures, or are as large."""


def full_round_lists(record: RoundView, secret: bytes) -> dict[str, Any]:
    """Returns the lists of a full round, by file: `pictures.jsonl`, `cells.jsonl`, `attacks.jsonl`."""
    labels, cells, pseudonyms = record.samples.labels, sorted_cells(record), PicturePseudonyms(secret)
    commitment = commitments(pseudonyms, labels, list(cells.values()))
    return {
        PICTURES: [
            {
                "index": picture,
                "label": int(label),
                "id": pseudonyms.picture_id(picture),
                "salt": pseudonyms.salt(picture).hex(),
                "commitment": commitment[picture],
            }
            for picture, label in enumerate(labels)
        ],
        CELLS: [
            {"defence": cell.defence, "attack": cell.attack, "answers": answers.tolist()}
            for cell, answers in cells.items()
        ],
        ATTACKS: list(_attacks(record)),
    }


def _attacks(record: RoundView) -> Iterator[dict[str, Any]]:
    for attack in sorted(attack.id for attack in record.round.roster.by_side(Side.ATTACK)):
        examples = record.adversarial_examples(attack)
        if examples is not None:
            yield {"attack": attack, **_counted(examples)}
    for cell in sorted(record.queried_cells(), key=lambda cell: (cell.attack or "", cell.defence)):
        examples, asked = record.cell_examples(cell), record.query_record(cell)
        if examples is not None and asked is not None:
            yield {
                "attack": cell.attack,
                "defence": cell.defence,
                **_counted(examples),
                "attacked": asked.attacked.astype(int).tolist(),
                "queries": asked.queries.tolist(),
                "fooled_at": asked.fooled_at.tolist(),
                "failures": asked.failures.tolist(),
                "given_up": asked.given_up.astype(int).tolist(),
            }


def _counted(examples: AdversarialExamples) -> dict[str, Any]:
    return {
        "forfeits": examples.forfeits.tolist(),
        "violations": examples.violations.astype(int).tolist(),
        "distances": [None if np.isnan(each) else float(each) for each in examples.distances],
    }


def blob_digests(past: Iterable[events.Event], *, pictures: bool) -> set[str]:
    """Returns the digests of the blobs that a full bundle may hold: without `pictures`, those that numbers need.

    Standard error is never among them.
    """
    digests: set[str] = set()
    for event in past:
        if isinstance(event, events.RoundOpened):
            digests |= {event.task.labels, event.task.pixels} if pictures else {event.task.labels}
        if isinstance(event, events.StepFinished):
            digests |= {digest for name, digest in event.blobs.items() if pictures or name not in _PICTURE_ARRAYS}
    return digests
