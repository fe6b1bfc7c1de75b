"""The intervals and time limits of a controller."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerTimings:
    """All values are in seconds.

    `refresh_interval`: the most between two passes, if no change is noticed; `min_interval`: the least, unless a driver
    wrote its end. `volume_poll_interval`: between two polls of the volume; it grows with the active attempts.
    `driver_exit_grace`: how long a driver's last files may take through a network file system after it ended by itself;
    `driver_kill_grace`: the same after it was ended. `termination_grace`: how long a pod that was told to terminate may
    take to confirm it. `player_status_grace`: how long to wait for the status of a player's container.
    `quota_retry_interval`: between two tries while a quota is used up; `start_retry_interval`: while no node starts the
    player, or after a node did not admit a pod. `event_list_interval`: between two lists of events. `pending_timeout`:
    how long an attempt may wait for a node or an image.
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
