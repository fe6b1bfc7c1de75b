"""Walls that are too tight are a defect: ordinary programs pass under the policy for strangers.

Each program of tests/benign/ prints `fine` and exits with 0, in a sandbox with the default limits but for those named
here. It gets its source as an argument of `python3 -c`, or from /tmp where it has to import itself.
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.sandboxes.base import Ending, ImageSource, SandboxSpec
from tests.engine_images import has_image
from tests.small_image import BASE

PROGRAMS = {path.stem: path for path in sorted((Path(__file__).parents[1] / "benign").glob("*.py"))}
LIMITS = {
    "torch_workers": {"threads": 2, "cpus": 2.0},
    "torch_processes": {"cpus": 2.0},
    "much_memory": {"memory": 512 * 1024 * 1024},
}
"""What differs from the default limits. Less memory is filled sooner."""
KINDS = ("threads", "many_processes", "torch_workers", "large_files", "database", "children")
"""What a sandbox can stand in the way of. The others play on docker with `make soak`; on runc, whose policy is one with
docker's and whose sandboxes start sooner, all play."""
PLAYS = [
    pytest.param(backend, name, marks=() if backend == "runc" or name in KINDS else pytest.mark.soak)
    for backend in ("docker", "runc")
    for name in PROGRAMS
]
SECONDS = 240
"""What one may take on a busy machine; alone it takes two."""
TORCH = "sparring/base-torch:cpu"
PLACE = "/tmp/program.py"  # noqa: S108  the sandbox's own
START = f"import os, sys; open('{PLACE}', 'w').write(sys.argv[1]); os.execvp('python3', ['python3', '{PLACE}'])"


@pytest.fixture(scope="module")
def images(backend, engine, require) -> dict[str, str]:
    """The image for each kind of program, admitted."""
    if not has_image(engine, TORCH):
        require("docker", f"there is no {TORCH}: make images")
    return {name: backend.admit(ImageSource(image=image)) for name, image in (("base", BASE), ("torch", TORCH))}


def test_there_are_programs_of_every_kind():
    """Threads, processes, torch with workers, large files and databases are among them."""
    assert set(KINDS) <= set(PROGRAMS)


@pytest.mark.docker
@pytest.mark.parametrize(("backend", "name"), PLAYS, indirect=["backend"], scope="module")
def test_a_benign_program_passes(backend, images, run, policy, name):
    """It does what it wants to, ends by itself, and nothing is held against it."""
    image = images["torch" if name.startswith("torch") else "base"]
    limits = replace(Limits(), **LIMITS.get(name, {}))
    words = ("python3", "-I", "-c", START, PROGRAMS[name].read_text())
    sandbox_spec = SandboxSpec(replace(image, command=words), replace(policy, limits=limits), run, "job")
    sandbox, heard, deadline = backend.start(sandbox_spec), bytearray(), time.monotonic() + SECONDS
    try:
        while data := sandbox.receive(deadline):
            heard += data
    finally:
        end = sandbox.stop()
    said = end.stderr.decode("utf-8", "replace")[-3000:]
    assert (data, end.ending, bytes(heard)) == (b"", Ending.CLEAN, b"fine\n"), f"{end}\n{said}"
    assert SandboxPolicy(limits).weaknesses() == ()
