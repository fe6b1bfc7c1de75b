"""Ignores polite signals and leaves children everywhere. Its command line holds a token to look for.

Arguments: the token, and `stay`, or `go` to exit at once and leave the children behind.
"""

import os
import signal
import sys
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)


def child(*, session: bool, twice: bool) -> None:
    if os.fork():
        return
    if session:
        os.setsid()
    if twice and os.fork():
        os._exit(0)
    time.sleep(600)
    os._exit(0)


def nameless() -> None:
    """An orphan in the same session that drops everything it could be known by but that."""
    if os.fork():
        return
    if os.fork():
        os._exit(0)
    os.setpgid(0, 0)
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]], {})  # noqa: S606  no shell


nameless()
child(session=False, twice=False)
child(session=True, twice=False)
child(session=True, twice=True)
time.sleep(0.2)
os.write(1, b"up")
if sys.argv[2] == "stay":
    time.sleep(600)
os._exit(0)
