"""The program runc: how a container is started with it, and what its failures mean."""

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.retry_start import StartFailedError

_START_SECONDS = 60.0
_EXEC_SECONDS = 10.0
_POLL_SECONDS = 0.001
_MAX_LOG_BYTES = 64 * 1024
_MOUNT_FAILED = 90
_MOUNT = f"""
exec 3>&2 2>"$3"
device=$(losetup --find --show --read-only "$1") || exit {_MOUNT_FAILED}
mount -t squashfs -o ro,nosuid,nodev "$device" "$2/$4"
failed=$?
losetup --detach "$device"
[ $failed = 0 ] || exit {_MOUNT_FAILED}
if [ "$4" = lower ]; then
    layers="lowerdir=$2/lower,upperdir=$2/upper,workdir=$2/work"
    mount -t overlay -o "nosuid,nodev,$layers" overlay "$2/rootfs" || exit {_MOUNT_FAILED}
fi
exec 2>&3 3>&-
shift 4
exec "$@"
"""
"""A shell script: mounts image $1 in folder $4 of $2, logs to $3 why it cannot, and becomes the rest of its words.

The loop device is a new one for each mount: mount itself would take one that has the file already, and with it the
file system in memory of another sandbox. Detached while it is in use, it goes with its last mount.
"""
# What lies in the way in an image, or is not in it: the same on every try, so not ours to retry.
_UNFIT_IMAGE = re.compile(
    r"chdir to cwd|executable file not found|exec format error|not a directory|no such file or directory|"
    r"outside of rootfs|cannot mkdir|permission denied",
    re.IGNORECASE,
)
_DISK_FULL = re.compile(r"no space left on device|cannot allocate memory|resource temporarily", re.IGNORECASE)


def start_container(
    home: Path, name: str, config: dict[str, Any], image: Path, stdio: tuple[int, int, int], *, writable: bool = False
) -> int:
    """Starts a container with these standard streams; returns the process id of its first process.

    The image is mounted in a mount namespace that no other process sees and that ends as soon as the container has its
    own. So no mount is left behind, even if a process is killed at any moment. The caller becomes the parent of the
    first process, as a subreaper (see `become_subreaper`).

    Args:
        home: a folder of its own, where its description and runc's state of it are kept.
        name: what runc and its control group call it.
        config: its description; its root is `home/rootfs`.
        image: a squashfs file. Its loop device goes with the last mount of it.
        stdio: what becomes its stdin, stdout and stderr.
        writable: whether the root can be written to; what is written lies in `home`.

    Raises:
        StartFailedError: the image, or what runc does with it, keeps it from starting.
        SandboxLost: the image cannot be mounted, runc cannot be run, hangs, or the machine lacks room.
    """
    log, pid_file, mount_log = home / "runc.log", home / "pid", home / "mount.log"
    for folder in ("rootfs", *(("lower", "upper", "work") if writable else ())):
        (home / folder).mkdir()
    (home / "config.json").write_text(json.dumps(config), "utf-8")
    words = ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c"]
    words += [_MOUNT, "sh", str(image), str(home), str(mount_log), "lower" if writable else "rootfs"]
    words += ["runc", "--root", str(home / "state"), "--log", str(log), "--log-format", "json"]
    words += ["run", "--detach", "--bundle", str(home), "--pid-file", str(pid_file), name]
    stdin, stdout, stderr = stdio
    try:
        done = subprocess.run(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            timeout=_START_SECONDS,
            check=False,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxLost(f"runc cannot start a container: {error}") from error
    if done.returncode == _MOUNT_FAILED:
        said = printable(mount_log.read_text("utf-8", "replace"), 600)
        raise SandboxLost(f"an image cannot be mounted: {said}")
    if done.returncode:
        said = _last_error(log)
        if _DISK_FULL.search(said):
            raise SandboxLost(f"runc failed to start a container: {said}")
        raise StartFailedError(f"runc failed to start it: {said}", unfit=bool(_UNFIT_IMAGE.search(said)))
    return int(pid_file.read_text("ascii"))


def wait_until_executed(pid: int) -> None:
    """Waits until runc's own code in the container has made room for the program it was to start, or has ended.

    Only then does the process have the capabilities and the system call filter that it will have.

    Raises:
        SandboxLost: that takes more than 10 s.
    """
    until = time.monotonic() + _EXEC_SECONDS
    with suppress(OSError):  # it has ended
        while Path(f"/proc/{pid}/comm").read_text("utf-8").startswith("runc:["):
            if time.monotonic() > until:
                raise SandboxLost(f"runc has not started the program of process {pid} within {_EXEC_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)


def version() -> str:
    """Returns the first line of what `runc --version` says. Raises OSError where there is none."""
    done = subprocess.run(["runc", "--version"], capture_output=True, timeout=_START_SECONDS, check=False)
    return printable(done.stdout.decode("utf-8", "replace").partition("\n")[0], 100)


def _last_error(log: Path) -> str:
    """Returns the last message that runc logged as an error, printable."""
    try:
        lines = log.read_bytes()[-_MAX_LOG_BYTES:].decode("utf-8", "replace").splitlines()
    except OSError:
        return "it said nothing"
    for line in reversed(lines):
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            entry = json.loads(line)
            if entry["level"] in {"error", "fatal"}:
                return printable(str(entry["msg"]), 600)
    return "it said nothing"
