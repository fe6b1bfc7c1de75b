"""What a sandbox can read of /proc and /sys: each file has its verdict in docs/kernel-files.md."""

import json
import os
import re
import time
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.linux import constant_files

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker", "runc"], indirect=True, scope="module")]

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

SIZES = """
import json, os
meminfo = dict(line.split(":") for line in open("/proc/meminfo"))
memory = {name: int(meminfo[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable", "MemFree")}
cpus = [line for line in open("/proc/stat") if line.startswith("cpu") and line[3].isdigit()]
files = {name: open(f"/proc/{name}").read() for name in ("meminfo", "stat", "uptime", "loadavg")}
def refused(name):
    try:
        open(f"/proc/{name}", "w")
    except OSError:
        return True
print(json.dumps([memory, len(cpus), os.cpu_count(), files, all(map(refused, files))]))
"""
"""Prints what a program learns of the size of the machine, the files themselves, and whether none can be written."""


def readable(backend, image, run, policy, program=READ, **change) -> Any:
    """Returns what a program reads in a sandbox."""
    image = replace(image, command=("python3", "-c", program))
    sandbox = backend.start(SandboxSpec(image, replace(policy, **change), run, "job"))
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


def test_the_size_of_the_machine_is_what_the_limits_say(backend, image, run, policy) -> None:
    """A runtime reads the limit as memory, and every processor, idle; two sandboxes read the same bytes."""
    small = replace(policy, limits=replace(policy.limits, memory=policy.limits.memory - 4096 * 1024))
    first = readable(backend, image, run, policy, SIZES)
    list(Path("/usr").rglob("never-there"))
    again = readable(backend, image, run, policy, SIZES)
    other = readable(backend, image, run, small, SIZES)
    memory, lines, cpus, files, refused = first
    assert set(memory.values()) == {policy.limits.memory}
    assert set(other[0].values()) == {small.limits.memory}
    assert lines == cpus == os.cpu_count()
    assert files == again[3]
    assert refused


def test_an_engine_that_does_not_see_our_files_masks_them(backend, image, run, policy, monkeypatch) -> None:
    """Where it has another file system there are no constants, and the kernel's own are hidden as all others."""
    if backend.name == "runc":
        pytest.skip("runc sees this machine's files: there is no engine elsewhere")
    missing = tuple((place, "/nowhere/to-be-seen") for place in constant_files.MOUNT_PATHS)
    kept = constant_files.ConstantFiles()
    monkeypatch.setattr(kept, "sources", lambda _memory: () if kept._unseen else missing)
    monkeypatch.setattr(backend, "_constants", kept)
    seen = readable(backend, image, run, policy)
    assert kept._unseen
    assert seen
    assert not seen.keys() & set(constant_files.MOUNT_PATHS)
