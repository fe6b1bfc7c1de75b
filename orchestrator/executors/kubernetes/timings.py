"""How long a controller waits for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerTimings:
    """Seconds.

    `look`: between two looks without a hint; `least`: between two looks, but where a driver has left its last word.
    `glance`: between two glances at the volume, more with more attempts under way. `late`: that a last word may take
    through a network file system, once a driver ended by itself; `lost`: the same where it was ended. `leaving`: that a
    pod that was told to go may take to confirm it. `status`: that is waited for the status of a player's container.
    `quota`: between two tries where a quota is used up; `refused`: where no node starts the player. `pending`: that an
    attempt may wait for a node or an image.
    """

    look: float = 10.0
    least: float = 0.2
    glance: float = 0.1
    late: float = 120.0
    lost: float = 10.0
    leaving: float = 30.0
    status: float = 30.0
    quota: float = 15.0
    refused: float = 30.0
    warnings: float = 30.0
    pending: float = 3600.0
