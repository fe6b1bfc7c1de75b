"""Rules U1 to U5, U7 to U9 and U11 to U13 of the unrestricted contest, each by an event that breaks it."""

from datetime import timedelta

import pytest

from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.domain.ids import picture_seeds
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.bounding_boxes import Box
from orchestrator.formats.unrestricted.questionnaire import Certainty
from orchestrator.formats.unrestricted.recusal import ConflictSource
from orchestrator.formats.unrestricted.visibility import is_recused, visible_pictures

from .simulated_contest import (
    BICYCLE,
    BIRD,
    RULES,
    SimulatedContest,
    answers,
    broken_contest,
    handle,
    small_contest,
)


def recused(member: str, reason: str) -> str:
    """Returns the message that refuses what a recused member does."""
    return f"{member} is recused because of a conflict of interest: {reason}; a member without one has to act"


def contest_before_the_test(**rules: object) -> SimulatedContest:
    """Returns a contest in which the board finds d2 readable, which is not tested yet."""
    contest = small_contest(RULES | rules)
    contest.receive_defence("d2", "owls")
    contest.find_readable("d2", "b1", "b2")
    return contest


@pytest.mark.parametrize(("abstained", "faults", "status"), [(2, 0, "eligible"), (1, 2, "refused"), (3, 0, "refused")])
def test_u1_a_defence_may_abstain_on_a_fifth_of_the_eligibility_set(abstained, faults, status) -> None:
    """Two of ten pictures may go unanswered, faults among them, and a third one makes it not eligible."""
    contest = contest_before_the_test()
    contest.must(contest.test("d2", right=10 - abstained - faults, abstained=abstained, faults=faults))
    assert contest.state.defences["d2"].status == status


def test_u1_an_answer_is_one_of_both_classes_or_an_abstention() -> None:
    """A defence cannot answer with a class that the contest does not have."""
    contest = broken_contest()
    contest.publish_defence("d2", "owls")
    assert contest.record_answers("d2", {handle(1): "car"}) == [
        "'car' is not a class of this contest, which has bicycle and bird (U1)"
    ]
    assert contest.record_answers("d2", {handle(1): None}) == []


@pytest.mark.parametrize(
    "fault",
    [{"right": 8, "wrong": 1}, {"broken_by": [handle(1)]}, {"seconds": 601.0}],
    ids=["a mistake", "an accepted picture", "too slow"],
)
def test_u2_a_defence_with_a_fault_is_not_eligible(fault) -> None:
    """A mistake on what it answers, an accepted picture that breaks it, or over a minute a picture refuse it."""
    contest = broken_contest()
    contest.receive_defence("d2", "owls")
    contest.find_readable("d2", "b1", "b2")
    contest.must(contest.test("d2", **fault))
    assert contest.state.defences["d2"].status == "refused"


def test_u2_a_defence_has_to_be_asked_about_every_accepted_picture() -> None:
    """A test that leaves out an accepted picture is not noted."""
    contest = broken_contest()
    contest.receive_defence("d2", "owls")
    contest.find_readable("d2", "b1", "b2")
    assert contest.test("d2", accepted=0) == [
        "d2 was asked about 0 accepted pictures, and has to be asked about 1 (U2)"
    ]


def test_u2_the_other_reading_allows_mistakes_where_80_percent_are_right() -> None:
    """With `right_on_80` eight of ten right are enough, and seven are not."""
    for right, status in ((8, "eligible"), (7, "refused")):
        contest = contest_before_the_test(eligibility="right_on_80")
        contest.must(contest.test("d2", right=right, wrong=10 - right, abstained=0))
        assert contest.state.defences["d2"].status == status


def test_u2_code_that_nobody_can_read_is_refused_by_the_board() -> None:
    """Without the board's decision a defence is not tested, and a decision against it ends its way."""
    contest = small_contest()
    contest.receive_defence("d2", "owls")
    assert contest.test("d2") == ["d2 is received; it has to be readable"]
    contest.must(contest.vote("readable:d2", "b1", "b2", in_favour=False))
    refuse = commands.decide_readability(contest.state, contest.now, "desk", "d2", readable=False, reason="Obfuscated.")
    contest.must(contest.done(refuse))
    assert contest.state.defences["d2"].status == "refused"


def test_u3_an_eligible_defence_is_published_before_the_following_week_ends() -> None:
    """Nobody else sees a defence before; with the close of its week it is published as it was received."""
    contest = contest_before_the_test()
    contest.must(contest.test("d2"))
    assert contest.state.defences["d2"].published_at is None
    forged = events.DefencePublished(actor="desk", defence="d2", digest="another", source="https://code.example/1")
    assert contest.propose(forged) == ["the digest or the address of the code is not the one that was received (U3)"]
    contest.close_week()
    assert "publish:d2" in contest.actions
    assert contest.state.defences["d2"].published_at is not None


def test_u3_a_defence_whose_code_is_closed_plays_where_the_rules_allow_it() -> None:
    """Closed code is refused by default; where it is allowed it is barred from the prize of defences."""
    for rule, status in (("refused", "refused"), ("allowed", "eligible")):
        contest = small_contest(RULES | {"closed": rule})
        contest.receive_defence("d2", "owls", source="")
        contest.find_readable("d2", "b1", "b2")
        contest.must(contest.test("d2"))
        assert contest.state.defences["d2"].status == status
    contest.close_week()
    contest.must(contest.stake("b-2", "d2"))
    assert contest.state.staked_defence(contest.state.defences["d2"]).barred == "its code is closed"


def test_u4_a_team_hands_in_ten_pictures_a_day_of_the_contests_zone() -> None:
    """The eleventh is refused until it is midnight in Berlin; the same file again uses up nothing."""
    contest = small_contest()
    for number in range(10):
        contest.must(contest.upload(number, "foxes"))
    contest.must(contest.upload(99, "foxes", content="picture 3"))
    assert handle(99) not in contest.state.pictures
    [why] = contest.upload(10, "foxes")
    assert "submitted 10 pictures on 2027-01-18" in why
    assert "the next day begins at midnight in Europe/Berlin" in why
    contest.must(contest.upload(11, "wolves"))
    contest.wait(hours=13, minutes=59)
    assert contest.upload(10, "foxes") != []
    contest.wait(minutes=1)
    contest.must(contest.upload(10, "foxes"))


def test_u4_a_team_needs_a_preprint_or_the_boards_admission() -> None:
    """A team that nobody admitted submits nothing; the board may admit it by a vote."""
    contest = small_contest()
    contest.add_team("cats")
    assert contest.upload(1, "cats") == [
        "cats is not admitted; send the organizers a preprint, or ask the board to admit the team (U4)"
    ]
    assert contest.done(commands.admit_attacker(contest.state, contest.now, "desk", "cats")) != []
    contest.must(contest.vote("admit:cats", "b1", "b2"))
    contest.must(contest.done(commands.admit_attacker(contest.state, contest.now, "desk", "cats")))
    contest.must(contest.upload(1, "cats"))


def test_u4_a_break_bars_an_unstaked_defence_from_being_staked() -> None:
    """A defence that a valid picture breaks is not staked, also while the ruling may still be appealed against."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1))
    assert contest.stake("b-1", "d1") == [
        f"d1 cannot be staked: {handle(1)} will break it unless the ruling changes (U4)"
    ]
    contest.wait(days=3)
    assert contest.state.defences["d1"].status == "broken"
    assert contest.state.books.unpaid() == []


def test_u5_a_picture_at_the_close_is_in_the_next_week_and_hidden_until_it_ends() -> None:
    """A millisecond before the close is in, the close itself is the next week's; others see it when that closes."""
    contest = small_contest()
    close = contest.state.week.closes
    contest.go_to(close - timedelta(milliseconds=1))
    contest.must(contest.upload(1, "foxes"))
    contest.now = close
    assert contest.upload(2, "foxes") == [
        "no week is open at this time: the last week is over, or the next one was not opened yet (U5)"
    ]
    contest.tick()
    contest.must(contest.upload(2, "foxes"))
    assert [each.id for each in visible_pictures(contest.state, "wolves")] == [handle(1)]
    assert [each.id for each in visible_pictures(contest.state, "foxes")] == [handle(1), handle(2)]
    assert contest.rate(2, raters=["r1"]) == [
        f"{handle(2)} is not public yet (U5)",
        f"{handle(2)} is received; raters are not asked about it now (U6)",
    ]
    contest.close_week()
    assert len(visible_pictures(contest.state, "wolves")) == 2


def test_u5_a_week_closes_once_however_late_and_however_often() -> None:
    """After three weeks without a tick each week is closed once, and a second tick finds nothing to do."""
    contest = small_contest()
    contest.now += timedelta(days=21)
    assert [each for each in contest.tick() if each.startswith("close:")] == [
        "close:2027-W03",
        "close:2027-W04",
        "close:2027-W05",
    ]
    assert contest.tick() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"presence": {BIRD: Certainty.DEFINITELY_YES}}, "no answer to this question"),
        ({"box": None}, "draw a box"),
        ({"statements": None}, "no answer to this question"),
        ({"box": Box(left=0, top=0, right=225, bottom=9)}, "lies outside the picture"),
        ({"box": Box(left=0, top=0, right=9, bottom=225)}, "lies outside the picture"),
        ({"presence": dict.fromkeys((BIRD, BICYCLE), Certainty.DEFINITELY_NO)}, "is not asked for"),
    ],
)
def test_u6_answers_to_other_questions_are_refused(change, message) -> None:
    """A rating without an answer that is asked for, with one that is not, or with a box outside does not count."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    assert message in " ".join(contest.rate(1, answers().model_copy(update=change), raters=["r1"]))
    assert contest.state.pictures[handle(1)].ratings == []


@pytest.mark.parametrize(
    ("answer", "rated", "broken"), [(BICYCLE, BIRD, True), (BIRD, BIRD, False), (None, BIRD, False)]
)
def test_u7_a_valid_picture_with_the_other_class_breaks_a_defence(answer, rated, broken) -> None:
    """The other class is a break, the right one and an abstention are none."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): answer}))
    contest.must(contest.rate(1, answers(rated)))
    contest.wait(days=3)
    assert (contest.state.defences["d1"].status == "broken") is broken


@pytest.mark.parametrize(("on_fault", "broken"), [("abstain", False), ("break", True)])
def test_u7_a_fault_is_an_abstention_unless_the_rules_make_it_a_break(on_fault, broken) -> None:
    """A picture that gets no answer breaks a defence only with `on_fault: break`."""
    contest = small_contest(RULES | {"on_fault": on_fault})
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): None}, faults=[handle(1)]))
    contest.must(contest.rate(1))
    contest.wait(days=3)
    assert (contest.state.defences["d1"].status == "broken") is broken


@pytest.mark.parametrize("when", ["before the test", "after the test"])
def test_u7_a_defence_is_asked_again_if_the_class_of_a_picture_changes_that_it_was_tested_on(when) -> None:
    """Its test says that no bird was called a bicycle, and nothing of a picture that now is one."""
    contest = broken_contest()
    contest.receive_defence("d2", "bears")
    contest.find_readable("d2", "b1", "b2")

    def overrule(class_name: str | None) -> None:
        contest.must(contest.vote(f"overrule:{handle(1)}:{class_name or 'invalid'}", "b1", "b2"))
        decide = (contest.state, contest.now, "desk", handle(1), class_name, "We looked at it.")
        contest.must(contest.done(commands.overrule(*decide)))

    if when == "before the test":
        overrule(None)
    contest.must(contest.test("d2"))
    if when == "after the test":
        assert "d2" not in contest.state.weeks_to_ask().get("2027-W03", [])
        overrule(None)
        assert "d2" not in contest.state.weeks_to_ask().get("2027-W03", [])
    overrule(BICYCLE)
    assert contest.state.weeks_to_ask()["2027-W03"] == ["d2"]
    contest.must(contest.record_answers("d2", {handle(1): BIRD}))
    contest.wait(days=3)
    assert contest.state.defences["d2"].broken_by == [handle(1)]


def test_u7_a_break_needs_its_settled_picture() -> None:
    """A break by a picture that may still be appealed against, or of the right class, is not noted."""
    contest = broken_contest()
    forged = events.DefenceBroken(actor="desk", defence="d1", picture=handle(1))
    assert "the picture has to be settled as valid" in contest.propose(forged)[0]
    contest.wait(days=3)
    assert contest.state.defences["d1"].broken_by == [handle(1)]
    assert contest.propose(forged) == [f"the ledger already records that {handle(1)} breaks d1"]


def test_u8_an_appeal_is_decided_by_its_panel() -> None:
    """Five new raters, four of whom see a drawing, overturn the ruling, and the defence is not broken."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    contest.must(contest.propose(events.PanelCalled(actor="b1", appeal=handle(1), member="b1")))
    for number, real in enumerate([False, False, True, False, False]):
        body = {"picture": handle(1), "appeal": handle(1), "answers": answers(real=real)}
        contest.must(contest.propose(events.PictureRated(actor="p", rater=f"p{number}", **body)))
    contest.tick()
    assert contest.status(1) == "invalid"
    contest.wait(days=4)
    assert contest.state.defences["d1"].status == "staked"


def contest_with_an_undecided_panel() -> SimulatedContest:
    """Returns a contest with an appeal by the owls about picture 1, of whose new raters three of five see a drawing."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    contest.must(contest.propose(events.PanelCalled(actor="b1", appeal=handle(1), member="b1")))
    for number, real in enumerate([False, False, True, False, True]):
        body = {"picture": handle(1), "appeal": handle(1), "answers": answers(real=real)}
        contest.must(contest.propose(events.PictureRated(actor="p", rater=f"p{number}", **body)))
    contest.tick()
    return contest


@pytest.mark.parametrize(("class_name", "status"), [(None, "invalid"), (BIRD, "valid")])
def test_u8_the_board_may_decide_where_the_panel_does_not_agree(class_name, status) -> None:
    """It has as long as teams have for an appeal, from the last answer of the panel on."""
    contest = contest_with_an_undecided_panel()
    contest.wait(days=2, hours=23)
    assert (contest.state.open_appeals, contest.status(1)) == ({handle(1): None}, "valid")
    contest.must(contest.vote(f"appeal:{handle(1)}:{class_name or 'invalid'}", "b1", "b2"))
    decide = commands.rule_on_appeal(contest.state, contest.now, "desk", handle(1), class_name, "The board looked.")
    contest.must(contest.done(decide))
    contest.wait(days=4)
    assert contest.status(1) == status
    assert contest.state.pictures[handle(1)].decisions[-1].by == "board"


def test_u8_the_ruling_stands_if_the_board_lets_the_time_pass() -> None:
    """The appeal ends by itself, not earlier, and says that its panel did not agree; then the defence is broken."""
    contest = contest_with_an_undecided_panel()
    early = events.AppealRuled(actor="desk", appeal=handle(1), class_name=BIRD, reason="The panel is undecided.")
    [why] = contest.propose(early)
    assert "2027-01-25T23:00:00+00:00" in why
    contest.wait(days=3)
    assert f"appeal:{handle(1)}" in contest.actions
    assert contest.state.appeals[handle(1)].decision.at.isoformat() == "2027-01-25T23:00:00+00:00"
    assert "The panel finds: undecided" in contest.state.appeals[handle(1)].decision.reason
    assert contest.state.defences["d1"].status == "broken"


def test_u8_only_those_concerned_appeal_and_only_in_time() -> None:
    """A team whose defence is not broken by it, and anybody after the last day, cannot appeal."""
    contest = broken_contest()
    assert "only teams whose defence it breaks may (U8)" in contest.appeal(1, 1, "wolves")[0]
    contest.wait(days=3)
    assert contest.appeal(1, 1, "owls") != []


def test_u8_a_recused_member_neither_sees_nor_votes() -> None:
    """A member of the same organization, and one with a declared conflict, are refused; the others decide."""
    contest = broken_contest()
    contest.add_board(b4="four@owls.example")
    contest.must(contest.appeal(1, 1, "owls"))
    note = commands.record_conflict(contest.state, contest.now, "b3", "b3", "foxes", ConflictSource.CO_AUTHOR)
    contest.must(contest.done(note))
    question = f"appeal:{handle(1)}:invalid"
    assert contest.vote(question, "b4") == [recused("b4", "organization (owls)")]
    assert contest.vote(question, "b3") == [recused("b3", "co_author (foxes)")]
    assert is_recused(contest.state, "b3", contest.state.teams_of(f"appeal:{handle(1)}"), contest.now)
    assert visible_pictures(contest.state, member="b4", today=contest.now) == []
    contest.must(contest.vote(question, "b1"))
    decide = (contest.state, contest.now, "desk", handle(1), None, "The board sees a drawing.")
    assert "1 of 2 members voted" in contest.done(commands.rule_on_appeal(*decide))[0]
    contest.must(contest.vote(question, "b2"))
    contest.must(contest.done(commands.rule_on_appeal(contest.state, contest.now, *decide[2:])))
    assert contest.ledger[-1][0].vote.recused == {"b3": "co_author (foxes)", "b4": "organization (owls)"}


def test_u8_a_site_tells_of_organizations_that_the_ledger_does_not_show() -> None:
    """Once, and where the ledger has not everybody's address: otherwise it says itself whether there is one."""
    contest = broken_contest()
    contest.add_board(b4="person-00000000000000b4", b5="five@elsewhere.example")

    def note(member: str) -> list[str]:
        body = {"member": member, "team": "owls", "source": ConflictSource.ORGANIZATION}
        return contest.propose(events.ConflictNoted(actor="desk", **body))

    refused = "has no computed conflict of this kind with owls, or it is already recorded"
    assert note("b5") == [f"b5 {refused}"]
    contest.must(note("b4"))
    assert note("b4") == [f"b4 {refused}"]
    contest.must(contest.appeal(1, 1, "owls"))
    assert contest.vote(f"appeal:{handle(1)}:invalid", "b4") == [recused("b4", "organization (owls)")]


def test_u8_nobody_lifts_their_own_recusal() -> None:
    """Two other members without a conflict waive a computed one; the member's own word and one waiver are too few."""
    contest = broken_contest()
    contest.add_board(b4="four@owls.example")

    def waive(by: str, member: str = "b4") -> list[str]:
        body = {"member": member, "team": "owls", "by": by, "reason": "It is another faculty."}
        return contest.propose(events.ConflictWaived(actor=by, **body))

    contest.must(contest.appeal(1, 1, "owls"))
    assert "members cannot waive their own conflicts; ask two other members (U8)" in waive("b4")
    contest.must(waive("b1"))
    assert waive("b1") != []
    assert contest.vote(f"appeal:{handle(1)}:invalid", "b4") != []
    contest.must(waive("b2"))
    contest.must(contest.vote(f"appeal:{handle(1)}:invalid", "b4"))


def test_u8_a_member_of_the_team_is_recused_for_ever() -> None:
    """Who is in a team has a conflict that nobody can waive."""
    contest = broken_contest()
    contest.add_board(b4="owls@owls.example")
    body = {"member": "b4", "team": "owls", "reason": "We trust them."}
    assert contest.propose(events.ConflictWaived(actor="b1", by="b1", **body)) != []


def test_u8_nobody_votes_as_somebody_else() -> None:
    """A vote whose actor is not its member is refused."""
    contest = broken_contest()
    forged = events.VoteCast(actor="b1", question="readable:d1", member="b2", in_favour=True)
    assert contest.propose(forged) == ["b1 cannot act for b2; each member acts in their own name"]


def test_u8_an_outside_member_is_appointed_where_too_few_may_vote() -> None:
    """Somebody from outside is of the board for one case, only where its own members cannot decide it."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    seat = ("x1", "x@far.example", f"appeal:{handle(1)}")
    assert contest.seat(*seat)[1:] == ["nobody with this id has the board's role; give them the role first"]
    contest.grant_board("x@far.example")
    assert contest.seat(*seat) == ["3 members may vote on this case; others are seated only where fewer than 2 may"]
    for member in ("b2", "b3"):
        note = commands.record_conflict(contest.state, contest.now, member, member, "foxes", ConflictSource.ADVISOR)
        contest.must(contest.done(note))
    contest.must(contest.seat(*seat))
    contest.must(contest.vote(f"appeal:{handle(1)}:invalid", "b1", "x1"))
    decision = commands.rule_on_appeal(contest.state, contest.now, "desk", handle(1), None, "It is a drawing.")
    contest.must(contest.done(decision))
    assert contest.vote("readable:d1", "x1") == [
        "x1 has no seat on the review board for this case; organizers give seats"
    ]


@pytest.mark.parametrize(("on_fault", "is_party"), [("abstain", False), ("break", True)])
def test_u8_a_member_has_a_conflict_with_a_picture_that_breaks_by_a_fault(on_fault, is_party) -> None:
    """Where the rules count a fault as a break, the team of the defence that gave no answer is concerned (U7)."""
    contest = small_contest(RULES | {"on_fault": on_fault})
    contest.add_board(b4="four@owls.example")
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): None}, faults=[handle(1)]))
    contest.must(contest.rate(1))
    refused = [recused("b4", "organization (owls)")] if is_party else []
    assert contest.vote(f"overrule:{handle(1)}:invalid", "b4") == refused


def contest_with_a_question(name: str, team: str) -> SimulatedContest:
    """Returns a contest with a rated picture of the foxes that d1 answered, b4 of `team`, and its defence, received."""
    contest = broken_contest()
    contest.add_team(team)
    contest.add_board(b4=f"four@{team}.example")
    contest.receive_defence(name, team)
    return contest


def test_u8_a_member_has_a_conflict_through_a_defence_that_was_not_asked_yet() -> None:
    """It may still be broken, at each of its stages; once it has abstained, it may not."""
    question, refused = f"overrule:{handle(1)}:invalid", [recused("b4", "organization (bears)")]
    for answer, after in ((BIRD, refused), (None, [])):
        contest = contest_with_a_question("d2", "bears")
        contest.upload(2, "foxes")
        assert contest.vote(question, "b4") == refused
        contest.find_readable("d2", "b1", "b2")
        assert contest.vote(question, "b4") == refused
        contest.close_week()
        contest.must(contest.rate(2, answers(sure=False)))
        contest.must(contest.test("d2"))
        contest.tick()
        assert contest.vote(question, "b4") == []  # it was tested on the picture
        question_2 = f"overrule:{handle(2)}:bird"
        assert contest.vote(question_2, "b4") == refused
        contest.must(contest.record_answers("d2", {handle(2): answer}))
        assert contest.vote(question_2, "b4") == after
        assert is_recused(contest.state, "b4", contest.state.teams_of(question_2), contest.now) is bool(after)


def test_u8_a_defence_that_is_asked_no_more_makes_no_conflict() -> None:
    """One that is refused or left, and one that held, about a picture that was received after its days."""
    question = f"overrule:{handle(1)}:invalid"
    contest = contest_with_a_question("d2", "bears")
    contest.append(contest_events.SubmissionWithdrawn(actor="desk", id="d2", reason="We found a mistake."))
    contest.must(contest.vote(question, "b4"))
    contest = contest_with_a_question("d2", "bears")
    contest.find_readable("d2", "b1", "b2")
    contest.must(contest.test("d2", right=1, wrong=8))
    contest.must(contest.vote(question, "b4"))
    contest = small_contest()
    contest.add_board(b4="four@owls.example")
    contest.must(contest.stake("b-1", "d1"))
    for picture, status, refused in ((1, "staked", [recused("b4", "organization (owls)")]), (2, "expired", [])):
        contest.must(contest.upload(picture, "foxes"))
        contest.close_week()
        contest.must(contest.rate(picture, answers(sure=False)))
        assert contest.vote(f"overrule:{handle(picture)}:bird", "b4") == refused
        assert contest.state.defences["d1"].status == status
        contest.wait(days=98)
    assert contest.vote(f"overrule:{handle(1)}:bird", "b4") == [recused("b4", "organization (owls)")]


def test_u8_a_vote_from_before_a_conflict_decides_nothing() -> None:
    """A member who voted, and whose colleagues then submit a defence that will be asked, is not counted."""
    contest = broken_contest()
    contest.add_team("bears")
    contest.add_board(b4="four@bears.example")
    question = f"overrule:{handle(1)}:invalid"
    contest.must(contest.vote(question, "b4", "b1"))
    contest.receive_defence("d2", "bears")
    decide = (contest.state, contest.now, "desk", handle(1), None, "The board sees a drawing.")
    assert "1 of 3 members voted" in contest.done(commands.overrule(*decide))[0]
    contest.must(contest.vote(question, "b2"))
    contest.must(contest.done(commands.overrule(*decide)))
    assert contest.ledger[-1][0].vote.recused == {"b4": "organization (bears)"}


def test_u8_nobody_has_two_seats() -> None:
    """Neither two votes in every case, nor a second name for a case from which a declared conflict recuses them."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    for member in ("b2", "b3"):
        note = commands.record_conflict(contest.state, contest.now, member, member, "foxes", ConflictSource.ADVISOR)
        contest.must(contest.done(note))

    def known_as(member: str) -> list[str]:
        return [f"this person is {member} on the record; seat them under this name, so that nobody votes twice (U8)"]

    case = f"appeal:{handle(1)}"
    assert contest.seat("b9", "One@Uni.example") == known_as("b1")
    assert contest.seat("x2", "two@lab.example", case) == known_as("b2")
    assert contest.seat("b1", "one@uni.example", case) == ["b1 already has a seat in this case"]
    contest.grant_board("x@far.example")
    contest.must(contest.seat("x1", "x@far.example", case))
    assert contest.seat("x9", "x@far.example", case)[:1] == known_as("x1")
    assert contest.seat("b9", "x@far.example") == known_as("x1")
    contest.must(contest.seat("x1", "x@far.example"))
    contest.must(contest.vote(f"{case}:invalid", "x1", "b1"))
    decide = (contest.state, contest.now, "desk", handle(1), None, "It is a drawing.")
    contest.must(contest.done(commands.rule_on_appeal(*decide)))
    assert contest.ledger[-1][0].vote.in_favour == ["b1", "x1"]


def test_u8_a_member_keeps_the_name_and_its_conflicts_in_another_case() -> None:
    """Somebody from outside who declared a conflict in one case is not seated for a case that it concerns."""
    contest = broken_contest()
    contest.add_team("bears")
    contest.receive_defence("d2", "bears")
    contest.receive_defence("d3", "owls")
    for member, team in (("b2", "foxes"), ("b3", "foxes"), ("b2", "bears"), ("b3", "bears")):
        note = commands.record_conflict(contest.state, contest.now, member, member, team, ConflictSource.ADVISOR)
        contest.must(contest.done(note))
    contest.grant_board("x@far.example")
    contest.must(contest.seat("x1", "x@far.example", "readable:d2"))
    note = commands.record_conflict(contest.state, contest.now, "x1", "x1", "foxes", ConflictSource.DECLARED)
    contest.must(contest.done(note))
    refused = ["x1 has a conflict of interest with a team of this case; seat another person"]
    assert contest.seat("x1", "x@far.example", f"overrule:{handle(1)}") == refused
    assert contest.seat("x2", "x@far.example", f"overrule:{handle(1)}") != []


def test_u8_a_seat_ends_with_the_role() -> None:
    """Who lost the role does not vote, their vote is not counted, and the others are enough; with or without a case."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    question = f"appeal:{handle(1)}:invalid"
    contest.must(contest.vote(question, "b2", "b3"))
    contest.revoke_board("two@lab.example")
    assert contest.actions[-1] == "unseat:b2"
    assert contest.vote(question, "b2") == ["b2 has no seat on the review board for this case; organizers give seats"]
    decide = (contest.state, contest.now, "desk", handle(1), None, "It is a drawing.")
    assert "1 of 2 members voted" in contest.done(commands.rule_on_appeal(*decide))[0]
    note = commands.record_conflict(contest.state, contest.now, "b3", "b3", "foxes", ConflictSource.ADVISOR)
    contest.must(contest.done(note))
    for number in (1, 2):
        contest.grant_board(f"{number}@far.example")
        contest.must(contest.seat(f"x{number}", f"{number}@far.example", f"appeal:{handle(1)}"))
        contest.must(contest.vote(question, f"x{number}"))
        if number == 1:
            contest.revoke_board("1@far.example")
    contest.must(contest.vote(question, "b1"))
    contest.must(contest.done(commands.rule_on_appeal(*decide)))
    vote = contest.ledger[-1][0].vote
    assert (vote.in_favour, vote.eligible, vote.recused) == (["b1", "x2"], ["b1", "x2"], {"b3": "advisor (foxes)"})


def test_u8_a_seat_ends_only_with_the_role() -> None:
    """Organizers cannot take the seat of somebody who has the role, nor one that nobody has."""
    contest = broken_contest()
    refused = contest.propose(events.BoardMemberUnseated(actor="desk", member="b1"))
    assert refused == ["b1 still has the board's role; take the role away, and the seat ends with it"]
    assert contest.propose(events.BoardMemberUnseated(actor="desk", member="b9")) == ["b9 has no seat on the board"]


def test_u8_who_comes_back_is_seated_under_the_old_name() -> None:
    """The name keeps the conflicts that were declared, and is nobody else's."""
    contest = broken_contest()
    note = commands.record_conflict(contest.state, contest.now, "b2", "b2", "foxes", ConflictSource.DECLARED)
    contest.must(contest.done(note))
    contest.revoke_board("two@lab.example")
    contest.grant_board("two@lab.example")
    contest.grant_board("four@far.example")
    assert contest.seat("b4", "two@lab.example") != []
    assert contest.seat("b2", "four@far.example") == ["another person is b2 on the record; choose another name"]
    contest.must(contest.seat("b2", "two@lab.example"))
    assert contest.vote(f"overrule:{handle(1)}:invalid", "b2") == [recused("b2", "declared (foxes)")]


def test_u8_a_seat_ends_also_after_the_contest() -> None:
    """The board may still withhold prizes then, without a member who lost the role."""
    contest = small_contest(RULES | {"last_day": "2027-01-31"})
    contest.wait(days=20)
    assert contest.state.is_over
    contest.revoke_board("two@lab.example")
    assert sorted(contest.state.board.seated) == ["b1", "b3"]


def contest_with_a_prize() -> SimulatedContest:
    """Returns a contest in which d1 of the owls held for 10 days; d2 to d6 were staked later, and only one may win."""
    prizes = {"prizes": {"pool": "1000.01 EUR", "per_break": "10.00 EUR", "advances": {10: 20}}}
    contest = small_contest(RULES | prizes | {"last_day": "2027-03-31", "closed": "allowed"})
    contest.must(contest.stake("b-1", "d1"))
    for name, team in (("d2", "foxes"), ("d3", "wolves"), ("d4", "bears"), ("d5", "cats"), ("d6", "dogs")):
        contest.add_team(team) if team not in contest.state.season.teams else None
        contest.receive_defence(name, team, source="" if name == "d4" else "https://code.example/1")
        contest.find_readable(name, "b1", "b2")
        contest.must(contest.test(name))
    contest.close_week()
    contest.must(contest.stake("b-2", "d2", "d3", "d4", "d5"))
    contest.must(contest.upload(1, "wolves"))
    contest.close_week()
    answers_ = {"d1": BIRD, "d2": BIRD, "d3": BICYCLE, "d4": BIRD, "d5": BIRD, "d6": BIRD}
    for name, answer in answers_.items():
        contest.must(contest.record_answers(name, {handle(1): answer}))
    contest.must(contest.rate(1))
    contest.append(contest_events.SubmissionDisqualified(actor="desk", id="d5", reason="It is a copy."))
    contest.wait(days=4)
    return contest


@pytest.mark.parametrize(
    ("team", "is_party"),
    [("owls", True), ("foxes", True), ("wolves", False), ("bears", False), ("cats", False), ("dogs", False)],
    ids=["wins", "next", "broken", "closed code", "disqualified", "not staked"],
)
def test_u8_who_may_win_a_withheld_prize_is_concerned(team, is_party) -> None:
    """A member with a conflict with a team that may win the prize if it is withheld neither sees the case nor votes."""
    contest = contest_with_a_prize()
    [award] = [each.id for each in contest.state.books.unpaid() if each.kind == "defence_prize"]
    assert award == "defence_prize:10:d1"
    note = commands.record_conflict(contest.state, contest.now, "b3", "b3", team, ConflictSource.ADVISOR)
    contest.must(contest.done(note))
    refused = [recused("b3", f"advisor ({team})")] if is_party else []
    assert contest.vote(f"withhold:{award}", "b3") == refused


@pytest.mark.parametrize("how", ["the end", "a payment"])
def test_u8_nobody_may_win_a_prize_any_more_after(how) -> None:
    """What is withheld after the end goes back, and who was paid keeps the prize: no other team is concerned."""
    contest = contest_with_a_prize()
    if how == "the end":
        contest.wait(days=100)
        assert contest.state.is_over
    else:
        paid = events.PrizePaid(actor="desk", award="defence_prize:10:d1", reference="transfer 9")
        contest.must(contest.propose(paid))
    note = commands.record_conflict(contest.state, contest.now, "b3", "b3", "foxes", ConflictSource.ADVISOR)
    contest.must(contest.done(note))
    contest.must(contest.vote("withhold:defence_prize:10:d1", "b3"))


def test_u8_the_board_withholds_an_unpaid_prize_after_the_end() -> None:
    """The amount goes to the organizers, and to no defence whose 90 days end after the contest; nobody else acts."""
    prizes = {"prizes": {"pool": "1000.01 EUR", "per_break": "100.00 EUR", "advances": {10: 20}}}
    contest = small_contest(RULES | prizes | {"last_day": "2027-02-12"})
    contest.publish_defence("d2", "foxes")
    contest.must(contest.stake("b-1", "d1"))
    contest.wait(days=1)
    contest.must(contest.stake("b-2", "d2"))
    contest.wait(days=40)
    assert contest.state.is_over
    [award] = [each.id for each in contest.state.books.unpaid()]
    assert contest.vote("readable:d1", "b1") == ["the contest is over; prizes can only be paid or withheld now"]
    contest.must(contest.vote(f"withhold:{award}", "b1", "b2"))
    contest.must(contest.done(commands.withhold_prize(contest.state, contest.now, "desk", award, "They cheated.")))
    contest.wait(days=100)
    assert contest.state.books.unpaid() == []
    assert {account for account, held in contest.state.books.balances.items() if held} == set()


def test_u9_only_a_published_defence_is_staked_and_what_is_staked_is_reserved() -> None:
    """Staking before publication is refused, and so is staking when the attackers' half is spent."""
    contest = contest_before_the_test()
    assert contest.stake("b-1", "d2") == ["d2 is readable; it has to be published"]
    contest.must(contest.stake("b-1", "d1"))
    assert contest.state.books.balance("attackers") == 50_001 - 10_000
    names = [f"e{number}" for number in range(5)]
    for name in names:
        contest.publish_defence(name, "owls")
    assert "needed" in contest.stake("b-2", *names)[0]
    contest.must(contest.stake("b-2", *names[:4]))


def test_u9_a_team_stakes_its_own_defence_and_gets_the_stake_back_unbroken() -> None:
    """What a team paid is on an account of its own, and is owed to it when the days are over."""
    contest = small_contest()
    contest.must(contest.done(commands.record_stake_payment(contest.state, contest.now, "desk", "d1", "transfer 7")))
    assert contest.state.books.balance("stake:d1") == 10_000
    contest.wait(days=98)
    assert {each.kind: each.amount for each in contest.state.books.unpaid()}["stake_refunded"] == 10_000


def test_u11_the_prize_waits_until_the_board_confirmed_every_rejection() -> None:
    """Each rejected picture needs a member without a conflict who did not rule on it before."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=98)
    assert contest.state.defences["d1"].status == "expired"
    assert contest.state.books.unpaid() == []
    body = {"defence": "d1", "picture": handle(1)}
    contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b1", in_favour=False))
    contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b2", in_favour=False))
    assert "voted about" in contest.propose(events.RejectionConfirmed(actor="b1", member="b1", **body))[0]
    contest.must(contest.propose(events.RejectionConfirmed(actor="b3", member="b3", **body)))
    contest.tick()
    assert contest.state.defences["d1"].status == "checked"
    assert [(each.kind, each.amount) for each in contest.state.books.unpaid()] == [("defence_prize", 50_000)]
    award = contest.state.books.unpaid()[0].id
    contest.must(contest.propose(events.PrizePaid(actor="desk", award=award, reference="transfer 9")))
    assert contest.state.defences["d1"].status == "paid"
    assert contest.propose(events.PrizePaid(actor="desk", award=award, reference="transfer 9")) != []


def test_u11_a_rejection_that_the_board_overrules_breaks_the_defence_before_its_prize() -> None:
    """A picture that the board finds valid after all may be appealed against, and then breaks the defence."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=98)
    contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b1", "b2"))
    overrule = commands.overrule(contest.state, contest.now, "desk", handle(1), BIRD, "It plainly is a bird.")
    contest.must(contest.done(overrule))
    contest.wait(days=3)
    assert contest.state.defences["d1"].status == "broken"
    assert [(each.kind, each.team) for each in contest.state.books.unpaid()] == [("break_prize", "foxes")]


def test_u11_a_defence_that_held_is_still_asked_about_pictures_of_its_days() -> None:
    """Of a picture that was rejected before it was asked, and is found valid after all; of no later picture."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=98)
    contest.must(contest.upload(2, "foxes"))
    contest.close_week()
    assert (contest.state.defences["d1"].status, contest.state.weeks_to_ask()) == ("expired", {})
    contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b1", "b2"))
    contest.must(contest.done(commands.overrule(contest.state, contest.now, "desk", handle(1), BIRD, "It is plain.")))
    assert contest.state.weeks_to_ask() == {contest.state.pictures[handle(1)].week: ["d1"]}
    assert contest.record_answers("d1", {handle(2): BICYCLE}) != []
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.wait(days=3)
    assert contest.state.defences["d1"].status == "broken"
    assert [(each.kind, each.team) for each in contest.state.books.unpaid()] == [("break_prize", "foxes")]


def test_u11_a_rejection_that_an_appeal_restores_is_confirmed_before_the_prize() -> None:
    """The board can confirm it though the defence was checked before: it was overruled then."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=98)
    contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b1", "b2"))
    contest.must(contest.done(commands.overrule(contest.state, contest.now, "desk", handle(1), BIRD, "It is plain.")))
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.appeal(1, 1, "owls"))
    contest.must(contest.vote(f"appeal:{handle(1)}:invalid", "b1", "b2"))
    contest.must(contest.done(commands.rule_on_appeal(contest.state, contest.now, "desk", handle(1), None, "A toy.")))
    contest.wait(days=3)
    assert contest.state.books.unpaid() == []
    body = {"defence": "d1", "member": "b3", "picture": handle(1)}
    contest.must(contest.propose(events.RejectionConfirmed(actor="b3", **body)))
    contest.tick()
    assert [each.kind for each in contest.state.books.unpaid()] == ["defence_prize"]


def test_u11_the_board_confirms_also_what_was_rejected_before_the_staking() -> None:
    """A picture that was received for the published defence before it was staked is on its worklist."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1, answers(sure=False)))
    contest.must(contest.stake("b-1", "d1"))
    contest.wait(days=98)
    assert contest.state.books.unpaid() == []
    body = {"defence": "d1", "picture": handle(1)}
    contest.must(contest.propose(events.RejectionConfirmed(actor="b3", member="b3", **body)))
    contest.tick()
    assert [each.kind for each in contest.state.books.unpaid()] == ["defence_prize"]


def test_u11_what_was_rejected_before_the_publication_is_on_no_worklist() -> None:
    """A picture of which nobody could know that defence was not submitted against it."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=20)
    contest.publish_defence("d2", "owls")
    contest.must(contest.stake("b-1", "d2"))
    contest.wait(days=98)
    assert [each.kind for each in contest.state.books.unpaid()] == ["defence_prize"]


def test_u11_what_a_defence_was_tested_on_delays_no_prize() -> None:
    """An accepted picture that the defence held against before it became eligible is not shown to it again."""
    contest = broken_contest()
    contest.wait(days=20)
    contest.publish_defence("d2", "bears")
    contest.must(contest.stake("b-2", "d2"))
    contest.wait(days=98)
    assert ("defence_prize", "bears") in [(each.kind, each.team) for each in contest.state.books.unpaid()]


def test_u11_a_defence_that_was_broken_later_gets_its_advance_once_rejections_are_confirmed() -> None:
    """The board confirms the rejections of the days of the advance, and none of the days after them."""
    prizes = {"prizes": {"pool": "1000.01 EUR", "per_break": "100.00 EUR", "advances": {30: 20}}}
    contest = small_contest(RULES | prizes)
    contest.must(contest.stake("b-1", "d1"))
    for picture, given in ((1, answers(sure=False)), (2, answers(sure=False)), (3, answers())):
        contest.wait(days=15)
        contest.must(contest.upload(picture, "foxes"))
        contest.close_week()
        contest.must(contest.record_answers("d1", {handle(picture): BICYCLE}))
        contest.must(contest.rate(picture, given))
    contest.wait(days=3)
    defence = contest.state.defences["d1"]
    assert (defence.status, contest.state.worklist(defence)) == ("broken", [handle(1)])
    assert [each.kind for each in contest.state.books.unpaid()] == ["break_prize"]
    body = {"defence": "d1", "member": "b3"}
    contest.must(contest.propose(events.RejectionConfirmed(actor="b3", picture=handle(1), **body)))
    contest.tick()
    assert [(each.kind, each.days, each.amount) for each in contest.state.books.unpaid()] == [
        ("break_prize", 0, 10_000),
        ("defence_prize", 30, 10_000),
    ]


def test_u11_a_break_after_the_90_days_releases_no_stake_before_rejections_are_confirmed() -> None:
    """If the board then finds a rejected picture of the 90 days valid, the team that handed it in wins the stake."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.wait(days=89)
    contest.must(contest.upload(1, "foxes"))
    contest.wait(days=2)
    contest.must(contest.upload(2, "wolves"))
    contest.close_week()
    for picture in (1, 2):
        contest.must(contest.record_answers("d1", {handle(picture): BICYCLE}))
    contest.must(contest.rate(2))
    contest.wait(days=4)
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=4)
    defence = contest.state.defences["d1"]
    assert (defence.status, defence.broken_by) == ("expired", [handle(2)])
    assert contest.state.books.balance("reserved:d1") == 10_000
    contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b1", "b2"))
    contest.must(contest.done(commands.overrule(contest.state, contest.now, "desk", handle(1), BIRD, "It is plain.")))
    contest.wait(days=3)
    assert [(each.kind, each.team) for each in contest.state.books.unpaid()] == [("break_prize", "foxes")]


@pytest.mark.parametrize("by_team", [False, True])
@pytest.mark.parametrize("is_valid", [False, True])
def test_u11_the_end_returns_no_stake_before_rejections_are_confirmed(by_team, is_valid) -> None:
    """If the board then finds one of them valid, its team wins the stake; once all are confirmed, the contest ends."""
    contest = small_contest(RULES | {"last_day": "2027-02-12"})
    if by_team:
        contest.must(contest.done(commands.record_stake_payment(contest.state, contest.now, "desk", "d1", "7")))
    else:
        contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=60)
    assert (contest.state.week, contest.state.is_over, contest.state.books.unpaid()) == (None, False, [])
    assert contest.state.books.balance(f"{'stake' if by_team else 'reserved'}:d1") == 10_000
    if is_valid:
        contest.must(contest.vote(f"overrule:{handle(1)}:bird", "b1", "b2"))
        overrule = commands.overrule(contest.state, contest.now, "desk", handle(1), BIRD, "It is plain.")
        contest.must(contest.done(overrule))
    else:
        body = {"defence": "d1", "picture": handle(1), "member": "b3"}
        contest.must(contest.propose(events.RejectionConfirmed(actor="b3", **body)))
    contest.wait(days=3)
    refunds = [("stake_refunded", "owls")] if by_team else []
    expected = [("break_prize", "foxes")] if is_valid else refunds
    assert contest.state.is_over
    assert [(each.kind, each.team) for each in contest.state.books.unpaid()] == expected


def test_u10_a_break_waits_for_pictures_that_were_received_before_the_staking() -> None:
    """Where one of them turns out to be the first break, the stake is void, whoever broke the defence later."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(2, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(2): BICYCLE}))
    contest.must(contest.rate(2))
    contest.wait(days=20)
    assert (contest.status(2), contest.state.books.unpaid()) == ("valid", [])
    contest.must(contest.rate(1))
    contest.wait(days=20)
    assert contest.state.defences["d1"].status == "broken"
    assert (contest.state.books.unpaid(), contest.state.books.balance("attackers")) == ([], 50_001)


@pytest.mark.parametrize("how", [contest_events.SubmissionWithdrawn, contest_events.SubmissionDisqualified])
def test_u10_a_staked_defence_that_left_is_asked_no_more_and_delays_no_money(how) -> None:
    """A valid picture that it was not shown breaks it not. Its stake goes back after its days, and the contest ends."""
    contest = small_contest(RULES | {"last_day": "2027-06-30"})
    contest.must(contest.stake("b-1", "d1"))
    contest.append(how(actor="desk", id="d1", reason="It shows the wrong class on purpose."))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.rate(1))
    assert contest.state.weeks_to_ask() == {}
    contest.wait(days=98)
    assert (contest.state.defences["d1"].status, contest.state.books.balance("attackers")) == ("checked", 50_001)
    contest.wait(days=98)
    assert (contest.state.is_over, contest.state.books.unpaid()) == (True, [])
    assert {account for account, held in contest.state.books.balances.items() if held} == set()


def test_u12_organizers_and_members_of_the_board_get_no_prize() -> None:
    """A break by a team with an organizer or a member of the board pays nobody, and is shown all the same."""
    for role in (None, Role.BOARD):
        contest = broken_contest()
        foxes = PersonRecord(id="foxes@foxes.example", name="Fox", organizer=role is None)
        if role is None:
            contest.append(contest_events.TeamAdded(actor="desk", team="foxes", people=[foxes]))
        else:
            contest.append(contest_events.RoleGranted(actor="desk", person=foxes, role=role))
        contest.wait(days=3)
        assert contest.state.defences["d1"].status == "broken"
        assert contest.state.books.unpaid() == []
        assert contest.state.books.balance("attackers") == 50_001


def test_u12_a_former_member_of_the_board_gets_no_prize() -> None:
    """Who had a seat saw cases, so the prize is lost also if the role is taken away before the break counts."""
    contest = broken_contest()
    contest.append(
        contest_events.TeamAdded(actor="desk", team="foxes", people=[PersonRecord(id="f@far.example", name="F")])
    )
    contest.grant_board("f@far.example")
    contest.must(contest.seat("b4", "f@far.example"))
    contest.revoke_board("f@far.example")
    contest.wait(days=3)
    assert contest.state.defences["d1"].status == "broken"
    assert contest.state.books.unpaid() == []


def test_u13_each_picture_has_a_seed_that_only_the_secret_gives() -> None:
    """Seeds differ by secret, defence, picture and repetition, and are the same each time."""
    one = picture_seeds(b"one", "d1", ["sha256:1", "sha256:2", "sha256:1"])
    others = [*picture_seeds(b"two", "d1", ["sha256:1"]), *picture_seeds(b"one", "d2", ["sha256:1"])]
    assert len({*one, *others}) == 5
    assert picture_seeds(b"one", "d1", ["sha256:2", "sha256:1"]) == [one[1], one[0]]


@pytest.mark.parametrize(("others", "lucky"), [([BICYCLE] * 3 + [BIRD], False), ([BICYCLE] * 2 + [None, BIRD], True)])
def test_u13_a_break_that_other_seeds_do_not_show_is_marked_and_counts(others, lucky) -> None:
    """With the majority of four other seeds it is a plain break, with fewer it is a lucky one; both break."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}, other_seeds={handle(1): others}))
    contest.must(contest.rate(1))
    contest.wait(days=3)
    defence, picture = contest.state.defences["d1"], contest.state.pictures[handle(1)]
    assert (defence.status, contest.state.lucky(defence, picture)) == ("broken", lucky)
