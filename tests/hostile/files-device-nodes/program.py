"""Makes nodes for the kernel's memory, the first disk, and a harmless device to see whether they work."""

import os
import stat

from _report import attempt, report_all

NODES = {
    "mem": (stat.S_IFCHR, 1, 1),
    "full": (stat.S_IFCHR, 1, 7),
    "sda": (stat.S_IFBLK, 8, 0),
    "vda": (stat.S_IFBLK, 254, 0),
}


def make(folder: str, word: str) -> str:
    """Makes a node; returns whether it opens."""
    kind, major, minor = NODES[word]
    path = f"{folder}/sparring-{word}"
    os.mknod(path, kind | 0o666, os.makedev(major, minor))
    opened, how = attempt("opening", lambda: os.close(os.open(path, os.O_RDONLY)))
    return "made and opened" if opened else f"made, {how}"


report_all(
    *(attempt(f"{folder}/{word}", make, folder, word) for folder in ("/tmp", "/dev") for word in NODES),
    *(
        attempt(path, os.open, path, os.O_RDONLY)
        for path in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm")
    ),
)
