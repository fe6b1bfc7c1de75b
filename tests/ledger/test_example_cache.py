"""What attacks made is put together once: in the samples' order, for all readers, and only from pictures."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from orchestrator.domain import events
from orchestrator.domain.outcomes import Forfeit
from orchestrator.errors import StoreFault
from orchestrator.ledger import example_cache
from orchestrator.ledger.example_cache import ExampleCache
from orchestrator.ledger.stores.base import put_array
from orchestrator.ledger.stores.memory import MemoryBlobs

SHAPE = (3, 4, 4)


@pytest.fixture
def blobs() -> MemoryBlobs:
    """Blobs of these tests alone."""
    return MemoryBlobs()


def step(blobs, number: int, index: list[int], pixels=None) -> events.StepFinished:
    """Returns a step of an attack that made pictures whose every value is their place among the samples."""
    count = len(index)
    if pixels is None:
        pixels = np.broadcast_to(np.array(index, np.uint8)[:, None, None, None], (count, *SHAPE))
    arrays = {
        "index": np.array(index, np.int32),
        "candidates": np.ascontiguousarray(pixels),
        "forfeits": np.full(count, Forfeit.NONE, np.uint8),
        "violations": np.array([place % 2 == 0 for place in index]),
        "distances": np.array(index, np.float64),
    }
    return events.StepFinished.model_construct(
        job="job", step=number, blobs={name: put_array(blobs, array) for name, array in arrays.items()}
    )


def test_pictures_come_in_the_order_of_the_samples(blobs) -> None:
    """Whatever the order of the steps, and within them."""
    found = ExampleCache(blobs).read(("a", ""), [step(blobs, 0, [4, 1]), step(blobs, 1, [0, 3, 2])])
    assert found.pixels.shape == (5, *SHAPE)
    assert found.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert found.distances.tolist() == [0, 1, 2, 3, 4]
    assert found.violations.tolist() == [True, False, True, False, True]


def test_they_are_read_once(blobs, monkeypatch) -> None:
    """Eight threads that want the same get the same arrays; other steps of that attack are read anew."""
    steps, read = [step(blobs, 0, [0, 1])], []
    get = blobs.get
    monkeypatch.setattr(blobs, "get", lambda digest: read.append(digest) or get(digest))
    shared = ExampleCache(blobs)
    with ThreadPoolExecutor(8) as pool:
        assert len({id(found) for found in pool.map(lambda _: shared.read(("a", ""), steps), range(8))}) == 1
    assert len(read) == 5
    assert len(shared.read(("a", ""), [*steps, step(blobs, 1, [2])]).pixels) == 3


def test_nobody_writes_to_them(blobs) -> None:
    """Who tried would change what others are asked."""
    found = ExampleCache(blobs).read(("a", ""), [step(blobs, 0, [0])])
    for array in (found.pixels, found.forfeits, found.violations, found.distances):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    "pixels", [np.zeros((1, *SHAPE), np.float32), np.zeros((1, 3, 4, 5), np.uint8), np.zeros((2, *SHAPE), np.uint8)]
)
def test_what_are_no_pictures_is_told(blobs, pixels) -> None:
    """Another type, size or number than the rest: a record that was changed, and nothing is converted."""
    with pytest.raises(StoreFault, match="step 1 of job job"):
        ExampleCache(blobs).read(("a", ""), [step(blobs, 0, [0]), step(blobs, 1, [1], pixels)])


def test_without_room_for_a_file_they_stay_in_memory(blobs, monkeypatch, tmp_path) -> None:
    """A driver in a pod may have no folder to write to."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    found = ExampleCache(blobs).read(("a", ""), [step(blobs, 0, [0, 1])])
    assert found.pixels[:, 0, 0, 0].tolist() == [0, 1]


def test_many_attacks_lie_in_few_files() -> None:
    """Each mapping keeps a file open, and a process may have a thousand; no two arrays share a byte."""
    memory = example_cache._MappedMemory()
    before = len(list(Path("/proc/self/fd").iterdir()))
    arrays = [memory.array((100, *SHAPE)) for _ in range(1000)]
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 4
    for number, array in enumerate(arrays):
        array[:] = number % 251
    assert all((array == number % 251).all() for number, array in enumerate(arrays))
    assert memory.array((0, *SHAPE)).shape == (0, *SHAPE)
