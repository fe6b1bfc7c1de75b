"""A contest played with GPUs, and whether players here can use one: asked of a player that only looks."""

import tempfile
import time
from copy import copy
from pathlib import Path

from pydantic import ByteSize

from orchestrator import composition
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable
from orchestrator.gpus import list_gpus
from orchestrator.intake.contest_file import Contest
from orchestrator.sandboxes.base import Exit, ImageSource, Sandbox, SandboxSpec

CUDA_MEMORY = 16 * 1024**3
"""Bytes for a player with CUDA, which maps several gigabytes before it computes anything."""
_PROBE_PROGRAM = """
import torch
if float(torch.ones(4, device="cuda").sum()) != 4:
    raise SystemExit("the GPU reckons wrongly")
print(f"PyTorch {torch.__version__} with CUDA {torch.version.cuda} on {torch.cuda.get_device_name()}", flush=True)
"""
_PROBE_SECONDS = 120.0
_MAX_OUTPUT = 4096
_ALTERNATIVE = "or leave --gpu out"


def with_gpus(contest: Contest) -> Contest:
    """Returns the same contest with a GPU of its own for every player, and memory for CUDA."""
    limits = contest.file.limits
    more = {"gpus": 1, "memory": ByteSize(max(limits.memory, CUDA_MEMORY))}
    changed = copy(contest)
    changed.file = contest.file.model_copy(update={"limits": limits.model_copy(update=more)})
    return changed


def require_gpu(contest: Contest, backend: str) -> str:
    """Returns what computes here: PyTorch, CUDA and GPU in words; the names of the GPUs where images bring PyTorch.

    Raises:
        BackendUnavailable: there is no GPU, or a player on the process backend cannot compute on it.
    """
    gpus = list_gpus()
    if not gpus:
        raise BackendUnavailable(f"nvidia-smi shows no GPU on this machine; install the NVIDIA driver, {_ALTERNATIVE}")
    if backend != "process":
        return ", ".join(gpu.name for gpu in gpus)
    output, end = _run_probe(contest.file.sandbox_policy(), gpus[0].uuid)
    if not output:
        why = printable((end.stderr.decode("utf-8", "replace").strip().splitlines() or [end.ending.value])[-1])
        raise BackendUnavailable(
            f"a player cannot compute on {printable(gpus[0].name)}: {why}; install PyTorch with CUDA in this "
            f"environment, as images/_base/requirements.cuda.lock (`sparring copy images/_base`) names it, and let "
            f"`ldconfig -p` show the driver's libcuda, {_ALTERNATIVE}"
        )
    return printable(output)


def _run_probe(policy: SandboxPolicy, device: str) -> tuple[str, Exit]:
    """Starts the player that looks, under the limits of the others; returns what it said, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="sparring-cuda-") as folder:
        source, workspace = Path(folder, "player"), Path(folder, "workspace")
        source.mkdir()
        workspace.mkdir()
        (source / "player.py").write_text(_PROBE_PROGRAM)
        backend = composition.make_backend("process", workspace)
        image = backend.admit(ImageSource(folder=source, command=("python", "player.py"), trusted=True))
        sandbox = backend.start(SandboxSpec(image, policy, run="cuda", job="look", device=device))
        try:
            output = _read_output(sandbox)
        finally:
            end = sandbox.stop()
    return output, end


def _read_output(sandbox: Sandbox) -> str:
    output, deadline = bytearray(), time.monotonic() + _PROBE_SECONDS
    while len(output) < _MAX_OUTPUT and (data := sandbox.receive(deadline)):
        output += data
    return output.decode("utf-8", "replace").strip()
