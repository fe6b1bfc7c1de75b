"""What every container gets besides its policy, and what the machine has to give."""

from dataclasses import dataclass

from orchestrator.sandboxes.linux.constant_files import MountSources

HOME = "/tmp"  # noqa: S108  the sandbox's own, a tmpfs of a known size
FIRST_UID = 20_000
TMP_INODES = 16_384
MAX_PENDING_SIGNALS = 4_096
MEMLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the machine allows: processors, open files, and how an engine makes its control groups, and its runtimes.

    `cgroupfs`: the engine makes them itself, so that it takes a parent by its path (else systemd makes them).
    `masked_paths` are the paths below /proc and /sys that a player does not see on this kernel, and `constants` what it
    sees instead of some of them (see the modules of these names). `pipes` is where one player finds its FIFOs, where it
    has some in place of the pipes that an engine makes (see `player_fifos`).
    """

    cpus: int
    max_open_files: int
    cgroup1: bool
    cgroupfs: bool = False
    runtimes: frozenset[str] = frozenset({"runc"})
    masked_paths: tuple[str, ...] = ()
    constants: MountSources = ()
    pipes: MountSources = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """The paths that are masked: a mask upon a constant would hide it."""
        return tuple(path for path in self.masked_paths if path not in dict(self.constants))
