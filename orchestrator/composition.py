"""Which backend, which engine, which devices."""

import os
from pathlib import Path

from orchestrator import plugins, resources
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable, UsageError
from orchestrator.executors.base import Executor
from orchestrator.gpus import list_gpus
from orchestrator.sandboxes.base import Backend, BackendSettings

KUBERNETES = "kubernetes"
"""The engine whose pods stand in for a backend; on record such a round's backend has this name too."""


def make_backend(name: str, workspace: Path, *, allow_unisolated: bool = False) -> Backend:
    """Returns the backend of that name; `workspace` is where it may keep what it admitted. Raises UsageError."""
    if name == KUBERNETES:
        raise UsageError(
            "kubernetes is an engine, not a backend: rounds are played there with `--engine kubernetes`; "
            "everything else starts players on this machine: say docker"
        )
    settings = BackendSettings(
        workspace=workspace,
        python_path=(resources.resource_path("images", "_base", "python"),),
        allow_unisolated=allow_unisolated,
    )
    made: Backend = plugins.load_plugin("sandboxes", name)(settings)
    return made


def make_local_executor(limits: Limits, slots: int | None) -> Executor:
    """Returns the local engine with its slots. Raises like `devices`."""
    made: Executor = plugins.load_plugin("executors", "local")(slot_devices(limits, slots))
    return made


def slot_devices(limits: Limits, slots: int | None) -> list[str | None]:
    """Returns a slot's device each: one slot a GPU where the task asks for GPUs, else as many as the cores allow.

    Raises:
        UsageError: fewer than one slot, or more than there are GPUs.
        BackendUnavailable: the task asks for GPUs and there is none.
    """
    if slots is not None and slots < 1:
        raise UsageError(f"--slots {slots}: give at least 1")
    if not limits.gpus:
        return [None] * (slots or max(1, int((os.cpu_count() or 1) / limits.cpus)))
    found = list_gpus()
    if not found:
        raise BackendUnavailable("the task asks for a GPU and this machine has none; set `limits.gpus: 0`")
    if slots and slots > len(found):
        raise UsageError(f"--slots {slots}, but there are {len(found)} GPUs; every live sandbox has one of its own")
    return [gpu.uuid for gpu in found[: slots or len(found)]]
