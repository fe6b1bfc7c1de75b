"""A season whose round was mended: what was judged before the loss is followed too, so its arrays have to be there."""

import pytest

from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.errors import StoreFault
from orchestrator.ledger.contest_folder import ContestFolder
from tests.blob_files import BlobPlace, find_blob

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first


def blob(cup, stage: Stage, submission: str) -> BlobPlace:
    """Returns the place of the answers in the first step of a stage of a submission."""
    ledger = ContestFolder(cup.path).round("initial", "quarters").ledger()
    told = [entry.event for entry in ledger.read()]
    ledger.close()
    steps = [event for event in told if isinstance(event, events.StepFinished)]
    step = next(step for step in steps if (step.stage, step.submission) == (stage, submission))
    return find_blob(cup.path / "blobs", step.blobs["at" if stage is Stage.REPLAY else "rows"])


def test_what_was_judged_before_a_loss_is_published_with_it(opened_cup):
    """A replay that was lost takes other times when played again: sealed is possible, full wants the old array."""
    cup = opened_cup()
    cup.submit("Corner Shop", "attack_tells")
    cup.submit("House", "defence_constant")
    cup.play("initial")
    lost = blob(cup, Stage.REPLAY, "defence_constant")
    copy = lost.read()
    lost.write(b"")
    cup.play("initial")
    cup.publish("sealed", "sealed")
    with pytest.raises(StoreFault, match=r"by which defence_constant was judged .* put it back from a copy"):
        cup.publish("full", "full", unfinished=True)
    assert not (cup.path.parent / "full").exists()
    lost.write(copy)
    assert cup.publish("full", "full", unfinished=True).is_dir()


def test_what_is_made_again_as_it_was_needs_no_copy(opened_cup):
    """The same answers are the same array: the round ends again, and both kinds of bundle hold."""
    cup = opened_cup()
    cup.submit("Corner Shop", "attack_tells")
    cup.submit("House", "defence_constant")
    cup.play("initial")
    blob(cup, Stage.CLASSIFY, "defence_constant").write(b"")
    cup.play("initial")
    cup.promote()
    for kind in ("sealed", "full"):
        assert cup.publish(kind, kind, unfinished=kind == "full").is_dir()
