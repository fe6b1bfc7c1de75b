"""A backend that has one player and no other: the job ends with what it has, and goes on elsewhere."""

import pytest

from orchestrator.arena.performance import Performance
from orchestrator.domain.plan import Stage
from orchestrator.errors import PodSpent
from orchestrator.record import Record

from .conftest import shift


class Once:
    """An attack that answers one question and then ends; each sandbox has one of its own."""

    def __init__(self, seed: int) -> None:
        self.asked = 0

    def __call__(self, header, payload):
        """Answers the first question."""
        self.asked += 1
        return shift(header, payload) if self.asked == 1 else b""


def test_a_second_start_is_tried_once_and_no_attempt_fails(stage):
    """Finished steps are handed out, the fault among them; PodSpent comes at once; another pod finishes the job."""
    played = stage(attacks={"once": Once})
    job = next(job for job in played.plan().jobs if job.stage is Stage.PERTURB)
    happened = []
    played.backend.lose = lambda what, count: what == "start" and count > 1 and PodSpent("spent")
    with pytest.raises(PodSpent):
        Performance(job, played.setting, played.record, None).run(lambda *new: happened.extend(new))
    assert len(played.backend.orders) == 2
    assert [event.kind for event in happened] == ["step_finished"] * 2
    assert [[fault.code for fault in event.faults] for event in happened] == [[], ["died"]]

    played.backend.lose = lambda what, count: False
    record = Record(played.setting.blobs, happened)
    Performance(job, played.setting, record, None).run(lambda *new: happened.extend(new))
    assert [event.kind for event in happened] == [*["step_finished"] * 3, "job_finished"]
    assert [event.step for event in happened[:3]] == [0, 1, 2]
