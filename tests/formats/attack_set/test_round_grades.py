"""From answers to human scores: whose grades count, what is decided, what is missing (C7, C8)."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import Rejected
from orchestrator.formats.attack_set.grading import quality
from orchestrator.formats.attack_set.grading.agreement import AgreementLevel, measure_agreement
from orchestrator.formats.attack_set.grading.plan import ItemKind
from orchestrator.formats.attack_set.grading.planning import MoreRaters, make_plan, make_supplement
from orchestrator.formats.attack_set.grading.rater_exclusion import RaterStatus, bt500_outliers
from orchestrator.formats.attack_set.grading.round_grades import Appeal, GradingRound, grade_round
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.formats.attack_set.grading.sheets import Answer, AnswerFile, GradingTask
from orchestrator.formats.attack_set.grading.validity import Votes, decide, votes_missing

SECRET = b"drawn after the close"
TEAMS = ("ants", "bees", "cats")
LABELS = tuple(position % 2 for position in range(50))
QUALITY = {"ants": 4, "bees": 3, "cats": 2}
RATERS = [f"rater-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def plan():
    """Three submissions, 42 of 50 pictures, six raters."""
    return make_plan(GradingRules(pictures=42), TEAMS, 50, RATERS, SECRET)


@pytest.fixture(scope="module")
def round_(plan):
    """The round of this plan."""
    return GradingRound(plan, LABELS, 2)


def perfect(item, **changes):
    """Returns the answer of somebody who sees everything as it is."""
    if item.task is GradingTask.QUALITY:
        fixed = {ItemKind.ORIGINAL: 5, ItemKind.ANCHOR: 1}
        said = {"grade": fixed.get(item.kind) or QUALITY[item.submission]}
    else:
        said = {"class_index": LABELS[item.position], "proper": item.kind is not ItemKind.ANCHOR}
    return Answer(**{"token": item.token, "milliseconds": 2000, **said, **changes})


def files(plan, change=lambda rater, item: {}, skip=lambda rater, item: False):
    """Returns everybody's answers, perfect ones but for what is changed or skipped."""
    return [
        AnswerFile(
            plan=plan.digest,
            rater=rater,
            answers=[perfect(i, **change(rater, i)) for i in plan.items_of(rater) if not skip(rater, i)],
        )
        for rater in plan.raters
    ]


def grade_quickly(round_, given):
    """Grades a round with few draws."""
    return grade_round(round_, given, seed=1, draws=200)


def first_scored(plan, task):
    """Returns a scored item of a task, with the raters who have the same picture."""
    item = next(item for _, item in plan.items() if item.scored and item.task is task)
    same = [
        rater
        for rater, other in plan.items()
        if other.scored and (other.task, other.submission, other.position) == (task, item.submission, item.position)
    ]
    return item, same


def about(item):
    """Returns what an item is about."""
    return item.task, item.submission, item.position


def test_perfect_answers_give_exact_scores(round_):
    """Grade 4 of 5 on every valid picture is 4/5; ranks, means and intervals follow, and nothing is missing."""
    result = grade_quickly(round_, files(round_.plan))
    assert {each.submission: each.score for each in result.submissions} == {
        "ants": Fraction(4, 5),
        "bees": Fraction(3, 5),
        "cats": Fraction(2, 5),
    }
    for each in result.submissions:
        assert (each.valid, each.provisional, each.robust) == (1, False, True)
        assert each.quality == each.quality_with_removed == each.score
        assert each.corrected == pytest.approx(float(each.quality))
        assert each.modelled == pytest.approx(float(each.quality), abs=1e-6)
        assert each.differential == pytest.approx(QUALITY[each.submission])
        assert each.interval == each.quality_interval == pytest.approx((float(each.score),) * 2)
    assert [(pair.better, pair.worse) for pair in result.neighbours] == [("ants", "bees"), ("bees", "cats")]
    assert [pair.interval for pair in result.neighbours] == [pytest.approx((0.2, 0.2))] * 2
    assert not result.more
    assert result.outstanding == 0
    assert result.indicative, "six raters are fewer than 15"
    assert all(report.status is RaterStatus.COUNTED for report in result.raters)
    assert all(report.repeats == report.repeats_equal > 0 for report in result.raters)
    assert all(report.valid_originals[0] == report.valid_originals[1] > 0 for report in result.raters)
    assert result.quality_agreement.alpha == 1
    assert (result.valid_agreement.alpha, result.valid_agreement.raw) == (None, 1)
    assert all(report.milliseconds == (2000,) * 5 for report in result.raters)


def test_without_draws_only_intervals_are_missing(round_):
    """What reads no interval need not wait for 10,000 draws, and gets the same of everything else."""
    whole, quick = grade_quickly(round_, files(round_.plan)), grade_round(round_, files(round_.plan), seed=1, draws=0)
    submissions = tuple(replace(each, interval=None, quality_interval=None) for each in whole.submissions)
    assert quick == replace(whole, submissions=submissions, neighbours=())


def test_fifteen_raters_are_not_only_indicative():
    """From 15 raters who count, human scores may rank."""
    plan = make_plan(GradingRules(pictures=42), TEAMS[:1], 50, [f"r{n}" for n in range(15)], SECRET)
    round_ = GradingRound(plan, LABELS, 2)
    assert not grade_quickly(round_, files(plan)).indicative
    low = files(plan, lambda rater, item: {"grade": 3} if rater == "r0" and item.task is GradingTask.QUALITY else {})
    assert grade_quickly(round_, low).indicative


def test_a_rater_who_tells_nothing_apart_is_removed(round_):
    """The grades stay on record, the score is computed without them, and both are shown."""

    def flat(rater, item):
        return {"grade": 3} if rater == "rater-0" and item.task is GradingTask.QUALITY else {}

    result = grade_quickly(round_, files(round_.plan, flat))
    report = result.raters[0]
    assert report.status is RaterStatus.REMOVED
    assert report.reason == "the mean grade of originals is 0.00 above that of anchors, less than 1.5"
    assert (report.originals, report.anchors) == (3, 3)
    ants = result.submissions[0]
    assert ants.quality == Fraction(4, 5)
    assert ants.quality_with_removed < ants.quality
    assert ants.provisional
    lacking = {(request.task, request.submission, request.position) for request in result.more}
    assert lacking == {about(item) for item in round_.plan.items_of("rater-0") if item.scored}
    assert {request.count for request in result.more} == {1}
    assert result.outstanding == 0, "nothing is awaited of who was removed"


def in_second_file(round_, change):
    """Returns everybody's perfect answers, and after them a second file of rater-0 with changed ones."""
    [own] = [file for file in files(round_.plan, change) if file.rater == "rater-0"]
    return [*files(round_.plan), own]


def test_what_was_handed_in_first_counts(round_):
    """A second file of a rater to the same items changes no score, no report and no agreement."""

    def harsh(rater, item):
        return {"grade": 1} if item.task is GradingTask.QUALITY else {"proper": False}

    assert grade_quickly(round_, in_second_file(round_, harsh)) == grade_quickly(round_, files(round_.plan))


def test_a_second_file_brings_no_removed_rater_back(round_):
    """Who was removed and then answers everything perfectly is removed for the same reason, in the same result."""

    def flat(rater, item):
        return {"grade": 3} if rater == "rater-0" and item.task is GradingTask.QUALITY else {}

    first, perfect_ones = files(round_.plan, flat), files(round_.plan)
    assert grade_quickly(round_, [*first, perfect_ones[0]]) == grade_quickly(round_, first)


def test_answers_that_were_not_there_yet_are_added(round_):
    """A rater's list in two files, the rest in the second, gives what the whole list gives in one."""
    whole = files(round_.plan)
    own = whole[0].answers
    half = len(own) // 2
    parts = [whole[0].model_copy(update={"answers": some}) for some in (own[:half], own[half:])]
    assert grade_quickly(round_, [*parts, *whole[1:]]) == grade_quickly(round_, whole)


def test_a_removed_rater_stays_removed_in_further_plans(round_):
    """Careful grades of a supplement's hidden items raise the rater's means, and the rater stays removed."""

    def flat(rater, item):
        return {"grade": 3} if rater == "rater-0" and item.task is GradingTask.QUALITY else {}

    graded = {about(item) for item in round_.plan.items_of("rater-0")}
    another = next(place for place in round_.plan.positions if (GradingTask.QUALITY, "ants", place) not in graded)
    more = make_supplement(round_.plan, [], [MoreRaters("ants", another, GradingTask.QUALITY, 1)], ["rater-0"], SECRET)
    asked = GradingRound(round_.plan, LABELS, 2, (more,))
    report = grade_quickly(asked, [*files(round_.plan, flat), *files(more)]).raters[0]
    assert report.originals - report.anchors > Fraction(3, 2), "in both lists together"
    assert report.status is RaterStatus.REMOVED
    assert report.reason == "the mean grade of originals is 0.00 above that of anchors, less than 1.5"


def test_the_gap_that_removes_is_exact(round_):
    """With 15 of each, means that are 23/15 apart are enough, and 22/15 are not."""
    anchors = [
        item.token
        for item in round_.plan.items_of("rater-1")
        if (item.task, item.kind, item.practice) == (GradingTask.QUALITY, ItemKind.ANCHOR, False)
    ]
    assert len(anchors) == 15

    def report(of_fours):
        """Returns the rater's report where so many anchors get a 4 and the others a 3, and originals a 5."""

        def change(rater, item):
            if rater != "rater-1" or item.token not in anchors:
                return {}
            return {"grade": 4 if item.token in anchors[:of_fours] else 3}

        return grade_quickly(round_, files(round_.plan, change)).raters[1]

    assert report(7).originals - report(7).anchors == Fraction(23, 15)
    assert report(7).status is RaterStatus.COUNTED
    assert report(8).status is RaterStatus.REMOVED


def test_who_graded_too_few_hidden_items_does_not_count_yet(round_):
    """The reason says how many are needed, and the answers are awaited."""

    def early(rater, item):
        return rater == "rater-2" and item.kind is ItemKind.ANCHOR

    given = files(round_.plan, skip=early)
    result = grade_quickly(round_, given)
    assert result.raters[2].status is RaterStatus.WAITING
    assert "0 anchors, and 15 of each are needed" in result.raters[2].reason
    own = sum(item.scored for item in round_.plan.items_of("rater-2"))
    assert result.outstanding == own
    assert not result.more


def test_answers_that_are_too_fast_do_not_count(round_):
    """Under 500 ms nobody looked; the item comes once more, and a later answer that is slow enough counts."""
    item, same = first_scored(round_.plan, GradingTask.QUALITY)

    def fast(rater, other):
        return {"milliseconds": 499, "grade": 1} if rater == same[0] and about(other) == about(item) else {}

    given = files(round_.plan, fast)
    result = grade_quickly(round_, given)
    assert [(r.submission, r.position, r.task, r.count) for r in result.more] == [
        (item.submission, item.position, GradingTask.QUALITY, 1)
    ]
    ants = {each.submission: each for each in result.submissions}[item.submission]
    assert ants.quality == Fraction(QUALITY[item.submission], 5)
    assert {report.rater: report.too_fast for report in result.raters}[same[0]] >= 1
    mended = next(file for file in given if file.rater == same[0])
    again = [perfect(other) for other in round_.plan.items_of(same[0]) if about(other) == about(item)]
    later = AnswerFile(plan=mended.plan, rater=mended.rater, answers=[*mended.answers, *again])
    assert not grade_quickly(round_, [later if file is mended else file for file in given]).more
    faster = [perfect(i, grade=1, milliseconds=0) for i in round_.plan.items_of(same[0]) if about(i) == about(item)]
    last = AnswerFile(plan=mended.plan, rater=mended.rater, answers=[*later.answers, *faster])
    assert not grade_quickly(round_, [last if file is mended else file for file in given]).more


def test_practice_and_repeats_never_count(round_):
    """Whatever is said of practice items and of repeats, scores and removals stay the same."""

    def nonsense(rater, item):
        odd = item.practice or item.repeat_of
        return {"grade": 3} if odd and item.task is GradingTask.QUALITY else {}

    plain, odd = grade_quickly(round_, files(round_.plan)), grade_quickly(round_, files(round_.plan, nonsense))
    assert odd.submissions == plain.submissions
    assert [report.originals for report in odd.raters] == [report.originals for report in plain.raters]
    assert any(report.repeats_equal < report.repeats for report in odd.raters)


def test_everything_that_cannot_be_right_is_named_at_once(round_):
    """Another plan, another rater's token, an unknown one, a wrong kind of answer, and a class that is not there."""
    own, other = round_.plan.items_of("rater-0"), round_.plan.items_of("rater-1")
    valid = next(item for item in own if item.task is GradingTask.VALID)
    graded = next(item for item in own if item.task is GradingTask.QUALITY)
    wrong = [
        perfect(other[0]),
        Answer(token="0" * 16, grade=5, milliseconds=900),
        Answer(token=graded.token, proper=True, class_index=1, milliseconds=900),
        Answer(token=valid.token, grade=5, milliseconds=900),
        perfect(valid, class_index=2),
    ]
    given = [
        AnswerFile(plan="0" * 64, rater="rater-0", answers=[]),
        AnswerFile(plan=round_.plan.digest, rater="stranger", answers=[]),
        AnswerFile(plan=round_.plan.digest, rater="rater-0", answers=wrong),
    ]
    with pytest.raises(Rejected) as refused:
        grade_quickly(round_, given)
    words = [
        "another plan",
        "no sheet for this rater",
        "the item belongs to rater-1",
        "no item of the plan",
        "asks for a grade only",
        "asks for a class",
        "no class 2: the classes are 0 to 1",
    ]
    assert len(refused.value.problems) == len(words)
    assert all(word in str(problem) for word, problem in zip(words, refused.value.problems, strict=True))


@pytest.mark.parametrize(
    ("appeals", "words"),
    [
        pytest.param((Appeal("dogs", (1,)),), "not graded: dogs", id="unknown submission"),
        pytest.param((Appeal("ants", (10**6,)),), "not graded: [1000000]", id="unknown picture"),
        pytest.param((Appeal("ants", ()), Appeal("ants", ())), "there are several", id="several"),
        pytest.param("six", "6 pictures, and 5 are allowed", id="six pictures"),
    ],
)
def test_appeals_that_do_not_fit_are_refused(round_, appeals, words):
    """An appeal names at most five pictures of the plan, once."""
    if appeals == "six":
        appeals = (Appeal("ants", round_.plan.positions[:6]),)
    with pytest.raises(Rejected, match=words.replace("[", r"\[")):
        grade_quickly(GradingRound(round_.plan, LABELS, 2, appeals=appeals), [])


def test_nothing_answered_gives_no_score(round_):
    """Without answers there is no score, everything is awaited, and nothing divides by zero."""
    result = grade_quickly(round_, [])
    assert {each.score for each in result.submissions} == {None}
    assert result.outstanding == sum(item.scored for _, item in round_.plan.items())
    assert not result.more
    assert all(len(each.missing) == 2 * 42 for each in result.submissions)


@pytest.mark.parametrize(
    ("votes", "missing", "decision"),
    [
        pytest.param(Votes(3, 0), 0, True, id="three agree"),
        pytest.param(Votes(0, 3), 0, False, id="three reject"),
        pytest.param(Votes(2, 0), 1, None, id="two are not three"),
        pytest.param(Votes(2, 1), 2, None, id="two to one goes to five"),
        pytest.param(Votes(1, 2), 2, None, id="one to two goes to five"),
        pytest.param(Votes(2, 2), 1, None, id="two to two"),
        pytest.param(Votes(3, 1), 0, True, id="three of five are sure"),
        pytest.param(Votes(2, 3), 0, False, id="five decide"),
        pytest.param(Votes(3, 2), 0, True, id="five decide for it"),
    ],
)
def test_the_majority_decides_on_validity(votes, missing, decision):
    """Three of one mind decide; otherwise five are asked."""
    assert votes_missing(votes) == missing
    assert decide(votes, Votes()) is decision


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5), st.integers(0, 5))
def test_after_an_appeal_all_votes_count(valid, invalid, more_valid, more_invalid):
    """Where it was decided at all, more than half of all votes make a picture valid."""
    decision = decide(Votes(valid, invalid), Votes(more_valid, more_invalid))
    if decision is not None:
        assert decision == (valid + more_valid > invalid + more_invalid)


def test_a_split_vote_and_an_appeal_are_settled_by_supplements(round_):
    """Two to one asks two more raters; five of five decide. An appeal asks five others, and all grades count."""
    plan = round_.plan
    item, same = first_scored(plan, GradingTask.VALID)

    def split(rater, other):
        return {"proper": False} if rater in same[:2] and about(other) == about(item) else {}

    given = files(plan, split)
    result = grade_quickly(round_, given)
    assert result.more == (MoreRaters(item.submission, item.position, GradingTask.VALID, 2),)
    [lacking] = [each for each in result.submissions if each.missing]
    assert (lacking.submission, lacking.missing) == (item.submission, ((item.position, GradingTask.VALID),))
    assert lacking.valid == 1, "of the decided ones"
    more = make_supplement(plan, [], result.more, plan.raters, SECRET)
    asked = GradingRound(plan, LABELS, 2, (more,))
    assert grade_quickly(asked, given).outstanding == 2
    settled = grade_quickly(asked, [*given, *files(more)])
    assert not settled.more
    assert {each.submission: each.valid for each in settled.submissions}[item.submission] == 1

    appeal = (Appeal(item.submission, (item.position,)),)
    appealed = grade_quickly(GradingRound(plan, LABELS, 2, (more,), appeal), [*given, *files(more)])
    assert {(request.task, request.count, request.appeal) for request in appealed.more} == {
        (GradingTask.VALID, 5, True),
        (GradingTask.QUALITY, 5, True),
    }
    others = [*plan.raters, *(f"new-{number}" for number in range(5))]
    second = make_supplement(plan, [more], appealed.more, others, SECRET)

    def harsh(rater, other):
        return {"grade": 1} if other.scored and other.task is GradingTask.QUALITY else {}

    final = grade_quickly(
        GradingRound(plan, LABELS, 2, (more, second), appeal), [*given, *files(more), *files(second, harsh)]
    )
    assert not final.more
    grade = QUALITY[item.submission]
    scores = {each.submission: each.quality for each in final.submissions}
    assert scores[item.submission] == (Fraction(41 * grade) + Fraction(3 * grade + 5, 8)) / (5 * 42)
    for each in final.submissions:
        if each.submission != item.submission:
            assert each.corrected == pytest.approx(float(each.quality)), "corrected by grades of the plan alone"


def test_a_supplement_of_another_plan_is_refused(round_):
    """Its answers would count for the wrong pictures."""
    with pytest.raises(Rejected, match="supplements another plan"):
        grade_quickly(GradingRound(round_.plan, LABELS, 2, (round_.plan,)), [])


def test_labels_of_another_task_are_refused(round_):
    """There is one for every picture of the task."""
    with pytest.raises(Rejected, match="49 labels for 50 pictures"):
        grade_quickly(GradingRound(round_.plan, LABELS[:49], 2), [])


def test_correction_takes_away_a_raters_level():
    """A strict and a lenient rater who see the same give the same corrected scores, whoever grades what."""
    truth = np.array([[4.0, 3.0], [3.0, 2.0]])
    grades = truth[:, :, None] + np.array([0.0, 1.0, -1.0])
    grades[0, 0, 1] = grades[1, 0, 1] = np.nan
    planned = np.ones(grades.shape, np.bool_)
    complete = truth[:, :, None] + np.array([0.0, 1.0, -1.0])
    corrected = quality.bias_corrected(complete, planned)
    assert corrected == pytest.approx(np.repeat(truth[:, :, None], 3, axis=2))
    added = np.concatenate([grades, np.full((2, 2, 1), np.nan)], axis=2)
    added[0, 0, 3] = 1.0
    mask = np.concatenate([planned, np.zeros((2, 2, 1), np.bool_)], axis=2)
    assert quality.bias_corrected(added, mask)[0, 0, 3] == 1.0, "who graded nothing of the plan is not corrected"


def test_the_model_agrees_with_sureal():
    """Qualities, biases and inconsistencies are those of sureal 0.9.0 (SubjectMLEModelProjectionSolver)."""
    nan = np.nan
    grades = np.array(
        [
            [3, 3, 2, 4, 2, nan],
            [5, nan, nan, 4, 4, 4],
            [4, 3, 3, 4, 4, 3],
            [2, 2, 2, nan, 2, nan],
            [2, 2, nan, 1, 2, nan],
            [4, 5, 5, 4, nan, nan],
            [2, nan, 1, 2, 2, 1],
            [4, 4, 4, 3, 3, 4],
            [4, 4, 3, 4, 4, 2],
            [3, nan, 4, 4, 2, 2],
            [2, 3, 2, 3, 2, 2],
            [2, nan, nan, nan, 3, 3],
        ]
    )
    qualities = [2.713854, 4.379947, 2.713854, 1.713854, 1.713854, 4.713854]
    qualities += [1.63414, 3.713854, 3.713854, 3.079163, 2.713854, 2.683092]
    biases = [0.126069, 0.286146, -0.07892, 0.190977, -0.070302, -0.45397]
    inconsistencies = [0.56886, 0.0, 0.58217, 0.759098, 0.668611, 0.686791]
    found = quality.project_alternately(grades)
    for ours, theirs in zip(found, (qualities, biases, inconsistencies), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_ranks_that_differ_are_not_robust():
    """Equal scores share a rank; a rank that another estimate does not give is named."""
    plain = {"a": Fraction(1, 2), "b": Fraction(1, 2), "c": Fraction(1, 3), "d": Fraction(1, 4)}
    assert quality.ranks(plain) == {"a": 1, "b": 1, "c": 3, "d": 4}
    assert quality.not_robust(plain, {"a": 0.5, "b": 0.5 + 1e-12, "c": 0.2, "d": 0.3}) == {"c", "d"}


@pytest.mark.parametrize(
    ("scale", "total"), [pytest.param(100, "58", id="hundred"), pytest.param(1, "8.698", id="literal")]
)
def test_the_total_is_the_weighted_sum(scale, total):
    """0.6 Score_H + 0.4 Score_M, on one scale or as written (C8)."""
    assert quality.total_score(Fraction("0.83"), Fraction("20.5"), scale) == Fraction(total)


TEXTBOOK = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
    [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
]


@pytest.mark.parametrize(
    ("scale", "alpha", "level"),
    [
        ("nominal", 0.743, AgreementLevel.TENTATIVE),
        ("ordinal", 0.815, AgreementLevel.GOOD),
        ("interval", 0.849, AgreementLevel.GOOD),
    ],
)
def test_alpha_is_that_of_the_textbook(scale, alpha, level):
    """Krippendorff's example with four observers and twelve units."""
    found = measure_agreement(np.array(TEXTBOOK).T, scale)
    assert found.alpha == pytest.approx(alpha, abs=5e-4)
    assert found.level is level


@pytest.mark.parametrize(
    ("answers", "alpha", "raw"),
    [
        pytest.param([[1.0, 1.0], [1.0, 1.0]], None, 1.0, id="all equal"),
        pytest.param([[1.0, np.nan], [np.nan, 2.0]], None, None, id="nobody meets"),
        pytest.param([[np.nan, np.nan]], None, None, id="nothing"),
        pytest.param([[1.0, 1.0], [2.0, np.nan]], None, 1.0, id="the other value alone"),
    ],
)
def test_alpha_is_left_out_where_there_is_none(answers, alpha, raw):
    """No division by zero: raw agreement is shown where there are pairs."""
    found = measure_agreement(np.array(answers), "nominal")
    assert (found.alpha, found.raw, found.level) == (alpha, raw, None)


def test_low_agreement_is_said():
    """Answers at random are far under 0.667."""
    answers = np.random.default_rng(3).integers(1, 6, (200, 3)).astype(float)
    found = measure_agreement(answers, "ordinal")
    assert found.level is AgreementLevel.LOW
    assert abs(found.alpha) < 0.2
    assert found.raw == pytest.approx(0.2, abs=0.06)


def test_bt500_finds_who_errs_to_both_sides():
    """A rater who is off to both sides is dropped; one who is only lenient is not; few grades judge nobody."""
    rng = np.random.default_rng(5)
    grades = 3 + rng.normal(0, 0.3, (200, 30))
    grades[::3, 0] += 0.8
    grades[1::3, 0] -= 0.8
    grades[:, 1] += 0.8
    names = [f"r{number}" for number in range(30)]
    assert bt500_outliers(grades, names) == ("r0",)
    assert bt500_outliers(grades[:, :5], names[:5]) is None


def test_counts_of_the_grades_are_those_of_the_plan(round_):
    """Every picture of every submission has three grades of people who count."""
    counts = Counter(about(item) for _, item in round_.plan.items() if item.scored)
    assert set(counts.values()) == {3}
