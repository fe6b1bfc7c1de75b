"""A builder's words, and when a build may not go on; the rest is in tests/contract/test_workshop.py."""

import os
import time
from types import SimpleNamespace

import pytest

from orchestrator.backends import _building
from orchestrator.domain.images import LARGEST_IMAGE

GIB = 1024**3


def heard(*pieces: str) -> list[str]:
    """Returns the lines that come of a builder's words."""
    lines: list[str] = []
    made = _building._Lines(lines.append)
    for piece in pieces:
        made.add(piece)
    made.end()
    return lines


def test_words_become_lines() -> None:
    """Pieces are put together, colours and progress bars taken out, empty lines left out."""
    assert heard("one\ntw", "o\n", "\n", "\x1b[91mthree\x1b[0m\r\n", " 1 %\r 99 %\r100 %\n", "end") == [
        "one",
        "two",
        "three",
        "100 %",
        "end",
    ]


def test_hostile_words_are_harmless() -> None:
    """Control characters are shown as escapes, and a line without an end is cut where it grows too long."""
    assert heard("\x1b]0;title\x07\n") == ["\\x1b]0;title\\x07"]
    lines = heard(*["x" * 1000] * 100)
    assert [len(line) for line in lines] == [_building.LONGEST_LINE] * 50


@pytest.fixture
def disk(monkeypatch) -> SimpleNamespace:
    """A disk whose free bytes a test sets."""
    found = SimpleNamespace(f_bavail=100 * GIB, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    return found


@pytest.mark.parametrize(
    ("left", "objects"),
    [(100 * GIB, False), (100 * GIB - LARGEST_IMAGE, False), (100 * GIB - LARGEST_IMAGE - 1, True), (GIB, True)],
)
def test_a_build_that_fills_the_disk_is_ended(disk, left, objects) -> None:
    """It may take what an image may have, and leaves what has to stay free."""
    objection = _building._Objection(SimpleNamespace(info=lambda: {"DockerRootDir": "/var/lib/docker"}), 60)
    disk.f_bavail = left
    assert ("it filled the disk" in objection()) is objects


def test_a_build_ends_with_its_time(disk) -> None:
    """After its seconds it may not go on, and the message has them."""
    objection = _building._Objection(SimpleNamespace(info=dict), 0.01)
    time.sleep(0.02)
    assert objection() == "it took more than 0.01 s"


def test_a_folder_that_cannot_be_looked_at_stands_for_the_one_above(tmp_path) -> None:
    """The engine's own folder may be closed to us; the disk is the same."""
    assert _building._nearest(tmp_path / "there" / "is" / "none") == tmp_path
