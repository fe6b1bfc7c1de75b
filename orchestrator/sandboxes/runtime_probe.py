"""Checks that a container runtime can run a sandbox: a probe player prints the kernel release that it sees."""

import re
from collections.abc import Callable
from dataclasses import replace

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import SparringError
from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Check, CheckStatus, Image, Sandbox, SandboxSpec

DESCRIPTIONS = {
    Runtime.RUNC: "plain containers, which share the host's kernel",
    Runtime.RUNSC: "gVisor: players talk to a kernel of its own",
    Runtime.KATA: "each player in a virtual machine",
}
_GVISOR_KERNEL = re.compile(r"4\.4\.0|.+-gvisor")
"""The kernel releases that gVisor reports: until April 2026, and since then."""
_PRINT_KERNEL = "import os; print(os.uname().release, end='')"
_MAX_OUTPUT_BYTES = 200


def probe_runtime(
    name: str, runtime: Runtime, image: Image | None, start: Callable[[SandboxSpec], Sandbox], remedy: str
) -> Check:
    """Starts a sandbox under a runtime and returns whether that worked; it never raises.

    Args:
        name: the name of the check.
        runtime: a runtime that is installed.
        image: an image of Sparring's with Python; None if there is none, and nothing is tried.
        start: starts a sandbox.
        remedy: what to do if no sandbox runs.
    """
    if image is None:
        detail = "it is there; not tried, because no image of Sparring's is there"
        return Check(name, CheckStatus.WARN, detail, "sparring image build base")
    try:
        sandbox = start(_kernel_probe_spec(runtime, image))
        try:
            output = self_probe.read_output(sandbox, most=_MAX_OUTPUT_BYTES)
        finally:
            sandbox.stop()
    except SparringError as error:
        return Check(name, CheckStatus.FAIL, printable(str(error), 600), remedy)
    release = printable(output[:_MAX_OUTPUT_BYTES].decode("utf-8", "replace"), 60)
    if not release or (runtime is Runtime.RUNSC and not _GVISOR_KERNEL.fullmatch(release)):
        detail = f"a player there sees kernel {release!r}" + (", which is not gVisor's" if release else "")
        return Check(name, CheckStatus.FAIL, detail, remedy)
    return Check(name, CheckStatus.OK, f"{DESCRIPTIONS[runtime]}; a sandbox ran, its player sees kernel {release}")


def _kernel_probe_spec(runtime: Runtime, image: Image) -> SandboxSpec:
    command = ("python3", "-I", "-S", "-c", _PRINT_KERNEL)
    return SandboxSpec(replace(image, command=command), SandboxPolicy(runtime=runtime), "doctor", "runtime")
