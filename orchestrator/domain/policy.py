"""The policy of a sandbox: everything that it may do, in one place for a security reviewer.

Backends translate it: docker into a container, Kubernetes into a pod. They decide nothing themselves; after a start
they read back what the engine applied, and refuse to play if a control is missing or weaker. The defaults apply to
strangers' submissions. A weaker policy has one purpose: `sparring sandbox check` removes one control at a time and
shows that a hostile program then does its harm.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.domain.tasks import Limits


class Runtime(StrEnum):
    """What runs the container.

    `runc` shares the host's kernel. `runsc` (gVisor) answers system calls in a kernel of its own. `kata` gives every
    player a virtual machine.
    """

    RUNC = "runc"
    RUNSC = "runsc"
    KATA = "kata"


class Network(StrEnum):
    """What a player can reach: nothing but its own loopback, or (never for strangers) whatever the host reaches."""

    NONE = "none"
    HOST = "host"


class Seccomp(StrEnum):
    """The filter of system calls: our profile for players, the engine's default, or none."""

    PLAYER = "player"
    ENGINE = "engine"
    NONE = "none"


class User(StrEnum):
    """The user that a player runs as: a user id that no other live sandbox has, or (never for strangers) root."""

    UNIQUE = "unique"
    ROOT = "root"


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """Everything that a sandbox may and may not do. Each field says what happens to a player that tries.

    Mounts: none. There is no field for them, because no policy may add one: a player sees its image read-only, /tmp,
    /dev/shm and the engine's masked /proc and /sys, and nothing of the host.
    """

    limits: Limits = field(default_factory=Limits)
    """Amounts: see `Limits`, which says what happens when each is reached."""
    runtime: Runtime = Runtime.RUNC
    network: Network = Network.NONE
    """No interface but loopback: connecting fails with ENETUNREACH, names do not resolve."""
    user: User = User.UNIQUE
    """Not root, and no other sandbox's user: per-user kernel counters and signals do not cross sandboxes."""
    read_only_root: bool = True
    """The image cannot be changed: writing fails with EROFS."""
    capabilities: tuple[str, ...] = ()
    """Kernel privileges kept: none. Mounting, raw sockets, changing owners fail with EPERM."""
    no_new_privileges: bool = True
    """Set-user-id programs run as the player: nothing is gained."""
    seccomp: Seccomp = Seccomp.PLAYER
    """System calls that no player needs fail with EPERM or ENOSYS; the profile gives the reason for each."""
    private_ipc: bool = True
    """System V and POSIX IPC objects are the sandbox's own and go with it."""
    private_cgroup: bool = True
    """The control group tree above its own cannot be seen."""
    masked_proc: bool = True
    """Only the files of /proc and /sys that a program needs are visible: machine counters are empty or absent."""
    noexec_tmp: bool = True
    """Nothing in /tmp can be executed: EACCES."""
    init: bool = True
    """A reaper is PID 1, so that a player that kills or traces PID 1 only ends itself, and zombies are reaped."""
    engine_logs: bool = False
    """Output goes to the orchestrator only, which caps it; the engine keeps no log that could fill the disk."""

    def weaknesses(self) -> tuple[str, ...]:
        """Returns the names of the controls that are weaker than the defaults; empty for a policy fit for strangers."""
        strict = SandboxPolicy(limits=self.limits, runtime=self.runtime)
        names = (name for name in self.__dataclass_fields__ if name not in ("limits", "runtime"))
        return tuple(name for name in names if getattr(self, name) != getattr(strict, name))
