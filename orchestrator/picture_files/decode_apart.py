"""Decodes a stranger's picture in a separate process, so that an exploited or crashing decoder affects nothing else.

The process has no secret in its environment, writes no file, and ends at limits of memory and time. Services for many
people, such as the web service, use it.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Collection

import numpy as np

from orchestrator.domain.samples import Pixels
from orchestrator.domain.submissions import PictureFormat
from orchestrator.errors import StoreFault
from orchestrator.picture_files.decode import decode_picture
from orchestrator.picture_files.picture import PictureRefused

MEMORY_BYTES = 2**30
SECONDS = 30
"""Seconds of processor time; a busy machine may take up to `LONGEST_WAIT` seconds for them."""
LONGEST_WAIT = 300
_REFUSED = 3
_KEPT = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
"""Environment variables that Python itself may need."""


def decode_picture_apart(data: bytes, formats: Collection[PictureFormat], shape: tuple[int, int, int]) -> Pixels:
    """Returns the pixels of a picture with this shape, u8 [c, h, w], decoded by `decode_picture` in a new process.

    Raises:
        PictureRefused: `decode_picture` refuses it, or the decoder ended at a limit.
        StoreFault: no process can be started.
    """
    asked = json.dumps({"formats": sorted(each.value for each in formats), "shape": shape})
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "orchestrator.picture_files.decode_apart", asked]
    try:
        done = subprocess.run(
            command, input=data, env=environment, capture_output=True, timeout=LONGEST_WAIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise PictureRefused(f"takes more than {LONGEST_WAIT} s to decode", "write a plainer file") from None
    except OSError as error:
        raise StoreFault(f"no process to decode a picture can be started: {error}; look at the machine") from error
    if done.returncode == _REFUSED:
        raise PictureRefused(*json.loads(done.stdout))
    if done.returncode or len(done.stdout) != int(np.prod(shape)):
        what = f"ends its decoder, which has {MEMORY_BYTES // 2**20} MiB and {SECONDS} s"
        raise PictureRefused(what, "write a plainer file")
    return np.frombuffer(done.stdout, np.uint8).reshape(shape).copy()


def _main() -> None:
    """Decodes standard input as the first argument says; writes the pixels, or the refusal, to standard output."""
    asked = json.loads(sys.argv[1])
    data = sys.stdin.buffer.read()
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    try:
        formats = {PictureFormat(each) for each in asked["formats"]}
        pixels, _ = decode_picture(data, formats, tuple(asked["shape"]))
    except PictureRefused as error:
        sys.stdout.write(json.dumps([str(error), error.remedy]))
        sys.exit(_REFUSED)
    sys.stdout.buffer.write(pixels.tobytes())


if __name__ == "__main__":
    _main()
