"""FGSM, BIM and PGD on the gradients of the defence itself, for `rules.initial.crafted_on: self` (rule A12).

They take the steps of the organizers' baselines of the same names, which follow a surrogate:

- FGSM, one step of the budget: Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572.
- BIM, ten steps of a quarter of it: Kurakin, Goodfellow and Bengio 2017, arXiv:1607.02533.
- PGD, twenty such steps from a random start: Madry et al. 2018, arXiv:1706.06083.

A defence is asked in bytes, so every step is a whole number of them, and no rounding comes after the last one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.domain.ids import canonical_json, digest
from orchestrator.domain.organizer_attacks import AttackedPicture, OrganizerAttack, QueriedDefence
from orchestrator.domain.samples import Samples
from orchestrator.domain.tasks import Budget

ALGORITHMS = 1
"""To be raised with every change of this code that changes pictures: what was played is played again."""


@dataclass(frozen=True)
class GradientAttack(OrganizerAttack):
    """Steps along the sign of the gradient, within the Linf ball of the task's budget.

    A picture of which the defence gives no gradient is asked about no more: it has lost that picture (rule A7).

    Args:
        name: what it is called in the roster.
        queries_per_picture: how many steps it takes, each with one gradient.
        budget_parts: a step is the budget divided by this.
        random_start: whether it starts anywhere in the ball, and not at the picture.
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
