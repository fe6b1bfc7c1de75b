"""Makes empty files until it is stopped."""

import os

from _report import name, report

made = 0
try:
    for made in range(20_000):
        os.close(os.open(f"/tmp/{made}", os.O_CREAT | os.O_WRONLY))
    how = "no error"
except OSError as error:
    how = name(error)
report(made > 16_384, f"{made} files made in /tmp: {how}")
