"""Constant files in place of those files of /proc from which programs read the size of the machine, and of /etc/hosts.

The kernel's files show how busy the machine is, so players do not see them. Node, psutil and others fail if they are
empty. So each is replaced by a file with the sandbox's limits as sizes, and 0 for every counter. All sandboxes with
the same limits have the same files, mounted read-only: no read leaves a trace in them.
"""

import shutil
import threading
import weakref
from pathlib import Path

from orchestrator.sandboxes.linux import owned_folders
from orchestrator.sandboxes.linux.sandbox_owner import Owner

MOUNT_PATHS = ("/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime")
"""The replaced files. Below /proc, an OCI runtime allows mounts only on these and a few similar files."""
HOSTS_PATH = "/etc/hosts"
HOSTS = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"
"""The text of a sandbox's /etc/hosts, without which programs do not find `localhost`."""
MountSources = tuple[tuple[str, str], ...]
"""Pairs of a path in a sandbox and the file of this machine that is mounted there."""
_ONLINE = Path("/sys/devices/system/cpu/online")
_PREFIX = "sparring-constants-"
"""The prefix of a folder's name (see `owned_folders`)."""


class ConstantFiles:
    """Writes the files to a folder, which is removed with this object. Threads may share it."""

    def __init__(self, online: Path = _ONLINE) -> None:
        self._online = online
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._unseen = False

    def sources(self, memory: int) -> MountSources:
        """Returns the mounts for a sandbox with `memory` bytes of memory; none after `unseen` was called."""
        with self._lock:
            if self._unseen:
                return ()
            folder = self._made_folder() / str(memory)
            return tuple(
                (place, _write(folder / Path(place).name, text)) for place, text in constant_texts(memory, self._cpus())
            )

    def hosts(self) -> MountSources:
        """Returns the mount of /etc/hosts; none after `unseen` was called."""
        with self._lock:
            return () if self._unseen else ((HOSTS_PATH, _write(self._made_folder() / "etc" / "hosts", HOSTS)),)

    def unseen(self) -> None:
        """Turns the files off, because the engine has another file system and cannot mount them."""
        with self._lock:
            self._unseen = True

    def _made_folder(self) -> Path:
        if self._folder is None:
            self._folder = owned_folders.make_folder(_PREFIX)
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _cpus(self) -> tuple[int, ...]:
        """Returns the numbers of the processors that a player sees."""
        return _parse_cpu_list(self._online.read_text("ascii"))


def remove_dead_folders(here: Owner) -> int:
    """Removes the folders of orchestrators that are known to be dead; returns how many."""
    return owned_folders.remove_dead_folders(_PREFIX, here)


def constant_texts(memory: int, cpus: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """Returns each path with the file's text: `memory` bytes, all of them free, and idle processors."""
    sizes = dict.fromkeys(_SIZES, 0) | dict.fromkeys(("MemTotal", "MemFree", "MemAvailable"), memory // 1024)
    meminfo = "".join(f"{name + ':':16}{size:8} kB\n" for name, size in sizes.items())
    counts = " 0" * 10
    lines = [f"cpu {counts}", *(f"cpu{number}{counts}" for number in cpus), "intr 0", "ctxt 0", "btime 0"]
    lines += ["processes 0", "procs_running 1", "procs_blocked 0", f"softirq{' 0' * 11}"]
    return (
        ("/proc/loadavg", "0.00 0.00 0.00 1/1 1\n"),
        ("/proc/meminfo", meminfo),
        ("/proc/stat", "".join(f"{line}\n" for line in lines)),
        ("/proc/uptime", "0.00 0.00\n"),
    )


def _write(path: Path, text: str) -> str:
    """Returns the path of one file. Writes it if it is missing: a cleaner of temporary folders may have removed it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (path.parent, path.parent.parent):
            folder.chmod(0o755)  # whatever the umask is: players have to read the files
        path.write_text(text, "ascii")
        path.chmod(0o444)
    return str(path)


def _parse_cpu_list(text: str) -> tuple[int, ...]:
    """Returns the numbers in a list of ranges such as `0-3,8`."""
    processors: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        processors += range(int(first), int(last or first) + 1)
    return tuple(processors)


_SIZES = (
    *("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal"),
    *("SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"),
)
