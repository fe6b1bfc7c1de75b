"""The programs runc and runsc (gVisor): how a container is started with one, and what its failures mean."""

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
"""The runtimes that containers are started with here, each with the options that it always gets."""
_LOG, _MOUNT_LOG, _PID = "runtime.log", "mount.log", "pid"
"""The files in a container's folder in which the runtime and the mount log, and the runtime writes the process id."""
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
_NO_ROOM = re.compile(
    r"(no space left on device|cannot allocate memory|resource temporarily unavailable)\W*$", re.IGNORECASE
)
"""How a failure for lack of room ends; before that there may be names that are a submission's."""


@dataclass(frozen=True, slots=True)
class StartedContainer:
    """The processes of a container that was started.

    Args:
        pid: its first process.
        child: the child of ours that ends as the container ends: its first process, or gVisor's subreaper.
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

    The image is mounted in a mount namespace that no other process sees and that ends as soon as the container has its
    own. So no mount is left behind, even if a process is killed at any moment. The caller becomes the parent of the
    first process, or of gVisor's subreaper, being a subreaper itself (see `become_subreaper`).

    Args:
        home: a folder of its own, where its description and the runtime's state of it are kept.
        name: what the runtime and its control group call it.
        config: its description; its root is `home/rootfs`.
        image: a squashfs file. Its loop device goes with the last mount of it.
        stdio: what becomes its stdin, stdout and stderr.
        runtime: the program that starts it, one of `COMMANDS`.
        writable: whether the root can be written to; what is written lies in `home`.

    Raises:
        StartFailedError: the image, or what the runtime does with it, keeps it from starting.
        SandboxLost: the image cannot be mounted, the runtime cannot be run, hangs, or the machine lacks room.
    """
    for folder in ("rootfs", *(("lower", "upper", "work") if writable else ())):
        (home / folder).mkdir()
    (home / "config.json").write_text(json.dumps(config), "utf-8")
    words = _start_command(home, name, image, runtime, writable=writable)
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
        raise SandboxLost(f"{runtime} cannot start a container: {error}") from error
    if done.returncode == _MOUNT_FAILED:
        said = printable((home / _MOUNT_LOG).read_text("utf-8", "replace"), 600)
        raise SandboxLost(f"an image cannot be mounted: {said}")
    if done.returncode:
        errors = _logged_errors(home / _LOG)
        said = printable("; ".join(errors), 600) if errors else "it said nothing"
        if any(_NO_ROOM.search(error) for error in errors):
            raise SandboxLost(f"{runtime} failed to start a container: {said}")
        raise StartFailedError(f"{runtime} failed to start it: {said}", unfit=bool(_UNFIT_IMAGE.search(said)))
    pid = int((home / _PID).read_text("ascii"))
    if runtime is Runtime.RUNSC:
        return StartedContainer(pid, int((home / "subreaper").read_text("ascii")), signal.SIGTERM)
    return StartedContainer(pid, pid, signal.SIGKILL)


def _start_command(home: Path, name: str, image: Path, runtime: Runtime, *, writable: bool) -> list[str]:
    """Returns the words that mount an image and start a container from it; see `start_container`."""
    words = ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c"]
    if runtime is Runtime.RUNSC:
        words = [sys.executable, "-I", "-S", str(_SUBREAPER), str(home), *words]
    words += [_MOUNT, "sh", str(image), str(home), str(home / _MOUNT_LOG), "lower" if writable else "rootfs"]
    words += [*COMMANDS[runtime], "--root", str(home / "state"), "--log", str(home / _LOG), "--log-format", "json"]
    return [*words, "run", "--detach", "--bundle", str(home), "--pid-file", str(home / _PID), name]


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


def version(runtime: Runtime = Runtime.RUNC) -> str:
    """Returns the first line of what a runtime's `--version` prints. Raises OSError if it is not installed."""
    done = subprocess.run([COMMANDS[runtime][0], "--version"], capture_output=True, timeout=_START_SECONDS, check=False)
    return printable(done.stdout.decode("utf-8", "replace").partition("\n")[0], 100)


def _logged_errors(log: Path) -> list[str]:
    """Returns the messages that the runtime logged as errors, the last ones if there are many."""
    try:
        text = log.read_bytes()[-_MAX_LOG_BYTES:].decode("utf-8", "replace")
    except OSError:
        return []
    messages = []
    for line in text.replace("}{", "}\n{").splitlines():  # gVisor writes no line ends between its entries
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            entry = json.loads(line)
            if entry["level"] in {"error", "fatal"}:
                messages.append(str(entry["msg"]))
    return messages[-_MAX_MESSAGES:]
