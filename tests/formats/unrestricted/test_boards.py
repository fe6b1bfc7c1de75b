"""The boards of an unrestricted contest, and its rules in words."""

from datetime import UTC, datetime
from fractions import Fraction

from orchestrator import plugins
from orchestrator.formats.unrestricted import commands
from orchestrator.formats.unrestricted.boards import attacker_board, defence_board
from orchestrator.formats.unrestricted.fold import fold
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.formats.unrestricted.rules_in_words import rules_in_words

from .simulated_contest import BICYCLE, BIRD, RULES, broken_contest, handle, small_contest


def test_the_boards_say_who_broke_what_and_for_how_much() -> None:
    """A break ends a defence's days with its picture, and pays the team that handed it in."""
    contest = broken_contest()
    contest.wait(days=10)
    row = defence_board(contest.state).rows[0]
    assert (row.score, row.remark, row.values["breaks"].number) == (0, "broken", 1)
    assert row.values["coverage"].number == 100
    attacker = attacker_board(contest.state).rows[0]
    assert (attacker.submission, attacker.score, attacker.values["prize"].number) == ("foxes", 1, Fraction(100))


def test_a_board_has_nothing_of_the_open_week() -> None:
    """The number of pictures that a team submitted is not on the board before the close (U5)."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    assert attacker_board(contest.state).rows == ()
    contest.close_week()
    assert attacker_board(contest.state).rows[0].values["pictures"].number == 1


def test_days_end_where_the_prize_is_reached() -> None:
    """A defence that nobody breaks has 90 days, however long the contest goes on; an unstaked one is not ranked."""
    contest = small_contest()
    contest.publish_defence("d2", "owls")
    contest.must(contest.stake("b-1", "d1"))
    contest.wait(days=200)
    first, second = defence_board(contest.state).rows
    assert (first.submission, first.score, first.rank) == ("d1", 90, 1)
    assert (second.submission, second.rank, second.reason) == ("d2", None, "not staked")
    assert first.values["prize"].number == 500


def test_the_boards_of_a_date_are_those_of_the_ledger_up_to_it() -> None:
    """Folding a prefix gives the boards as they were."""
    contest = broken_contest()
    contest.wait(days=10)
    before = [entry for entry in contest.ledger if entry[1] <= contest.state.pictures[handle(1)].received]
    assert defence_board(fold(contest.state.rules, before)).rows[0].remark == "staked"


def test_a_picture_that_breaks_nobody_is_counted_as_valid_only() -> None:
    """A valid picture that is answered rightly is on the attackers' board without a break."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BIRD}))
    contest.must(contest.rate(1))
    contest.wait(days=3)
    row = attacker_board(contest.state).rows[0]
    assert (row.score, row.values["valid"].number) == (0, 1)


def test_after_the_last_day_all_money_is_where_it_belongs() -> None:
    """A team's stake is owed to it, the rest goes back to the organizers, and nothing happens after that."""
    contest = small_contest(RULES | {"last_day": "2027-03-10"})
    contest.must(contest.done(commands.record_stake_payment(contest.state, contest.now, "desk", "d1", "transfer 7")))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BIRD}))
    contest.must(contest.rate(1))
    contest.wait(days=60)
    last = next(reversed(contest.state.weeks.values()))
    assert (last.closes, contest.state.is_over) == (datetime(2027, 3, 10, 23, tzinfo=UTC), True)
    balances = {account: units for account, units in contest.state.books.balances.items() if units}
    assert balances == {"team:owls": 10_000, "outside": -10_000}
    assert contest.upload(2, "foxes") == ["the contest is over; prizes can only be paid or withheld now"]


def test_every_rule_has_its_sentence_and_follows_the_settings() -> None:
    """U1 to U13 are there in order, then what holds of chance; a setting that is changed changes its sentence."""
    plain = rules_in_words(UnrestrictedRules())
    assert [rule for rule, _ in plain] == [*(f"U{number}" for number in range(1, 14)), "A9, A10"]
    changed = RULES | {
        "eligibility": "right_on_80",
        "closed": "allowed",
        "on_fault": "break",
        "uploads_per_day": 3,
        "week": {"ends": "sunday"},
        "last_day": "2027-12-31",
        "prizes": {"pool": "500.00 EUR", "per_break": "10.00 EUR", "advances": {30: 10}},
    }
    other = dict(rules_in_words(UnrestrictedRules.model_validate(changed)))
    assert {rule for rule, words in plain if other[rule] != words} == {"U2", "U3", "U4", "U5", "U7", "U8", "U10"}
    assert "500.00 EUR" in other["U10"]
    assert BICYCLE in other["U1"]


def test_nobody_waits_for_what_faults_have_ended(table) -> None:
    """A defence whose faults took too long is told so, and only one whose pictures are still to be played "yet"."""
    kind = plugins.load_plugin("formats", "unrestricted")
    played = table({"slow": {None: 40}, "later": {}}, not_played={("slow", None): 60})
    [board] = kind(kind.rules_type()).leaderboards(played.records())
    reasons = {row.submission: row.reason for row in board.rows}
    assert reasons == {
        "slow": "60 of 100 pictures were not played: its faults took too long",
        "later": "not played yet",
    }
