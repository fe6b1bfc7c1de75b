"""Images as read-only file systems in a file each, and their mounts.

An image of the engine is flattened once into a squashfs file. Every sandbox mounts that file anew, over a loop device
of its own, so that it has its own inodes and directory entries: what the kernel remembers of one sandbox's look-ups
and reads is gone with its mount, and no other sandbox of the same image can find it.
"""

import fcntl
import itertools
import os
import secrets
import subprocess
import tarfile
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, SandboxLost
from orchestrator.files import write_whole
from orchestrator.sandboxes.image_files.image_facts import inert_container_options

_HOSTS = b"127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"
_NOBODY = 65534
_MIN_FREE_BYTES = 1024**3
_BUILD_SECONDS = 1800.0
_MAX_BUILD_MEMORY = 2 * 1024**3
_MAX_WORDS = 64 * 1024
_PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ExportEngine(Protocol):
    """What flattening an image needs of the engine. Each call raises SandboxLost when the engine fails."""

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns what it knows of an image, None when it has none."""
        ...

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def export(self, container: str) -> Generator[bytes, None, None]:
        """Yields a container's files as a tar stream in pieces."""
        ...

    def remove(self, container: str) -> None:
        """Removes a container; nothing happens when it is gone."""
        ...


def cache_folder() -> Path:
    """Returns where this user's file system images are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparring" / "rootfs"


class RootfsImages:
    """The file system images of one machine, by the ids of the images. Threads and orchestrators may share them."""

    def __init__(self, engine: ExportEngine, folder: Path) -> None:
        self._engine, self._folder = engine, folder

    def file(self, image_id: str, working_folder: str, labels: Mapping[str, str]) -> Path:
        """Returns an image's file; makes it where it is not there. `labels` are for the container that is exported.

        Raises:
            InfrastructureFault: the engine has no such image, the disk has no room, or the file cannot be made.
        """
        path = self._folder / f"{image_id.removeprefix('sha256:')}.squashfs"
        if not path.exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(path.with_suffix(".lock")):
                if not path.exists():
                    self._make(image_id, working_folder, labels, path)
        return path

    def remove_unknown(self) -> int:
        """Removes the files of images that the engine has no more; returns how many."""
        removed = 0
        for path in self._folder.glob("*.squashfs"):
            if self._engine.image(f"sha256:{path.stem}") is None:
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
                removed += 1
        return removed

    def _make(self, image_id: str, working_folder: str, labels: Mapping[str, str], path: Path) -> None:
        image = self._engine.image(image_id)
        if image is None:
            raise SandboxLost(f"image {image_id} is gone from the engine; load it again")
        _require_disk_space(self._folder, int(image.get("Size") or 0))
        # The engine makes a working folder that the image lacks.
        options = inert_container_options(image, labels) | {"WorkingDir": working_folder}
        container = self._engine.create(options, f"sparring-rootfs-{secrets.token_hex(8)}")
        try:
            with closing(self._engine.export(container)) as tar:
                _write_squashfs(itertools.chain([_tmp_entry()], tar), path)
        finally:
            self._engine.remove(container)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write_squashfs(tar: Iterator[bytes], path: Path) -> None:
    """Writes a tar stream as a squashfs file, whole or not at all."""
    made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with made.open("xb") as file:
            os.fchown(file.fileno(), _NOBODY, _NOBODY)
            _run_mksquashfs(tar, file.fileno())
            os.fchown(file.fileno(), 0, 0)
            os.fchmod(file.fileno(), 0o400)
            os.fsync(file.fileno())
        made.rename(path)
    finally:
        made.unlink(missing_ok=True)


def _tmp_entry() -> bytes:
    """Returns the entry of a folder /tmp, on which ours is mounted; the image's own, where it has one, is passed over.

    An engine makes the other places of mounts in each container by itself.
    """
    entry = tarfile.TarInfo("tmp")
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
    return entry.tobuf()


def _run_mksquashfs(tar: Iterator[bytes], output: int) -> None:
    """Has mksquashfs read a tar stream and write to an open file.

    It reads what strangers made, so it runs as nobody.
    """
    command = [
        "prlimit",
        f"--data={_MAX_BUILD_MEMORY}",
        "--core=0",
        "mksquashfs",
        "-",
        f"/proc/self/fd/{output}",
        "-tar",
    ]
    # Every sandbox reads it anew, so files are neither compressed nor packed together: each would unpack them anew.
    command += ["-comp", "lz4", "-noD", "-noF", "-no-fragments"]
    command += ["-no-xattrs", "-noappend", "-quiet", "-no-progress", "-mem", "256M"]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            cwd="/",
            env={"PATH": _PROGRAM_PATH},
            pass_fds=[output],
            user=_NOBODY,
            group=_NOBODY,
            extra_groups=[],
        ) as process,
    ):
        assert process.stdin is not None  # noqa: S101  it was asked for
        try:
            with suppress(BrokenPipeError):  # its end says why
                for piece in tar:
                    process.stdin.write(piece)
                process.stdin.close()
            code = process.wait(_BUILD_SECONDS)
        except BaseException:
            process.kill()
            raise
        said.seek(0)
        words = printable(said.read(_MAX_WORDS).decode("utf-8", "replace"), 600)
    if code:
        raise InfrastructureFault(f"an image cannot be flattened: mksquashfs ended with code {code}: {words}")


def _require_disk_space(folder: Path, size: int) -> None:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < size + _MIN_FREE_BYTES:
        raise InfrastructureFault(
            f"{folder} has {free} bytes free; an image of {size} is flattened there, and {_MIN_FREE_BYTES} stay free: "
            "free space, or set XDG_CACHE_HOME to a larger disk"
        )


def hosts_file(folder: Path) -> Path:
    """Returns the /etc/hosts of every container, kept with the images; makes it where it is not there.

    It is one file for all, since a player sees where its files were mounted from.
    """
    path = folder / "hosts"
    if not path.exists():
        with _locked(folder / "hosts.lock"):
            write_whole(path, _HOSTS, 0o444)
    return path
