"""What a sandbox can read of /proc and /sys: each file has its verdict in docs/kernel-files.md."""

import json
import re
import time
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from orchestrator.backends.base import Order

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]

TEXT = (Path(__file__).parents[2] / "docs" / "kernel-files.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(/[^`]+)` \| (masked|own|constant|open) \| .+ \|$", TEXT, re.MULTILINE)
READ = """
import json, os
found = {}
for top in ("/proc", "/sys"):
    for root, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(root, name)) and name != "task"]
        for name in files:
            path = os.path.join(root, name)
            try:
                place = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    data = os.read(place, 4096)
                finally:
                    os.close(place)
            except OSError:
                continue
            if data:
                found[path] = data.hex()
print(json.dumps(found))
"""
"""Prints what can be read, by its path; what is empty says nothing."""


def readable(backend, image, run, policy, **change) -> dict[str, str]:
    """Returns what a sandbox reads."""
    image = replace(image, command=("python3", "-c", READ))
    sandbox = backend.start(Order(image, replace(policy, **change), run, "job"))
    until, heard = time.monotonic() + 60, b""
    while data := sandbox.receive(until):
        heard += data
    sandbox.stop()
    return json.loads(heard)


def row(path: str) -> tuple[str, str] | None:
    """Returns the first row that a path belongs to."""
    named = re.sub(r"(?<=/)\d+(?=/|$)", "N", re.sub(r"/(cpu|node)\d+(?=/)", r"/\1N", path))
    return next((each for each in ROWS if fnmatchcase(named, each[0])), None)


def test_every_file_that_can_be_read_has_its_verdict(backend, image, run, policy) -> None:
    """Behind the masks there is no file that is to be masked; without them there is none that the table lacks."""
    seen = readable(backend, image, run, policy)
    verdicts = {path: row(path) for path in seen}
    assert not {path: found for path, found in verdicts.items() if found is None or found[1] == "masked"}
    bare = readable(backend, image, run, policy, masked_proc=False)
    assert len(bare) > 2 * len(seen)
    assert {row(path)[1] for path in bare.keys() - seen.keys() if not re.match(r"/proc/\d+/", path)} == {"masked"}


def test_what_is_called_constant_is(backend, image, run, policy) -> None:
    """Two sandboxes read the same, with work of the machine between them."""
    first = readable(backend, image, run, policy)
    list(Path("/usr").rglob("never-there"))
    second = readable(backend, image, run, policy)
    constant = {path for path in first if row(path)[1] == "constant"}
    assert len(constant) > 50
    assert not {path for path in constant if first[path] != second.get(path)}
