"""Chooses the implementations: the sandbox backend, the executor, and the devices."""

import os
from pathlib import Path

from orchestrator import plugins, resources
from orchestrator.domain.policy import Runtime
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable, UsageError
from orchestrator.executors.base import Executor
from orchestrator.gpus import list_gpus
from orchestrator.sandboxes.base import Backend, BackendSettings

KUBERNETES = "kubernetes"
"""The engine whose pods take the place of a backend; such a round records this name as its backend."""
CONTAINER = "container"
"""The name with which users leave the choice of the container backend to us; a round records the chosen backend."""
MAX_SLOTS = 1000
"""The most slots of one machine: each is a thread, made before the first job."""
_PREFERRED, _FALLBACK = "runc", "docker"
"""runc shares nothing between sandboxes and starts them faster; docker has a further runtime."""


def make_backend(
    name: str, workspace: Path, *, allow_unisolated: bool = False, runtime: Runtime | None = None, gpus: int = 0
) -> Backend:
    """Returns the backend of that name; `workspace` is the folder in which it may keep admitted images.

    `runtime` and `gpus` are what players need, if that is known: they decide which backend `container` means.

    Raises:
        UsageError: there is no such backend.
    """
    if name == CONTAINER:
        name, _ = choose_container_backend(workspace, runtime, gpus)
    if name == KUBERNETES:
        raise UsageError(
            "kubernetes is an engine, not a backend: rounds are played there with `--engine kubernetes`; "
            "everything else starts players on this machine: say container"
        )
    settings = BackendSettings(
        workspace=workspace,
        python_path=(resources.resource_path("images", "_base", "python"),),
        allow_unisolated=allow_unisolated,
    )
    backend: Backend = plugins.load_plugin("sandboxes", name, [CONTAINER])(settings)
    return backend


def choose_container_backend(workspace: Path, runtime: Runtime | None = None, gpus: int = 0) -> tuple[str, str]:
    """Returns the backend that `container` means here, and why it is not the preferred one; "" if it is."""
    try:
        make_backend(_PREFERRED, workspace).require_available(runtime, gpus)
    except BackendUnavailable as error:
        return _FALLBACK, str(error)
    return _PREFERRED, ""


def make_local_executor(limits: Limits, slots: int | None, sandboxes: int = 1) -> Executor:
    """Returns the local executor with its slots. Arguments and errors are those of `slot_devices`."""
    executor: Executor = plugins.load_plugin("executors", "local")(slot_devices(limits, slots, sandboxes))
    return executor


def slot_devices(limits: Limits, slots: int | None, sandboxes: int = 1) -> list[str | None]:
    """Returns the device of each slot: a GPU if the contest uses GPUs, else None for each, as many as the cores allow.

    Args:
        limits: the limits of one sandbox.
        slots: the number of slots; None: as many as possible.
        sandboxes: the number of sandboxes that a job runs at the same time, each with its own cores and its own GPU. A
            slot's device is for the submission whose job it is; see `attack_devices`.

    Raises:
        UsageError: fewer than one slot, more than `MAX_SLOTS`, or more than there are GPUs for.
        BackendUnavailable: the contest uses GPUs, and there are too few for one slot.
    """
    if slots is not None and slots < 1:
        raise UsageError(f"--slots {slots}: give at least 1")
    if slots is not None and slots > MAX_SLOTS:
        raise UsageError(f"--slots {slots}: give at most {MAX_SLOTS}; each slot is a thread that runs a sandbox")
    if not limits.gpus:
        return [None] * (slots or max(1, int((os.cpu_count() or 1) / (sandboxes * limits.cpus))))
    gpus = list_gpus()
    if not gpus:
        raise BackendUnavailable("the task asks for a GPU and this machine has none; set `limits.gpus: 0`")
    most = len(gpus) // sandboxes
    if not most:
        raise BackendUnavailable(
            f"each job takes {sandboxes} GPUs, one for the attack and one for the defence that it queries, and this "
            f"machine has {len(gpus)}; set `limits.gpus: 0`"
        )
    if slots and slots > most:
        raise UsageError(f"--slots {slots}, but there are {len(gpus)} GPUs; every live sandbox has one of its own")
    return [gpu.uuid for gpu in gpus[: slots or most]]


def attack_devices(limits: Limits, sandboxes: int) -> dict[str, str]:
    """Returns the GPU of a slot's querying attack, by the slot's device; empty if a job has only one sandbox.

    The slots have the first GPUs of the machine, and their attacks the next ones.
    """
    if not limits.gpus or sandboxes == 1:
        return {}
    gpus = [gpu.uuid for gpu in list_gpus()]
    most = len(gpus) // sandboxes
    return dict(zip(gpus[:most], gpus[most:], strict=False))
