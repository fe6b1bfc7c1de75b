"""Starts a container with runc or runsc (gVisor), and determines whose fault a failed start is."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.retry_start import StartFailedError

COMMANDS: Mapping[Runtime, tuple[str, ...]] = {Runtime.RUNC: ("runc",), Runtime.RUNSC: ("runsc", "--network=none")}
"""The supported runtimes, each with its fixed options."""
_LOG, _MOUNT_LOG, _PID = "runtime.log", "mount.log", "pid"
"""Files in a container's folder: the logs of the runtime and of the mount script, and the runtime's pid file."""
_SUBREAPER = Path(__file__).with_name("subreaper.py")
_START_SECONDS = 60.0
_EXEC_SECONDS = 10.0
_POLL_SECONDS = 0.001
_MAX_LOG_BYTES = 64 * 1024
_MAX_MESSAGES = 3
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
"""A shell script: mounts image $1 on folder $4 of $2, logs failures to $3, and executes its remaining arguments.

It attaches a new loop device for each mount. `mount` itself would reuse one that has the file already, and with it the
cached file system of another sandbox. A device that is detached while in use is removed with its last mount.
"""
# The image has a file that is in the way, or lacks one: no retry can change that.
_UNFIT_IMAGE = re.compile(
    r"chdir to cwd|executable file not found|exec format error|not a directory|no such file or directory|"
    r"outside of rootfs|cannot mkdir|permission denied",
    re.IGNORECASE,
)
_NO_ROOM = re.compile(
    r"(no space left on device|cannot allocate memory|resource temporarily unavailable)\W*$", re.IGNORECASE
)
"""Matches only the end of a message: the names before it may come from a submission."""


@dataclass(frozen=True, slots=True)
class StartedContainer:
    """The processes of a container that was started.

    Args:
        pid: its first process.
        child: the child of this process that ends when the container ends: its first process, or gVisor's subreaper.
        kill_signal: the signal to `child` that kills the container.
    """

    pid: int
    child: int
    kill_signal: signal.Signals


def start_container(
    home: Path,
    name: str,
    config: dict[str, Any],
    image: Path,
    stdio: tuple[int, int, int],
    *,
    runtime: Runtime = Runtime.RUNC,
    writable: bool = False,
) -> StartedContainer:
    """Starts a container with these standard streams.

    The image is mounted in a private mount namespace, which ends as soon as the container has its own. So no mount is
    left behind, even if a process is killed at any moment. The caller has to be a subreaper (see `become_subreaper`):
    it becomes the parent of the first process, or of gVisor's subreaper.

    Args:
        home: the container's folder, for its configuration and the runtime's state.
        name: its name for the runtime and its control group.
        config: its configuration; its root is `home/rootfs`.
        image: a squashfs file. Its loop device is removed with its last mount.
        stdio: the file descriptors that become its stdin, stdout and stderr.
        runtime: the program that starts it, one of `COMMANDS`.
        writable: whether the root is writable; the container's changes are stored in `home`.

    Raises:
        StartFailedError: the runtime refused to start the image.
        SandboxLost: the image cannot be mounted, the runtime cannot be run or hangs, or the machine is out of space.
    """
    for folder in ("rootfs", *(("lower", "upper", "work") if writable else ())):
        (home / folder).mkdir()
    (home / "config.json").write_text(json.dumps(config), "utf-8")
    command = _start_command(home, name, image, runtime, writable=writable)
    stdin, stdout, stderr = stdio
    try:
        done = subprocess.run(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            timeout=_START_SECONDS,
            check=False,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxLost(f"{runtime} cannot start a container: {error}") from error
    if done.returncode == _MOUNT_FAILED:
        message = printable((home / _MOUNT_LOG).read_text("utf-8", "replace"), 600)
        raise SandboxLost(f"an image cannot be mounted: {message}")
    if done.returncode:
        errors = _logged_errors(home / _LOG)
        message = printable("; ".join(errors), 600) if errors else "it logged no error"
        if any(_NO_ROOM.search(error) for error in errors):
            raise SandboxLost(f"{runtime} failed to start a container: {message}")
        raise StartFailedError(f"{runtime} failed to start it: {message}", unfit=bool(_UNFIT_IMAGE.search(message)))
    pid = int((home / _PID).read_text("ascii"))
    if runtime is Runtime.RUNSC:
        return StartedContainer(pid, int((home / "subreaper").read_text("ascii")), signal.SIGTERM)
    return StartedContainer(pid, pid, signal.SIGKILL)


def _start_command(home: Path, name: str, image: Path, runtime: Runtime, *, writable: bool) -> list[str]:
    """Returns the argument vector that mounts an image and starts a container from it; see `start_container`."""
    command = ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c"]
    if runtime is Runtime.RUNSC:
        command = [sys.executable, "-I", "-S", str(_SUBREAPER), str(home), *command]
    command += [_MOUNT, "sh", str(image), str(home), str(home / _MOUNT_LOG), "lower" if writable else "rootfs"]
    command += [*COMMANDS[runtime], "--root", str(home / "state"), "--log", str(home / _LOG), "--log-format", "json"]
    return [*command, "run", "--detach", "--bundle", str(home), "--pid-file", str(home / _PID), name]


def wait_until_executed(pid: int) -> None:
    """Waits until runc's code in the container has executed the container's program, or has ended.

    Before that, the process does not have its final capabilities and system call filter.

    Raises:
        SandboxLost: that takes more than 10 s.
    """
    until = time.monotonic() + _EXEC_SECONDS
    with suppress(OSError):  # the process has ended
        while Path(f"/proc/{pid}/comm").read_text("utf-8").startswith("runc:["):
            if time.monotonic() > until:
                raise SandboxLost(f"runc has not started the program of process {pid} within {_EXEC_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)


def version(runtime: Runtime = Runtime.RUNC) -> str:
    """Returns the first line that a runtime prints for `--version`. Raises OSError if it is not installed."""
    done = subprocess.run([COMMANDS[runtime][0], "--version"], capture_output=True, timeout=_START_SECONDS, check=False)
    return printable(done.stdout.decode("utf-8", "replace").partition("\n")[0], 100)


def _logged_errors(log: Path) -> list[str]:
    """Returns the last `_MAX_MESSAGES` messages that the runtime logged as errors."""
    try:
        text = log.read_bytes()[-_MAX_LOG_BYTES:].decode("utf-8", "replace")
    except OSError:
        return []
    messages = []
    for line in text.replace("}{", "}\n{").splitlines():  # gVisor writes no newlines between its entries
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            entry = json.loads(line)
            if entry["level"] in {"error", "fatal"}:
                messages.append(str(entry["msg"]))
    return messages[-_MAX_MESSAGES:]
