"""What the ledger says of a round, arrays included."""

import sys
import threading

import numpy as np
import pytest

from orchestrator.domain import events
from orchestrator.domain.outcomes import NOT_ASKED, Forfeit
from orchestrator.domain.plan import Cell, Stage
from orchestrator.errors import StoreFault
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import put_array
from orchestrator.ledger.stores.memory import MemoryBlobs

COUNT = 4


@pytest.fixture
def blobs():
    """Where the arrays of a test are kept."""
    return MemoryBlobs()


def plan(*jobs):
    """Returns the event that these (id, stage, submission) are planned."""
    return events.PlanMade(jobs=[events.JobRecord(id=name, stage=stage, submission=who) for name, stage, who in jobs])


def finished(job, stage, who):
    """Returns the event that a job is finished."""
    return events.JobFinished(job=job, stage=stage, submission=who, device=None, seconds=0, sandboxes=[])


def step(blobs, job, stage, who, number, arrays, cells=()):
    """Returns the event that a step was played, its arrays kept as blobs."""
    return events.StepFinished(
        job=job,
        stage=stage,
        submission=who,
        step=number,
        cells=[events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in cells],
        blobs={name: put_array(blobs, array) for name, array in arrays.items()},
        faults=[],
        seconds=0,
    )


def perturbed(blobs, number, index, *, job="p", who="a"):
    """Returns a finished step of an attack: picture i became all i, forfeited where i is odd."""
    index = np.array(index, np.int32)
    arrays = {
        "index": index,
        "candidates": np.repeat(index.astype(np.uint8), 4).reshape(-1, 1, 2, 2),
        "forfeits": np.where(index % 2, Forfeit.BUDGET, Forfeit.NONE).astype(np.uint8),
        "violations": index % 2 == 1,
        "distances": np.where(index == 2, np.nan, index).astype(np.float64),
    }
    return step(blobs, job, Stage.PERTURB, who, number, arrays)


def test_candidates_come_in_the_order_of_the_samples(blobs):
    """Steps in any order, each with its own pictures, make one array per attack, every column in the same order."""
    past = [
        plan(("p", Stage.PERTURB, "a")),
        perturbed(blobs, 1, [3, 1]),
        perturbed(blobs, 0, [2, 0]),
        finished("p", Stage.PERTURB, "a"),
    ]
    made = RoundView(blobs, past).adversarial_examples("a")
    assert made.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert made.forfeits.tolist() == [Forfeit.NONE, Forfeit.BUDGET, Forfeit.NONE, Forfeit.BUDGET]
    assert made.violations.tolist() == [False, True, False, True]
    assert np.array_equal(made.distances, [0, 1, np.nan, 3], equal_nan=True)


def test_half_an_attack_is_no_attack(blobs):
    """Until its job is finished an attack has no candidates, so that no cell is judged on a part."""
    record = RoundView(blobs, [plan(("p", Stage.PERTURB, "a")), perturbed(blobs, 0, [0, 1])])
    assert record.adversarial_examples("a") is None
    assert record.adversarial_examples("nobody") is None
    assert record.steps("p")[0].step == 0
    assert record.steps("q") == {}


def test_a_job_that_is_no_longer_planned_does_not_count(blobs):
    """After a new plan only the work that it names is read (X4)."""
    past = [plan(("p", Stage.PERTURB, "a")), perturbed(blobs, 0, [0]), finished("p", Stage.PERTURB, "a")]
    record = RoundView(blobs, past)
    assert record.adversarial_examples("a") is not None
    record.apply(plan(("other", Stage.PERTURB, "a")))
    assert record.adversarial_examples("a") is None
    assert record.finished_jobs == {"p"}


def test_answers_are_told_apart_by_their_cells(blobs):
    """One job may play several cells in one order; each cell has its own answers, and what was not asked says so."""
    cells = (Cell("d"), Cell("d", "a"))
    rows = [np.array(part, np.int32) for part in ([[1, 2, 7], [0, 0, 5]], [[0, 2, 6], [1, 0, -2]])]
    past = [
        plan(("c", Stage.CLASSIFY, "d")),
        *(step(blobs, "c", Stage.CLASSIFY, "d", n, {"rows": part}, cells) for n, part in enumerate(rows)),
        finished("c", Stage.CLASSIFY, "d"),
    ]
    found = RoundView(blobs, past).answers("d", COUNT)
    assert {cell: answers.tolist() for cell, answers in found.items()} == {
        Cell("d"): [5, NOT_ASKED, 6, NOT_ASKED],
        Cell("d", "a"): [-2, NOT_ASKED, 7, NOT_ASKED],
    }


def test_a_cell_in_which_nothing_was_asked_is_a_cell(blobs):
    """An attack of forfeits alone leaves a cell without rows; it is played, and every picture was not asked (A8)."""
    empty = np.empty((0, 3), np.int32)
    past = [
        plan(("c", Stage.CLASSIFY, "d")),
        step(blobs, "c", Stage.CLASSIFY, "d", 0, {"rows": empty}, (Cell("d", "a"),)),
        finished("c", Stage.CLASSIFY, "d"),
    ]
    assert RoundView(blobs, past).answers("d", COUNT)[Cell("d", "a")].tolist() == [NOT_ASKED] * COUNT


def test_replays_are_no_answers(blobs):
    """What was asked again is evidence, and never counts towards a cell."""
    rows = np.array([[0, 0, 1]], np.int32)
    past = [
        plan(("r", Stage.REPLAY, "d")),
        step(blobs, "r", Stage.REPLAY, "d", 0, {"rows": rows}, (Cell("d"),)),
        finished("r", Stage.REPLAY, "d"),
    ]
    assert RoundView(blobs, past).answers("d", COUNT) == {}


def opened(pixels, labels):
    """Returns the first event of a round on these pictures."""
    task = events.TaskRecord(
        name="t",
        classes=["x", "y"],
        shape=[1, 2, 2],
        count=2,
        digest="sha256:" + "0" * 64,
        norm="linf",
        epsilon="8",
        pixels=pixels,
        labels=labels,
    )
    return events.RoundOpened(
        round="r", contest={}, task=task, backend="b", commitment=task.digest, software="0", protocol=1
    )


def test_the_samples_are_in_the_record(blobs):
    """Pictures, labels and class names come from the round's first event; without it there are none."""
    pixels, labels = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2), np.array([1, 0])
    record = RoundView(blobs, [opened(put_array(blobs, pixels), put_array(blobs, labels))])
    samples = record.samples
    assert np.array_equal(samples.pixels, pixels)
    assert (samples.labels.tolist(), samples.classes) == ([1, 0], ("x", "y"))
    with pytest.raises(StoreFault, match="no round was opened"):
        _ = RoundView(blobs).samples


def test_a_missing_blob_is_a_fault_of_ours(blobs):
    """A record whose arrays are gone cannot be read, and says which blob is missing (X1)."""
    gone = "sha256:" + "1" * 64
    with pytest.raises(StoreFault, match=gone):
        _ = RoundView(blobs, [opened(gone, gone)]).samples


def test_a_record_can_be_read_while_it_grows(blobs):
    """A reader in another thread sees whole events while one thread adds to the record."""
    past = [finished(f"j{n}", Stage.PERTURB, "a") for n in range(1000)]
    record = RoundView(blobs)
    stop = threading.Event()
    failures = []

    def read():
        try:
            while not stop.is_set():
                assert len(record.finished_jobs) <= len(past)
        except Exception as error:  # noqa: BLE001  shown in the main thread
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for event in past:
            record.apply(event)
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert failures == []
    assert len(record.finished_jobs) == len(past)
