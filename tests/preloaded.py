"""The imports of commands and of drivers, also those that they make later, for the process that `forkserver` forks.

Whatever is missing here, each command or driver imports by itself.
"""

# ruff: noqa: F401
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported, as orchestrator.__main__ sets it

import structlog

import orchestrator.application.rounds.pod_driver
import orchestrator.cli.app
import orchestrator.cli.pod
import orchestrator.formats.tournament.format
import orchestrator.integrity.determinism_check
import orchestrator.sandboxes.pod.pod_sandbox
import orchestrator.sandboxes.process.backend
import tests.executors.kubernetes.pod_processes.forks
