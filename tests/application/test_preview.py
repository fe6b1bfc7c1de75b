"""What a round would play, said before: compared with what it then plays."""

from collections import Counter

import pytest

from orchestrator.application.contests import promotion, season_rounds
from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.errors import UsageError
from orchestrator.execution.estimate import RunEstimate, StageEstimate
from orchestrator.formats.tournament.events import FinalistsPromoted
from tests.blob_files import find_blob

from .conftest import HOW

PICTURES = 8


@pytest.fixture
def entered(cup):
    """The contest with an attack and a defence."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_honest"))
    return cup


def preview(cup, phase: str = "initial") -> RunEstimate:
    """Returns what the round would play."""
    with cup.desk() as desk:
        (found,) = season_rounds.preview_round(desk, phase, HOW, "quarters")
    return found


def stage(found: RunEstimate, which: Stage) -> StageEstimate:
    """Returns one stage of an outlook."""
    return next(part for part in found.stages if part.stage is which)


def counts(cup, phase: str = "initial", since: int = 0) -> tuple[Counter, Counter]:
    """Returns, by stage, the jobs and the sandboxes that a round's ledger tells of after its entry `since`."""
    jobs: Counter = Counter()
    sandboxes: Counter = Counter()
    for entry in cup.round_entries(phase)[since:]:
        if isinstance(entry.event, events.JobFinished | events.StepFinished):
            sandboxes[entry.event.stage] += len(entry.event.sandboxes)
            jobs[entry.event.stage] += isinstance(entry.event, events.JobFinished)
    return jobs, sandboxes


@pytest.mark.slow
def test_a_fresh_round_is_foreseen_exactly(entered) -> None:
    """Jobs and container starts are those that the round then has; questions are all pictures of all cells."""
    found = preview(entered)
    entered.play("initial")
    jobs, sandboxes = counts(entered)
    for which in (Stage.PERTURB, Stage.CLASSIFY):
        part = stage(found, which)
        assert (part.jobs, part.sandboxes) == (jobs[which], sandboxes[which])
        assert (part.finished, part.reused, part.expected_seconds) == (0, 0, None)
    assert stage(found, Stage.PERTURB).questions == 2 * PICTURES
    # Both defences see clean pictures and the baseline attack, the baseline defence also the team's attack (A11, A12).
    assert stage(found, Stage.CLASSIFY).cells == 2 + 3
    assert stage(found, Stage.CLASSIFY).questions == (2 + 3) * PICTURES
    assert found.expected_seconds is None
    assert found.max_seconds > 0


@pytest.mark.slow
def test_nothing_is_written(entered) -> None:
    """A look ahead leaves the contest's folder and its ledger as they were."""
    before = sorted(entered.folder.path.rglob("*")), entered.entries()
    preview(entered)
    assert (sorted(entered.folder.path.rglob("*")), entered.entries()) == before


@pytest.mark.slow
def test_a_newcomer_is_foreseen_with_its_own_cells(played) -> None:
    """After a round only the newcomer's work is left, and its time is reckoned from what was measured (X4)."""
    played.submit("Three", played.player("attack_noop"))
    found, since = preview(played), len(played.round_entries("initial"))
    assert (stage(found, Stage.PERTURB).jobs, stage(found, Stage.PERTURB).finished) == (1, 2)
    assert (stage(found, Stage.CLASSIFY).jobs, stage(found, Stage.CLASSIFY).cells) == (1, 1)
    assert found.expected_seconds is not None
    assert 0 < found.expected_seconds < found.max_seconds
    played.play("initial")
    jobs, sandboxes = counts(played, since=since)
    for which in (Stage.PERTURB, Stage.CLASSIFY):
        assert (stage(found, which).jobs, stage(found, which).sandboxes) == (jobs[which], sandboxes[which])


@pytest.mark.slow
def test_what_the_initial_round_played_is_reused_in_the_final(played) -> None:
    """The final foresees as many reused jobs as it then copies."""
    played.promote()
    found = preview(played, "final")
    played.play("final")
    told = [entry.event for entry in played.round_entries("final")]
    copied = sum(len(event.jobs) for event in told if isinstance(event, events.JobsReused))
    assert copied > 0
    assert sum(part.reused for part in found.stages) == copied
    plan = next(event for event in told if isinstance(event, events.PlanMade))
    assert sum(part.jobs for part in found.stages) == sum(1 for job in plan.jobs if not job.origin_round)


@pytest.mark.slow
def test_a_played_round_has_nothing_left(played) -> None:
    """Then every job is finished and no second is expected."""
    found = preview(played)
    assert [part.jobs for part in found.stages] == [0, 0, 0, 0]
    assert (found.expected_seconds, found.max_seconds) == (0.0, 0.0)


@pytest.mark.slow
def test_a_damaged_array_is_foreseen_as_work(played) -> None:
    """What cannot be read any more counts as not played; the rest of the round stays finished."""
    told = [entry.event for entry in played.round_entries("initial")]
    step = next(e for e in told if isinstance(e, events.StepFinished) and e.submission == "measure")
    find_blob(played.folder.path / "blobs", step.blobs["rows"]).write(b"")
    found = preview(played)
    assert (stage(found, Stage.PERTURB).jobs, stage(found, Stage.PERTURB).finished) == (0, 2)
    assert (stage(found, Stage.CLASSIFY).jobs, stage(found, Stage.CLASSIFY).finished) == (1, 1)


@pytest.mark.slow
def test_promoting_after_the_final_was_begun_wants_a_reason(played) -> None:
    """Who goes on is not changed behind a final that was begun; with a reason it is, and the reason is on record."""
    played.promote()
    played.play("final")
    with pytest.raises(UsageError, match=r"the final round of quarters was begun .* give --reason"):
        played.promote()
    assert len(played.acts(FinalistsPromoted)) == 1
    with played.desk() as desk:
        promotion.promote(desk, "quarters", "a cheat was found late")
    assert played.acts(FinalistsPromoted)[-1].reason == "a cheat was found late"
