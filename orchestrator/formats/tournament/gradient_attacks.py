"""FGSM, BIM and PGD on the gradients of the defence itself, for `rules.initial.crafted_on: self` (rule A12).

They take the same steps as the organizers' baselines of these names, which use the gradients of a surrogate:

- FGSM, one step of the budget: Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572.
- BIM, ten steps of a quarter of it: Kurakin, Goodfellow and Bengio 2017, arXiv:1607.02533.
- PGD, twenty such steps from a random start: Madry et al. 2018, arXiv:1706.06083.

A defence gets bytes, so every step is a whole number, and nothing is rounded after the last step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.domain.ids import canonical_json, digest
from orchestrator.domain.organizer_attacks import AttackedPicture, OrganizerAttack, QueriedDefence
from orchestrator.domain.samples import Samples
from orchestrator.domain.tasks import Budget

ALGORITHMS = 1
"""Increase it with every change of this code that changes pictures: then the attacks are played again."""


@dataclass(frozen=True)
class GradientAttack(OrganizerAttack):
    """Steps along the sign of the gradient, within the Linf ball of the task's budget.

    If the defence gives no gradient for a picture, it loses the picture (rule A7) and is not asked about it again.

    Args:
        name: its name in the roster.
        queries_per_picture: the number of its steps; each takes one gradient.
        budget_parts: the budget divided by the size of a step.
        random_start: whether it starts at a random point of the ball instead of at the picture.
    """

    name: str
    queries_per_picture: int
    budget_parts: int
    random_start: bool

    @property
    def digest(self) -> str:
        """See `OrganizerAttack.digest`."""
        settings = [self.queries_per_picture, self.budget_parts, self.random_start]
        return digest(canonical_json({"attack": self.name, "algorithms": ALGORITHMS, "settings": settings}))

    def pictures(self, count: int) -> int:
        """Returns `count`: it attacks all pictures."""
        return count

    def play(
        self,
        samples: Samples,
        pictures: Sequence[int],
        generators: Sequence[np.random.Generator],
        defence: QueriedDefence,
        budget: Budget | None,
    ) -> Iterator[AttackedPicture]:
        """See `OrganizerAttack.play`. Raises ValueError without a budget."""
        if budget is None:
            raise ValueError(f"{self.name} needs a budget")
        numbers, reach = np.asarray(pictures, np.int32), int(budget.epsilon)
        clean = samples.pixels[numbers].astype(np.int16)
        low, high = np.maximum(clean - reach, 0), np.minimum(clean + reach, 255)
        made, queries = clean.copy(), np.zeros(len(numbers), np.int32)
        if self.random_start:
            starts = [generator.integers(-reach, reach + 1, clean.shape[1:]) for generator in generators]
            made = np.clip(made + np.stack(starts).astype(np.int16), low, high)
        step, asked = max(1, round(reach / self.budget_parts)), np.arange(len(numbers))
        for _ in range(self.queries_per_picture):
            if not len(asked):
                break
            replies = defence.ask_gradients(
                made[asked].astype(np.uint8), samples.labels[numbers[asked]], numbers[asked]
            )
            queries[asked] += 1
            given = ~np.isnan(replies.gradients).any(axis=(1, 2, 3))
            asked = asked[given]
            moved = made[asked] + step * np.sign(replies.gradients[given]).astype(np.int16)
            made[asked] = np.clip(moved, low[asked], high[asked])
        for picture, pixels, count in zip(pictures, made.astype(np.uint8), queries, strict=True):
            yield AttackedPicture(picture, pixels, int(count))


GRADIENT_ATTACKS = (
    GradientAttack("fgsm", 1, budget_parts=1, random_start=False),
    GradientAttack("bim", 10, budget_parts=4, random_start=False),
    GradientAttack("pgd", 20, budget_parts=4, random_start=True),
)
"""The attacks of rule A12."""
