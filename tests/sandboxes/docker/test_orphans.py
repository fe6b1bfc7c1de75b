"""Processes that outlive their container: found by what they are, ended only when nobody needs them."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.sandboxes.docker import orphans
from orchestrator.sandboxes.linux import process_tree
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner

HERE = Owner.current_process()
DEAD = replace(HERE, pid=2**22 + 1)
CONTAINER = "c0" * 32


@pytest.fixture
def proc(tmp_path) -> Path:
    """A /proc in which only the processes of this test are."""
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


@pytest.fixture
def leave(tmp_path, proc, monkeypatch):
    """Returns a function that starts a process with some command line and a bundle; all are killed afterwards."""
    monkeypatch.setattr(orphans, "_MIN_AGE_SECONDS", -60.0)
    started = []

    def leave(program: str, owner: Owner, run: str = "run-1", container: str = CONTAINER) -> subprocess.Popen:
        bundle = tmp_path / program / container
        bundle.mkdir(parents=True)
        group = f"/{ProcessTag.create(owner, run).text}/{container}"
        (bundle / "config.json").write_text(json.dumps({"linux": {"cgroupsPath": group}}))
        words = ["-namespace", "moby", "-id", container] if "shim" in program else ["boot", f"--bundle={bundle}"]
        line = [program, "-c", "sleep 60; :", "sh", *words]
        started.append(subprocess.Popen(line, executable="/bin/sh", cwd=bundle, start_new_session=True))
        there = Path(f"/proc/{started[-1].pid}")
        while not (there / "cmdline").read_bytes():  # for a moment after it was started
            time.sleep(0.01)
        (proc / there.name).symlink_to(there)
        return started[-1]

    yield leave
    for process in started:
        with process, suppress(ProcessLookupError):  # a sweep of another test may have found it too
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("program", ["runsc-sandbox", "runsc-gofer", "/usr/bin/containerd-shim-runc-v2"])
def test_what_a_dead_orchestrators_container_left_is_ended(leave, proc, program):
    """A sandbox or gofer of gVisor and a shim are killed when their orchestrator is dead and the engine forgot them."""
    process = leave(program.rpartition("/")[2], DEAD)
    assert [each.container for each in orphans.find_runtime_processes(proc)] == [CONTAINER]
    assert orphans.kill_orphans(set, HERE, None, proc) == 1
    assert process.wait(10) == -signal.SIGKILL


def test_what_is_in_use_is_spared(leave, proc):
    """A live orchestrator's, one whose container the engine still knows, and the run to keep are left alone."""
    live = leave("runsc-sandbox", HERE)
    known = leave("runsc-gofer", DEAD, container="d0" * 32)
    kept = leave("containerd-shim-runc-v2", DEAD, run="kept", container="e0" * 32)
    assert orphans.kill_orphans(lambda: {"d0" * 32}, HERE, process_tree.run_digest("kept"), proc) == 0
    assert [process.poll() for process in (live, known, kept)] == [None] * 3


def test_a_young_process_may_belong_to_a_container_to_be(leave, proc, monkeypatch):
    """What was started a moment ago is not judged: its container may not be listed yet."""
    monkeypatch.setattr(orphans, "_MIN_AGE_SECONDS", 10.0)
    process = leave("runsc-sandbox", DEAD)
    assert orphans.kill_orphans(set, HERE, None, proc) == 0
    assert process.poll() is None


def test_other_processes_are_none_of_ours(leave, proc, tmp_path):
    """A shim without our mark in its specification, and a program that only sounds alike, are not even found."""
    leave("not-runsc-sandbox", DEAD)
    leave("containerd-shim-runc-v2", DEAD, container="f0" * 32)
    for path in Path(tmp_path).rglob("config.json"):
        path.write_text(json.dumps({"linux": {"cgroupsPath": "/docker/" + "f0" * 32}}))
    assert len(list(proc.iterdir())) == 2
    assert list(orphans.find_runtime_processes(proc)) == []


def test_no_leftover_means_the_engine_is_not_asked(proc):
    """Nothing was found, so the engine's list is not fetched."""
    assert orphans.kill_orphans(lambda: pytest.fail("the engine was asked"), HERE, None, proc) == 0
