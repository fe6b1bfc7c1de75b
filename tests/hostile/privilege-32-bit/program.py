"""Calls getpid and socketcall by their 32-bit numbers, in children, since a filter may end whoever tries."""

import ctypes
import mmap
import os
import stat
from collections.abc import Callable

from _report import attempt, report_all

# mov eax, edi; mov ebx, esi; mov ecx, edx; int 0x80; with rbx saved
CODE = bytes.fromhex("53 89f8 89f3 89d1 cd80 5b c3")
GETPID, SOCKETCALL, SOCKET = 20, 102, 1
AF_VSOCK, SOCK_STREAM = 40, 1
SAID = {251: "taken for another call"}

page = mmap.mmap(
    -1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
)
page.write(CODE)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint)(at)
low = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)  # MAP_32BIT
low.write(b"".join(word.to_bytes(4, "little") for word in (AF_VSOCK, SOCK_STREAM, 0)))
words = ctypes.addressof(ctypes.c_char.from_buffer(low))


def tried(true: Callable[[int], bool], number: int, *arguments: int) -> str:
    """Returns that the call did what it does by its 32-bit number; raises how it did not."""
    child = os.fork()
    if child == 0:
        done = call(number, *arguments)
        os._exit(min(-done, 250) if done < 0 else 0 if true(done) else 251)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(max(code, 0), SAID.get(code) or (os.strerror(code) if code > 0 else f"killed by signal {-code}"))
    return "answered"


def is_socket(number: int) -> bool:
    """Whether a descriptor is a socket."""
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


report_all(
    attempt("getpid", tried, lambda done: done == os.getpid(), GETPID, 0, 0),
    attempt("socketcall AF_VSOCK", tried, is_socket, SOCKETCALL, SOCKET, words),
)
