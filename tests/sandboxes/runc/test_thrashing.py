"""When a sandbox that reads its own program again and again counts as out of memory."""

import itertools

from orchestrator.sandboxes.linux.cgroup_counters import FileCache, read_file_cache
from orchestrator.sandboxes.runc.thrashing import ThrashingDetector

MIB = 1024 * 1024


def said(caches, step: float = 0.25) -> list[bool]:
    """Returns what the detector says at each of these samples, so many seconds apart."""
    left, ticks = list(caches), itertools.count()
    detector = ThrashingDetector(lambda: left.pop(0), lambda: next(ticks) * step)
    return [detector.is_thrashing() for _ in caches]


def refaulting(size: int, each: int, count: int) -> list[FileCache | None]:
    """Returns samples of a cache of so many bytes, of which `each` are read anew between two."""
    return [FileCache(size, each * number) for number in range(count)]


def test_three_samples_in_a_row_are_needed() -> None:
    """A cache of 1 MiB that is read anew 40 times a second says so with the fourth sample."""
    assert said(refaulting(MIB, 10 * MIB, 5)) == [False, False, False, True, True]


def test_a_large_file_that_is_read_over_and_over_is_none() -> None:
    """All of the cache was read anew once in a second: no more than any program does that reads more than fits."""
    assert not any(said(refaulting(1024 * MIB, 256 * MIB, 20)))


def test_a_pause_starts_the_count_again() -> None:
    """Two bad samples, a good one, two bad ones: nothing is ended."""
    refaulted = [0, 10, 20, 20, 30, 40]
    assert not any(said([FileCache(MIB, each * MIB) for each in refaulted]))


def test_samples_are_no_closer_than_their_distance() -> None:
    """Who asks more often is not told sooner."""
    assert said(refaulting(MIB, 10 * MIB, 8), step=0.125) == [False] * 6 + [True, False]


def test_what_the_kernel_does_not_say_is_no_reason() -> None:
    """Without the counters nothing is ended."""
    assert not any(said([None] * 5))


def test_both_versions_of_control_groups_are_read(tmp_path) -> None:
    """Version 1 has sums with `total_`, version 2 has sums only; memory that is shared is no file."""
    first, second = tmp_path / "1", tmp_path / "2"
    for folder, text in (
        (first, "cache 1\nshmem 1\ntotal_cache 8192\ntotal_shmem 4096\ntotal_workingset_refault_file 3\n"),
        (second, "file 8192\nshmem 4096\nworkingset_refault_file 3\n"),
    ):
        folder.mkdir()
        (folder / "memory.stat").write_text(text)
        assert read_file_cache([folder]) == FileCache(4096, 3 * 4096)
    assert read_file_cache([tmp_path / "none"]) is None
