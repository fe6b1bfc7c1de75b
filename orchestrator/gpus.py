"""Lists the GPUs of this machine."""

import shutil
import subprocess
from dataclasses import dataclass

from orchestrator.errors import BackendUnavailable

_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One whole GPU. The driver gives the name; sandboxes request a GPU by its UUID."""

    uuid: str
    name: str
    memory: str


def list_gpus() -> tuple[Gpu, ...]:
    """Returns the machine's GPUs, none without an NVIDIA driver.

    Raises:
        BackendUnavailable: there is a driver, but it does not answer.
    """
    if shutil.which("nvidia-smi") is None:
        return ()
    query = ["nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendUnavailable(
            f"nvidia-smi does not answer ({error}); repair the driver, or hide the GPUs"
        ) from error
    lines = [line.split(", ") for line in answer.stdout.splitlines() if line.strip()]
    return tuple(Gpu(*parts[:3]) for parts in lines if len(parts) >= 3)  # noqa: PLR2004  the three asked for
