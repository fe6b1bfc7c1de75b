"""A ledger that somebody changed does not fold: what is forged is found by folding it."""

from datetime import UTC, date, datetime, timedelta

import pytest

from orchestrator.domain import contest_events
from orchestrator.errors import Rejected
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.fold import fold

from .simulated_contest import SimulatedContest, broken_contest, handle, small_contest


@pytest.fixture(scope="module")
def contest() -> SimulatedContest:
    """A contest in which an appeal is lost before the board, the defence is broken, and the prize is paid."""
    made = broken_contest()
    made.add_board(b4="four@owls.example")
    made.add_board(b5="five@lab.example")
    made.revoke_board("five@lab.example")
    made.must(made.appeal(1, 1, "owls"))
    made.must(made.vote(f"appeal:{handle(1)}:bird", "b1", "b2", "b3"))
    made.must(made.done(commands.rule_on_appeal(made.state, made.now, "desk", handle(1), "bird", "It is a bird.")))
    made.must(made.upload(2, "foxes"))
    made.wait(days=7)
    made.must(made.propose(events.PrizePaid(actor="desk", award=made.state.books.unpaid()[0].id, reference="7")))
    return made


def redacted(ledger: list) -> list:
    """Returns a ledger as everybody sees it: without people and roles, and without what events withhold."""
    hidden = contest_events.TeamAdded | contest_events.RoleGranted | contest_events.RoleRevoked
    return [
        (event.model_copy(update=dict.fromkeys(getattr(event, "withheld_fields", ()), "")), time)
        for event, time in ledger
        if not isinstance(event, hidden)
    ]


def forged(contest: SimulatedContest, kind: type, number: int = 0, **changes: object) -> list:
    """Returns the ledger with other fields in one event of a kind."""
    ledger = list(contest.ledger)
    index = [at for at, (event, _) in enumerate(ledger) if isinstance(event, kind)][number]
    event, time = ledger[index]
    ledger[index] = (event.model_copy(update=changes), time)
    return ledger


def test_the_ledger_as_it_is_folds(contest) -> None:
    """What was recorded is the state that it was recorded from."""
    assert fold(contest.state.rules, contest.ledger) == contest.state


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (events.AppealRuled, {"class_name": None}, "the votes differ from those in the ledger"),
        (events.AppealRuled, {"vote": None}, "the event has no vote of the board"),
        (events.VoteCast, {"member": "b4", "actor": "b4"}, "has no seat on the review board"),
        (events.BoardMemberUnseated, {"member": "b3"}, "has no seat on the review board|still has"),
        (events.PictureRated, {"picture": handle(2)}, "there is no"),
        (events.DefenceBroken, {"picture": handle(2)}, "has to be settled as valid"),
        (events.DefencesStaked, {"transfers": []}, "not those that the rules require"),
        (events.WeekClosed, {"pictures": []}, "exactly the pictures"),
        (
            events.WeekOpened,
            {"closes": datetime(2027, 1, 22, 22, tzinfo=UTC)},
            "not the next week of the contest's calendar",
        ),
        (events.PictureReceived, {"day": date(2027, 1, 19)}, "is not the date in Europe/Berlin"),
        (events.PictureSettled, {"picture": handle(2)}, "has no ruling"),
    ],
)
def test_a_changed_event_is_found(contest, kind, changes, message) -> None:
    """A forged decision, a vote or a rating that was moved, a break without its picture: each is named."""
    changed = forged(contest, kind, **changes)
    with pytest.raises(Rejected, match=message):
        fold(contest.state.rules, changed)
    with pytest.raises(Rejected, match=message):
        fold(contest.state.rules, redacted(changed), redacted=True)


def test_the_ledger_as_everybody_sees_it_folds_to_the_same_contest(contest) -> None:
    """Who does not know who people are finds the same pictures, defences, decisions and accounts."""
    found = fold(contest.state.rules, redacted(contest.ledger), redacted=True)
    assert found.books == contest.state.books
    assert found.board.votes == contest.state.board.votes
    assert found.valid == contest.state.valid
    assert [each.status for each in found.defences.values()] == [e.status for e in contest.state.defences.values()]


def test_a_recused_vote_is_found(contest) -> None:
    """A vote of a member of the team's organization does not fold, whoever wrote it."""
    ledger = list(contest.ledger)
    index = next(at for at, (event, _) in enumerate(ledger) if isinstance(event, events.AppealRuled))
    vote = events.VoteCast(actor="b4", question=f"appeal:{handle(1)}:bird", member="b4", in_favour=True)
    ledger.insert(index, (vote, ledger[index][1]))
    for entries, hidden in ((ledger, False), (redacted(ledger), True)):
        with pytest.raises(Rejected, match="b4 is recused"):
            fold(contest.state.rules, entries, redacted=hidden)


def test_a_recused_vote_is_found_where_its_conflict_was_left_out(contest) -> None:
    """A conflict that follows from who they are holds also where the event that notes it was removed."""
    ledger = [entry for entry in contest.ledger if not isinstance(entry[0], events.ConflictNoted)]
    index = next(at for at, (event, _) in enumerate(ledger) if isinstance(event, events.AppealRuled))
    vote = events.VoteCast(actor="b4", question=f"appeal:{handle(1)}:bird", member="b4", in_favour=True)
    ledger.insert(index, (vote, ledger[index][1]))
    with pytest.raises(Rejected, match="b4 is recused"):
        fold(contest.state.rules, ledger)


def test_a_payment_too_many_is_found(contest) -> None:
    """Money that moves a second time, and a prize that is paid a second time, do not fold."""
    end = contest.ledger[-1][1]
    moved = [event for event, _ in contest.ledger if isinstance(event, events.MoneyMoved | events.PrizePaid)]
    for event in moved:
        for ledger, hidden in ((contest.ledger, False), (redacted(contest.ledger), True)):
            with pytest.raises(Rejected):
                fold(contest.state.rules, [*ledger, (event, end)], redacted=hidden)


@pytest.mark.parametrize("cause", ["stake:d2", "stake:d9", "prize:17", "end", "accounts"])
def test_money_without_its_cause_is_found(cause) -> None:
    """Money for an unstaked or unknown defence, for a prize that there is not, or before the end does not fold."""
    contest = small_contest()
    contest.publish_defence("d2", "owls")
    moved = next(event for event, _ in contest.ledger if isinstance(event, events.MoneyMoved))
    with pytest.raises(Rejected):
        fold(contest.state.rules, [*contest.ledger, (moved.model_copy(update={"cause": cause}), contest.now)])


def test_a_rating_that_is_moved_to_another_rater_is_found(contest) -> None:
    """A rater who answers twice about one picture does not fold."""
    with pytest.raises(Rejected, match="rated"):
        fold(contest.state.rules, forged(contest, events.PictureRated, 1, rater="r1"))


def test_a_rating_that_is_changed_takes_the_break_away(contest) -> None:
    """Where a rater's answer says otherwise, the break that followed does not fold."""
    ledger = forged(contest, events.PictureRated, 2, answers=None)
    with pytest.raises(Rejected):
        fold(contest.state.rules, ledger)


def test_a_picture_after_the_close_is_found(contest) -> None:
    """A picture that is dated back into a week, or comes after its close, does not fold."""
    ledger = list(contest.ledger)
    index = next(at for at, (event, _) in enumerate(ledger) if isinstance(event, events.WeekClosed))
    picture = next(event for event, _ in ledger if isinstance(event, events.PictureReceived))
    late = picture.model_copy(update={"picture": handle(9), "digest": "sha256:" + "9" * 64})
    for inserted, time in ((index, ledger[index][1]), (index + 2, ledger[index][1] - timedelta(milliseconds=1))):
        changed = [*ledger[:inserted], (late, time), *ledger[inserted:]]
        with pytest.raises(Rejected):
            fold(contest.state.rules, changed)
