"""Makes and caches a read-only file system of each image, in one squashfs file.

Each sandbox mounts that file over its own loop device, and so has its own inodes and directory entries. The kernel's
state about a sandbox's look-ups and reads ends with its mount, and no other sandbox of the same image can observe it.
"""

import itertools
import os
import secrets
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, SandboxLost
from orchestrator.files import write_whole
from orchestrator.sandboxes.image_files.image_admission import ImageCollection
from orchestrator.sandboxes.linux.constant_files import HOSTS
from orchestrator.sandboxes.runc.image_storage import locked, require_disk_space

CACHE_BYTES = 20 * 1024**3
"""The approximate size of the cache in bytes; the least recently used files are removed first."""
_IN_USE_SECONDS = 3600.0
"""A file that was requested in the last hour is kept: an orchestrator may be about to mount it."""
_NOBODY = 65534
_BUILD_SECONDS = 1800.0
_MAX_BUILD_MEMORY = 2 * 1024**3
_MAX_LOG_BYTES = 64 * 1024


def cache_folder() -> Path:
    """Returns the folder of this user's file system images."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparring" / "rootfs"


class RootfsImages:
    """The file system images of one machine, by the ids of the images. Threads and orchestrators may share them."""

    def __init__(self, images: ImageCollection, folder: Path) -> None:
        self._images, self.folder = images, folder

    def file(self, image_id: str, working_folder: str) -> Path:
        """Returns an image's file; makes it if it does not exist.

        Raises:
            InfrastructureFault: there is no such image, the disk is too full, or the file cannot be made.
        """
        path = self.folder / f"{image_id.removeprefix('sha256:')}.squashfs"
        if not path.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path.with_suffix(".lock")):
                if not path.exists():
                    self._make(image_id, working_folder, path)
                    self._remove_unused()
        with suppress(OSError):  # the time of last use only decides what `_remove_unused` removes
            os.utime(path)
        return path

    def remove_unknown(self) -> int:
        """Removes the files of images that no longer exist; returns how many."""
        removed = 0
        for path in self.folder.glob("*.squashfs"):
            if self._images.image(f"sha256:{path.stem}") is None:
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
                removed += 1
        return removed

    def _remove_unused(self) -> None:
        """Removes the least recently used files until the rest fits `CACHE_BYTES`. Mounted files stay mounted."""
        files = []
        for path in self.folder.glob("*.squashfs"):
            with suppress(OSError):  # another orchestrator may remove files, too
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for used_at, size, path in sorted(files):
            if total <= CACHE_BYTES or used_at > time.time() - _IN_USE_SECONDS:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _make(self, image_id: str, working_folder: str, path: Path) -> None:
        image = self._images.image(image_id)
        if image is None:
            raise SandboxLost(f"image {image_id} is gone from {self._images.place}; load it again")
        require_disk_space(self.folder, int(image.get("Size") or 0))
        with self._images.export(image, working_folder) as tar:
            _write_squashfs(itertools.chain([_tmp_entry()], tar), path)


def _write_squashfs(tar: Iterator[bytes], path: Path) -> None:
    """Writes a tar stream as a squashfs file, completely or not at all."""
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            os.fchown(file.fileno(), _NOBODY, _NOBODY)
            _run_mksquashfs(tar, file.fileno())
            os.fchown(file.fileno(), 0, 0)
            os.fchmod(file.fileno(), 0o400)
            os.fsync(file.fileno())
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _tmp_entry() -> bytes:
    """Returns the entry of the folder /tmp, a mount point; mksquashfs ignores the image's own entry, if it has one.

    An engine creates the other mount points in each container.
    """
    entry = tarfile.TarInfo("tmp")
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
    return entry.tobuf()


def _run_mksquashfs(tar: Iterator[bytes], output: int) -> None:
    """Runs mksquashfs, which reads a tar stream and writes to an open file descriptor.

    The input is hostile, so it runs as the user nobody.
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
    # Each sandbox would decompress the files again, so they are neither compressed nor packed into fragments.
    command += ["-comp", "lz4", "-noD", "-noF", "-no-fragments"]
    command += ["-no-xattrs", "-noappend", "-quiet", "-no-progress", "-mem", "256M"]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
            pass_fds=[output],
            user=_NOBODY,
            group=_NOBODY,
            extra_groups=[],
        ) as process,
    ):
        assert process.stdin is not None  # noqa: S101  stdin is a pipe
        try:
            with suppress(BrokenPipeError):  # it exited; its exit code and log tell why
                for piece in tar:
                    process.stdin.write(piece)
            with suppress(BrokenPipeError):  # close writes what is still buffered
                process.stdin.close()
            code = process.wait(_BUILD_SECONDS)
        except BaseException:
            process.kill()
            raise
        log.seek(0)
        message = printable(log.read(_MAX_LOG_BYTES).decode("utf-8", "replace"), 600)
    if code:
        raise InfrastructureFault(f"an image cannot be flattened: mksquashfs ended with code {code}: {message}")


def hosts_file(folder: Path) -> Path:
    """Returns the /etc/hosts of every container, next to the images; makes it if it does not exist.

    All containers share one file, because a player can see the source path of a mount.
    """
    path = folder / "hosts"
    if not path.exists():
        with locked(folder / "hosts.lock"):
            write_whole(path, HOSTS.encode(), 0o444)
    return path
