"""Example pictures for the report."""

from dataclasses import dataclass

from orchestrator.domain.samples import Pixels


@dataclass(frozen=True, eq=False)
class Example:
    """One picture as an attack was given it and as it played it; u8 [c, h, w] each.

    `label`, `clean_answer` and `adversarial_answer` are class names: the truth, the defence's answer on the clean
    picture and on the candidate; "abstained", "no answer" and "not asked" where there is no label. `forfeit` says why
    the candidate does not count ("over the budget", ...), "" where it does.
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
