"""The backend with which a driver plays its one job: the player is in another container of the driver's pod.

The two containers share FIFOs. This backend starts no process and makes no container. The pod's specification has
decided what the player is and what it may do: the image by its digest, its command, every limit, its user, its network.
At the start the backend asks the player's container for what the kernel reports about a process (user, capabilities, no
new privileges, seccomp), and refuses a pod that is weaker than the policy demands. It cannot see the rest (limits,
network, root file system); docs/sandbox.md says what checks that.

A pod has one player. `start` succeeds once in a pod's life, and then raises PodUsedUp: each player needs its own pod.
The first process in the player's container is ours (`images/runner/play`). It ends the player, and all processes that
the player started, as soon as `stop` closes the FIFOs or the driver is killed. It also reports exit status, memory,
processor time and kills at the memory limit; the player cannot forge this report (see `exit_channel`). What is not
known is None.
"""

import re
import threading
import time
from typing import ClassVar

from orchestrator.domain.policy import Runtime, SandboxPolicy, Seccomp, User
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, PodUsedUp, Problem, Rejected, SandboxLost, UsageError
from orchestrator.sandboxes.base import (
    BackendSettings,
    Check,
    CheckStatus,
    Image,
    ImageFacts,
    ImageSource,
    ImageStore,
    Sandbox,
    SandboxSpec,
)
from orchestrator.sandboxes.pod import fifo_pipes
from orchestrator.sandboxes.pod.exit_channel import ExitChannel, PlayerIdentity, draw_token
from orchestrator.sandboxes.pod.pod_sandbox import PodSandbox

_DIGEST = re.compile(r"(?:[^\s@]{1,255}@)?(sha256:[0-9a-f]{64})")
_SECCOMP_FILTER = 2
_REMEDY = "play with `--backend container` or `process`; this one is for the driver of a pod"


class PodBackend:
    """Talks to the one player of this pod. The settings' `workspace` is the folder with the FIFOs."""

    name: ClassVar[str] = "pod"

    def __init__(self, settings: BackendSettings) -> None:
        self._folder = settings.workspace
        self._start_lock = threading.Lock()

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:  # noqa: ARG002  the pod's own
        """Raises BackendUnavailable when this is no pod's driver: its FIFOs are not there."""
        missing = fifo_pipes.missing_fifos(self._folder)
        if missing:
            raise BackendUnavailable(f"no FIFOs {', '.join(missing)} in {self._folder}, so this is no pod; {_REMEDY}")

    def diagnose(self) -> list[Check]:
        """Returns whether this is a pod's driver, and whether its player was started."""
        try:
            self.require_available()
        except BackendUnavailable as error:
            return [Check("pod: player", CheckStatus.ABSENT, str(error).removesuffix(f"; {_REMEDY}"), _REMEDY)]
        if fifo_pipes.player_was_started(self._folder):
            return [Check("pod: player", CheckStatus.WARN, "its player was started before", "make another pod")]
        return [Check("pod: player", CheckStatus.OK, f"FIFOs in {self._folder}, and its player not started yet")]

    def admit(self, source: ImageSource) -> Image:
        """Returns the image that the pod was made with. Raises Rejected when it is not named by its digest."""
        match = _DIGEST.fullmatch(source.image or "")
        if match is None:
            remedy = "give the image by its digest, as the pod does: sha256: and 64 hexadecimal digits"
            raise Rejected("submission", [Problem("image", "not named by its digest", remedy)])
        return Image(digest=match[1], name=printable(source.image or ""), command=source.command)

    def fresh_copy(self, image: Image, run: str) -> Image:  # noqa: ARG002  nothing is made
        """Returns the image: the pod was made with it, and its node has its files."""
        return image

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:  # noqa: ARG002  of those that have images
        """Raises UsageError: the cluster has the images."""
        raise UsageError(f"a pod cannot look into its images, so not into {printable(reference)}; use docker")

    def image_store(self) -> ImageStore:
        """Raises UsageError: the cluster has the images."""
        raise UsageError("a pod has no images to build or to load; use --backend docker")

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Has this pod's player started, which must be up within `spec.limits.ready_seconds`.

        The pod decides the command and the device, as it does the limits.

        Raises:
            PodUsedUp: it was started before.
            SandboxLost: it did not come up, or its container is weaker than the policy demands.
            BackendUnavailable: this is no pod.
        """
        with self._start_lock:
            self.require_available()
            if fifo_pipes.player_was_started(self._folder):
                raise PodUsedUp("this pod's player was started before; what is left is for another pod")
            word = draw_token()
            notes = ExitChannel(word)
            pipes = fifo_pipes.start_player(self._folder, word, notes, time.monotonic() + spec.limits.ready_seconds)
            try:
                _require_policy(spec.policy, notes.identity)
                return PodSandbox(pipes, notes)
            except BaseException:
                pipes.close()
                raise

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:  # noqa: ARG002  a pod has one run
        """Lets go of a player that waits to be started, where our run `ended_run`; returns whether there was one.

        The player of a driver that died is ended by its own container, and a pod has no other.
        """
        return int(
            ended_run is not None
            and not fifo_pipes.player_was_started(self._folder)
            and fifo_pipes.release_waiting_player(self._folder)
        )


def _require_policy(policy: SandboxPolicy, identity: PlayerIdentity | None) -> None:
    """Raises SandboxLost where the kernel says of the player's container that it is weaker than the policy.

    What a kernel does not tell (gVisor's leaves fields out) is not judged. Where it is another than the host's, nor are
    the filter of system calls, of which gVisor and Kata's guest say 0, and whether the player can look into the process
    that tells.
    """
    if identity is None:  # pragma: no cover  `start` waits for it
        raise SandboxLost("the first process of the player's container did not report the player's user and rights")
    weaker = []
    if policy.user is User.UNIQUE and identity.user == 0:
        weaker.append("user: wanted not root, got 0")
    if not policy.capabilities and identity.capabilities:
        weaker.append(f"capabilities: wanted none, got {identity.capabilities:#x}")
    if policy.no_new_privileges and identity.no_new_privileges == 0:
        weaker.append("no_new_privileges: wanted 1, got 0")
    if (
        policy.runtime is Runtime.RUNC
        and policy.seccomp is not Seccomp.NONE
        and identity.seccomp not in {None, _SECCOMP_FILTER}
    ):
        weaker.append(f"seccomp: wanted {_SECCOMP_FILTER}, got {identity.seccomp}")
    if policy.runtime is Runtime.RUNC and identity.inspectable and identity.user:
        weaker.append("end: the player can read the process that reports its end (is fs.suid_dumpable 1?)")
    if weaker:
        raise SandboxLost(f"the pod gives its player more than the policy allows: {'; '.join(weaker)}; correct the pod")
