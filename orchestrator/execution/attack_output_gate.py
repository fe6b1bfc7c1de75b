"""The gate: decides whether a candidate is admissible (rules A8 and A14).

It checks type, shape, finite values and the exact norm on 8-bit pixels, on the bytes that arrived, and trusts no claim
of the attack.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import Forfeit, OnMissing, OnViolation
from orchestrator.domain.samples import AdversarialExamples, Pixels, grey_picture
from orchestrator.domain.tasks import Budget
from orchestrator.measures import norms


@dataclass(frozen=True, slots=True)
class Gate:
    """The admissibility check of one task under one choice of rules A8 and A14."""

    budget: Budget
    on_missing: OnMissing
    on_violation: OnViolation

    def missing_all(self, originals: Pixels) -> AdversarialExamples:
        """Returns candidates for pictures of which none has arrived yet: all forfeited as missing (A8)."""
        count = len(originals)
        pixels = originals.copy() if self.on_missing is OnMissing.CLEAN else grey_picture(originals.shape)
        return AdversarialExamples(
            pixels=pixels,
            forfeits=np.full(count, Forfeit.MISSING, np.uint8),
            violations=np.zeros(count, np.bool_),
            distances=np.full(count, np.nan),
        )

    def admit(
        self, into: AdversarialExamples, originals: Pixels, index: tuple[int, ...], delivered: NDArray[Any]
    ) -> None:
        """Judges the pictures `delivered` for positions `index` [k] of `originals`; writes the result into `into`."""
        positions = list(index)
        if delivered.shape[1:] != originals.shape[1:]:
            into.forfeits[positions] = Forfeit.SHAPE
            return
        if delivered.dtype != np.uint8:
            finite = np.isfinite(delivered).reshape(len(positions), -1).all(axis=1)
            into.forfeits[positions] = np.where(finite, Forfeit.TYPE, Forfeit.NOT_FINITE)
            return
        clean = originals[positions]
        inside, into.distances[positions] = norms.judge_candidates(clean, delivered, self.budget)
        into.violations[positions] = ~inside
        if self.on_violation is OnViolation.CLIP:
            delivered = norms.project_to_budget(clean, delivered, self.budget)
            inside = np.ones_like(inside)
        into.forfeits[positions] = np.where(inside, Forfeit.NONE, Forfeit.BUDGET)
        admitted = np.asarray(positions)[inside]
        into.pixels[admitted] = delivered[inside]


def no_examples(originals: Pixels) -> AdversarialExamples:
    """Returns candidates that are the pictures themselves, to be replaced by those of a trusted attack."""
    count = len(originals)
    return AdversarialExamples(
        pixels=originals.copy(),
        forfeits=np.full(count, Forfeit.NONE, np.uint8),
        violations=np.zeros(count, np.bool_),
        distances=np.full(count, np.nan),
    )


def question_mask(forfeits: NDArray[np.uint8], on_missing: OnMissing) -> NDArray[np.bool_]:
    """Returns a mask of the pictures that the defence is asked about: no forfeits under `OnMissing.HELD` (A8)."""
    everything = np.ones(len(forfeits), np.bool_)
    return everything & (forfeits == Forfeit.NONE) if on_missing is OnMissing.HELD else everything
