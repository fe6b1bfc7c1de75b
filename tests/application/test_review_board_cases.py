"""What waits for the review board of an unrestricted contest, and what the record says of prizes (U8, U10)."""

from orchestrator.application.contests import review_board_cases
from orchestrator.application.grading.picture_raters import AskedItem, open_items
from orchestrator.domain.contest_events import FormatEvent, PersonRecord, Role, RoleGranted
from orchestrator.domain.season import Season
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.format import Unrestricted

from ..formats.unrestricted.simulated_contest import (
    BICYCLE,
    SimulatedContest,
    answers,
    broken_contest,
    handle,
    small_contest,
)

AWARDS = "Awards that are not paid"


def history(contest: SimulatedContest, defence: str) -> list[tuple[str, str]]:
    """Returns what the record says of a defence, each with its reason."""
    told = [event.effect_on(defence, "t") for event, _ in contest.ledger if isinstance(event, FormatEvent)]
    return [each for each in told if each is not None]


def waiting(contest: SimulatedContest, kind: str, member: str = "b1") -> list[str]:
    """Returns the ids of the cases of a kind that wait for a member."""
    found = review_board_cases.waiting_cases(contest.state, member, contest.now)
    return [each.id for each in found.get(kind, [])]


def pay(contest: SimulatedContest) -> None:
    """Notes that everything was paid that is owed."""
    for each in contest.state.books.unpaid():
        contest.must(contest.propose(events.PrizePaid(actor="desk", award=each.id, reference="transfer 9")))


def obstacle(contest: SimulatedContest, submission: str) -> str:
    """Returns why the team of a submission may not withdraw it, "" if it may."""
    season = Season()
    for event, at in contest.ledger:
        season.apply(event, at.isoformat())
    return Unrestricted(contest.state.rules).withdrawal_obstacle(season, submission)


def test_a_refund_is_no_case_of_the_board() -> None:
    """It is the team's own money, and cannot be withheld: only the prize can, until it is paid (U10)."""
    contest = small_contest()
    contest.must(contest.done(commands.record_stake_payment(contest.state, contest.now, "desk", "d1", "transfer 7")))
    contest.wait(days=91)
    owed = {each.kind: each.id for each in contest.state.books.unpaid()}
    assert waiting(contest, AWARDS) == [f"withhold:{owed['defence_prize']}"]
    refund = f"withhold:{owed['stake_refunded']}"
    assert review_board_cases.find_case(contest.state, "b1", refund, contest.now) is None
    pay(contest)
    assert waiting(contest, AWARDS) == []


def test_a_prize_is_in_the_history_of_its_defence() -> None:
    """When it is owed, and when it was paid, with the reference that is published; a refund too."""
    contest = small_contest()
    contest.must(contest.done(commands.record_stake_payment(contest.state, contest.now, "desk", "d1", "transfer 7")))
    contest.wait(days=91)
    pay(contest)
    assert history(contest, "d1")[-6:] == [
        ("Was not broken in the required time", ""),
        ("Owed: the refund of the stake on d1", ""),
        ("Owed: the prize of d1 for 90 days", ""),
        ("Every rejected picture is confirmed", ""),
        ("Paid: the refund of the stake on d1", "transfer 9"),
        ("Paid: the prize of d1 for 90 days", "transfer 9"),
    ]
    assert history(contest, "d2") == []


def test_a_prize_for_breaking_a_defence_is_in_its_history() -> None:
    """Also where the board withholds it, with the reason."""
    contest = broken_contest()
    contest.wait(days=8)
    [award] = [each.id for each in contest.state.books.unpaid()]
    contest.must(contest.vote(f"withhold:{award}", "b1", "b2"))
    contest.must(contest.done(commands.withhold_prize(contest.state, contest.now, "desk", award, "They cheated.")))
    assert history(contest, "d1")[-3:] == [
        ("Broken by a valid picture", ""),
        ("Owed: the prize of foxes for breaking d1", ""),
        ("Withheld: the prize of foxes for breaking d1", "They cheated."),
    ]


def test_who_got_the_prize_does_not_withdraw() -> None:
    """The place on the board is what was paid for (U10); before, and for an advance, a team may."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.wait(days=91)
    assert obstacle(contest, "d1") == ""
    pay(contest)
    assert obstacle(contest, "d1") == "the prize for 90 days was paid"
    assert obstacle(contest, "d2") == ""


def test_a_team_does_not_withdraw_a_defence_whose_stake_somebody_may_win() -> None:
    """Once its stake is settled it may: the picture that broke it was asked about (U9, U10)."""
    contest = broken_contest()
    contest.publish_defence("d2", "owls")
    assert (obstacle(contest, "d1"), obstacle(contest, "d2")) == ("its stake is not settled yet (U9)", "")
    contest.must(contest.done(commands.record_stake_payment(contest.state, contest.now, "desk", "d2", "transfer 7")))
    contest.wait(days=8)
    assert (obstacle(contest, "d1"), obstacle(contest, "d2")) == ("", "its stake is not settled yet (U9)")


def test_a_report_of_an_appeals_new_rater_stops_the_panel_and_is_told_to_the_board() -> None:
    """Nobody else is asked about the picture (U6), and the members read that the panel cannot decide (U8)."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    case = f"appeal:{handle(1)}"
    contest.must(contest.propose(events.PanelCalled(actor="b1", member="b1", appeal=handle(1))))
    asked = AskedItem(handle(1), handle(1), 5)
    assert list(open_items(contest.state, "r9")) == [asked]
    body = {"picture": handle(1), "appeal": handle(1), "answers": None}
    contest.must(contest.propose(events.PictureRated(actor="r8", rater="r8", **body)))
    assert list(open_items(contest.state, "r9")) == []
    [line] = review_board_cases.waiting_cases(contest.state, "b1", contest.now)["Appeals"]
    assert line.id == case
    assert line.title.endswith("by owls; a new rater reported the picture, so the board has to vote")
    contest.must(contest.vote(f"{case}:invalid", "b1", "b2"))
    contest.must(contest.done(commands.rule_on_appeal(contest.state, contest.now, "desk", handle(1), None, "Harm.")))
    assert contest.status(1) == "invalid"


def test_the_board_reads_until_when_it_may_decide_an_appeal_whose_raters_do_not_agree() -> None:
    """The list of cases says so, in the time of the ledger."""
    contest = broken_contest()
    contest.must(contest.appeal(1, 1, "owls"))
    contest.must(contest.propose(events.PanelCalled(actor="b1", appeal=handle(1), member="b1")))
    for number in range(5):
        body = {"picture": handle(1), "appeal": handle(1), "answers": answers(real=number < 2)}
        contest.must(contest.propose(events.PictureRated(actor="p", rater=f"p{number}", **body)))
    contest.tick()
    (line,) = review_board_cases.waiting_cases(contest.state, "b1", contest.now)["Appeals"]
    assert line.title.endswith("do not agree, so the board may vote until 2027-01-25 23:00 UTC")


def recuse(contest: SimulatedContest, *members: str) -> None:
    """Lets members declare a conflict with the kites."""
    for each in members:
        body = {"member": each, "team": "kites", "source": "declared"}
        contest.must(contest.propose(events.ConflictNoted(actor=each, **body)))


def make_organizer(contest: SimulatedContest, person: str) -> None:
    """Gives somebody the role of an organizer."""
    record = PersonRecord(id=person, name="somebody")
    contest.append(RoleGranted(actor="desk", person=record, role=Role.ORGANIZER))


def test_somebody_is_told_of_a_case_with_too_few_members() -> None:
    """A member without a conflict, where the only organizer has one; nobody learns of a case of their own (U8)."""
    contest = small_contest()
    make_organizer(contest, "two@lab.example")  # who is b2
    contest.add_team("kites")
    contest.receive_defence("d2", "kites")

    def told(*members: str) -> list[list[str]]:
        found = (review_board_cases.undecidable_cases(contest.state, each, contest.now) for each in members)
        return [[case.id for case in cases] for cases in found]

    assert told("b1", "b2", "b3") == [[], [], []]
    recuse(contest, "b2", "b3")
    assert review_board_cases.short_cases(contest.state, contest.now, "b2") == []
    contest.revoke_board("two@lab.example")
    assert review_board_cases.short_cases(contest.state, contest.now, "b2") == []  # the conflict stays
    assert told("b1", "b2", "b3") == [["readable:d2"], [], []]
    assert review_board_cases.find_case(contest.state, "b1", "readable:d2", contest.now).is_short
    assert review_board_cases.untold_cases(contest.state, contest.now) == 0
    recuse(contest, "b1")
    assert told("b1", "b2", "b3") == [[], [], []]
    assert review_board_cases.untold_cases(contest.state, contest.now) == 1
    make_organizer(contest, "other@else.example")
    assert review_board_cases.untold_cases(contest.state, contest.now) == 0


def test_members_are_told_of_a_rejection_that_nobody_may_confirm() -> None:
    """Those who voted about its picture, and no organizer who has a conflict with it (U11)."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1, answers(sure=False)))
    contest.wait(days=98)
    case = f"overrule:{handle(1)}"
    contest.must(contest.vote(f"{case}:bird", "b1", "b2", in_favour=False))
    body = {"member": "b3", "team": "foxes", "source": "declared"}
    assert review_board_cases.undecidable_cases(contest.state, "b1", contest.now) == []
    contest.must(contest.propose(events.ConflictNoted(actor="b3", **body)))
    told = [review_board_cases.undecidable_cases(contest.state, each, contest.now) for each in ("b1", "b2", "b3")]
    assert [[each.id for each in cases] for cases in told] == [[case], [case], []]
    assert review_board_cases.untold_cases(contest.state, contest.now) == 0
