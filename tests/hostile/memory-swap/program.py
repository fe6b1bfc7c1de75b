"""Takes 384 MiB and asks the kernel to page each out."""

import ctypes
import mmap

from _report import LIBC, MIB, report

MADV_PAGEOUT = 21
hoard = []
for taken in range(384):
    page = mmap.mmap(-1, MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page.write(b"x" * MIB)
    LIBC.madvise(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))), ctypes.c_size_t(MIB), MADV_PAGEOUT)
    hoard.append(page)
    if taken % 32 == 0:
        report(False, f"{taken} MiB held")
report(True, f"{len(hoard)} MiB held")
