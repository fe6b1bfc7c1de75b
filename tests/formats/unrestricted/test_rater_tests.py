"""Raters of an unrestricted contest are tested by pictures whose class is known (U6)."""

import pytest

from orchestrator.domain.ids import digest
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.fold import fold
from orchestrator.formats.unrestricted.questionnaire import Answers, Certainty
from orchestrator.formats.unrestricted.rater_tests import KnownPicture, RaterRecord, RaterRules, is_right, next_test

from .simulated_contest import BICYCLE, BIRD, SimulatedContest, answers, handle, small_contest

SIZE = PictureSize(224, 224)
KNOWN = [KnownPicture(digest(f"known {place}"), SIZE, (BIRD, BICYCLE)[place % 2]) for place in range(30)]


def record_test(contest: SimulatedContest, place: int, given: Answers | None, **changes: object) -> list[str]:
    """Notes what r1 answers about a known picture; returns the refusals."""
    one = KNOWN[place]
    body = {"pixels": one.pixels, "shows": one.shows, "height": 224, "width": 224, "practice": place < 5} | changes
    return contest.propose(events.RaterTested(actor="r1", rater="r1", answers=given, **body))


def right(place: int) -> Answers:
    """Returns the right answers about a known picture."""
    return answers(KNOWN[place].shows)


@pytest.fixture
def contest() -> SimulatedContest:
    """Returns a contest with a picture that waits for raters, in which r1 has practised."""
    made = small_contest()
    made.must(made.upload(1, "foxes"))
    made.close_week()
    for place in range(5):
        made.must(record_test(made, place, answers(BIRD)))
    return made


def test_u6_hidden_items_rule_on_no_picture(contest) -> None:
    """What a rater answers about a known picture is no rating: the picture of the week still needs its three."""
    contest.must(record_test(contest, 5, right(5)))
    contest.must(contest.rate(1, raters=("r1", "r2")))
    assert contest.status(1) == "rating"
    contest.must(contest.rate(1, raters=("r3",)))
    assert contest.status(1) == "valid"


def test_u6_who_is_wrong_too_often_about_hidden_items_is_asked_no_more(contest) -> None:
    """Three of ten wrong are too many; then nothing of r1 is taken any more, and what they rated before counts."""
    contest.must(contest.rate(1, raters=("r1",)))
    for place in range(5, 15):
        assert not contest.state.raters["r1"].is_removed
        contest.must(record_test(contest, place, right(place + (place < 8))))
    assert contest.state.raters["r1"].is_removed
    [why] = record_test(contest, 15, right(15))
    assert "gets no more pictures" in why
    contest.must(contest.upload(2, "foxes"))
    contest.close_week()
    assert "gets no more pictures" in contest.rate(2, raters=("r1",))[0]
    contest.must(contest.rate(1, raters=("r2", "r3")))
    assert contest.status(1) == "valid"


def test_u6_practice_removes_nobody(contest) -> None:
    """r1 answered every second practice item wrongly, and is asked on; eight of ten hidden items are enough."""
    for place in range(5, 15):
        contest.must(record_test(contest, place, right(place + (place < 7))))
    record = contest.state.raters["r1"]
    assert (record.practised, record.hidden, record.hidden_right, record.is_removed) == (5, 10, 8, False)


def test_a_test_that_may_not_be_is_refused(contest) -> None:
    """No picture tests a rater twice, practice ends, and the answers have to answer what was asked."""
    assert record_test(contest, 4, right(4), practice=False) == ["r1 already answered about this picture"]
    assert "practice" in record_test(contest, 5, right(5), practice=True)[0]
    assert "is not a class of this contest" in record_test(contest, 5, right(5), shows="cat")[0]
    assert "lies outside the picture" in record_test(contest, 5, right(5), width=100)[0]
    assert fold(contest.state.rules, contest.ledger) == contest.state


def test_what_raters_got_right_is_told_at_the_close(contest) -> None:
    """Before it the number would tell a rater which pictures are hidden items."""
    contest.must(record_test(contest, 5, right(5)))
    assert contest.state.raters["r1"].published == (0, 0)
    contest.close_week()
    assert contest.state.raters["r1"].published == (1, 1)


def test_who_hesitates_is_right_and_who_reports_is_not() -> None:
    """A rater has to see the class that is there and not the other one, sure or not."""
    both = Answers(presence={BIRD: Certainty.PROBABLY_YES, BICYCLE: Certainty.PROBABLY_YES})
    assert is_right(answers(BIRD, sure=False), BIRD)
    assert not any(is_right(each, BIRD) for each in (answers(BICYCLE), both, None))


def test_practice_comes_first_and_hidden_items_have_their_share() -> None:
    """The first five are known pictures; of what follows as many as the rules say are, and none comes twice."""
    rules, record = RaterRules(), RaterRecord()
    for number in range(5):
        found = next_test(rules, record, KNOWN, 7919 * number)
        assert found is not None
        assert found[1]
        record.add_answer(rules, found[0].pixels, right=True, practice=True)
    drawn = [next_test(rules, record, KNOWN, draw) for draw in range(2500)]
    assert sum(each is not None for each in drawn) == 250
    assert {each[0].pixels for each in drawn if each} == {each.pixels for each in KNOWN} - record.seen
    assert next_test(rules, record, KNOWN[:0], 0) is None
    record.is_removed = True
    assert next_test(rules, record, KNOWN, 0) is None


def test_a_rater_of_no_test_is_asked_about_pictures(contest) -> None:
    """Without public pictures nobody is tested, and three raters rule as ever."""
    contest.must(contest.rate(1))
    assert contest.state.pictures[handle(1)].settled is False
    assert contest.status(1) == "valid"
