"""The scores that defences give in play, where a format judges by them: kept with the answers and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from orchestrator.bundles import array_checks
from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.contest_format import PlayRules
from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.plan import Cell
from orchestrator.domain.plan import Stage as JobStage
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import NotGenuine
from orchestrator.execution.player_questions import DefenceAnswers
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.stores.base import put_array
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.protocol import frames

from .conftest import EMPTY

NO_REPLAYS = SamplingDesign(power=0)


def scored(header, payload):
    """A defence that gives scores for dark pictures, abstains at one of them, and dies at the brightest."""
    value = payload[0]
    if value == 11:
        return EMPTY
    answer = {"type": "answers", "id": header["id"], "labels": [None if value == 2 else value % 4]}
    if value > 5:
        return frames.encode_frame(answer)
    scores = np.array([[value, -np.inf, 0.5, np.inf]], "<f4")
    return frames.encode_frame(answer | {"dtype": "f32", "shape": [1, 4]}, scores.tobytes())


@pytest.fixture(params=list(Isolation))
def played(stage, request):
    """A round whose format keeps scores."""
    made = stage(attacks={}, defences={"scored": scored}, isolation=request.param, replay=NO_REPLAYS)
    made.setting = replace(made.setting, keep_scores=True)
    return made


def test_scores_are_kept_as_they_came(played) -> None:
    """Infinite ones too; NaN where a defence gave none, or failed. A picture that it abstained at has its scores."""
    record = played.run()
    [(cell, scores)] = record.scores("scored", 12).items()
    assert (cell, scores.dtype, scores.shape) == (Cell("scored"), np.float32, (12, 4))
    for value in range(6):
        assert scores[value].tolist() == [value, -np.inf, 0.5, np.inf]
    assert np.isnan(scores[6:]).all()
    assert record.answers("scored", 12)[cell][11] == FAULTED


def by_chance(header, payload):
    """A defence that always gives the first label, and scores that follow chance."""
    scores = np.random.default_rng().random((1, 4)).astype("<f4")
    answer = {"type": "answers", "id": header["id"], "labels": [0], "dtype": "f32", "shape": [1, 4]}
    return frames.encode_frame(answer, scores.tobytes())


def test_where_scores_decide_a_constant_label_hides_no_chance(stage) -> None:
    """The answer is the class with the largest score: what is asked again is what the leaderboard judges (A10)."""
    made = stage(attacks={}, defences={"chance": by_chance}, replay=SamplingDesign(power=0.9, cheat=0.5))
    assert made.run().round.findings == []
    again = stage(attacks={}, defences={"chance": by_chance}, replay=SamplingDesign(power=0.9, cheat=0.5))
    again.setting = replace(again.setting, keep_scores=True, decides_by_scores=True)
    record = again.run()
    cell = Cell("chance")
    assert np.array_equal(record.answers("chance", 12)[cell], record.scores("chance", 12)[cell].argmax(axis=1))
    assert [finding.submission for finding in record.round.findings] == ["chance"]


def test_only_where_the_format_judges_by_them(played) -> None:
    """Another format's round has no array of them, and its jobs are others: what lacks them is not reused."""
    without = replace(played.setting, keep_scores=False)
    ids = {job.id for job in played.plan().jobs}
    played.setting = without
    assert ids.isdisjoint(job.id for job in played.plan().jobs)
    record = played.run()
    assert record.scores("scored", 12) == {}
    assert {name for event in played.events("step_finished") for name in event.blobs} == {"rows"}


def test_replays_keep_none(stage) -> None:
    """They are asked whether answers are the same, and are not judged by."""
    made = stage(attacks={}, defences={"scored": scored}, replay=SamplingDesign(power=0.5, cheat=0.1))
    made.setting = replace(made.setting, keep_scores=True)
    made.run()
    kept = {(event.stage, "scores" in event.blobs) for event in made.events("step_finished")}
    assert kept == {(JobStage.CLASSIFY, True), (JobStage.REPLAY, False)}


def test_what_another_process_was_told_is_taken_up() -> None:
    """A step that is played on in another pod has the scores of those pictures that were asked before."""
    blobs, answers = MemoryBlobs(), DefenceAnswers.empty(3, 2)
    answers.scores[0], answers.completed = (1.5, np.inf), 1
    partial = PartialStep(step=0, completed=1, blobs=answers.save(blobs))
    again = DefenceAnswers.resume(partial, blobs)
    assert np.array_equal(again.scores, answers.scores, equal_nan=True)


def doctored(record, blobs, change):
    """Changes the scores of every step of a round's record; None takes them away."""
    for steps in record.round.steps.values():
        for number, step in steps.items():
            kept = {name: digest for name, digest in step.blobs.items() if name != "scores"}
            if (scores := change(record.read_array(step, "scores"))) is not None:
                kept["scores"] = put_array(blobs, scores)
            steps[number] = step.model_copy(update={"blobs": kept})
    return record


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda _: None, "its scores are missing"),
        (lambda scores: scores.astype(np.float64), "its scores are float64"),
        (lambda scores: scores[:, :3], r"its scores are float32 \(\d+, 3\)"),
        (lambda scores: scores[1:], r"its scores are float32 \(11, 4\)"),
        (lambda scores: np.where(np.arange(4) == 1, np.nan, scores).astype(np.float32), "half of a picture's scores"),
        (np.nan_to_num, "scores of a picture without an answer"),
    ],
)
def test_who_verifies_a_bundle_looks_at_them(stage, change, problem) -> None:
    """They are there exactly where the format keeps them, one row for each answer, and none for a failure."""
    made = stage(attacks={}, defences={"scored": scored}, replay=NO_REPLAYS)
    made.setting = replace(made.setting, keep_scores=True)
    record, rules = made.run(), PlayRules(keep_scores=True)
    array_checks.check_arrays(record, "round", rules)
    with pytest.raises(NotGenuine, match="has scores, which nobody keeps"):
        array_checks.check_arrays(record, "round", PlayRules())
    with pytest.raises(NotGenuine, match=problem):
        array_checks.check_arrays(doctored(record, made.setting.blobs, change), "round", rules)
