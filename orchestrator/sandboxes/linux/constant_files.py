"""Files of /proc that runtimes read for the size of the machine, as constants.

The kernel's own tell how busy the machine is, so no player sees them. Node, psutil and others fail where they are
empty, so each is replaced by a file that says what the limits say, and of everything that counts 0. The files are the
same for all sandboxes with the same limits, and are mounted read-only: no read leaves a trace in them.
"""

import shutil
import threading
import weakref
from pathlib import Path

from orchestrator.sandboxes.linux import owned_folders
from orchestrator.sandboxes.linux.owner import Owner

MOUNT_PATHS = ("/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime")
"""What is replaced. An OCI runtime lets nothing else be mounted below /proc but a few more files of this kind."""
MountSources = tuple[tuple[str, str], ...]
"""Pairs of a place in a sandbox and the file on this machine that is seen there."""
_ONLINE = Path("/sys/devices/system/cpu/online")
_PREFIX = "sparring-constants-"
"""How a folder's name begins; the rest is a tag that says whose it is, from the moment it is made."""


class ConstantFiles:
    """Keeps the files in a folder of its own, as long as it lives. Threads may share it."""

    def __init__(self, online: Path = _ONLINE) -> None:
        self._online = online
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._unseen = False

    def sources(self, memory: int) -> MountSources:
        """Returns the files for a sandbox with `memory` bytes of memory; none if the engine does not see them."""
        with self._lock:
            if self._unseen:
                return ()
            if self._folder is None:
                self._folder = owned_folders.make_folder(_PREFIX)
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return tuple(
                (place, str(self._file(memory, place, text))) for place, text in constant_texts(memory, self._cpus())
            )

    def unseen(self) -> None:
        """Notes that the engine does not see this machine's files: from now on there are none."""
        with self._lock:
            self._unseen = True

    def _file(self, memory: int, place: str, text: str) -> Path:
        """Returns one file, written if it is not there: what cleans temporary folders may have taken it away."""
        path = Path(str(self._folder), str(memory), Path(place).name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in (path.parent, path.parent.parent):
                folder.chmod(0o755)  # whatever our umask is: players have to read them
            path.write_text(text, "ascii")
            path.chmod(0o444)
        return path

    def _cpus(self) -> tuple[int, ...]:
        """Returns the numbers of the processors that a player sees."""
        return _parse_cpu_list(self._online.read_text("ascii"))


def remove_dead_folders(here: Owner) -> int:
    """Removes the folders of orchestrators that were killed; returns how many. What nobody can judge is spared."""
    return owned_folders.remove_dead_folders(_PREFIX, here)


def constant_texts(memory: int, cpus: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """Returns what is in each file: `memory` bytes, all of it free, and idle processors."""
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


def _parse_cpu_list(text: str) -> tuple[int, ...]:
    """Returns what `0-3,8` means."""
    processors: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        processors += range(int(first), int(last or first) + 1)
    return tuple(processors)


_SIZES = (
    *("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal"),
    *("SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"),
)
