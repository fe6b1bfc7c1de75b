"""A defence's row on its authors' machine is the one that the organizers' round gives it (rule B7)."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.application.submissions import evaluate as evaluation
from orchestrator.application.submissions.evaluate import EvaluationProgress
from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.errors import Cancelled, Rejected, UsageError
from orchestrator.intake.contest_file import Contest
from tests.blob_files import find_blob

pytestmark = pytest.mark.xdist_group("evaluate")

HOW = RunOptions("process", slots=2, allow_unisolated=True)
SECRETLESS = ("clean", "spatial", "distinct_scores")
"""Columns that do not depend on a round's secret."""
CONTEST = """sparring: 1
contest: digits
title: Sixes and sevens
format: warmup
task:
  name: digits
  dataset: {kind: digits, split: test, only: ["6", "7"], first: 36}
isolation: round
limits: {classify_batch: 64, memory: 1GiB}
replay: {power: 0}
rules:
  throughput: 0.001
  transform: {kind: tensorflow, border: 0.125}
  spatial: {pictures: 36, limits: {dx: 1, dy: 1, angle: 30}, dx_steps: 3, dy_steps: 3, angle_steps: 3}
  spsa: {pictures: 12, epsilon: 76.5, steps: 4, samples: 8}
  boundary: {pictures: 6, distance: 2, iterations: 10}
"""
PLAYER = """
from sparring_player import Defence, serve
# isort: split
import numpy as np

class Player(Defence):
    scores = True

    def classify(self, pixels):
        values = pixels.reshape(len(pixels), 8, 8) / 255
        low = values[:, 5:, 1:4].mean(axis=(1, 2)) - values[:, :3, 3:7].mean(axis=(1, 2)) + 0.18
        scores = np.round(np.stack([low, -low], 1), 1).astype(np.float32)
        return scores.argmax(axis=1), scores

serve(Player())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a defence whose scores have one decimal, so that many pictures have equal ones, and a contest."""
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "mine").mkdir()
    (folder / "mine" / "submission.yaml").write_text(
        "sparring: 1\nname: mine\nside: defence\ncommand: [python, player.py]\n"
    )
    (folder / "mine" / "player.py").write_text(PLAYER.strip())
    (folder / "contest.yaml").write_text(CONTEST)
    return folder


def contest_with(place: Path, name: str, more: str = "", **replaced: str) -> Contest:
    """Returns the contest with some text replaced and more added to it, in a file of its own."""
    text = CONTEST
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    path = place / f"{name}.yaml"
    path.write_text(text + more)
    return Contest(path)


@pytest.fixture(scope="module")
def ended_early(place) -> tuple[list[events.Event], int]:
    """The events of an evaluation that its operator ended after the first step of an attack, and its queries."""
    seen: list[events.Event] = []
    wanted = evaluation.prepare_evaluation(place / "mine", Contest(place / "contest.yaml"))
    progress = EvaluationProgress(wanted, place / "kept")

    def watch(event: events.Event) -> None:
        seen.append(event)
        progress(event)
        if isinstance(event, events.StepFinished) and event.stage is Stage.QUERY:
            raise Cancelled("ended by the test")

    with pytest.raises(Cancelled):
        evaluation.evaluate(wanted, place / "kept", HOW, watch)
    return seen, progress.queries[0]


@pytest.fixture(scope="module")
def evaluated(place, ended_early) -> dict[str, Any]:
    """The same evaluation, run again into the same folder: what it came to, its progress before and after."""
    wanted = evaluation.prepare_evaluation(place / "mine", Contest(place / "contest.yaml"))
    progress = EvaluationProgress(wanted, place / "kept")
    before = {"steps": progress.steps, "queries": progress.queries}
    found = evaluation.evaluate(wanted, place / "kept", HOW, progress)
    return {"wanted": wanted, "found": found, "progress": progress, "before": before}


@pytest.mark.slow
def test_the_row_is_that_of_the_organizers_round(place, evaluated) -> None:
    """A round of the contest with this defence has the same clean and spatial columns, from another secret."""
    contest = contest_with(place, "organizers", "submissions:\n  - {folder: mine, team: Mine}\n")
    results = play_rounds.play_round(contest, place / "round", HOW, lambda _: None).results
    [board] = results.boards
    [row] = board.rows
    found = evaluated["found"]
    assert results.commitment != found.results.commitment
    assert {name: found.row.values[name] for name in SECRETLESS} == {name: row.values[name] for name in SECRETLESS}
    assert found.columns == board.columns
    assert row.values.keys() == found.row.values.keys()
    assert found.row.values["clean"].value > found.row.values["spatial"].value


@pytest.mark.slow
def test_a_run_that_was_ended_goes_on(ended_early, evaluated) -> None:
    """What was played is not played again, and the count of queries begins where it was."""
    seen, queries = ended_early
    first = [(event.job, event.step) for event in seen if isinstance(event, events.StepFinished)]
    assert evaluated["before"]["queries"][0] == queries > 0
    done, total = evaluated["before"]["steps"]
    assert 0 < done < total
    assert evaluated["progress"].steps_played + len(first) == 6  # two of the grid, one each of the others and the play


@pytest.mark.slow
def test_a_damaged_step_is_played_again(place, evaluated, tmp_path) -> None:
    """An array of an attack's step that was lost is no error: the step counts as not done, and is played again."""
    copied = tmp_path / "kept"
    shutil.copytree(place / "kept", copied)
    record, _ = round_record.read_round(copied)
    step = next(step for steps in record.round.steps.values() for step in steps.values() if step.stage is Stage.QUERY)
    find_blob(copied / "blobs", step.blobs["queries"]).write(b"")
    progress = EvaluationProgress(evaluated["wanted"], copied)
    assert progress.queries[0] < evaluated["progress"].queries[0]
    again = evaluation.evaluate(evaluated["wanted"], copied, HOW, progress)
    assert progress.queries == evaluated["progress"].queries
    assert again.row.values["spatial"] == evaluated["found"].row.values["spatial"]


@pytest.mark.slow
def test_progress_ends_with_nothing_left(evaluated) -> None:
    """At the end every step is done, no query is left, and as many were asked as the record has."""
    done, total = evaluated["progress"].steps
    assert done == total
    asked, left = evaluated["progress"].queries
    assert left == 0
    assert asked >= 36 * 27


@pytest.mark.slow
def test_questions_that_are_asked_again_are_no_queries(place) -> None:
    """With replays every query job ends with a step that asks some questions again: progress goes on to its end."""
    contest = contest_with(place, "replayed", **{"replay: {power: 0}": "replay: {power: 0.5, cheat: 0.2}"})
    wanted = evaluation.prepare_evaluation(place / "mine", contest, count=8)
    progress = EvaluationProgress(wanted, place / "replayed")
    found = evaluation.evaluate(wanted, place / "replayed", HOW, progress)
    assert found.row.score is not None
    done, total = progress.steps
    assert done == total
    assert progress.queries[1] == 0
    assert EvaluationProgress(wanted, place / "replayed").steps == (done, total)


@pytest.mark.slow
def test_both_readings_of_coverage_are_counted(evaluated) -> None:
    """The contest's own is that of the row; with equal scores the reading of 2018 covers others."""
    found = evaluated["found"]
    assert found.reading == "exact"
    assert found.by_reading[found.reading] == found.row
    assert found.readings_differ
    assert found.by_reading["reference"].values["clean"] != found.row.values["clean"]


@pytest.mark.slow
def test_an_honest_defence_has_no_fault(evaluated) -> None:
    """Nothing is charged, and the notes say what makes the organizers' row another one."""
    assert evaluated["found"].faults == []
    notes = " ".join(evaluated["wanted"].notes)
    assert "secret" in notes
    assert "hidden" not in notes


@pytest.mark.slow
def test_public_pictures_are_played_where_the_task_has_some(place) -> None:
    """The hidden ones need not be there, nor the contest's own entries; `--pictures` takes the first ones."""
    hidden = {'{kind: digits, split: test, only: ["6", "7"], first: 36}': "{kind: npz, path: hidden.npz}"}
    sample = '\n  sample: {kind: digits, split: train, only: ["6", "7"], first: 5}\nisolation: round'
    entries = "baselines:\n  - {folder: ../not/given/out}\n"
    contest = contest_with(place, "given", entries, **hidden, **{"\nisolation: round": sample})
    public = contest.load_public_samples("digits")
    wanted = evaluation.prepare_evaluation(place / "mine", contest)
    assert (len(wanted.samples), wanted.is_public) == (5, True)
    few = evaluation.prepare_evaluation(place / "mine", contest, count=3)
    assert few.samples.digest == public.first(3).digest
    assert few.notes[0] == "Played on the first 3 of 5 public pictures of the task."
    assert any("hidden" in note for note in few.notes)
    assert few.contest.file.baselines == []
    assert len(contest.file.baselines) == 1


def test_pictures_that_are_not_there_are_no_fault_of_the_submission(place) -> None:
    """Without public pictures and without the hidden ones, it is a usage error that says whom to ask."""
    hidden = {'{kind: digits, split: test, only: ["6", "7"], first: 36}': "{kind: npz, path: hidden.npz}"}
    contest = contest_with(place, "without", **hidden)
    with pytest.raises(UsageError, match="ask the organizers for public ones"):
        evaluation.prepare_evaluation(place / "mine", contest)


def test_a_task_is_chosen_by_name(place) -> None:
    """Where there are several, one has to be named, and an unknown one is answered with those there are."""
    section = "task:\n  name: digits\n  dataset: "
    tasks = 'tasks:\n- name: other\n  dataset: {kind: digits, only: ["1", "2"], first: 4}\n- name: digits\n  dataset: '
    contest = contest_with(place, "several", **{section: tasks})
    with pytest.raises(UsageError, match="--task: other, digits"):
        evaluation.prepare_evaluation(place / "mine", contest)
    with pytest.raises(UsageError, match="no task 'birds'; --task may be other, digits"):
        evaluation.prepare_evaluation(place / "mine", contest, "birds")
    assert evaluation.prepare_evaluation(place / "mine", contest, "digits").samples.classes == ("6", "7")


def test_a_name_of_an_attack_is_refused(place, tmp_path) -> None:
    """A defence that is called like one of the format's attacks could not be told from it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    text = (place / "mine" / "submission.yaml").read_text().replace("name: mine", "name: spsa")
    (folder / "submission.yaml").write_text(text)
    (folder / "player.py").write_text(PLAYER)
    wanted = evaluation.prepare_evaluation(folder, Contest(place / "contest.yaml"))
    with pytest.raises(Rejected, match="another `name:`"):
        evaluation.evaluate(wanted, tmp_path / "round", HOW, lambda _: None)
    assert not (tmp_path / "round").exists()
