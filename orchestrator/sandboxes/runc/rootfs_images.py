"""Images as read-only file systems, each in one file, and their mounts.

An image is flattened once into a squashfs file. Each sandbox mounts that file over its own loop device, so that it has
its own inodes and directory entries: what the kernel remembers of a sandbox's look-ups and reads ends with its mount,
and no other sandbox of the same image can find it.
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
from orchestrator.sandboxes.runc.image_storage import locked, require_disk_space

CACHE_BYTES = 20 * 1024**3
"""The files take about so much together: those that were not used for longest go first."""
_IN_USE_SECONDS = 3600.0
"""A file that was asked for in the last hour stays: somebody may be about to mount it."""
_HOSTS = b"127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"
_NOBODY = 65534
_BUILD_SECONDS = 1800.0
_MAX_BUILD_MEMORY = 2 * 1024**3
_MAX_WORDS = 64 * 1024


def cache_folder() -> Path:
    """Returns where this user's file system images are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparring" / "rootfs"


class RootfsImages:
    """The file system images of one machine, by the ids of the images. Threads and orchestrators may share them."""

    def __init__(self, images: ImageCollection, folder: Path) -> None:
        self._images, self.folder = images, folder

    def file(self, image_id: str, working_folder: str) -> Path:
        """Returns an image's file; makes it where it is not there.

        Raises:
            InfrastructureFault: there is no such image, the disk has no room, or the file cannot be made.
        """
        path = self.folder / f"{image_id.removeprefix('sha256:')}.squashfs"
        if not path.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path.with_suffix(".lock")):
                if not path.exists():
                    self._make(image_id, working_folder, path)
                    self._remove_unused()
        with suppress(OSError):  # it is only noted when it was asked for last
            os.utime(path)
        return path

    def remove_unknown(self) -> int:
        """Removes the files of images that are gone; returns how many."""
        removed = 0
        for path in self.folder.glob("*.squashfs"):
            if self._images.image(f"sha256:{path.stem}") is None:
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
                removed += 1
        return removed

    def _remove_unused(self) -> None:
        """Removes what was not used for longest until the rest is within bounds. What is mounted stays mounted."""
        found = []
        for path in self.folder.glob("*.squashfs"):
            with suppress(OSError):  # another orchestrator removes, too
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in found)
        for used_at, size, path in sorted(found):
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
    # Each sandbox would unpack the files again, so they are neither compressed nor packed together.
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
            env={"PATH": os.environ.get("PATH", os.defpath)},
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
            with suppress(BrokenPipeError):  # of what was not yet written
                process.stdin.close()
            code = process.wait(_BUILD_SECONDS)
        except BaseException:
            process.kill()
            raise
        said.seek(0)
        words = printable(said.read(_MAX_WORDS).decode("utf-8", "replace"), 600)
    if code:
        raise InfrastructureFault(f"an image cannot be flattened: mksquashfs ended with code {code}: {words}")


def hosts_file(folder: Path) -> Path:
    """Returns the /etc/hosts of every container, kept with the images; makes it where it is not there.

    It is one file for all, since a player sees where its files were mounted from.
    """
    path = folder / "hosts"
    if not path.exists():
        with locked(folder / "hosts.lock"):
            write_whole(path, _HOSTS, 0o444)
    return path
