"""Chooses the implementations: which backend, which executor, which devices."""

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
"""The engine whose pods stand in for a backend; on record such a round's backend has this name too."""
CONTAINER = "container"
"""The name that users give for a container backend of our choice; a round records the backend that played it."""
MAX_SLOTS = 1000
"""Most slots of one machine: each is a thread, made before the first job."""
_PREFERRED, _FALLBACK = "runc", "docker"
"""runc shares nothing between sandboxes and starts them faster; docker has GPUs and further runtimes."""


def make_backend(
    name: str, workspace: Path, *, allow_unisolated: bool = False, runtime: Runtime | None = None, gpus: int = 0
) -> Backend:
    """Returns the backend of that name; `workspace` is where it may keep what it admitted.

    `runtime` and `gpus` are what players need, where that is known: they decide what `container` stands for.

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
    if name not in (names := plugins.plugin_names("sandboxes")):
        raise UsageError(f"no {name!r} among the sandboxes: there is {', '.join(sorted({CONTAINER, *names}))}")
    settings = BackendSettings(
        workspace=workspace,
        python_path=(resources.resource_path("images", "_base", "python"),),
        allow_unisolated=allow_unisolated,
    )
    backend: Backend = plugins.load_plugin("sandboxes", name)(settings)
    return backend


def choose_container_backend(workspace: Path, runtime: Runtime | None = None, gpus: int = 0) -> tuple[str, str]:
    """Returns the backend that `container` names here, and why it is not the preferred one; empty where it is."""
    if gpus:
        return _FALLBACK, f"the {_PREFERRED} backend has no GPUs"
    try:
        make_backend(_PREFERRED, workspace).require_available(runtime)
    except BackendUnavailable as error:
        return _FALLBACK, str(error)
    return _PREFERRED, ""


def make_local_executor(limits: Limits, slots: int | None, sandboxes: int = 1) -> Executor:
    """Returns the local executor with its slots. Arguments and errors are those of `slot_devices`."""
    executor: Executor = plugins.load_plugin("executors", "local")(slot_devices(limits, slots, sandboxes))
    return executor


def slot_devices(limits: Limits, slots: int | None, sandboxes: int = 1) -> list[str | None]:
    """Returns a slot's device each: one slot a GPU where the task asks for GPUs, else as many as the cores allow.

    Args:
        limits: of one sandbox.
        slots: how many are wanted; None for as many as there can be.
        sandboxes: how many a job runs at the same time, each with its own cores and its own GPU. A slot's device is
            that of the submission whose job it is; see `attack_devices`.

    Raises:
        UsageError: fewer than one slot, more than `MAX_SLOTS`, or more than there are GPUs for.
        BackendUnavailable: the task asks for GPUs and there are too few for one slot.
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
    """Returns the GPU of the attack that queries, by the device of the slot; empty where a job has one sandbox.

    The slots have the first GPUs of the machine, and their attacks the next ones.
    """
    if not limits.gpus or sandboxes == 1:
        return {}
    gpus = [gpu.uuid for gpu in list_gpus()]
    most = len(gpus) // sandboxes
    return dict(zip(gpus[:most], gpus[most:], strict=False))
