"""U6 and the raters' part of U8: what raters are asked, what they answer, and when a picture is valid."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.unrestricted.bounding_boxes import (
    Box,
    PictureSize,
    area_share,
    intersection_over_union,
    median_box,
)
from orchestrator.formats.unrestricted.questionnaire import (
    BICYCLE,
    BIRD,
    Answers,
    Certainty,
    Questionnaire,
    Statements,
)
from orchestrator.formats.unrestricted.validity import Judge, Outcome, Rating, ValidityRules

SIZE = PictureSize(height=200, width=100)
YES, MAYBE, HARDLY, NO = Certainty
QUARTER = Box(left=0, top=0, right=50, bottom=100)
"""Exactly 25 % of the picture."""
LARGE = Box(left=10, top=20, right=90, bottom=180)
WHOLE = Box(left=0, top=0, right=100, bottom=200)
SLOPPY = Box(left=10, top=20, right=20, bottom=30)
QUESTIONS = Questionnaire()
JUDGE = Judge(SIZE, ValidityRules(), QUESTIONS)


def answers(bird=YES, bicycle=NO, box=LARGE, **statements) -> Answers:
    """Returns what a rater answered, box and statements where the questionnaire asks for them."""
    presence = {"bird": bird, "bicycle": bicycle}
    if QUESTIONS.asked_about(presence) is None:
        return Answers(presence=presence)
    true = {"complete": True, "unoccluded": True, "real": True}
    return Answers(presence=presence, box=box, statements=Statements(**true | statements))


def ratings(*given_answers, start=1) -> list[Rating]:
    """Returns one rating of a rater of their own for each; a report for None."""
    return [Rating(f"r-{number}", each) for number, each in enumerate(given_answers, start)]


def document(**changes) -> dict:
    """Returns answers that see a bird, as JSON has them; a change to None leaves a part out."""
    parts = answers().model_dump(mode="json") | changes
    return {name: part for name, part in parts.items() if part is not None}


def places(wrong) -> set[str]:
    """Returns the places of everything that is wrong with answers, given as JSON has them."""
    problems = QUESTIONS.problems(wrong, SIZE)
    assert all(problem.what for problem in problems)
    return {problem.place for problem in problems}


edges = st.integers(0, 100)
boxes = st.builds(
    lambda xs, ys: Box(left=min(xs), right=max(xs), top=min(ys), bottom=max(ys)),
    st.tuples(edges, edges).filter(lambda pair: pair[0] != pair[1]),
    st.tuples(edges, edges).filter(lambda pair: pair[0] != pair[1]),
)
certainties = st.sampled_from(Certainty)
any_answers = st.builds(
    answers,
    certainties,
    certainties,
    boxes,
    complete=st.booleans(),
    unoccluded=st.booleans(),
    real=st.booleans(),
)
likely_answers = st.one_of(st.builds(answers, box=boxes), st.just(answers()), st.just(answers(NO, YES)), any_answers)
unsure_answers = any_answers.filter(lambda each: {MAYBE, HARDLY} & set(each.presence.values()))


# ---- The questionnaire


def test_u6_questions_are_those_of_the_document() -> None:
    """Two questions have the four answers of the proposal, and three statements are true or false."""
    first, second = QUESTIONS.presence_questions()
    assert first.text == (
        "Does this photo contain a bird, or a depiction of a bird (e.g., a toy bird, a painting of a bird, a stuffed "
        "animal bird, a cartoon bird) anywhere in the image?"
    )
    assert second.text == (
        "Does this photo contain a bicycle, or a depiction of a bicycle (e.g., a drawing of a bicycle, a model "
        "bicycle, a toy bicycle) anywhere in the image?"
    )
    assert [choice.value for choice in first.choices] == list(Certainty)
    assert [choice.label for choice in first.choices] == [choice.label for choice in second.choices]
    assert len({choice.key for question in (first, second) for choice in question.choices}) == 8
    statements = QUESTIONS.statement_questions(BIRD)
    assert [each.name for each in statements] == [f"statements.{name}" for name in Statements.model_fields]
    assert "real, live bird" in statements[2].text
    assert "real bicycle" in QUESTIONS.statement_questions(BICYCLE)[2].text


@pytest.mark.parametrize("other", Certainty)
@pytest.mark.parametrize("seen", Certainty)
def test_u6_more_is_asked_after_one_definite_no_and_a_yes(seen, other) -> None:
    """Box and statements are about the class that may be there where the other one definitely is not."""
    asked = seen in {YES, MAYBE} and other is NO
    assert QUESTIONS.asked_about({"bird": seen, "bicycle": other}) == (
        BIRD if asked else BICYCLE if other in {YES, MAYBE} and seen is NO else None
    )


def test_nothing_is_wrong_with_answers_to_what_was_asked() -> None:
    """Answers to the questions of each branch are taken as they are."""
    for each in (
        answers(),
        answers(NO, MAYBE, QUARTER, real=False),
        answers(NO, NO),
        answers(YES, HARDLY),
        answers(box=WHOLE),
    ):
        assert places(each.model_dump(mode="json")) == set()


def test_every_wrong_and_missing_answer_is_named_at_once() -> None:
    """Problems of all parts, of the branch and of the picture's size come together."""
    wrong = document(
        presence={"bird": "yes", "horse": "definitely_no"},
        box={"left": 1.5, "top": 0, "right": 5, "bottom": True, "unit": "px"},
        statements={"complete": "true", "unoccluded": 1},
        name="Ada",
    )
    assert places(wrong) == {
        "presence.bird",
        "presence.bicycle",
        "presence.horse",
        "box.left",
        "box.bottom",
        "box.unit",
        "statements.complete",
        "statements.unoccluded",
        "statements.real",
        "name",
    }
    assert places(document(box={"left": 0, "top": 0, "right": 101, "bottom": 201}, statements={})) == {
        "box.right",
        "box.bottom",
        "statements.complete",
        "statements.unoccluded",
        "statements.real",
    }


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({}, {"presence"}),
        ([], {"answers"}),
        (document(box=None), {"box"}),
        (document(statements=None), {"statements.complete", "statements.unoccluded", "statements.real"}),
        (document(presence={"bird": NO, "bicycle": NO}), {"box", "statements"}),
        (document(presence={"bird": YES, "bicycle": YES}, statements=None), {"box"}),
        (document(presence={"bird": YES}), {"presence.bicycle"}),
        (document(box={"left": 5, "top": 7, "right": 5, "bottom": 8}), {"box"}),
        (document(box={"left": 5, "top": 7, "right": 6, "bottom": 7}), {"box"}),
        (document(box={"left": -1, "top": 0, "right": 5, "bottom": 7}), {"box.left"}),
    ],
)
def test_what_answers_no_question_is_refused(wrong, expected) -> None:
    """An answer is refused where it is missing, was not asked for, is of a wrong kind, or is no box of the picture."""
    assert places(wrong) == expected


def test_two_classes_of_one_name_are_refused() -> None:
    """Answers are known by their classes' names, so that both have one of their own."""
    with pytest.raises(ValueError, match="both classes are called 'bird'"):
        Questionnaire((BIRD, BIRD))


# ---- Boxes


def test_boxes_are_measured_exactly() -> None:
    """Shares and intersections over unions are exact fractions, and a median box has whole pixels."""
    assert area_share(QUARTER, SIZE) == Fraction(1, 4)
    assert area_share(WHOLE, SIZE) == 1
    assert area_share(Box(left=99, top=199, right=100, bottom=200), SIZE) == Fraction(1, 20_000)
    third = Box(left=25, top=0, right=75, bottom=100)
    assert intersection_over_union(QUARTER, third) == Fraction(1, 3)
    assert intersection_over_union(QUARTER, Box(left=50, top=0, right=60, bottom=100)) == 0
    assert intersection_over_union(QUARTER, Box(left=60, top=120, right=70, bottom=130)) == 0
    assert median_box([LARGE, SLOPPY, QUARTER]) == Box(left=10, top=20, right=50, bottom=100)
    assert median_box([QUARTER, LARGE]) == Box(left=0, top=0, right=50, bottom=100)


@pytest.mark.slow
@given(st.lists(boxes, min_size=1, max_size=7), boxes)
def test_a_median_of_boxes_is_a_box(drawn, other) -> None:
    """A median has at least a pixel and is the same in any order; two boxes overlap as much either way round."""
    assert median_box(drawn) == median_box(drawn[::-1])
    overlap = intersection_over_union(drawn[0], other)
    assert overlap == intersection_over_union(other, drawn[0])
    assert (overlap == 1) == (drawn[0] == other)


# ---- U6


def test_u6_three_raters_who_see_the_same_make_a_picture_valid() -> None:
    """Three raters, all definite, one class, a large box and three true statements: valid, as their class."""
    ruling = JUDGE.rule_on_picture(ratings(answers(), answers(), answers()))
    assert (ruling.outcome, ruling.class_name, ruling.reasons) == (Outcome.VALID, "bird", ())
    assert ruling.share == area_share(LARGE, SIZE)
    assert JUDGE.rule_on_picture(ratings(*[answers(NO, YES)] * 3)).class_name == "bicycle"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_u6_fewer_than_three_raters_rule_on_nothing(count) -> None:
    """Two raters decide nothing, not even where one is unsure; the ruling says how many are missing."""
    for first in (answers(), answers(YES, HARDLY)):
        ruling = JUDGE.rule_on_picture(ratings(*[first, answers()][:count]))
        assert (ruling.outcome, ruling.more_raters) == (Outcome.MORE_RATERS, 3 - count)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (answers(MAYBE, NO), "r-4 is not sure whether there is a bird"),
        (answers(HARDLY, NO), "r-4 is not sure whether there is a bird"),
        (answers(YES, MAYBE), "r-4 is not sure whether there is a bicycle"),
        (answers(YES, HARDLY), "r-4 is not sure whether there is a bicycle"),
        (answers(YES, YES), "r-4 sees a bird and a bicycle"),
        (answers(NO, NO), "r-4 sees neither a bird nor a bicycle"),
        (answers(NO, YES), "raters see different classes: r-1 a bird, r-2 a bird, r-3 a bird, r-4 a bicycle"),
        (answers(complete=False), "r-4 says that the bird is truncated"),
        (answers(unoccluded=False), "r-4 says that the bird is occluded"),
        (answers(real=False), "r-4 says that it is no real, live bird"),
        (answers(box=Box(left=10, top=20, right=60, bottom=119)), "the box of r-4 covers 4950 of 20000 pixels, less"),
    ],
)
def test_u6_one_rater_rejects(odd, reason) -> None:
    """Any single answer that is not the one of a valid picture rejects it, whatever all others say."""
    others = [answers(box=Box(left=10, top=20, right=60, bottom=121))] * 3
    assert JUDGE.rule_on_picture(ratings(*others)).outcome is Outcome.VALID
    ruling = JUDGE.rule_on_picture(ratings(*others, odd))
    assert (ruling.outcome, ruling.class_name) == (Outcome.INVALID, None)
    assert len(ruling.reasons) == 1
    assert ruling.reasons[0].startswith(reason)


def test_u6_a_quarter_is_in_and_one_pixel_less_is_out() -> None:
    """The smallest box decides: exactly 25 % of the picture is enough, and less by one column is not."""
    less = Box(left=0, top=0, right=49, bottom=100)
    for smallest, outcome in ((QUARTER, Outcome.VALID), (less, Outcome.INVALID)):
        larger = [answers(box=Box(left=0, top=0, right=52, bottom=100)), answers(box=QUARTER)]
        assert JUDGE.rule_on_picture(ratings(*larger, answers(box=smallest))).outcome is outcome
    halved = Judge(SIZE, ValidityRules(minimum_area_percent=26), QUESTIONS)
    assert halved.rule_on_picture(ratings(*[answers(box=QUARTER)] * 3)).outcome is Outcome.INVALID


def test_u6_disagreeing_boxes_ask_a_fourth_rater() -> None:
    """One sloppy box of three decides nothing; beside three that agree it is set aside, and the ruling says so."""
    three = ratings(answers(), answers(box=SLOPPY), answers())
    ruling = JUDGE.rule_on_picture(three)
    assert (ruling.outcome, ruling.more_raters) == (Outcome.MORE_RATERS, 1)
    assert ruling.reasons == ("boxes that disagree with the median of all boxes: r-2",)
    fourth = JUDGE.rule_on_picture([*three, *ratings(answers(), start=4)])
    assert (fourth.outcome, fourth.set_aside, fourth.share) == (Outcome.VALID, "r-2", area_share(LARGE, SIZE))
    sloppy_too = JUDGE.rule_on_picture(
        [*three, *ratings(answers(box=Box(left=80, top=0, right=90, bottom=9)), start=4)]
    )
    assert (sloppy_too.outcome, sloppy_too.set_aside) == (Outcome.INVALID, "")


def test_u6_boxes_agree_from_half_of_their_union_on() -> None:
    """A box of exactly half of the median agrees with it, and one of a pixel less does not."""
    for right, outcome in ((50, Outcome.VALID), (49, Outcome.MORE_RATERS)):
        odd = Box(left=0, top=0, right=right, bottom=200)
        found = JUDGE.rule_on_picture(ratings(answers(box=WHOLE), answers(box=WHOLE), answers(box=odd)))
        assert found.outcome is outcome


def test_u6_an_unsure_rater_rejects_before_any_box_is_compared() -> None:
    """No fourth rater is asked about boxes where the picture is rejected anyway."""
    found = JUDGE.rule_on_picture(ratings(answers(), answers(box=SLOPPY), answers(YES, HARDLY)))
    assert found.outcome is Outcome.INVALID


def test_a_reported_picture_waits_for_the_board() -> None:
    """A report stands before every other ruling, and asks for no further rater."""
    ruling = JUDGE.rule_on_picture(ratings(answers(), None))
    assert (ruling.outcome, ruling.more_raters, ruling.reasons) == (
        Outcome.REPORTED,
        0,
        ("r-2 reported the picture",),
    )
    assert JUDGE.rule_on_picture([*ratings(*[answers()] * 3), Rating("r-4", None)]).outcome is Outcome.REPORTED


def test_nobody_rates_a_picture_twice() -> None:
    """Two ratings of one rater are an error of the caller, and so is a rating without what was asked for."""
    twice = [*ratings(answers(), answers()), *ratings(answers())]
    with pytest.raises(ValueError, match="several ratings of r-1"):
        JUDGE.rule_on_picture(twice)
    with pytest.raises(ValueError, match="r-3 have no box"):
        JUDGE.rule_on_picture(ratings(answers(), answers(), Answers(presence={"bird": YES, "bicycle": NO})))


def test_every_reason_is_told() -> None:
    """A rejected picture is rejected for all that raters said, each with the id of who said it."""
    found = JUDGE.rule_on_picture(ratings(answers(complete=False, real=False), answers(MAYBE, HARDLY), answers(NO, NO)))
    assert found.reasons == (
        "r-1 says that the bird is truncated",
        "r-1 says that it is no real, live bird",
        "r-2 is not sure whether there is a bird",
        "r-2 is not sure whether there is a bicycle",
        "r-3 sees neither a bird nor a bicycle",
    )


@pytest.mark.slow
@given(st.lists(likely_answers, max_size=5), unsure_answers)
def test_u6_adding_an_unsure_rater_never_makes_a_picture_valid(given_answers, unsure) -> None:
    """Whatever others say, with an unsure rater among them a picture is not valid."""
    found = JUDGE.rule_on_picture(ratings(*given_answers, unsure))
    assert found.outcome is (Outcome.INVALID if len(given_answers) > 1 else Outcome.MORE_RATERS)


@pytest.mark.slow
@given(st.data(), st.lists(likely_answers, max_size=6))
def test_u6_the_order_of_raters_never_matters(data, given_answers) -> None:
    """The same ratings in any order give the same ruling, its reasons included."""
    all_ratings = ratings(*given_answers)
    shuffled = data.draw(st.permutations(all_ratings))
    assert JUDGE.rule_on_picture(shuffled) == JUDGE.rule_on_picture(all_ratings)
    if len(all_ratings) <= 5:
        assert JUDGE.rule_on_appeal(shuffled, []) == JUDGE.rule_on_appeal(all_ratings, [])


@given(st.integers(1, 100), st.integers(1, 200))
def test_u6_a_quarter_is_in_for_every_size(height, width) -> None:
    """A box of 2 h x 2 w of a picture of 4 h x 4 w pixels is large enough, and one of a row less is not."""
    judge = Judge(PictureSize(4 * height, 4 * width), ValidityRules(), QUESTIONS)
    for rows, outcome in ((2 * height, Outcome.VALID), (2 * height - 1, Outcome.INVALID)):
        drawn = answers(box=Box(left=width, top=0, right=3 * width, bottom=rows))
        assert judge.rule_on_picture(ratings(drawn, drawn, drawn)).outcome is outcome


# ---- U8


@pytest.mark.parametrize(
    ("sound", "unsound", "outcome"),
    [
        (5, 0, Outcome.VALID),
        (4, 1, Outcome.VALID),
        (3, 2, Outcome.UNDECIDED),
        (2, 3, Outcome.UNDECIDED),
        (1, 4, Outcome.INVALID),
        (0, 5, Outcome.INVALID),
        (4, 0, Outcome.MORE_RATERS),
    ],
)
@pytest.mark.parametrize(
    "odd", [answers(YES, HARDLY), answers(complete=False), answers(NO, NO), answers(box=SLOPPY)], ids=str
)
def test_u8_four_of_five_new_raters_decide_an_appeal(sound, unsound, outcome, odd) -> None:
    """Four of five decide either way; three decide nothing; a box that is too small is a vote against by itself."""
    panel = ratings(*[answers()] * sound, *[odd] * unsound, start=11)
    ruling = JUDGE.rule_on_appeal(panel, ["r-1", "r-2", "r-3"])
    assert ruling.outcome is outcome
    assert ruling.class_name == ("bird" if outcome is Outcome.VALID else None)
    assert bool(ruling.reasons) == (outcome is not Outcome.VALID)


def test_u8_raters_of_an_appeal_who_see_different_classes_do_not_decide() -> None:
    """Votes for different classes are not added up."""
    ruling = JUDGE.rule_on_appeal(ratings(*[answers()] * 3, *[answers(NO, YES)] * 2), [])
    assert ruling.outcome is Outcome.UNDECIDED
    assert ruling.reasons[:2] == (
        "2 of 5 raters find that it is valid and shows: bicycle",
        "3 of 5 raters find that it is valid and shows: bird",
    )


def test_u8_raters_of_an_appeal_are_new_and_five() -> None:
    """Who rated the picture before does not rate it again, and a sixth rater changes nothing."""
    with pytest.raises(ValueError, match="r-3 rated the picture before"):
        JUDGE.rule_on_appeal(ratings(answers(), start=3), ["r-3"])
    with pytest.raises(ValueError, match="6 raters answered for an appeal; 5 are asked"):
        JUDGE.rule_on_appeal(ratings(*[answers()] * 6), [])


def test_u8_a_report_stops_an_appeal_too() -> None:
    """A picture that a rater of an appeal reports is shown to no further rater."""
    assert JUDGE.rule_on_appeal(ratings(*[answers()] * 4, None), []).outcome is Outcome.REPORTED


@pytest.mark.parametrize(
    "wrong",
    [
        {"raters_per_picture": 2},
        {"minimum_area_percent": 0},
        {"minimum_area_percent": 101},
        {"appeal_raters": 8},
        {"appeal_majority": 6},
        {"unknown": 1},
    ],
)
def test_rules_that_cannot_be_played_are_refused(wrong) -> None:
    """Fewer than three raters, shares that are none, and majorities that both sides could have are refused."""
    with pytest.raises(ValueError):
        ValidityRules(**wrong)
