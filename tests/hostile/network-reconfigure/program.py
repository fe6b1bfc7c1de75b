"""Changes the configuration of an interface, of its own network only."""

import fcntl
import socket
import struct

from _report import attempt, report_all

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR = 0x8913, 0x8914, 0x8916


def address() -> None:
    """Gives an alias of lo the metadata service's address."""
    asked = struct.pack("16sHH4s8x", b"lo:7", socket.AF_INET, 0, socket.inet_aton("169.254.169.254"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        fcntl.ioctl(line, SIOCSIFADDR, asked)


def down() -> None:
    """Takes lo down and up again."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        flags = struct.unpack_from("H", fcntl.ioctl(line, SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0)), 16)[0]
        fcntl.ioctl(line, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags & ~1))
        fcntl.ioctl(line, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))


report_all(attempt("new address", address), attempt("lo down", down))
