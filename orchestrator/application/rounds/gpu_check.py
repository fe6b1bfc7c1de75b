"""Plays a contest with GPUs, and checks that players can use one by starting a player that computes on it."""

import tempfile
from copy import copy
from dataclasses import replace
from pathlib import Path

from pydantic import ByteSize

from orchestrator import composition
from orchestrator.application.rounds.entry_images import find_image
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SparringError
from orchestrator.gpus import Gpu, list_gpus
from orchestrator.intake.contest_file import Contest
from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Backend, Exit, Image, ImageSource, SandboxSpec

CUDA_MEMORY = 16 * 1024**3
"""The memory in bytes of a player with CUDA, which maps several gigabytes before it computes anything."""
CUDA_IMAGE = "sparring/base-torch:cuda"
"""The image of the test player, on a backend that starts images."""
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
    """Returns a copy of the contest with a GPU for every player, and enough memory for CUDA."""
    limits = contest.file.limits
    more = {"gpus": 1, "memory": ByteSize(max(limits.memory, CUDA_MEMORY))}
    changed = copy(contest)
    changed.file = contest.file.model_copy(update={"limits": limits.model_copy(update=more)})
    return changed


def require_gpu(contest: Contest, backend: str) -> str:
    """Has a test player compute on the first GPU; returns the versions of PyTorch and CUDA and the GPU's name in words.

    The player runs from `CUDA_IMAGE` on a backend that starts images, and in this environment on the process backend.

    Raises:
        BackendUnavailable: there is no GPU, or a player cannot compute on it; the message says why.
    """
    gpu = first_gpu()
    with tempfile.TemporaryDirectory(prefix="sparring-cuda-") as workspace:
        place = composition.make_backend(backend, Path(workspace), gpus=1)
        try:
            return try_gpu(contest.file.sandbox_policy(), place, gpu)
        except BackendUnavailable as error:
            raise BackendUnavailable(f"{error}, {_ALTERNATIVE}") from error


def first_gpu() -> Gpu:
    """Returns this machine's first GPU. Raises BackendUnavailable if there is none."""
    gpus = list_gpus()
    if not gpus:
        raise BackendUnavailable(f"nvidia-smi shows no GPU on this machine; install the NVIDIA driver, {_ALTERNATIVE}")
    return gpus[0]


def can_try(backend: Backend) -> bool:
    """Returns whether a backend that starts images has the image of the test player."""
    return bool(find_image(backend, CUDA_IMAGE))


def try_gpu(policy: SandboxPolicy, backend: Backend, gpu: Gpu) -> str:
    """Has a test player compute on this GPU under the policy; returns like `require_gpu`. Raises BackendUnavailable."""
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
    """Starts the test player under the limits of all players; returns its output, and how it ended."""
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
    backend.inspect_image(CUDA_IMAGE, files=False)  # raises a one-line error if there is no such image
    return replace(backend.admit(ImageSource(image=CUDA_IMAGE)), command=("python", "-c", _PROBE_PROGRAM))
