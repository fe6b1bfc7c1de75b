"""Runs players in containers of a Docker engine on this machine: the backend for strangers' submissions.

A container has no network, a read-only root, a small /tmp in memory, no capabilities, a user id of its own, our
seccomp profile, and limits on memory, processors, processes and open files; see `container_spec`. `stop` kills and
removes the container, and verifies that nothing of it is left. With runc the container shares the host's kernel: it is
not protected against an unknown hole in the kernel or a GPU driver, and the player can read the host's load, uptime
and processor model.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from orchestrator.domain.policy import Network, Runtime
from orchestrator.errors import BackendUnavailable, SandboxLost, SparringError
from orchestrator.logs import get_logger
from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import (
    BackendSettings,
    Check,
    CheckStatus,
    Image,
    Sandbox,
    SandboxSpec,
)
from orchestrator.sandboxes.docker import (
    cleanup,
    container_runtimes,
    container_spec,
    engine_checks,
    pipe_folders,
    player_fifos,
    verify_policy,
)
from orchestrator.sandboxes.docker.container_sandbox import ContainerSandbox, PlayerStream, remove_container
from orchestrator.sandboxes.docker.engine import START_ENGINE_REMEDY, DockerEngine
from orchestrator.sandboxes.docker.engine_errors import UnseenFileError
from orchestrator.sandboxes.docker.fifo_stream import FifoStream
from orchestrator.sandboxes.docker.images import image_copy
from orchestrator.sandboxes.docker.images.engine_images import EngineImages, inspection_labels
from orchestrator.sandboxes.docker.pipe_folders import FifosRefusedError, PipeFolders
from orchestrator.sandboxes.docker.player_fifos import PlayerFifos
from orchestrator.sandboxes.image_backend import ImageBackend
from orchestrator.sandboxes.linux import constant_files, masked_paths, uid_pool
from orchestrator.sandboxes.linux.applied_policy import PolicyNotAppliedError, RequestedPolicy
from orchestrator.sandboxes.linux.constant_files import ConstantFiles
from orchestrator.sandboxes.linux.host_limits import FIRST_UID, HostLimits
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.linux.sandbox_owner import Owner
from orchestrator.sandboxes.pending_cleanup import PendingCleanup, Rollback
from orchestrator.sandboxes.retry_start import StartFailedError, retry_start

_log = get_logger()


class DockerBackend(ImageBackend):
    """Starts players as containers."""

    name: ClassVar[str] = "docker"

    def __init__(self, settings: BackendSettings) -> None:  # noqa: ARG002  every backend is built the same way
        self._engine = DockerEngine()
        super().__init__(EngineImages(self._engine))
        self._constants = ConstantFiles()
        self._pipes = PipeFolders()
        self._pending_cleanup = PendingCleanup()  # sandboxes that could not be stopped while the engine was away

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:  # noqa: ARG002  a GPU is tried before a round
        """Raises BackendUnavailable if no engine answers, or it is too old, not on this machine or lacks `runtime`."""
        try:
            info = self._engine.info()
        except SandboxLost as error:
            raise BackendUnavailable(f"{error}; {START_ENGINE_REMEDY}") from error
        container_runtimes.require_runtime(runtime or Runtime.RUNC, container_runtimes.runtime_names(info))

    def diagnose(self) -> list[Check]:
        """Returns the engine's facts, and which limits hold inside a container, as a probe program measures them."""
        try:
            info = self._engine.info()
            image = self._known_image()
        except BackendUnavailable as error:
            message = str(error).removesuffix(f"; {START_ENGINE_REMEDY}")
            return [Check("docker: engine", CheckStatus.ABSENT, message, START_ENGINE_REMEDY)]
        except SparringError as error:
            return [Check("docker: engine", CheckStatus.FAIL, str(error), "look at the engine's own log")]
        runtimes = container_runtimes.diagnose_runtimes(info, image, self.start)
        probe_checks = self_probe.run_probe(
            self.name, None if image is None else partial(self.start, self_probe.probe_spec(image))
        )
        return [*engine_checks.engine_checks(info), *runtimes, self._diagnose_pipes(), *probe_checks]

    def _diagnose_pipes(self) -> Check:
        """Returns whether players under runc get FIFOs or the engine's attach stream; it never raises."""
        name, build = "docker: pipes", "`sparring image build runner`"
        remedy = f"run {build}, if that is the reason; answers take longer until then"
        try:
            refusal = self._pipes.refusal(Runtime.RUNC, self._require_fifos)
        except SparringError as error:
            return Check(name, CheckStatus.FAIL, str(error), "look at the engine's own log")
        if refusal:
            return Check(name, CheckStatus.WARN, f"the engine's attach stream: {refusal}", remedy)
        return Check(name, CheckStatus.OK, "FIFOs in a folder that players cannot write to")

    def fresh_copy(self, image: Image, run: str) -> Image:
        """Returns another image with the same files in new inodes; see `Backend.fresh_copy`."""
        config, inspected = self._admission.config_of(image), self._engine.image(image.digest)
        if inspected is None:
            raise SandboxLost(f"image {image.name} ({image.digest}) is gone from the engine; load it again")
        labels = {container_spec.RUN_LABEL: run, container_spec.OWNER_LABEL: str(Owner.current_process())}
        copy_id = image_copy.copy_image(self._engine, inspected, labels)
        self._admission.add_copy(copy_id, config)
        return replace(image, digest=copy_id, rollback=partial(image_copy.remove_copy, self._engine, copy_id))

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Starts a player. If its image or the runtime prevents that, returns a `NeverStarted` sandbox."""
        self._pending_cleanup.run()
        try:
            return self._start_container(spec)
        except (StartFailedError, PolicyNotAppliedError) as error:
            return retry_start(self._start_container, spec, error, self._known_image())

    def _start_container(self, spec: SandboxSpec) -> Sandbox:
        """Starts a player's container, over FIFOs if the policy and the runtime allow them."""
        # Only an init program keeps the engine's pipes open until the container ends, and the engine logs only what
        # passes through its own pipes.
        allows_fifos = spec.policy.init and not spec.policy.engine_logs
        fifos = allows_fifos and not self._pipes.refusal(spec.policy.runtime, self._require_fifos)
        try:
            return self._create_sandbox(spec, self._host(spec), fifos=fifos)
        except UnseenFileError as error:
            _log.warning("constants_unseen", reason=str(error), remedy="/proc/meminfo and three more stay empty")
            self._constants.unseen()
            return self._create_sandbox(spec, self._host(spec), fifos=False)

    def _require_fifos(self, runtime: Runtime) -> None:
        """Starts a container under a runtime and checks that it answers over FIFOs.

        Raises:
            FifosRefusedError: it does not answer, or the runner image with the shell is missing.
            SandboxLost: the engine failed.
        """
        image = pipe_folders.find_runner(self._engine)
        spec = pipe_folders.probe_spec(image, runtime)
        try:
            self._pipes.install(pipe_folders.read_shell(self._engine, image, inspection_labels()))
            sandbox = self._create_sandbox(spec, self._host(spec), fifos=True)
        except (StartFailedError, PolicyNotAppliedError, UnseenFileError) as error:
            raise FifosRefusedError(f"a container with FIFOs cannot be started: {error}") from error
        try:
            answered = pipe_folders.answers(sandbox)
        finally:
            sandbox.stop()
        if not answered:
            seconds = pipe_folders.PROBE_SECONDS
            raise FifosRefusedError(f"a container under {runtime} did not answer over FIFOs within {seconds:g} s")

    def _host(self, spec: SandboxSpec) -> HostLimits:
        """Returns the host's limits, the paths to mask for this player, and the constant files that replace some."""
        # Under the other runtimes a sandbox has a /proc of its own.
        masks_constants = spec.policy.runtime is Runtime.RUNC and spec.policy.masked_proc
        constants = self._constants.sources(spec.limits.memory) if masks_constants else ()
        return replace(
            self._engine.host(),
            masked_paths=masked_paths.masked_paths(gpu=spec.device is not None),
            constants=constants,
            hosts=self._constants.hosts() if spec.policy.network is Network.NONE else (),
        )

    def _create_sandbox(self, spec: SandboxSpec, host: HostLimits, *, fifos: bool) -> Sandbox:
        """Creates, attaches to and starts a container, in this order, so that none of its output is lost."""
        container_runtimes.require_runtime(spec.policy.runtime, host.runtimes)
        config = self._admission.config_of(spec.image)
        owner = Owner.current_process()
        with Rollback(self._pending_cleanup) as rollback:
            uid = uid_pool.take_uid(FIRST_UID)
            releases: list[Callable[[], None]] = [partial(uid_pool.release_uid, uid)]
            rollback.add(releases[0])
            sandbox_fifos = self._pipes.make() if fifos else None
            if sandbox_fifos is not None:
                releases.append(sandbox_fifos.remove)
                rollback.add(sandbox_fifos.remove)
                host = replace(host, pipes=sandbox_fifos.mounts)
            cgroup = ParentCgroup.open(owner, spec.run, spec.limits.memory) if host.cgroupfs else None
            if cgroup is not None:
                rollback.add(cgroup.close)
            liveness = self._engine.liveness_connection()
            parent = None if cgroup is None else cgroup.path
            options = container_spec.container_options(spec, config, uid, host, str(owner), parent)
            # The name first, then the id: an engine that dies during `create` may have created the container.
            handles = [f"sparring-{secrets.token_hex(8)}"]
            rollback.add(lambda: remove_container(self._engine, handles[-1]))
            handles.append(self._engine.create(options, handles[0]))
            container = handles[-1]
            stream = self._open_stream(container, sandbox_fifos)
            rollback.add(stream.close)
            self._engine.start(container)
            verify_policy.require_applied(RequestedPolicy(spec, uid, host), self._engine.inspect(container))

            def release() -> None:
                for step in reversed(releases):
                    step()

            return ContainerSandbox(self._engine, container, stream, liveness, cgroup, release, self._pending_cleanup)

    def _open_stream(self, container: str, fifos: PlayerFifos | None) -> PlayerStream:
        """Attaches to a container that was not started yet, and opens its FIFOs if it has any."""
        if fifos is None:
            return self._engine.attach(container)
        attachment = self._engine.attach(container, only_stderr=True)
        try:
            return FifoStream(fifos.open(), attachment)
        except OSError as error:
            attachment.close()
            raise SandboxLost(f"cannot open the FIFOs of a new container: {error}") from error

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Removes what dead orchestrators left, and what remains of our own run `ended_run`.

        It spares the run `spare_run`, and everything whose owner it cannot determine to be dead. Returns the number of
        things removed.

        Raises:
            InfrastructureFault: something could not be removed; the rest was.
        """
        self._pending_cleanup.run()
        current = Owner.current_process()
        folders = constant_files.remove_dead_folders(current) + player_fifos.remove_dead_folders(current)
        return folders + cleanup.clean_up(self._engine, spare_run, ended_run)
