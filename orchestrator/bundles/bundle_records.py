"""A round's record from a bundle: without pictures, and for a sealed bundle without labels and answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.outcomes import (
    ABSTAINED,
    FAULTED,
    MALFORMED_FORFEITS,
    NOT_ATTACKED,
    NOT_PLAYED,
    Answers,
    Forfeit,
    PictureOutcome,
    decide_outcomes,
)
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import GREY_VALUE, AdversarialExamples, Labels, Pixels, Samples
from orchestrator.errors import StoreFault
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Blobs, get_array

FAULT = "x"
"""The letter for fooled because the defence gave no valid answer (rule A7)."""
OUTCOME_LETTERS = {
    PictureOutcome.CORRECT: "h",
    PictureOutcome.MISCLASSIFIED: "f",
    PictureOutcome.ABSTAINED: "a",
    PictureOutcome.NOT_PLAYED: "n",
    PictureOutcome.NOT_ATTACKED: "-",
}
_LETTER_CODES = np.array([ord(OUTCOME_LETTERS[call]) for call in PictureOutcome], np.uint8)
_LETTER_ANSWERS = {"h": 0, "f": 1, "a": ABSTAINED, "n": NOT_PLAYED, "-": NOT_ATTACKED, FAULT: FAULTED}
"""For each letter an answer that has this outcome if the picture is of class 0."""


def encode_outcomes(labels: Labels, answers: Answers) -> str:
    """Returns the outcome of each picture, one letter each."""
    letters = _LETTER_CODES[decide_outcomes(labels, answers)]
    letters[answers == FAULTED] = ord(FAULT)
    return letters.tobytes().decode("ascii")


def decode_outcomes(calls: str) -> Answers:
    """Returns answers that have these outcomes if all pictures are of class 0. Raises KeyError for another letter."""
    table = np.zeros(128, np.int32)
    for letter, answer in _LETTER_ANSWERS.items():
        table[ord(letter)] = answer
    if unknown := set(calls) - _LETTER_ANSWERS.keys():
        raise KeyError(min(unknown))
    return table[np.frombuffer(calls.encode("ascii"), np.uint8)]


class UnavailableBlobs:
    """A store without any blobs."""

    def put(self, data: bytes) -> str:
        """Raises StoreFault."""
        raise StoreFault(f"{len(data)} bytes were not kept: a bundle is only read")

    def get(self, digest: str) -> bytes:
        """Raises StoreFault."""
        raise StoreFault(f"a sealed bundle holds no {digest}")


@dataclass(frozen=True, slots=True)
class AttackCounts:
    """The counts of an attack's pictures in a sealed bundle: forfeits, and pictures beyond the budget (A14).

    `beyond` counts the forfeits because of the budget; `violations` counts all pictures beyond it, clipped ones too.
    `malformed` counts the forfeits of `domain.outcomes.MALFORMED_FORFEITS` by reason.
    """

    forfeits: int
    beyond: int
    violations: int
    malformed: Mapping[str, int]

    @classmethod
    def from_examples(cls, made: AdversarialExamples) -> "AttackCounts":
        """Returns the counts of an attack's adversarial examples."""
        beyond = int((made.forfeits == Forfeit.BUDGET).sum())
        malformed = {forfeit.reason: int((made.forfeits == forfeit).sum()) for forfeit in MALFORMED_FORFEITS}
        return cls(int((made.forfeits != Forfeit.NONE).sum()), beyond, int(made.violations.sum()), malformed)

    def is_possible(self, pictures: int) -> bool:
        """Returns whether these counts are possible for so many pictures."""
        explained = self.beyond + sum(self.malformed.values())
        return 0 <= explained <= self.forfeits <= pictures and self.beyond <= self.violations <= pictures

    def forfeit_array(self, pictures: int) -> NDArray[np.uint8]:
        """Returns a `Forfeit` for each picture: as many of each kind as are counted, in arbitrary order."""
        counts = {forfeit: self.malformed.get(forfeit.reason, 0) for forfeit in MALFORMED_FORFEITS}
        counts |= {Forfeit.BUDGET: self.beyond}
        counts |= {Forfeit.MISSING: self.forfeits - sum(counts.values()), Forfeit.NONE: pictures - self.forfeits}
        return np.repeat(list(counts), list(counts.values())).astype(np.uint8)


class SealedRoundView(RoundView):
    """The record of a sealed round. Its pictures are in the order of their opaque ids, and all of class 0.

    An answer is 0 if the picture was held and 1 if it was fooled, so that the same rules give the same numbers.
    """

    has_pictures = False

    def __init__(
        self,
        past: Iterable[events.Event],
        calls: Mapping[Cell, str],
        counted: Mapping[tuple[str, str], AttackCounts],
        count: int,
    ) -> None:
        super().__init__(UnavailableBlobs(), past)
        self._outcomes, self._attack_counts, self._count = calls, counted, count

    @property
    def samples(self) -> Samples:
        """Grey pictures of class 0, as many as the round has."""
        classes = tuple(self.round.opening.task.classes) if self.round.opening else ()
        return Samples(_grey_pictures(self._count), np.zeros(self._count, np.int64), classes)

    def adversarial_examples(self, attack: str) -> AdversarialExamples | None:
        """Returns as many forfeits and violations as are counted. It is not known which pictures they are."""
        return self._counted_examples(attack, "")

    def cell_examples(self, cell: Cell) -> AdversarialExamples | None:
        """Returns the same for a cell: of the examples made for its defence, or else for all."""
        return self._counted_examples(cell.attack or "", cell.defence) or self.adversarial_examples(cell.attack or "")

    def queried_cells(self) -> list[Cell]:
        """Returns the cells whose pictures were made for one defence."""
        return [Cell(defence, attack) for attack, defence in self._attack_counts if defence]

    def query_record(self, cell: Cell) -> None:
        """Returns None: a sealed bundle has no queries."""

    def _counted_examples(self, attack: str, defence: str) -> AdversarialExamples | None:
        counted = self._attack_counts.get((attack, defence))
        if counted is None:
            return None
        return AdversarialExamples(
            pixels=_grey_pictures(self._count),
            forfeits=counted.forfeit_array(self._count),
            violations=np.arange(self._count) < counted.violations,
            distances=np.full(self._count, np.nan),
        )

    def answers(self, defence: str, count: int) -> dict[Cell, Answers]:
        """Returns the outcomes of a defence's pictures, as answers."""
        del count
        return {cell: decode_outcomes(calls) for cell, calls in self._outcomes.items() if cell.defence == defence}


class FullRoundView(RoundView):
    """The record of a full round from a bundle with labels and answers, but without pictures."""

    has_pictures = False

    def __init__(self, blobs: Blobs, past: Iterable[events.Event] = ()) -> None:
        super().__init__(blobs, past)
        self._array_blobs = blobs

    @property
    def samples(self) -> Samples:
        """The labels, with grey pictures in place of the task's."""
        if self.round.opening is None:
            raise StoreFault("the ledger is empty: no round was opened")
        task = self.round.opening.task
        labels = get_array(self._array_blobs, task.labels)
        return Samples(_grey_pictures(len(labels)), labels, tuple(task.classes))

    def _read_examples(self, key: tuple[str, str], steps: list[events.StepFinished]) -> AdversarialExamples:
        """Returns the forfeits, violations and distances of an attack's candidates, with grey pictures."""
        index, forfeits, violations, distances = (
            np.concatenate([self.read_array(step, name) for step in steps])
            for name in ("index", "forfeits", "violations", "distances")
        )
        count = self._picture_count() if key[1] else len(index)
        examples = AdversarialExamples(
            pixels=_grey_pictures(count),
            forfeits=np.full(count, Forfeit.NONE, np.uint8),
            violations=np.zeros(count, np.bool_),
            distances=np.full(count, np.nan),
        )
        places = index if key[1] else np.argsort(np.argsort(index))
        for name, values in (("forfeits", forfeits), ("violations", violations), ("distances", distances)):
            getattr(examples, name)[places] = values
        return examples


def _grey_pictures(count: int) -> Pixels:
    """Returns `count` grey pictures [n, 1, 1, 1]."""
    return np.full((count, 1, 1, 1), GREY_VALUE, np.uint8)
