"""Starts 300 threads where 48 are allowed."""

import threading

from _report import report

threading.stack_size(64 * 1024)
end = threading.Event()
started = 0
how = "no error"
try:
    while started < 300:
        threading.Thread(target=end.wait, daemon=True).start()
        started += 1
except RuntimeError as error:
    how = str(error)
report(started >= 48, f"{started} threads at once: {how}")
end.set()
