"""Which runtimes an engine has, and which of them really run a sandbox."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.backends.base import Check, CheckStatus, Image, Order, Sandbox
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SparringError

_WHAT = {
    Runtime.RUNC: "plain containers, which share the host's kernel",
    Runtime.RUNSC: "gVisor: players talk to a kernel of its own",
    Runtime.KATA: "each player in a virtual machine",
}
_GVISOR = "4.4.0"
"""The kernel release that gVisor shows."""
_ARGUMENTS = ("--network=none",)
_LOOK = "import os; print(os.uname().release, end='')"
_LONGEST = 200


def lacking(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns which of gVisor's arguments the engine was not told: without them sandboxes leak."""
    runsc = (info.get("Runtimes") or {}).get(Runtime.RUNSC.value) or {}
    return tuple(word for word in _ARGUMENTS if runsc and word not in (runsc.get("runtimeArgs") or ()))


def names(info: Mapping[str, Any]) -> frozenset[str]:
    """Returns the runtimes that `docker info` lists."""
    return frozenset(str(name) for name in info.get("Runtimes") or {})


def require(runtime: Runtime, there: Collection[str]) -> None:
    """Raises BackendUnavailable, with the remedy, when the engine has no such runtime."""
    if runtime.value not in there:
        ours = ", ".join(each.value for each in Runtime if each.value in there) or "none that is known"
        raise BackendUnavailable(f"the engine has no runtime {runtime.value}, only {ours}; {_remedy(runtime)}")


def examine(
    info: Mapping[str, Any], image: Image | None, start: Callable[[Order], Sandbox], hear: Callable[[Sandbox], bytes]
) -> list[Check]:
    """Returns for each runtime whether it is there, and what became of a tiny sandbox under it; it never raises."""
    checks = [_examined(runtime, names(info), image, start, hear) for runtime in Runtime]
    if without := lacking(info):
        detail = f"gVisor is registered without {', '.join(without)}, and leaks sandboxes then"
        checks.append(Check("docker: runsc arguments", CheckStatus.WARN, detail, "see docs/runtimes.md"))
    return checks


def _examined(
    runtime: Runtime,
    there: Collection[str],
    image: Image | None,
    start: Callable[[Order], Sandbox],
    hear: Callable[[Sandbox], bytes],
) -> Check:
    name = f"docker: {runtime.value}"
    if runtime.value not in there:
        return Check(name, CheckStatus.ABSENT, f"not registered with the engine ({_WHAT[runtime]})", _remedy(runtime))
    if image is None:
        return Check(name, CheckStatus.WARN, "registered; not tried, for want of an image of ours", "make images")
    try:
        sandbox = start(_order(runtime, image))
        try:
            release = printable(hear(sandbox)[:_LONGEST].decode("utf-8", "replace"), 60)
        finally:
            sandbox.stop()
    except SparringError as error:
        return Check(name, CheckStatus.FAIL, printable(str(error), 600), _remedy(runtime))
    if not release or (runtime is Runtime.RUNSC and release != _GVISOR):
        detail = f"a player there sees kernel {release!r}" + (f", not gVisor's {_GVISOR}" if release else "")
        return Check(name, CheckStatus.FAIL, detail, _remedy(runtime))
    return Check(name, CheckStatus.OK, f"{_WHAT[runtime]}; a sandbox ran, its player sees kernel {release}")


def _order(runtime: Runtime, image: Image) -> Order:
    words = ("python3", "-I", "-S", "-c", _LOOK)
    return Order(replace(image, command=words), SandboxPolicy(runtime=runtime), "doctor", "runtime")


def _remedy(runtime: Runtime) -> str:
    ours = f"register it under the name {runtime.value} in the engine's daemon.json (docs/runtimes.md)"
    return f"{ours}, or set `runtime: runc`" if runtime is not Runtime.RUNC else ours
