"""The environment variables of a player: the same on every backend, and none of the host's."""

import re
from collections.abc import Iterable

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "BLIS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
"""The variables that numerical libraries read. Without them torch starts a thread for each core of the host, whatever
the processor limit."""

HOST_NAME = "sandbox"
"""The host name of every container."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DROPPED_PREFIXES = ("LD_", "NVIDIA_", "DOCKER_", "SPARRING_", "GLIBC_", "GCONV_")
_DROPPED_SUFFIX = "_PROXY"


def player_variables(home: str, threads: int, device: str | None) -> dict[str, str]:
    """Returns the variables that every player gets.

    `home` is the folder that it may write to, `threads` the number of threads of numerical libraries, `device` the UUID
    of its GPU, None for no GPU.

    Hash seeds are fixed, so that an honest player that iterates over a set of strings answers the same twice (A10).
    """
    return {
        "HOME": home,
        "TMPDIR": home,
        "HOSTNAME": HOST_NAME,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "CUDA_VISIBLE_DEVICES": device or "",
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
    }


def allowed_variables(entries: Iterable[str]) -> dict[str, str]:
    """Returns an image's `NAME=value` variables without those that reach beyond the player.

    It drops variables of the dynamic loader and of the GPU hook (CVE-2025-23266: LD_PRELOAD from an image ran in the
    hook, on the host), proxies, and the engine's and our own names. Everything else is up to the submission.
    """
    variables = {}
    for entry in entries:
        name, _, value = entry.partition("=")
        loud = name.upper()
        if _NAME.fullmatch(name) and not loud.startswith(_DROPPED_PREFIXES) and not loud.endswith(_DROPPED_SUFFIX):
            variables[name] = value
    return variables


def removed_variables(image_entries: Iterable[str]) -> tuple[str, ...]:
    """Returns the names among an image's variables that a player does not get, sorted.

    An engine adds an image's variables to the given ones, so leaving one out is not enough: it has to be unset.
    """
    entries = tuple(image_entries)
    return tuple(sorted({entry.partition("=")[0] for entry in entries} - set(allowed_variables(entries))))
