"""Opens 512 descriptors where 128 are allowed."""

import os
import resource

from _report import name, report

try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    raised = "raised"
except (OSError, ValueError):
    raised = "not raised"
opened = 0
how = "no error"
try:
    for _ in range(512):
        os.open("/dev/null", os.O_RDONLY)
        opened += 1
except OSError as error:
    how = name(error)
report(opened >= 128, f"{opened} files open: {how}; limit {raised}")
