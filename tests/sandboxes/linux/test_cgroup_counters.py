"""What control groups say, read from recorded files, and the group above a sandbox on a file system that plays one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux import cgroup, cgroup_counters, parent_cgroup
from orchestrator.sandboxes.linux.cgroup_counters import Usage
from orchestrator.sandboxes.linux.deferred_errors import DeferredErrors
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.linux.process_tree import ProcessTag, run_digest
from orchestrator.sandboxes.linux.sandbox_owner import Owner

RECORDED = Path(__file__).parents[1] / "recorded"
MIB = 1024 * 1024


def folders(name: str) -> list[Path]:
    """Returns the folders of the group `parent` in a recorded tree."""
    return [one / "parent" for one in cgroup_counters.hierarchies(RECORDED / name)]


def test_version_1_is_read():
    """Peak and processor time come from two hierarchies, one of them with two controllers."""
    assert len(folders("cgroup-v1")) == 3
    assert cgroup_counters.read_usage(folders("cgroup-v1")) == Usage(67_104_768, 0.077987143, 6, 0)


def test_version_2_is_read():
    """One hierarchy holds everything, kills of groups below included."""
    assert folders("cgroup-v2") == [RECORDED / "cgroup-v2" / "parent"]
    assert cgroup_counters.read_usage(folders("cgroup-v2")) == Usage(67_108_864, 0.061619, 40, 2)


def test_what_an_old_kernel_lacks_is_not_made_up():
    """Without the files of the peaks they are unknown, and the rest is read."""
    assert cgroup_counters.read_usage(folders("cgroup-v2-old")) == Usage(None, 1.5, None, 0)


def test_processes_below_are_seen():
    """A process in the container's own group is found from the group above it."""
    assert cgroup_counters.processes_in(folders("cgroup-v2")) == {4242, 4243}


def test_nothing_is_known_of_a_group_that_is_gone(tmp_path):
    """No file is no figure, and no error."""
    assert cgroup_counters.read_usage([tmp_path / "gone"]) == Usage()


@pytest.mark.parametrize("text", ["", "max\n", "many\n", "12 13\n"])
def test_a_file_that_is_no_number_is_no_figure(tmp_path, text):
    """What cannot be read as a number is unknown."""
    (tmp_path / "memory.peak").write_text(text)
    assert cgroup_counters.read_usage([tmp_path]).peak_bytes is None


def test_counters_never_go_down():
    """A later look that knows less, or less of it, takes nothing away from an earlier one."""
    assert Usage(None, 1.0, 3, 0).merged_with(Usage(7, 2.0, None, 1)) == Usage(7, 2.0, 3, 1)


def test_a_containers_own_group_is_found_under_its_parent():
    """The group of a container whose parent we named is looked for there, and nowhere else."""
    found = cgroup.ContainerCgroup("container", RECORDED / "cgroup-v2", "/parent")
    assert found._processes() == {4242, 4243}
    assert cgroup.ContainerCgroup("container", RECORDED / "cgroup-v2")._folders == []


@pytest.fixture
def tree(tmp_path):
    """A file system that looks like version 2. Its files have to be removed before its folders can be."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    return tmp_path


def test_the_group_above_says_what_was_used(tree):
    """It is made with a name that says who made it, read, and removed."""
    account = ParentCgroup.open(Owner.current_process(), "run", 64 * MIB, tree)
    [made] = [path for path in tree.iterdir() if path.is_dir()]
    assert account.path == f"/{made.name}"
    assert ProcessTag.parse(made.name).pid == os.getpid()
    files = {"cpu.stat": "usage_usec 20000\n", "memory.peak": "4096\n", "memory.events": "oom_kill 1\n"}
    for name, text in files.items():
        (made / name).write_text(text)
    assert account.usage() == Usage(4096, 0.02, None, 1)
    for name in files:
        (made / name).unlink()
    account.close()
    account.close()
    assert not made.exists()


def test_a_group_that_nothing_ran_in_says_nothing(tree):
    """Where the engine put the container elsewhere, zeros are not taken for figures."""
    account = ParentCgroup.open(Owner.current_process(), "run", 64 * MIB, tree)
    [made] = [path for path in tree.iterdir() if path.is_dir()]
    (made / "cpu.stat").write_text("usage_usec 0\n")
    assert account.usage() is None


def test_a_group_that_does_not_go_away_is_not_passed_over(tree, monkeypatch):
    """What cannot be removed is an error, so that it is tried again."""
    monkeypatch.setattr(parent_cgroup, "_REMOVAL_SECONDS", 0.1)
    account = ParentCgroup.open(Owner.current_process(), "run", 64 * MIB, tree)
    [made] = [path for path in tree.iterdir() if path.is_dir()]
    (made / "stays").write_text("")
    with pytest.raises(SandboxLost, match="does not go away"):
        account.close()


def test_a_tree_that_may_not_be_written_has_no_groups_of_ours(tree, monkeypatch):
    """Without the right to make groups there is none, and no error."""
    monkeypatch.setattr(parent_cgroup.os, "access", lambda *_: False)
    assert ParentCgroup.open(Owner.current_process(), "run", 64 * MIB, tree) is None
    assert [path for path in tree.iterdir() if path.is_dir()] == []


def test_groups_of_the_dead_are_swept(tree):
    """Those of a dead owner go, with what the engine made below; those of a live one and of the run to keep stay."""
    here = Owner.current_process()
    dead = Owner(here.boot, here.pid_namespace, here.pid, here.start_time + 1, here.host)
    kept = ProcessTag.create(dead, "kept").text
    names = {ProcessTag.create(dead, "run").text, ProcessTag.create(here, "run").text, kept, "sparring-something-else"}
    for name in names:
        (tree / name / "container").mkdir(parents=True)
    failed = DeferredErrors()
    assert parent_cgroup.remove_dead_cgroups(here, failed, run_digest("kept"), tree) == 1
    left = {path.name for path in tree.iterdir() if path.is_dir()}
    assert len(left) == 3
    assert kept in left
    assert parent_cgroup.remove_dead_cgroups(here, failed, None, tree) == 1
    failed.raise_first()


def test_a_group_that_does_not_go_away_keeps_no_other_here(tree, monkeypatch):
    """Those of a run that ended go, whatever becomes of one of them; that one is told at the end."""
    monkeypatch.setattr(parent_cgroup, "_REMOVAL_SECONDS", 0.1)
    here, failed = Owner.current_process(), DeferredErrors()
    names = sorted(ProcessTag.create(here, "run").text for _ in range(3))
    for name in names:
        (tree / name).mkdir()
    (tree / names[0] / "stays").write_text("")
    assert parent_cgroup.remove_dead_cgroups(here, failed, None, tree, ended_run=run_digest("run")) == 2
    assert [path.name for path in tree.iterdir() if path.is_dir()] == names[:1]
    with pytest.raises(SandboxLost, match=names[0]):
        failed.raise_first()


def test_processes_that_live_on_are_ended(tree, monkeypatch):
    """A process of a group that is cleared is killed before the group goes."""
    folder = tree / "haunted"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as ghost:
        looks = iter([{ghost.pid}])
        monkeypatch.setattr(cgroup_counters, "processes_in", lambda _: next(looks, set()))
        assert cgroup.kill_and_remove([folder])
        assert ghost.wait(10) == -9
    assert not folder.exists()


def test_a_group_that_goes_while_it_is_looked_for_has_nobody(tmp_path, monkeypatch) -> None:
    """An engine removes a container's group whenever it likes: those that are still there are read all the same."""
    for name, pid in (("", 5), ("gone", 6), ("there", 7)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "cgroup.procs").write_text(f"{pid}\n")
    scan = os.scandir

    def remove_first(path):
        if not isinstance(path, int) and Path(path).name == "gone":
            shutil.rmtree(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", remove_first)
    assert cgroup_counters.processes_in([tmp_path]) == {5, 7}
