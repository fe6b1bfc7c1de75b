"""A contest played with GPUs, and whether players here can use one, which a player that computes on it shows."""

import tempfile
from copy import copy
from dataclasses import replace
from pathlib import Path

from pydantic import ByteSize

from orchestrator import composition
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SparringError, UsageError
from orchestrator.gpus import Gpu, list_gpus
from orchestrator.intake.contest_file import Contest
from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Backend, Exit, Image, ImageSource, SandboxSpec

CUDA_MEMORY = 16 * 1024**3
"""Bytes for a player with CUDA, which maps several gigabytes before it computes anything."""
CUDA_IMAGE = "sparring/base-torch:cuda"
"""What the player that looks is started from, on a backend that starts images."""
_PROBE_PROGRAM = """
import torch
if float(torch.ones(4, device="cuda").sum()) != 4:
    raise SystemExit("the GPU computed a wrong result")
print(f"PyTorch {torch.__version__} with CUDA {torch.version.cuda} on {torch.cuda.get_device_name()}", flush=True)
"""
_PROBE_SECONDS = 120.0
_MAX_OUTPUT = 4096
_ALTERNATIVE = "or leave --gpu out"
_PROCESS_REMEDY = (
    "install PyTorch with CUDA in this environment, as images/_base/requirements.cuda.lock (`sparring copy "
    "images/_base`) names it, and let `ldconfig -p` show the driver's libcuda"
)
_IMAGE_REMEDY = (
    "`sparring image build --cuda base` makes the image that is tried, nvidia-container-toolkit 1.17.8 or newer gives "
    "it the device, and PyTorch with CUDA takes 0.7 GiB of `limits.memory`"
)


def with_gpus(contest: Contest) -> Contest:
    """Returns the same contest with a GPU of its own for every player, and memory for CUDA."""
    limits = contest.file.limits
    more = {"gpus": 1, "memory": ByteSize(max(limits.memory, CUDA_MEMORY))}
    changed = copy(contest)
    changed.file = contest.file.model_copy(update={"limits": limits.model_copy(update=more)})
    return changed


def require_gpu(contest: Contest, backend: str) -> str:
    """Returns what computes here, once a player did: PyTorch, CUDA and the GPU in words.

    On a backend that starts images the player is one of `CUDA_IMAGE`; on the process backend it uses this environment.

    Raises:
        BackendUnavailable: there is no GPU, or a player cannot compute on it; the message says why.
    """
    gpus = list_gpus()
    if not gpus:
        raise BackendUnavailable(f"nvidia-smi shows no GPU on this machine; install the NVIDIA driver, {_ALTERNATIVE}")
    with tempfile.TemporaryDirectory(prefix="sparring-cuda-") as workspace:
        place = composition.make_backend(backend, Path(workspace), gpus=1)
        try:
            return try_gpu(contest.file.sandbox_policy(), place, gpus[0])
        except BackendUnavailable as error:
            raise BackendUnavailable(f"{error}, {_ALTERNATIVE}") from error


def can_try(backend: Backend) -> bool:
    """Returns whether a backend that starts images has the one that a GPU is tried with."""
    try:
        backend.inspect_image(CUDA_IMAGE, files=False)
    except UsageError:
        return False
    return True


def try_gpu(policy: SandboxPolicy, backend: Backend, gpu: Gpu) -> str:
    """Has a player under the policy compute on this GPU, and returns with what. Raises BackendUnavailable."""
    remedy = _PROCESS_REMEDY if backend.name == "process" else _IMAGE_REMEDY
    try:
        output, end = _run_probe(policy, backend, gpu.uuid)
    except SparringError as error:
        raise BackendUnavailable(f"a player cannot compute on {printable(gpu.name)}: {error}; {remedy}") from error
    if not output:
        why = self_probe.last_line(end)
        raise BackendUnavailable(f"a player cannot compute on {printable(gpu.name)}: {why}; {remedy}")
    return printable(output)


def _run_probe(policy: SandboxPolicy, backend: Backend, device: str) -> tuple[str, Exit]:
    """Starts the player that looks, under the limits of the others; returns what it said, and how it ended."""
    image = _folder_player(backend) if backend.name == "process" else _image_player(backend)
    sandbox = backend.start(SandboxSpec(image, policy, run="cuda", job="look", device=device))
    try:
        output = self_probe.read_output(sandbox, _PROBE_SECONDS, _MAX_OUTPUT)
    finally:
        end = sandbox.stop()
    return output.decode("utf-8", "replace").strip(), end


def _folder_player(backend: Backend) -> Image:
    with tempfile.TemporaryDirectory(prefix="sparring-cuda-") as folder:
        Path(folder, "player.py").write_text(_PROBE_PROGRAM)
        return backend.admit(ImageSource(folder=Path(folder), command=("python", "player.py"), trusted=True))


def _image_player(backend: Backend) -> Image:
    backend.inspect_image(CUDA_IMAGE, files=False)  # where there is none, this says so in one line
    return replace(backend.admit(ImageSource(image=CUDA_IMAGE)), command=("python", "-c", _PROBE_PROGRAM))
