"""The imports of a driver, also those that it makes while it plays, for the process from which `forks` makes drivers.

Whatever is missing here, each driver imports by itself.
"""

# ruff: noqa: F401
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported, as orchestrator.__main__ sets it

import structlog

import orchestrator.application.rounds.pod_driver
import orchestrator.cli.pod
import orchestrator.formats.tournament.format
import orchestrator.integrity.determinism_check
import orchestrator.sandboxes.pod.pod_sandbox
import tests.executors.kubernetes.pod_processes.forks
