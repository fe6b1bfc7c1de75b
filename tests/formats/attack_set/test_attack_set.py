"""The attack-set contest's rules on what was observed (C1 to C6, C9)."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from orchestrator.domain.contest_events import SubmissionReceived
from orchestrator.domain.contest_format import Observations, RoundOfSeason
from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import AdversarialExamples
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.formats.attack_set import format as attack_set_format
from orchestrator.formats.attack_set.events import ScoresReleased
from orchestrator.formats.attack_set.format import AttackSet
from orchestrator.formats.attack_set.rules import AttackSetRules

MODEL = Submission("model", "model", "organizers", Side.DEFENCE, "d", "", baseline=True)
PICTURES = Submission("reds", "reds", "Reds", Side.ATTACK, "d", "", pixels="p", decoder="pillow 13")
LABELS = np.array([0, 1, 2, 0])
CLEAN = np.array([0, 1, 2, 1], np.int32)
"""The model misreads the last picture as it is."""
LOGITS = np.array([[0, 3, 0], [0, 4, 1], [5, 0, 0], [1, 2, 0]], np.float32)
ANSWERS = np.array([1, 1, 0, 1], np.int32)
"""It misreads all but the second once they are changed."""


def observed(**others: object) -> Observations:
    """Returns what a round of one submission came to."""
    rng = np.random.default_rng(3)
    originals = rng.integers(0, 256, (4, 3, 12, 12), np.uint8)
    changed = np.clip(originals + rng.integers(-20, 21, originals.shape), 0, 255).astype(np.uint8)
    examples = AdversarialExamples(changed, np.zeros(4, np.uint8), np.zeros(4, np.bool_), np.zeros(4))
    cell, clean = Cell("model", "reds"), Cell("model")
    answers, scores = others.pop("answers", ANSWERS), others.pop("scores", LOGITS)
    return Observations(
        **{
            "roster": Roster((MODEL, PICTURES)),
            "tallies": {},
            "labels": LABELS,
            "originals": originals,
            "examples_of": lambda asked: examples if asked == cell else None,
            "answers_of": lambda _: {clean: CLEAN, cell: answers},
            "scores_of": lambda _: {clean: LOGITS, cell: scores},
            **others,
        }
    )


def softmax_margins() -> np.ndarray:
    """Returns the probability of the predicted class less the next, restated."""
    powers = np.exp(LOGITS.astype(np.float64))
    first, second = np.sort(powers / powers.sum(axis=1, keepdims=True), axis=1)[:, :-3:-1].T
    return first - second


def global_ssim(seen: Observations) -> np.ndarray:
    """Returns SSIM with one window over all values of a picture, restated with NumPy's own covariance."""
    changed = seen.examples_of(Cell("model", "reds")).pixels
    values = []
    for before, after in zip(seen.originals, changed, strict=True):
        a, b = before.ravel().astype(float), after.ravel().astype(float)
        (var_a, cov), (_, var_b) = np.cov(a, b)
        mean_a, mean_b = a.mean(), b.mean()
        values.append(
            (2 * mean_a * mean_b + 6.5025)
            * (2 * cov + 58.5225)
            / ((mean_a**2 + mean_b**2 + 6.5025) * (var_a + var_b + 58.5225))
        )
    return np.array(values)


def row(seen: Observations, **rules: object):
    """Returns the board's one row under these rules."""
    [board] = AttackSet(AttackSetRules(**rules)).leaderboards(seen)
    return board.rows[0]


def test_pictures_of_the_organizers_take_no_rank() -> None:
    """A baseline is shown with its score, unranked, and so is never paid."""
    found = row(observed(roster=Roster((MODEL, replace(PICTURES, baseline=True)))))
    assert (found.rank, found.prize_rank, found.reason) == (None, None, "baseline")
    assert found.score is not None


@pytest.mark.parametrize(
    ("rules", "successful", "tolerance"),
    [
        ({}, [0, 2, 3], [0, 1, 2, 3]),
        ({"nte": "successful"}, [0, 2, 3], [0, 2, 3]),
        ({"count": "correct"}, [0, 2], [0, 1, 2]),
        ({"count": "correct", "nte": "successful"}, [0, 2], [0, 2]),
    ],
    ids=["as-written", "nte-successful", "correct", "correct-successful"],
)
def test_each_reading_gives_its_own_score(rules, successful, tolerance) -> None:
    """ASR, SSIM, NTE and their product equal a restatement, under every reading (C3 to C6)."""
    seen = observed()
    found = row(seen, **rules)
    rate = len(successful) / (3 if rules.get("count") == "correct" else 4)
    ssim, nte = global_ssim(seen)[successful].mean(), softmax_margins()[tolerance].mean()
    assert float(found.values["asr"].number) == pytest.approx(100 * rate)
    assert found.values["ssim"].number == Fraction(f"{ssim:.6f}")
    assert found.values["nte"].number == Fraction(f"{nte:.6f}")
    assert found.score == Fraction(f"{100 * rate * ssim * nte:.6f}")
    low, high = found.interval
    assert 0 <= low < found.score < high <= 100


def test_untouched_pictures_are_paid_for_as_written_and_not_else() -> None:
    """What the hidden model misreads anyway counts under `all` alone (C3)."""
    seen = observed(answers=CLEAN, scores=np.eye(3, dtype=np.float32)[CLEAN] * 3)
    assert row(seen).score > 0
    found = row(seen, count="correct")
    assert found.score == 0
    assert found.values["ssim"].number is None
    assert found.interval == (0.0, 0.0)


def test_given_probabilities_are_taken_as_they_are() -> None:
    """A second softmax would leave little of a margin (C5)."""
    given = np.array([[0, 0.9, 0.1], [0, 1, 0], [0.8, 0.1, 0.1], [0.4, 0.6, 0]], np.float32)
    found = row(observed(scores=given), probabilities="given")
    assert float(found.values["nte"].number) == pytest.approx((0.8 + 1 + 0.7 + 0.2) / 4, abs=1e-6)


def test_probabilities_that_are_none_leave_a_reason() -> None:
    """Logits under `given` give no score, and the row says which key to look at."""
    found = row(observed(), probabilities="given")
    assert found.score is None
    assert "see rules.probabilities" in found.reason


def test_a_hidden_model_without_scores_leaves_a_reason() -> None:
    """Labels alone have no margin: the row says so, and nobody gets a score of 0 for it."""
    found = row(observed(scores=np.full_like(LOGITS, np.nan)))
    assert found.score is None
    assert "labels without scores" in found.reason


def test_pictures_smaller_than_the_window_are_refused() -> None:
    """A task of 8 x 8 has no windowed SSIM (C4)."""
    task = Task("digits", ("0", "1"), (1, 8, 8), 3, "d", None)
    [problem] = AttackSet(AttackSetRules(ssim="windowed")).task_problems(task)
    assert "smaller than the window of 11 x 11" in str(problem)
    assert AttackSet(AttackSetRules()).task_problems(task) == []


@pytest.mark.parametrize(
    ("grading", "what"),
    [
        (None, []),
        ({"distance": 2, "pictures": 6}, []),
        ({"distance": 2, "pictures": 5}, ["5 pictures are too few to keep 2 other items"]),
        ({"distance": 2, "pictures": 31}, ["31 pictures are to be graded, and the task has 30"]),
        ({}, ["30 pictures are too few to keep 20 other items"]),
    ],
)
def test_too_few_pictures_to_grade_are_refused_with_the_contest_file(grading, what) -> None:
    """Organizers learn it before the first submission, not when the plan is made after the close (C7)."""
    task = Task("digits", ("0", "1"), (1, 8, 8), 30, "d", None)
    found = [str(problem) for problem in AttackSet(AttackSetRules(grading=grading)).task_problems(task)]
    assert len(found) == len(what)
    assert all(
        each in problem and "digits: cannot be graded" in problem for each, problem in zip(what, found, strict=True)
    )


def test_a_picture_without_an_answer_is_a_success_that_tolerates_nothing() -> None:
    """The hidden model failed on it: the row says so, and the margin is 0."""
    scores, answers = LOGITS.copy(), ANSWERS.copy()
    scores[1], answers[1] = np.nan, FAULTED
    found = row(observed(scores=scores, answers=answers))
    assert found.values["asr"].number == 100
    margins = softmax_margins()
    margins[1] = 0
    assert found.values["nte"].number == Fraction(f"{margins.mean():.6f}")
    assert found.remark == "the hidden model gave no answer to 1 picture"


def test_what_was_not_played_or_is_withheld_has_no_score() -> None:
    """A board before play, and one of a sealed bundle, say why they have no numbers."""
    assert row(observed(answers_of=lambda _: {})).reason == "not played yet"
    assert row(observed(originals=None)).reason == "withheld until the full bundle"


def test_the_board_and_the_notes_are_of_one_grading(monkeypatch) -> None:
    """People's answers are graded once for the same observations, and again for others."""
    graded: list[tuple] = []
    monkeypatch.setattr(attack_set_format, "graded", lambda *words: graded.append(words))
    rules, seen = AttackSet(AttackSetRules()), observed(task="digits")
    for each in (seen, replace(seen, task="letters")):
        rules.leaderboards(each)
        rules.notes(each)
    assert [task for _, task, *_ in graded] == ["digits", "letters"]


def test_the_latest_pictures_of_a_team_are_ranked() -> None:
    """Earlier ones are shown, and one that was withdrawn makes way for the one before (C9)."""
    season, rules = Season(), AttackSet(AttackSetRules())
    for number, name in enumerate(("first", "second"), start=1):
        received = SubmissionReceived(
            actor="o",
            id=name,
            name=name,
            team="Reds",
            task="digits",
            side=Side.ATTACK,
            digest="d",
            image="",
            attempt=number,
            attempts_left=0,
            pixels="p",
        )
        season.apply(received, f"2026-11-2{number}T00:00:00Z")
    where = RoundOfSeason("board", "digits", season)
    reasons = {name: rules.eligibility(entry, where).unranked_reason for name, entry in season.entries.items()}
    assert reasons == {"first": "replaced by second", "second": ""}
    assert season.count_on_day("Reds", "digits", "2026-11-22") == 1


@pytest.mark.parametrize(
    ("roster", "found"),
    [
        ((MODEL, PICTURES), ""),
        ((MODEL,), ""),
        ((PICTURES,), "there is none"),
        ((MODEL, Submission("two", "two", "o", Side.DEFENCE, "d", "")), "there are 2 "),
        ((MODEL, Submission("fgsm", "fgsm", "o", Side.ATTACK, "d", "i")), "fgsm is a program"),
    ],
    ids=["complete", "nobody-yet", "no-model", "two-models", "a-program"],
)
def test_one_hidden_model_meets_pictures(roster, found) -> None:
    """Programs that attack, and another number of models than one, are refused (C2, C3)."""
    problems = AttackSet(AttackSetRules()).roster_problems(Roster(roster))
    assert [found in str(problem) for problem in problems] == ([True] if found else [])


def test_odd_readings_are_warned_of() -> None:
    """Whoever takes the document literally is told what it pays for."""
    assert len(AttackSet(AttackSetRules()).rule_warnings()) == 2
    assert AttackSet(AttackSetRules(count="correct", nte="successful")).rule_warnings() == []
    with pytest.raises(ValidationError, match="the list is empty or has a kind of file twice"):
        AttackSetRules(formats=())


@pytest.mark.parametrize(
    ("classes", "grading", "warnings"), [(("0", "1"), {}, 1), (("cat", "1"), {}, 0), (("0", "1"), None, 0)]
)
def test_raters_are_not_asked_for_numbers_unnoticed(classes, grading, warnings) -> None:
    """Organizers are warned where label.txt has numbers and nobody named the classes (C7)."""
    task = Task("digits", classes, (1, 8, 8), 3, "d", None)
    assert len(AttackSet(AttackSetRules(grading=grading)).task_warnings(task)) == warnings


def test_a_hidden_model_that_cheats_is_told_of() -> None:
    """Its answers are what everybody is measured by, so a finding against it is the first note (A9, A10)."""
    finding = SimpleNamespace(id="3f2a", submission="model", rules=("A9",))
    first, *_ = AttackSet(AttackSetRules()).notes(observed(findings=(finding,)))
    assert "finding 3f2a" in first
    assert not any("accuses" in note for note in AttackSet(AttackSetRules()).notes(observed()))


def test_a_full_bundle_waits_for_the_release() -> None:
    """It has the hidden model's answer on every picture (C9); a sealed one does not."""
    rules, season = AttackSet(AttackSetRules()), Season()
    [problem] = rules.publish_problems(season, full=True, pictures=False)
    assert "scores are not released" in problem.what
    assert rules.publish_problems(season, full=False, pictures=False) == []
    season.apply(ScoresReleased(actor="o"), "2026-11-25T00:00:00Z")
    assert rules.publish_problems(season, full=True, pictures=False) == []


def test_scores_are_released_by_an_event() -> None:
    """In a season everybody else sees rounded numbers until then; a round by itself hides nothing (C9)."""
    rules, released = AttackSet(AttackSetRules()), ScoresReleased(actor="o")
    assert rules.scores_released(observed())
    assert not rules.scores_released(observed(round="board"))
    assert rules.scores_released(observed(round="board", season_events=(released,)))
