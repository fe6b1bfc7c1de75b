"""What of the ledger of an unrestricted contest somebody may see."""

from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.visibility import visible_entries

from .simulated_contest import SimulatedContest, broken_contest, handle, small_contest

APPEAL = 0xABCDEF


def text(contest: SimulatedContest, **viewer: str) -> str:
    """Returns all that somebody sees of a ledger, as text."""
    shown = visible_entries(contest.state, contest.ledger, contest.now, **viewer)
    return "\n".join(event.model_dump_json() for event, _ in shown)


def test_u5_nobody_else_sees_a_picture_in_the_ledger_before_the_close() -> None:
    """Before the close the entry of a picture is for its team alone, and afterwards for everybody."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    assert handle(1) in text(contest, team="foxes")
    assert handle(1) not in text(contest) + text(contest, team="wolves") + text(contest, member="b1")
    contest.close_week()
    assert handle(1) in text(contest)


def test_u8_a_recused_member_finds_no_trace_of_an_open_case() -> None:
    """Before the decision the appeal's id is in nothing that a recused member sees; then it is public with its vote."""
    contest = broken_contest()
    contest.add_board(b4="four@owls.example")
    contest.must(contest.appeal(APPEAL, 1, "owls"))
    contest.must(contest.propose(events.PanelCalled(actor="b1", appeal=handle(APPEAL), member="b1")))
    contest.must(contest.vote(f"appeal:{handle(APPEAL)}:bird", "b1", "b2"))
    assert handle(APPEAL) in text(contest, member="b1")
    assert handle(APPEAL) not in text(contest, member="b4")
    assert "vote_cast" not in text(contest, team="owls").partition("picture_appealed")[2]
    decide = (contest.state, contest.now, "desk", handle(APPEAL), "bird", "It is a bird.")
    contest.must(contest.done(commands.rule_on_appeal(*decide)))
    assert handle(APPEAL) in text(contest, member="b4")
    assert "vote_cast" in text(contest).partition("picture_appealed")[2]
