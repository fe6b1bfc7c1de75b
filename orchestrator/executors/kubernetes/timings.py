"""How long a controller waits for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerTimings:
    """Seconds.

    `refresh_interval`: between two looks without a hint; `min_interval`: between two looks, but where a driver has left
    its last word. `volume_poll_interval`: between two glances at the volume, more with more attempts under way.
    `driver_exit_grace`: that a last word may take through a network file system, once a driver ended by itself;
    `driver_kill_grace`: the same where it was ended. `termination_grace`: that a pod that was told to go may take to
    confirm it. `player_status_grace`: that is waited for the status of a player's container. `quota_retry_interval`:
    between two tries where a quota is used up; `start_retry_interval`: where no node starts the player.
    `pending_timeout`: that an attempt may wait for a node or an image.
    """

    refresh_interval: float = 10.0
    min_interval: float = 0.2
    volume_poll_interval: float = 0.1
    driver_exit_grace: float = 120.0
    driver_kill_grace: float = 10.0
    termination_grace: float = 30.0
    player_status_grace: float = 30.0
    quota_retry_interval: float = 15.0
    start_retry_interval: float = 30.0
    event_list_interval: float = 30.0
    pending_timeout: float = 3600.0
