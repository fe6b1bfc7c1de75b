"""Files of /proc as constants: what is in them, and where they lie."""

import gc
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.sandboxes.linux import constant_files, masked_paths
from orchestrator.sandboxes.linux.constant_files import ConstantFiles
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner

MEMORY = 512 * 1024**2


def test_each_place_is_masked_otherwise() -> None:
    """A constant takes the place of a mask, never of something that a player may see."""
    places = [place for place, _ in constant_files.constant_texts(MEMORY, (0,))]
    assert tuple(places) == constant_files.MOUNT_PATHS
    assert {"/proc/meminfo", "/proc/stat"} <= masked_paths.ALWAYS_MASKED
    assert not {place.removeprefix("/proc/") for place in places} & set(masked_paths._VISIBLE["/proc"])


@pytest.mark.parametrize(
    ("online", "cpus"), [("0\n", ["cpu0"]), ("0-2\n", ["cpu0", "cpu1", "cpu2"]), ("0,2-3\n", ["cpu0", "cpu2", "cpu3"])]
)
def test_they_say_what_the_limits_say(tmp_path, online, cpus) -> None:
    """All memory is there and free, each processor that is on has its line, and nothing was counted."""
    (tmp_path / "online").write_text(online)
    constants = ConstantFiles(tmp_path / "online")
    found = {place: Path(source).read_text() for place, source in constants.sources(MEMORY)}
    sizes = dict(line.split(":") for line in found["/proc/meminfo"].splitlines())
    assert {sizes[name].split()[0] for name in ("MemTotal", "MemFree", "MemAvailable")} == {str(MEMORY // 1024)}
    lines = [line.split() for line in found["/proc/stat"].splitlines()]
    assert [line[0] for line in lines if line[0].startswith("cpu")] == ["cpu", *cpus]
    assert {value for line in lines if line[0] != "procs_running" for value in line[1:]} == {"0"}


@pytest.mark.slow
def test_they_are_the_same_files_for_the_same_limits_and_go_with_their_keeper() -> None:
    """Two sandboxes of one size are given one file, which is written again where it is gone; the last look takes it."""
    constants = ConstantFiles()
    first = constants.sources(MEMORY)
    assert constants.sources(MEMORY) == first
    [(place, source)] = constants.hosts()
    assert place == "/etc/hosts"
    assert "localhost" in Path(source).read_text()
    assert not {source for _, source in first} & {source for _, source in constants.sources(2 * MEMORY)}
    folder = Path(first[0][1]).parents[1]
    shutil.rmtree(folder)
    assert constants.sources(MEMORY) == first
    assert {oct(Path(source).stat().st_mode & 0o777) for _, source in first} == {"0o444"}
    del constants
    gc.collect()
    assert not folder.exists()


def test_there_are_none_where_the_engine_does_not_see_them() -> None:
    """Once it is known that it has another file system, nothing is mounted."""
    constants = ConstantFiles()
    constants.unseen()
    assert constants.sources(MEMORY) == ()
    assert constants.hosts() == ()


def test_what_a_killed_orchestrator_left_is_removed(tmp_path, monkeypatch) -> None:
    """A folder whose owner is dead goes with the next sweep, also an empty one; a live one's and a stranger's stay.

    It has its owner in its name: whoever is killed right after it is made leaves nothing that cannot be judged.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    constants = ConstantFiles()
    kept = {Path(source).parents[1] for _, source in constants.sources(MEMORY)}
    here = Owner.current_process()
    dead, strange = (
        tmp_path / f"sparring-constants-{ProcessTag.create(owner, '').text}"
        for owner in (
            replace(here, start_time=here.start_time + 1),
            replace(here, pid_namespace=here.pid_namespace + 1),
        )
    )
    for folder in (dead, strange, tmp_path / "sparring-constants-unnamed"):
        folder.mkdir()
    assert constant_files.remove_dead_folders(here) == 1
    assert set(tmp_path.iterdir()) == kept | {strange, tmp_path / "sparring-constants-unnamed"}
