"""Asks for a better place in every queue."""

import os

from _report import attempt, report_all, syscall

IOPRIO_SET, WHO_PROCESS, REAL_TIME = 251, 1, 1 << 13


def nice() -> int:
    """Returns the new priority."""
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    return os.getpriority(os.PRIO_PROCESS, 0)


def real_time() -> None:
    """Runs before every ordinary process; at once an ordinary one again."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


report_all(
    attempt("nice -20", nice),
    attempt("real time", real_time),
    attempt("real-time disk queue", syscall, IOPRIO_SET, WHO_PROCESS, 0, REAL_TIME),
)
