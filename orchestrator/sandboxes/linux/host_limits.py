"""Constants of every container besides its policy, and the limits of the machine."""

from dataclasses import dataclass

from orchestrator.sandboxes.linux.constant_files import MountSources

HOME = "/tmp"  # noqa: S108  the sandbox's own, a tmpfs of a known size
FIRST_UID = 20_000
TMP_INODES = 16_384
MAX_PENDING_SIGNALS = 4_096
MEMLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The limits of the machine, the kind of its control groups, its runtimes, and a sandbox's masks and mounts.

    `cgroupfs`: the engine makes control groups itself and takes a parent by its path (otherwise systemd makes them).
    `masked_paths` are the paths below /proc and /sys that players do not see on this kernel, and `constants` the files
    that replace some of them (see the modules of these names). `pipes` are the mounts of a player's FIFOs, if it has
    them (see `player_fifos`). `hosts` is the mount of /etc/hosts, empty if the engine makes that file itself.
    """

    cpus: int
    max_open_files: int
    cgroup1: bool
    cgroupfs: bool = False
    runtimes: frozenset[str] = frozenset({"runc"})
    masked_paths: tuple[str, ...] = ()
    constants: MountSources = ()
    pipes: MountSources = ()
    hosts: MountSources = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """The paths to mask, without those of constants, which a mask would hide."""
        return tuple(path for path in self.masked_paths if path not in dict(self.constants))
