"""`sparring doctor`: shows what this machine has, and remedies for what it lacks."""

import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import composition, plugins
from orchestrator.application.rounds import gpu_check
from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, Json, out, safe_text
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable
from orchestrator.gpus import Gpu, list_gpus
from orchestrator.sandboxes.base import Backend, Check, CheckStatus

_COLOURS = {CheckStatus.OK: "green", CheckStatus.WARN: "yellow", CheckStatus.FAIL: "red", CheckStatus.ABSENT: "dim"}
_CONTAINER_BACKENDS = frozenset({"docker", "runc"})
"""The backends of this machine that give players GPUs under the whole policy."""


@console.command
def doctor(
    sweep: Annotated[bool, typer.Option("--sweep", help="Remove what dead rounds left behind, then look.")] = False,
    as_json: Json = False,
) -> None:
    """Show what this machine has: engine, GPUs, runtimes, and limits that really work.

    Exits with 1 when something that is there does not work.
    """
    checks = [*_machine_checks()]
    with tempfile.TemporaryDirectory(prefix="sparring-doctor-") as workspace:
        for name in plugins.plugin_names("sandboxes"):
            backend = composition.make_backend(name, Path(workspace))
            if sweep:
                checks.append(_cleanup_check(name, backend))
            checks += backend.diagnose()
            if name in _CONTAINER_BACKENDS:
                checks += _gpu_checks(backend)
        checks.append(_container_check(Path(workspace)))
    failed = any(check.status is CheckStatus.FAIL for check in checks)
    if as_json:
        console.print_json({"ok": not failed, "checks": check_rows(checks)})
    else:
        print_checks(checks)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _machine_checks() -> list[Check]:
    cores = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    checks = [Check("machine", CheckStatus.OK, cores)]
    if sys.version_info < (3, 11):  # noqa: UP036  for users who force the installation on an older Python
        checks.append(Check("python", CheckStatus.FAIL, platform.python_version(), "use Python 3.11 or newer"))
    try:
        gpus = list_gpus()
    except BackendUnavailable as error:
        return [*checks, Check("gpu", CheckStatus.FAIL, str(error), "nvidia-smi must answer before GPUs can be used")]
    if not gpus:
        detail = "none; tasks with `limits.gpus: 1` cannot be played here"
        return [*checks, Check("gpu", CheckStatus.ABSENT, detail, "install the NVIDIA driver where there is a GPU")]
    return [*checks, *(Check("gpu", CheckStatus.OK, f"{g.name}, {g.memory}, {g.uuid}") for g in gpus)]


def _gpu_checks(backend: Backend) -> list[Check]:
    """Returns a check for each GPU of this machine: whether a player in a container can compute on it."""
    name = f"{backend.name}: gpu"
    try:
        backend.require_available()
        gpus = list_gpus()
    except BackendUnavailable:  # other checks report it
        return []
    try:
        backend.require_available(gpus=len(gpus))
    except BackendUnavailable as error:
        return [Check(name, CheckStatus.ABSENT, str(error), "without it, docker plays contests with GPUs")]
    if gpus and not gpu_check.can_try(backend):
        detail = f"not tried, for want of the image {gpu_check.CUDA_IMAGE}"
        return [Check(name, CheckStatus.WARN, detail, "sparring image build --cuda base")]
    return [_gpu_check(name, backend, gpu) for gpu in gpus]


def _gpu_check(name: str, backend: Backend, gpu: Gpu) -> Check:
    policy = SandboxPolicy(Limits(memory=gpu_check.CUDA_MEMORY, gpus=1))
    try:
        return Check(name, CheckStatus.OK, f"{gpu.uuid}: {gpu_check.try_gpu(policy, backend, gpu)}")
    except BackendUnavailable as error:
        return Check(name, CheckStatus.FAIL, printable(str(error), 600), "see the message")


def _cleanup_check(name: str, backend: Backend) -> Check:
    try:
        removed = backend.clean_up()
    except BackendUnavailable:
        return Check(f"sweep {name}", CheckStatus.ABSENT, "the backend is not there, so nothing was removed")
    return Check(f"sweep {name}", CheckStatus.OK, f"{removed} leftovers of dead rounds removed")


def _container_check(workspace: Path) -> Check:
    name, reason = composition.choose_container_backend(workspace)
    why = f"; {reason}" if reason else ""
    try:
        composition.make_backend(name, workspace).require_available()
    except BackendUnavailable as error:
        return Check("container: available", CheckStatus.ABSENT, str(error), "see the message, if you want to use it")
    return Check("container: available", CheckStatus.OK, f"`--backend container` plays on {name} here{why}")


def check_rows(checks: list[Check]) -> list[dict[str, str]]:
    """Returns checks as `--json` shows them."""
    return [{"name": c.name, "status": c.status.value, "detail": c.detail, "remedy": c.remedy} for c in checks]


def print_checks(checks: list[Check]) -> None:
    """Prints checks, each with its remedy if it needs one."""
    for check in checks:
        colour = _COLOURS[check.status]
        out.print(f"[{colour}]{check.status:6}[/]  {safe_text(check.name)}: {safe_text(check.detail)}", soft_wrap=True)
        if check.remedy and check.status is not CheckStatus.OK:
            out.print(f"        [dim]remedy:[/] {safe_text(check.remedy)}", soft_wrap=True)
