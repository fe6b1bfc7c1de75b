"""Chance in defences (U13): one seed per picture, which stays secret until the bundle."""

from orchestrator.domain.ids import derive_seed
from orchestrator.formats.unrestricted.events import OTHER_SEEDS


def picture_seed(secret: bytes, defence: str, pixels: str) -> int:
    """Returns the seed with which a defence classifies a picture, by the round's secret and the pixels' digest."""
    return derive_seed(secret, "picture", defence, pixels)


def other_seeds(secret: bytes, defence: str, pixels: str) -> list[int]:
    """Returns the seeds with which a defence is asked again about a picture that breaks it."""
    return [derive_seed(secret, "again", defence, pixels, str(number)) for number in range(OTHER_SEEDS)]
