"""A builder's words, and when a build may not go on; the rest is in tests/contract/test_image_store.py."""

import os
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from orchestrator.domain.images import MAX_IMAGE_BYTES
from orchestrator.errors import InfrastructureFault, Rejected
from orchestrator.sandboxes.base import BuildRequest
from orchestrator.sandboxes.docker.engine_http import EngineRefusal, RequestCancelled
from orchestrator.sandboxes.docker.images import build

GIB = 1024**3


def heard(*pieces: str) -> list[str]:
    """Returns the lines that come of a builder's words."""
    lines: list[str] = []
    made = build._LogLines(lines.append)
    for piece in pieces:
        made.feed(piece)
    made.flush()
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


def test_the_last_words_are_those_of_the_step() -> None:
    """What the builder says when it has removed a failed step's container is no line: messages show the last one."""
    assert heard("error: no such wheel\n", "Removing intermediate container 0123456789ab\n") == ["error: no such wheel"]


def test_hostile_words_are_harmless() -> None:
    """Control characters are shown as escapes, and a line without an end is cut where it grows too long."""
    assert heard("\x1b]0;title\x07\n") == ["\\x1b]0;title\\x07"]
    lines = heard(*["x" * 1000] * 100)
    assert [len(line) for line in lines] == [build.MAX_LINE_CHARACTERS] * 50


@pytest.fixture
def disk(monkeypatch) -> SimpleNamespace:
    """A disk whose free bytes a test sets."""
    found = SimpleNamespace(f_bavail=100 * GIB, f_frsize=1, f_files=10**7, f_favail=10**6)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    return found


@pytest.mark.parametrize(
    ("left", "objects"),
    [
        (100 * GIB, ""),
        (100 * GIB - MAX_IMAGE_BYTES, ""),
        (100 * GIB - MAX_IMAGE_BYTES - 1, "it took 21474836481 bytes of the disk, at most 21474836480"),
        (GIB, "it took"),
    ],
)
def test_a_build_that_fills_the_disk_is_ended(disk, left, objects) -> None:
    """It may take what an image may have; whoever takes more has filled the disk."""
    objection = build._BuildLimits(SimpleNamespace(info=lambda: {"DockerRootDir": "/var/lib/docker"}), 60)
    disk.f_bavail = left
    assert objection().startswith(objects) if objects else objection() == ""
    assert objection.disk_full_reason == ""


@pytest.mark.parametrize(("left", "full"), [(build.MIN_FREE_BYTES, False), (build.MIN_FREE_BYTES - 1, True), (0, True)])
def test_a_disk_that_is_too_small_is_ours(disk, left, full) -> None:
    """Where less is free than a build may take, running out of it is not the submission's fault."""
    disk.f_bavail = MAX_IMAGE_BYTES
    objection = build._BuildLimits(SimpleNamespace(info=dict), 60)
    disk.f_bavail = left
    assert objection() == objection.disk_full_reason
    assert ("bytes free, of 21474836480 before" in objection.disk_full_reason) is full


@pytest.fixture
def outcome(disk, monkeypatch) -> Callable[[Exception | None], None]:
    """Returns a function that builds with a builder that ends with an error, after the disk was looked at."""
    engine = SimpleNamespace(info=dict, host=lambda: SimpleNamespace(cgroupfs=False, cpus=1), image=lambda _: {})

    def outcome(error: Exception | None) -> None:
        def built(engine, query, context, objection, heard) -> str:
            objection()
            if error is not None:
                raise error
            return "sha256:1"

        monkeypatch.setattr(build, "_run_build", built)
        build.build_image(engine, BuildRequest(iter(()), "team/entry:1", ()), lambda _: None)

    return outcome


def test_a_build_begins_with_free_space_only(disk, outcome) -> None:
    """Where less is free than has to stay free, nothing is begun, and the message has both numbers and the remedy."""
    outcome(None)
    disk.f_bavail = build.MIN_FREE_BYTES - 1
    with pytest.raises(InfrastructureFault, match=r"has 2147483647 bytes free before .*docker system df.* 2147483648"):
        outcome(EngineRefusal("never asked"))


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (EngineRefusal("The command '/bin/sh -c echo no space left on device' returned a non-zero code: 1"), Rejected),
        (EngineRefusal("COPY failed: stat no space left on device: file does not exist"), Rejected),
        (RequestCancelled("it took 21474836481 bytes of the disk, at most 21474836480"), Rejected),
        (RequestCancelled("it took more than 1800 s"), Rejected),
    ],
)
def test_whose_fault_a_failed_build_is(outcome, error, fault) -> None:
    """What a step says of a full disk is the submission's, and so is a build that was ended."""
    with pytest.raises(fault):
        outcome(error)


@pytest.mark.parametrize(
    ("space", "fault"),
    [
        ({"f_bavail": MAX_IMAGE_BYTES}, InfrastructureFault),
        ({"f_favail": 1000}, InfrastructureFault),
        ({"f_favail": 0, "f_files": 0}, Rejected),
        ({}, Rejected),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        "write /var/lib/docker/tmp/x: no space left on device",
        "Error processing tar file(exit status 1): write /x: No space left on device.",
    ],
)
def test_words_of_a_full_disk_are_compared_with_the_disk(disk, outcome, words, space, fault) -> None:
    """A file system has other room that a submission can fill, such as for attributes of its files."""
    vars(disk).update(space)
    with pytest.raises(fault, match="(?i)no space" if fault is Rejected else "free space"):
        outcome(EngineRefusal(words))


def test_a_disk_that_ran_full_is_ours(disk, outcome, monkeypatch) -> None:
    """A build that was ended for want of space that it may have is not refused."""
    free = iter((MAX_IMAGE_BYTES, GIB))
    monkeypatch.setattr(build._BuildLimits, "_free_bytes", lambda _: next(free))
    with pytest.raises(InfrastructureFault, match=r"image team/entry:1 was not built: .* 1073741824 bytes free, of"):
        outcome(RequestCancelled("the engine's disk"))


def test_a_build_ends_with_its_time(disk) -> None:
    """After its seconds it may not go on, and the message has them."""
    objection = build._BuildLimits(SimpleNamespace(info=dict), 0.01)
    time.sleep(0.02)
    assert objection() == "it took more than 0.01 s"


def test_a_folder_that_cannot_be_looked_at_stands_for_the_one_above(tmp_path) -> None:
    """The engine's own folder may be closed to us; the disk is the same."""
    assert build.nearest_readable_folder(tmp_path / "there" / "is" / "none") == tmp_path
