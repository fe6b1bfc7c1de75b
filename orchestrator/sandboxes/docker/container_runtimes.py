"""Which runtimes an engine has, and which of them really run a sandbox."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SparringError
from orchestrator.sandboxes.base import Check, CheckStatus, Image, Sandbox, SandboxSpec

_DESCRIPTIONS = {
    Runtime.RUNC: "plain containers, which share the host's kernel",
    Runtime.RUNSC: "gVisor: players talk to a kernel of its own",
    Runtime.KATA: "each player in a virtual machine",
}
_GVISOR_KERNEL = re.compile(r"4\.4\.0|.+-gvisor")
"""The kernel release that gVisor shows: until April 2026, and since."""
_REQUIRED_RUNSC_ARGUMENTS = ("--network=none",)
_PRINT_KERNEL = "import os; print(os.uname().release, end='')"
_MAX_OUTPUT_BYTES = 200


def missing_runsc_arguments(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns which of gVisor's arguments the engine was not told: without them sandboxes leak."""
    runsc = (info.get("Runtimes") or {}).get(Runtime.RUNSC.value) or {}
    return tuple(word for word in _REQUIRED_RUNSC_ARGUMENTS if runsc and word not in (runsc.get("runtimeArgs") or ()))


def runtime_names(info: Mapping[str, Any]) -> frozenset[str]:
    """Returns the runtimes that `docker info` lists."""
    return frozenset(str(name) for name in info.get("Runtimes") or {})


def require_runtime(runtime: Runtime, available: Collection[str]) -> None:
    """Raises BackendUnavailable, with the remedy, when the engine has no such runtime."""
    if runtime.value not in available:
        available_names = ", ".join(each.value for each in Runtime if each.value in available) or "none that is known"
        raise BackendUnavailable(
            f"the engine has no runtime {runtime.value}, only {available_names}; {_remedy(runtime)}"
        )


def diagnose_runtimes(
    info: Mapping[str, Any],
    image: Image | None,
    start: Callable[[SandboxSpec], Sandbox],
    read_output: Callable[[Sandbox], bytes],
) -> list[Check]:
    """Returns for each runtime whether it is there, and what became of a tiny sandbox under it; it never raises."""
    checks = [_diagnose_runtime(runtime, runtime_names(info), image, start, read_output) for runtime in Runtime]
    if without := missing_runsc_arguments(info):
        detail = f"gVisor is registered without {', '.join(without)}, and leaks sandboxes then"
        checks.append(Check("docker: runsc arguments", CheckStatus.WARN, detail, "see `sparring explain runtimes`"))
    return checks


def _diagnose_runtime(
    runtime: Runtime,
    available: Collection[str],
    image: Image | None,
    start: Callable[[SandboxSpec], Sandbox],
    hear: Callable[[Sandbox], bytes],
) -> Check:
    name = f"docker: {runtime.value}"
    if runtime.value not in available:
        return Check(
            name, CheckStatus.ABSENT, f"not registered with the engine ({_DESCRIPTIONS[runtime]})", _remedy(runtime)
        )
    if image is None:
        remedy = "sparring image build base"
        return Check(name, CheckStatus.WARN, "registered; not tried, because no image of Sparring's is there", remedy)
    try:
        sandbox = start(_kernel_probe_spec(runtime, image))
        try:
            release = printable(hear(sandbox)[:_MAX_OUTPUT_BYTES].decode("utf-8", "replace"), 60)
        finally:
            sandbox.stop()
    except SparringError as error:
        return Check(name, CheckStatus.FAIL, printable(str(error), 600), _remedy(runtime))
    if not release or (runtime is Runtime.RUNSC and not _GVISOR_KERNEL.fullmatch(release)):
        detail = f"a player there sees kernel {release!r}" + (", which is not gVisor's" if release else "")
        return Check(name, CheckStatus.FAIL, detail, _remedy(runtime))
    return Check(name, CheckStatus.OK, f"{_DESCRIPTIONS[runtime]}; a sandbox ran, its player sees kernel {release}")


def _kernel_probe_spec(runtime: Runtime, image: Image) -> SandboxSpec:
    command = ("python3", "-I", "-S", "-c", _PRINT_KERNEL)
    return SandboxSpec(replace(image, command=command), SandboxPolicy(runtime=runtime), "doctor", "runtime")


def _remedy(runtime: Runtime) -> str:
    registration = f"register it under the name {runtime.value} in daemon.json (`sparring explain runtimes`)"
    return f"{registration}, or set `runtime: runc`" if runtime is not Runtime.RUNC else registration
