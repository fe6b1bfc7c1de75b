"""Example pictures for the report."""

from dataclasses import dataclass

from orchestrator.domain.samples import Pixels


@dataclass(frozen=True, eq=False)
class Example:
    """A picture as an attack got it and as the attack changed it; u8 [c, h, w] each.

    `label`, `clean_answer` and `adversarial_answer` are class names: the true class, and the defence's answers to the
    clean picture and to the candidate. An answer without a label is "abstained", "no answer" or "not asked". `forfeit`
    says why the candidate does not count ("over the budget", ...), "" if it counts.
    """

    attack: str
    defence: str
    picture: int
    label: str
    clean_answer: str
    adversarial_answer: str
    forfeit: str
    clean: Pixels
    adversarial: Pixels
