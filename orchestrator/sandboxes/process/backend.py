"""Runs players as plain processes of this machine: the embedded default, for people who trust what they run.

It limits the memory that a process maps for writing (RLIMIT_DATA, for each process), open files, the size of one file,
and time. Afterwards it kills every process with the sandbox's tag, and removes the sandbox's temporary folder.

It does not isolate: a player has the network, can read and write every file that the orchestrator's user can (as root
also its own snapshot), sees and signals that user's other processes, and can use all processors, any number of
processes, shared memory and disk. A malicious player can leave processes and files behind. So this backend refuses
strangers' submissions unless the operator allows them, and contests with strangers play in containers, on the runc or
the docker backend.

If a player reaches its memory limit, its allocation fails, and most players then end with a MemoryError. So this
backend reports it as crashed, never as out of memory.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from orchestrator.domain import environment
from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, SandboxLost, UsageError
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
from orchestrator.sandboxes.linux import process_tree
from orchestrator.sandboxes.linux.process_pipes import StandardPipes
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState
from orchestrator.sandboxes.process import folder_snapshot
from orchestrator.sandboxes.process.child_process import ChildProcess

_EXEC_WRAPPER = Path(__file__).with_name("exec_wrapper.py")
_PYTHON_NAMES = frozenset({"python", "python3"})
_REMEDY = "play it with --backend container, or give --allow-unisolated if you trust its authors"


class ProcessBackend:
    """Starts players as processes."""

    name: ClassVar[str] = "process"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._images = settings.workspace / "images"

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:  # noqa: ARG002  a GPU is tried before a round
        """Raises BackendUnavailable if the workspace is not writable, or the interpreter or runtime is missing."""
        if runtime not in {None, Runtime.RUNC}:
            raise BackendUnavailable(f"the process backend starts no containers, so none with {runtime}; use docker")
        try:
            self._images.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._images):
                pass
            os.close(os.pidfd_open(os.getpid()))
        except (OSError, AttributeError) as error:
            raise BackendUnavailable(
                f"cannot work in {self._images}: {error}; Linux 5.4 or newer and a writable workspace are needed"
            ) from error
        if not os.access(self._settings.python, os.X_OK):
            raise BackendUnavailable(f"no interpreter at {self._settings.python}; name another one")

    def diagnose(self) -> list[Check]:
        """Returns whether the backend can start players, and what it does not protect against."""
        try:
            self.require_available()
            start = Check("process: start", CheckStatus.OK, f"snapshots in {self._images}")
        except BackendUnavailable as error:
            start = Check("process: start", CheckStatus.FAIL, str(error), "see the message")
        isolation = Check(
            "process: isolation",
            CheckStatus.WARN,
            "players run as you do: they have the network, your files and your other processes; only memory per "
            "process, open files and time are bounded; they can leave files and processes behind",
            "use it for what you wrote or read yourself; play strangers' submissions with `--backend container`",
        )
        strangers = Check(
            "process: strangers",
            CheckStatus.WARN if self._settings.allow_unisolated else CheckStatus.OK,
            "strangers' submissions run here unisolated"
            if self._settings.allow_unisolated
            else "strangers' submissions are refused",
            _REMEDY if self._settings.allow_unisolated else "",
        )
        return [start, isolation, strangers]

    def admit(self, source: ImageSource) -> Image:
        """Copies the folder; returns the image with the copy's digest. Raises Rejected with every reason."""
        problems = []
        if not (source.trusted or self._settings.allow_unisolated):
            problems.append(
                Problem("source", "the process backend does not isolate, and its authors are strangers", _REMEDY)
            )
        if source.folder is None:
            problems.append(
                Problem("folder", "missing; this backend has no images", "give the folder the image is built from")
            )
        elif not source.folder.is_dir():
            problems.append(Problem("folder", f"{source.folder} is not a folder", "check the path"))
        if not source.command:
            problems.append(Problem("command", "missing", "give the command that starts it in its folder"))
        elif any("\0" in argument for argument in source.command):
            problems.append(Problem("command", "contains a NUL character", "remove it"))
        if problems or source.folder is None:
            raise Rejected(str(source.folder or source.image or "submission"), problems)
        digest, snapshot, new = folder_snapshot.snapshot_folder(source.folder, self._images, source.command)
        rollback = partial(_remove_snapshot, snapshot) if new else None
        return Image(digest=digest, name=source.folder.name, command=source.command, folder=snapshot, rollback=rollback)

    def fresh_copy(self, image: Image, run: str) -> Image:  # noqa: ARG002  nothing is made
        """Returns the image itself: a player can read all files of this machine, so a copy would hide nothing."""
        return image

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:  # noqa: ARG002  for backends with images
        """Raises UsageError, because this backend has no images."""
        raise UsageError(f"the process backend has no images, so none called {printable(reference)}; use docker")

    def image_store(self) -> ImageStore:
        """Raises UsageError, because this backend has no images."""
        raise UsageError("the process backend has no images to build or to load; use --backend docker")

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Starts the command in the snapshot, with a temporary folder of its own."""
        image = spec.image
        if image.folder is None or not image.folder.is_dir() or not image.command:
            raise SandboxLost(f"the snapshot of {image.name} ({image.digest}) is gone; admit the submission again")
        tag = process_tree.ProcessTag.create(Owner.current_process(), spec.run).text
        home = Path(tempfile.gettempdir()) / tag
        child, pipes = None, None
        try:
            home.mkdir(mode=0o700)
            pipes = StandardPipes.open()
            stdin, stdout, stderr = pipes.theirs
            child = subprocess.Popen(
                self._command(spec),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=image.folder,
                env=self._environment(spec, home, tag),
                umask=0o077,
                start_new_session=True,
            )
            sandbox = ChildProcess(child, pipes, tag, home)
        except BaseException as error:
            self._clean_up_failed_start(child, tag, home)
            if pipes is not None:
                pipes.close_ours()
            if isinstance(error, OSError):
                raise SandboxLost(f"cannot start {image.name}: {error}") from error
            raise
        finally:
            if pipes is not None:
                pipes.close_theirs()
        return sandbox

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Kills the players and removes the folders of dead orchestrators and of the run `ended_run`.

        It spares the run `spare_run`. Returns the number of processes and folders removed.
        """
        current = Owner.current_process()
        spared, ended = (None if run is None else process_tree.run_digest(run) for run in (spare_run, ended_run))

        def is_abandoned(text: str) -> bool:
            tag = process_tree.ProcessTag.parse(text)
            if tag is None or tag.run_digest == spared:
                return False
            return tag.run_digest == ended or tag.owner(current).state_seen_by(current) is OwnerState.DEAD

        removed = sum(process_tree.kill_tagged(tag) for tag in process_tree.living_tags() if is_abandoned(tag))
        for folder in Path(tempfile.gettempdir()).glob("sparring-*"):
            if (
                is_abandoned(folder.name)
                and folder.is_dir()
                and not folder.is_symlink()
                and folder.stat().st_uid == os.geteuid()
            ):
                folder_snapshot.remove_folder(folder)
                removed += 1
        return removed + folder_snapshot.remove_abandoned(self._images, current)

    def _command(self, spec: SandboxSpec) -> list[str]:
        program, *arguments = spec.image.command
        limits = spec.limits
        bounds = (str(limits.memory), str(limits.files), str(limits.tmp))
        program = self._settings.python if program in _PYTHON_NAMES else program
        return [self._settings.python, "-I", "-S", str(_EXEC_WRAPPER), *bounds, program, *arguments]

    def _environment(self, spec: SandboxSpec, home: Path, tag: str) -> Mapping[str, str]:
        python_path = os.pathsep.join(str(path) for path in self._settings.python_path)
        return {
            "PATH": environment.DEFAULT_PATH,
            **({"PYTHONPATH": python_path} if python_path else {}),
            **environment.player_variables(str(home), spec.limits.threads, spec.device),
            process_tree.TAG_VARIABLE: tag,
        }

    @staticmethod
    def _clean_up_failed_start(child: "subprocess.Popen[bytes] | None", tag: str, home: Path) -> None:
        if child is not None:
            process_tree.kill_tagged(tag, child.pid)
            child.wait()
        folder_snapshot.remove_folder(home)


def _remove_snapshot(snapshot: Path) -> None:
    try:
        folder_snapshot.remove_folder(snapshot)
    except OSError as error:
        raise BackendUnavailable(f"cannot remove {snapshot}, which is not needed: {error}; do it by hand") from error
