"""Where a round is played: on this machine, or on a Kubernetes cluster. The rest of a round depends on neither."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestrator import composition
from orchestrator.application.rounds import gpu_check
from orchestrator.domain.access import Access
from orchestrator.domain.events import ClusterProbed
from orchestrator.domain.tasks import Limits
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Executor
from orchestrator.executors.kubernetes.timings import ControllerTimings
from orchestrator.gpus import list_gpus
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.logs import get_logger
from orchestrator.sandboxes.base import Backend

if TYPE_CHECKING:
    from orchestrator.executors.kubernetes.api import Client

LOCAL, KUBERNETES = "local", "kubernetes"
_BUILD_CUDA_IMAGE = "sparring image build --cuda base"

_log = get_logger()


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach a cluster, and the reason to play without a network probe; tests set `timings` to wait less."""

    kubeconfig: Path | None = None
    context: str | None = None
    override_reason: str = ""
    timings: ControllerTimings = field(default_factory=ControllerTimings)

    def connect(self, namespace: str) -> "Client":
        """Returns a connection. Raises UsageError if the kubeconfig gives none."""
        from orchestrator.executors.kubernetes.api import Client  # noqa: PLC0415  only rounds on a cluster need it

        return Client.connect(namespace, self.kubeconfig, self.context)


class TargetSession(Protocol):
    """The place where one round is played, held by this process alone."""

    @property
    def backend(self) -> Backend:
        """The backend that admits images, and starts them or has them started."""
        ...

    @property
    def probe_event(self) -> ClusterProbed | None:
        """The event that is recorded before play begins, None if there is none."""
        ...

    def with_devices(self, context: RoundContext) -> RoundContext:
        """Returns the round's context with the devices that this place chooses."""
        ...

    def executor(self, context: RoundContext) -> Executor:
        """Returns the executor for the round."""
        ...


class ExecutionTarget(Protocol):
    """A place where rounds are played."""

    @property
    def backend(self) -> Backend:
        """The backend that admits images."""
        ...

    def capacity(self, limits: Limits, access: Access) -> int:
        """Returns the number of jobs that are played at a time."""
        ...

    def acquire(self, folder: RoundFolder) -> AbstractContextManager[TargetSession]:
        """Holds the round in a folder for this process, after waiting for other machines that play it.

        Raises:
            UsageError: the round may not be played there.
            InfrastructureFault: the place does not answer.
        """
        ...


class LocalTarget:
    """This machine, where the lock on a round's folder keeps other processes away."""

    probe_event: ClusterProbed | None = None

    def __init__(self, backend: Backend, slots: int | None) -> None:
        self.backend, self._slots = backend, slots

    def capacity(self, limits: Limits, access: Access) -> int:
        """Returns the number of slots. Raises like `composition.slot_devices`."""
        return len(composition.slot_devices(limits, self._slots, access.sandboxes_per_job))

    def acquire(self, folder: RoundFolder) -> AbstractContextManager["LocalTarget"]:
        """Returns this target: on one machine there is nothing to wait for."""
        del folder
        return nullcontext(self)

    def with_devices(self, context: RoundContext) -> RoundContext:
        """Returns the context with the GPUs for attacks that query defences."""
        devices = composition.attack_devices(context.limits, context.access.sandboxes_per_job)
        return replace(context, attack_devices=devices)

    def executor(self, context: RoundContext) -> Executor:
        """Returns the local executor, after a test player has computed on each GPU that is used.

        A player that cannot use its GPU would compute on the processor without anybody noticing.

        Raises:
            BackendUnavailable: a GPU cannot be used.
        """
        if context.limits.gpus and self.backend.name != "process":
            self._try_gpus(context)
        return composition.make_local_executor(context.limits, self._slots, context.access.sandboxes_per_job)

    def _try_gpus(self, context: RoundContext) -> None:
        if not gpu_check.can_try(self.backend):
            _log.warning("gpus_untried", reason=f"there is no image {gpu_check.CUDA_IMAGE}", remedy=_BUILD_CUDA_IMAGE)
            return
        slots = composition.slot_devices(context.limits, self._slots, context.access.sandboxes_per_job)
        players = {*slots, *context.attack_devices.values()}
        for gpu in list_gpus():
            if gpu.uuid in players:
                gpu_check.try_gpu(context.policy, self.backend, gpu)
