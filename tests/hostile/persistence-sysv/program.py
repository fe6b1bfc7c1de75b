"""The first leaves a System V segment, semaphores and a message queue; the second looks for them, and removes them."""

import zlib

from _report import LIBC, ROLE, TOKEN, report

CREATE, REMOVE = 0o1000 | 0o666, 0
KEY = zlib.crc32(TOKEN.encode()) & 0x7FFFFFFF | 1
flags = CREATE if ROLE == "first" else 0
made = {
    "segment": LIBC.shmget(KEY, 4096, flags),
    "semaphores": LIBC.semget(KEY, 1, flags),
    "queue": LIBC.msgget(KEY, flags),
}
there = [what for what, identity in made.items() if identity >= 0]
if ROLE == "second":
    if "segment" in there:
        LIBC.shmctl(made["segment"], REMOVE, None)
    if "semaphores" in there:
        LIBC.semctl(made["semaphores"], 0, REMOVE)
    if "queue" in there:
        LIBC.msgctl(made["queue"], REMOVE, None)
report(ROLE == "second" and bool(there), f"{ROLE}: {', '.join(there) or 'nothing'}")
