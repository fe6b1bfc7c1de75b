"""A sealed bundle says whether replays ran from a fresh copy of the image, and not which (A2, X3)."""

import pytest

from orchestrator.bundles import sealed_lists
from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.redaction import WITHHELD

COPY = "sha256:" + "c" * 64


def work(stage: Stage, copied: str) -> sealed_lists.WorkPart:
    """Returns what a sealed bundle says of a submission's only job."""
    job = events.JobRecord(id="j", stage=stage, submission="a")
    own = {"job": "j", "stage": stage, "submission": "a", "seconds": 1.0}
    step = events.StepFinished(**own, step=0, cells=[], blobs={}, faults=[], fresh_copy=copied)
    end = events.JobFinished(**own, device=None, sandboxes=[])
    return sealed_lists._work_part(RoundView(MemoryBlobs(), [events.PlanMade(jobs=[job]), step, end]), "a", stage)


@pytest.mark.parametrize("copied", [COPY, ""])
def test_a_recount_tells_the_same(copied):
    """Who counts from a sealed bundle learns of the copy what the results say, and no digest."""
    told = work(Stage.REPLAY, copied)
    assert told.fresh_copy is bool(copied)
    assert COPY not in told.model_dump_json()
    again = RoundView(
        MemoryBlobs(), [events.PlanMade(jobs=[sealed_lists._work_job(told)]), *sealed_lists._work_events(told)]
    )
    assert again.round.copied("a") is bool(copied)
    [steps] = again.round.steps.values()
    assert [step.fresh_copy for step in steps.values()] == [WITHHELD if copied else ""]


def test_other_work_has_no_copy():
    """Only replays are said to have run from one."""
    assert work(Stage.CLASSIFY, COPY).fresh_copy is False
