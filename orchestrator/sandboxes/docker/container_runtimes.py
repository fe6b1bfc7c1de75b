"""Reports which runtimes an engine has, and whether each of them can run a sandbox."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable
from orchestrator.sandboxes.base import Check, CheckStatus, Image, Sandbox, SandboxSpec
from orchestrator.sandboxes.runtime_probe import DESCRIPTIONS, probe_runtime

_REQUIRED_RUNSC_ARGUMENTS = ("--network=none",)


def missing_runsc_arguments(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the arguments of gVisor that the engine's configuration lacks; without them sandboxes leak."""
    runsc = (info.get("Runtimes") or {}).get(Runtime.RUNSC.value) or {}
    given = runsc.get("runtimeArgs") or ()
    return tuple(argument for argument in _REQUIRED_RUNSC_ARGUMENTS if runsc and argument not in given)


def runtime_names(info: Mapping[str, Any]) -> frozenset[str]:
    """Returns the runtimes that `docker info` lists."""
    return frozenset(str(name) for name in info.get("Runtimes") or {})


def require_runtime(runtime: Runtime, available: Collection[str]) -> None:
    """Raises BackendUnavailable, with the remedy, if the engine has no such runtime."""
    if runtime.value not in available:
        available_names = ", ".join(each.value for each in Runtime if each.value in available) or "none that is known"
        raise BackendUnavailable(
            f"the engine has no runtime {runtime.value}, only {available_names}; {_remedy(runtime)}"
        )


def diagnose_runtimes(
    info: Mapping[str, Any], image: Image | None, start: Callable[[SandboxSpec], Sandbox]
) -> list[Check]:
    """Returns a check of each runtime: whether the engine has it, and whether it ran a probe; it never raises."""
    checks = [_diagnose_runtime(runtime, runtime_names(info), image, start) for runtime in Runtime]
    if without := missing_runsc_arguments(info):
        detail = f"gVisor is registered without {', '.join(without)}, and leaks sandboxes then"
        checks.append(Check("docker: runsc arguments", CheckStatus.WARN, detail, "see `sparring explain runtimes`"))
    return checks


def _diagnose_runtime(
    runtime: Runtime, available: Collection[str], image: Image | None, start: Callable[[SandboxSpec], Sandbox]
) -> Check:
    name = f"docker: {runtime.value}"
    if runtime.value not in available:
        return Check(
            name, CheckStatus.ABSENT, f"not registered with the engine ({DESCRIPTIONS[runtime]})", _remedy(runtime)
        )
    return probe_runtime(name, runtime, image, start, _remedy(runtime))


def _remedy(runtime: Runtime) -> str:
    registration = f"register it under the name {runtime.value} in daemon.json (`sparring explain runtimes`)"
    return f"{registration}, or set `runtime: runc`" if runtime is not Runtime.RUNC else registration
