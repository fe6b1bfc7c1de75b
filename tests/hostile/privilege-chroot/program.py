"""Changes the root of a child, and leaves it by the way that chroot(2) warns of."""

import os

from _report import attempt, report_all, syscall

PIVOT_ROOT = 155


def escape() -> str:
    """Returns what a child finds above its new root."""
    child = os.fork()
    if child == 0:
        try:
            os.mkdir("/tmp/cell")
            os.chroot("/tmp/cell")  # its working directory stays outside
            for _ in range(8):
                os.chdir("..")
            os.chroot(".")
            os._exit(0 if os.path.exists("/etc/passwd") else 254)
        except OSError as error:
            os._exit(error.errno or 255)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))
    return "climbed out"


report_all(attempt("chroot", escape), attempt("pivot_root", syscall, PIVOT_ROOT, b"/tmp", b"/tmp"))
