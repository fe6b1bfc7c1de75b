"""Runs players in containers that runc starts without an engine: the backend for strangers' submissions if we are root.

A contest may require gVisor's runsc in place of runc, which starts a container from the same configuration.

A container has the same restrictions as on docker (see `sandboxes.docker`): no network, a read-only root, a small /tmp
in memory, no capabilities, a user id of its own, our seccomp profile, limits on memory, processors, processes and open
files. Three things differ: its streams are plain pipes, it starts in a fraction of the time, and its root is a mount of
its own, so that the kernel keeps no state of its look-ups and reads for the next sandbox of the same image. Images come
from the Docker engine of this machine, or, if none listens, from a folder. A GPU is added as its CDI description says
(see `cdi`).
"""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import ClassVar

from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.gpus import list_gpus
from orchestrator.sandboxes import runtime_probe, self_probe
from orchestrator.sandboxes.base import (
    BackendSettings,
    Check,
    CheckStatus,
    Image,
    Sandbox,
    SandboxSpec,
)
from orchestrator.sandboxes.docker.engine import START_ENGINE_REMEDY, DockerEngine
from orchestrator.sandboxes.docker.images.engine_images import EngineImages
from orchestrator.sandboxes.image_backend import ImageBackend
from orchestrator.sandboxes.image_files.image_admission import ImageCollection
from orchestrator.sandboxes.linux import applied_policy, constant_files, masked_paths, uid_pool
from orchestrator.sandboxes.linux.applied_policy import PolicyNotAppliedError, RequestedPolicy
from orchestrator.sandboxes.linux.cgroup_counters import CGROUP_ROOT, hierarchies, is_version_2
from orchestrator.sandboxes.linux.constant_files import HOSTS_PATH, ConstantFiles
from orchestrator.sandboxes.linux.host_limits import FIRST_UID, HostLimits
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.linux.proc_view import ProcView
from orchestrator.sandboxes.linux.process_pipes import StandardPipes
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner
from orchestrator.sandboxes.pending_cleanup import PendingCleanup, Rollback
from orchestrator.sandboxes.retry_start import StartFailedError, retry_start
from orchestrator.sandboxes.runc import bundle, cleanup, container, image_folder, rootfs_images, runtime
from orchestrator.sandboxes.runc.bundle import BundleFiles
from orchestrator.sandboxes.runc.cdi import GpuEdits, read_gpu_edits
from orchestrator.sandboxes.runc.cleanup import RUN_FOLDER
from orchestrator.sandboxes.runc.container import RuncContainer
from orchestrator.sandboxes.runc.image_folder import ImageFolder
from orchestrator.sandboxes.runc.rootfs_images import RootfsImages

_INIT_PROGRAMS = ("docker-init", "tini-static", "catatonit")
"""Static programs that reap zombies as process 1; the first one that is installed is used."""
_PROGRAMS = {
    "runc": "runc",
    "losetup": "mount",
    "mksquashfs": "squashfs-tools",
    "mount": "mount",
    "prlimit": "util-linux",
    "unshare": "util-linux",
}
"""The programs that this backend runs, with the Debian package of each."""
_RUNTIME_FILES = frozenset({"/", bundle.INIT, HOSTS_PATH})
"""The read-only mounts of every container besides those of its policy."""


class RuncBackend(ImageBackend):
    """Starts players as containers of runc."""

    name: ClassVar[str] = "runc"

    def __init__(self, settings: BackendSettings) -> None:  # noqa: ARG002  every backend is built the same way
        engine = DockerEngine()
        images: ImageCollection
        if engine.is_listening():
            self._engine: DockerEngine | None = engine
            images, flattened = EngineImages(engine), rootfs_images.cache_folder()
        else:
            self._engine = None
            images = ImageFolder(image_folder.default_folder())
            flattened = images.folder / "flattened"
        super().__init__(images)
        self._rootfs = RootfsImages(images, flattened)
        self._constants = ConstantFiles()
        self._pending_cleanup = PendingCleanup()  # sandboxes that could not be stopped

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:
        """Raises BackendUnavailable, with the remedy, without root, a program, control groups or a CDI file."""
        _require_runtime(runtime or Runtime.RUNC, gpus)
        if os.geteuid() != 0:
            raise BackendUnavailable("the runc backend mounts images, which only root may; use docker")
        missing = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
        if missing:
            raise BackendUnavailable(f"programs are missing; install {', '.join(sorted(missing))}, or use docker")
        _init_program()
        if not all(os.access(folder, os.W_OK) for folder in hierarchies(CGROUP_ROOT)):
            raise BackendUnavailable(f"control groups cannot be made below {CGROUP_ROOT}; use docker")
        if "squashfs" not in Path("/proc/filesystems").read_text("ascii").split():
            raise BackendUnavailable("the kernel has no squashfs; `modprobe squashfs`, or use docker")
        try:
            if self._engine is not None:
                self._engine.info()
        except SandboxLost as error:
            raise BackendUnavailable(f"{error}; images come from the Docker engine: {START_ENGINE_REMEDY}") from error
        if gpus:
            for gpu in list_gpus():
                read_gpu_edits(gpu.uuid)

    def diagnose(self) -> list[Check]:
        """Returns runc's version, and which limits hold inside a container, as a probe program measures them."""
        try:
            self.require_available()
            image = self._known_image()
        except (BackendUnavailable, SandboxLost) as error:
            return [Check("runc: available", CheckStatus.ABSENT, str(error), "see the message, if you want to use it")]
        start = None if image is None else partial(self.start, self_probe.probe_spec(image))
        origin = "of the Docker engine, flattened" if self._engine else "without an engine,"
        available = Check(
            "runc: available", CheckStatus.OK, f"{runtime.version()}; images {origin} in {self._rootfs.folder}"
        )
        return [available, self._diagnose_gvisor(image), *self_probe.run_probe(self.name, start)]

    def _diagnose_gvisor(self, image: Image | None) -> Check:
        """Returns a check of gVisor's runsc: whether it is installed, and whether it ran a probe; it never raises."""
        name, remedy = "runc: runsc", "install runsc, for contests with `runtime: runsc`"
        try:
            _require_runtime(Runtime.RUNSC)
        except BackendUnavailable:
            detail = f"not installed ({runtime_probe.DESCRIPTIONS[Runtime.RUNSC]})"
            return Check(name, CheckStatus.ABSENT, detail, remedy)
        return runtime_probe.probe_runtime(name, Runtime.RUNSC, image, self.start, "set `runtime: runc`")

    def fresh_copy(self, image: Image, run: str) -> Image:  # noqa: ARG002  nothing is made
        """Returns the image itself: every sandbox has a new mount, for which the kernel has no state yet."""
        return image

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Starts a player. If its image prevents that, returns a `NeverStarted` sandbox."""
        self._pending_cleanup.run()
        _require_runtime(spec.policy.runtime, gpus=int(spec.device is not None))
        try:
            return self._start_container(spec)
        except (StartFailedError, PolicyNotAppliedError) as error:
            return retry_start(self._start_container, spec, error, self._known_image())

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Removes what dead orchestrators left, and what remains of our own run `ended_run`; spares `spare_run`.

        Returns the number of things removed.

        Raises:
            InfrastructureFault: something could not be removed; the rest was.
        """
        self._pending_cleanup.run()
        removed = constant_files.remove_dead_folders(Owner.current_process()) + cleanup.clean_up(spare_run, ended_run)
        return removed if ended_run is not None else removed + self._rootfs.remove_unknown()

    def _start_container(self, spec: SandboxSpec) -> Sandbox:
        """Makes everything that a container needs, and starts it; removes all of it again if that fails.

        Raises:
            StartFailedError: the runtime did not start it.
            SandboxLost: this machine lacks disk space, open files or processes for it.
            PolicyNotAppliedError: it started with a missing or weaker control.
        """
        try:
            return self._make_container(spec)
        except OSError as error:
            raise SandboxLost(f"a container cannot be made: {error}") from error

    def _make_container(self, spec: SandboxSpec) -> Sandbox:
        config = self._admission.config_of(spec.image)
        image = self._rootfs.file(spec.image.digest, config.folder)
        container.become_subreaper()
        owner, host = Owner.current_process(), self._host(spec)
        gpu = GpuEdits() if spec.device is None else read_gpu_edits(spec.device)
        with Rollback(self._pending_cleanup) as rollback:
            uid = uid_pool.take_uid(FIRST_UID)
            rollback.add(partial(uid_pool.release_uid, uid))
            home = RUN_FOLDER / ProcessTag.create(owner, spec.run).text
            home.mkdir(mode=0o700, parents=True)
            rollback.add(partial(cleanup.remove_home, home))
            cgroup = ParentCgroup.open(owner, spec.run, spec.limits.memory)
            if cgroup is None:
                raise SandboxLost(f"a control group cannot be made below {CGROUP_ROOT}")
            rollback.add(cgroup.close)
            files = BundleFiles(home / "rootfs", _init_program(), rootfs_images.hosts_file(image.parent))
            oci_config = bundle.container_config(spec, config, uid, host, f"{cgroup.path}/{home.name}", files, gpu)
            pipes = StandardPipes.open()
            rollback.add(pipes.close_ours)
            selected = spec.policy.runtime
            # For a GPU, runc and the hooks add files to the root before it becomes read-only; gVisor creates all mount
            # points.
            writable = not spec.policy.read_only_root or spec.device is not None or selected is Runtime.RUNSC
            try:
                started = runtime.start_container(
                    home, home.name, oci_config, image, pipes.theirs, runtime=selected, writable=writable
                )
            finally:
                pipes.close_theirs()
            rollback.add(partial(container.kill_container, started))
            runtime.wait_until_executed(started.pid)
            _require_applied(RequestedPolicy(spec, uid, host), started.pid, home.name)
            release = partial(_release, home, uid)
            return RuncContainer(home.name, started, pipes, cgroup, release, self._pending_cleanup)

    def _host(self, spec: SandboxSpec) -> HostLimits:
        """Returns the host's limits, the paths to mask for this player, and the constant files that replace some."""
        has_own_proc = spec.policy.runtime is Runtime.RUNSC  # gVisor's /proc shows nothing of the machine
        masks_constants = spec.policy.masked_proc and not has_own_proc
        return HostLimits(
            cpus=os.cpu_count() or 1,
            max_open_files=uid_pool.max_open_files(),
            cgroup1=not is_version_2(),
            masked_paths=() if has_own_proc else masked_paths.masked_paths(gpu=spec.device is not None),
            constants=self._constants.sources(spec.limits.memory) if masks_constants else (),
        )


def _require_runtime(needed: Runtime, gpus: int = 0) -> None:
    """Raises BackendUnavailable, with the remedy, if a runtime is not supported here or cannot give players GPUs."""
    if needed not in runtime.COMMANDS:
        raise BackendUnavailable(f"the runc backend starts no containers with {needed}; use docker")
    if needed is Runtime.RUNSC and shutil.which(runtime.COMMANDS[needed][0]) is None:
        raise BackendUnavailable("gVisor's runsc is missing; install runsc, or use docker")
    if needed is Runtime.RUNSC and gpus:
        raise BackendUnavailable("the runc backend gives players under runsc no GPU; use docker")


def _init_program() -> Path:
    """Returns a static program that reaps zombies as process 1. Raises BackendUnavailable if there is none."""
    program = next((path for name in _INIT_PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        raise BackendUnavailable("there is no static init program; install tini or docker.io, or use docker")
    return Path(program)


def _require_applied(requested: RequestedPolicy, pid: int, name: str) -> None:
    """Verifies a container that was just started, if its first process still runs. Raises PolicyNotAppliedError."""
    view = ProcView.read_process(pid, name, masks=requested.masked_paths)
    if view is not None:
        claims = applied_policy.kernel_claims(requested, view, _RUNTIME_FILES)
        if unmet := applied_policy.unmet_claims(claims):
            raise PolicyNotAppliedError("runc", unmet)


def _release(home: Path, uid: int) -> None:
    cleanup.remove_home(home)
    uid_pool.release_uid(uid)
