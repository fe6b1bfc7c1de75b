"""The trial match at the desk: who cannot play is refused, with the remedy and without using up a try."""

import json
import re

import numpy as np
import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.application.submissions.trial_match_setup import Applicant, open_trial_match, trial_pictures
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected
from orchestrator.intake import manifest
from orchestrator.intake.compliance import trial_match
from orchestrator.sandboxes.base import ImageSource

from .conftest import HOW

REFUSED = {
    "attack_prints": (trial_match.HELLO_STEP, "protocol", "print to stderr"),
    "attack_dies_loading": (trial_match.HELLO_STEP, "died", "last words"),
    "attack_crashes": (trial_match.BATCH_STEP, "died", "last words"),
    "defence_hangs": (trial_match.ONE_PICTURE_STEP, "deadline", "do less"),
    "defence_nonsense": (trial_match.ONE_PICTURE_STEP, "reported", "traceback"),
    "defence_talks_behind": (trial_match.BATCH_STEP, "flood|protocol", "print to stderr"),
    "attack_talks_leaving": (trial_match.BATCH_STEP, "flood", "print to stderr"),
    "attack_wrong_shape": (trial_match.ONE_PICTURE_STEP, "reported", "traceback"),
}
"""Behaviour -> the step that fails, the fault's code, and a word of the remedy.

Output behind a reply is one code or the other, as its bytes arrive: before the next question or behind it.
"""


@pytest.fixture
def empty(empty):
    """A contest with trial matches that is not opened yet."""
    empty.trial_pictures = 10
    return empty


@pytest.fixture
def quick(empty):
    """An opened contest whose defences have half a second a question."""
    empty.more = {"limits": {"memory": "512MiB", "ready_seconds": 20, "perturb_batch": 8, "classify_seconds": 0.5}}
    return empty.open()


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_who_cannot_play_is_refused(quick, kind: str) -> None:
    """The refusal names the step, the fault and what to do; it is on record and uses up no try (A4)."""
    step, code, remedy = REFUSED[kind]
    with pytest.raises(Rejected) as refused:
        quick.submit("One", quick.player(kind))
    (problem,) = refused.value.problems
    assert problem.place == f"match, {step}"
    assert re.match(f"({code}): ", problem.what)
    assert remedy in problem.remedy
    (act,) = quick.acts(contest_events.SubmissionRefused)
    assert act.problems == [str(problem)]
    assert quick.submit("One", quick.player("attack_honest")).attempt == 1


@pytest.mark.slow
@pytest.mark.parametrize("has_sample", [True, False])
def test_a_defence_with_one_answer_to_everything_is_received_with_a_warning(empty, has_sample: bool) -> None:
    """Only the task's own pictures can show it: noise, which stands for them without a sample, has no true classes."""
    empty.write()
    if has_sample:
        tasks = json.loads(empty.folder.file.read_text())["tasks"]
        empty.more = {"tasks": [task | {"sample": {"kind": "npz", "path": "quarters.npz"}} for task in tasks]}
    receipt = empty.open().submit("One", empty.player("defence_constant"))
    warned = [warning for warning in receipt.warnings if "it answered the same class, '0', for all 8" in warning]
    assert len(warned) == has_sample


@pytest.mark.slow
def test_without_gradients_nobody_enters_where_attacks_are_crafted_on_the_defence(empty) -> None:
    """The refusal says what is missing and how to give it; attacks are received as ever (A12)."""
    empty.rules = {"clean_floor": None, "initial": {"classifier": "measure", "crafted_on": "self"}}
    empty.write()
    file = json.loads(empty.folder.file.read_text())
    empty.more = {"baselines": [entry for entry in file["baselines"] if entry["name"] != "fgsm"]}
    empty.open()
    with pytest.raises(Rejected) as refused:
        empty.submit("One", empty.player("defence_honest"))
    (problem,) = refused.value.problems
    assert problem.place == f"match, {trial_match.HELLO_STEP}"
    assert problem.what.startswith("no-gradients: ")
    assert "method `gradient`" in problem.remedy
    assert empty.submit("Two", empty.player("attack_honest")).attempt == 1


@pytest.mark.parametrize("kind", ["attack_one_step_too_far", "defence_chance"])
def test_what_a_round_judges_is_a_warning(quick, kind: str) -> None:
    """Candidates beyond the budget and answers by chance are received with a warning: the rules judge them."""
    receipt = quick.submit("One", quick.player(kind))
    place = trial_match.REPLAY_STEP if kind == "defence_chance" else trial_match.LIMITS_STEP
    (warning,) = receipt.warnings
    assert warning.startswith(f"match, {place}: ")
    assert "of 8 pictures" in warning or "of 10 pictures" in warning
    assert quick.acts(contest_events.SubmissionRefused) == []


@pytest.mark.parametrize("kind", ["attack_honest", "defence_honest", "defence_abstains", "defence_stderr"])
def test_who_plays_by_the_rules_passes_every_step(quick, kind: str) -> None:
    """An honest player sees all steps, and the conversation is written down."""
    folder = quick.player(kind)
    with quick.desk() as desk:
        backend = play_rounds.ready_backend(desk.contest, quick.folder.path, HOW)
        image = backend.admit(ImageSource(folder=folder, command=tuple(manifest.read_manifest(folder).command)))
        candidate = Applicant("quarters", Side(kind.partition("_")[0]), image)
        with open_trial_match(desk.contest, candidate, backend, trial_pictures(desk.contest, "quarters")) as trial:
            steps = trial.play()
    names = [
        trial_match.HELLO_STEP,
        trial_match.ONE_PICTURE_STEP,
        trial_match.BATCH_STEP,
        trial_match.LIMITS_STEP,
        trial_match.REPLAY_STEP,
        trial_match.USAGE_STEP,
    ]
    assert [(step.name, step.passed) for step in steps] == [(name, True) for name in names]
    first, second = trial.recorder.conversations
    said = [entry.header["type"] for entry in first if entry.header]
    assert said[:2] == ["hello", "ready"]
    assert len(trial.recorder.exits) == 2
    assert next(entry.header["type"] for entry in second if entry.header) == "hello"


def test_hidden_pictures_are_not_shown(quick) -> None:
    """Without a public sample the match is played on noise, with one on its first pictures."""
    with quick.desk() as desk:
        noise = trial_pictures(desk.contest, "quarters")
        hidden = desk.contest.load_samples("quarters")
    assert noise.pixels.shape == (10, *hidden.pixels.shape[1:])
    assert not any((picture == other).all() for picture in noise.pixels for other in hidden.pixels)
    public = np.full((12, 4, 4), 7, np.uint8)
    np.savez(quick.folder.path / "public.npz", images=public, labels=np.arange(12) % 4)
    body = json.loads(quick.folder.file.read_text())
    body["tasks"][0]["sample"] = {"kind": "npz", "path": "public.npz"}
    quick.folder.file.write_text(json.dumps(body))
    with quick.desk() as desk:
        assert (trial_pictures(desk.contest, "quarters").pixels == 7).all()
        assert len(trial_pictures(desk.contest, "quarters")) == 10
        assert not (trial_pictures(desk.contest, "halves").pixels == 7).all()


def test_a_contest_without_trial_matches_plays_none(empty) -> None:
    """With `trial_pictures: 0` a submission is received unseen; a round shows what it is worth."""
    empty.more = {"trial_pictures": 0}
    empty.open()
    assert empty.submit("One", empty.player("attack_dies_loading")).attempt == 1


@pytest.mark.slow
def test_rules_and_match_object_at_once(quick) -> None:
    """A team without tries left hears of that and of what is broken in the same refusal (A4)."""
    for name in ("first", "second", "third"):
        quick.submit("One", quick.player("attack_honest", name))
    with pytest.raises(Rejected) as refused:
        quick.submit("One", quick.player("attack_dies_loading"))
    assert [problem.place.partition(",")[0] for problem in refused.value.problems][-1] == "match"
    assert any("(A4)" in str(problem) for problem in refused.value.problems)


def test_nothing_is_started_for_what_comes_too_late(quick) -> None:
    """After the close a submission is refused without being played: its own mistakes are not looked for."""
    body = json.loads(quick.folder.file.read_text())
    quick.folder.file.write_text(json.dumps(body | {"closes": "2026-03-01T12:00:00Z"}))
    with pytest.raises(Rejected) as refused:
        quick.submit("One", quick.player("attack_dies_loading"))
    assert [problem.place for problem in refused.value.problems] == ["time"]
