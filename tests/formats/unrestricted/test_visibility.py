"""What of an unrestricted contest somebody may see; tests/web/test_weeks.py looks at the pages that are made of it."""

from orchestrator.formats.unrestricted import commands
from orchestrator.formats.unrestricted.visibility import is_recused, visible_pictures

from .simulated_contest import SimulatedContest, broken_contest, handle, small_contest

APPEAL = 0xABCDEF


def seen(contest: SimulatedContest, **viewer: str) -> list[str]:
    """Returns the pictures that somebody sees."""
    return [picture.id for picture in visible_pictures(contest.state, today=contest.now, **viewer)]


def test_u5_nobody_else_sees_a_picture_before_the_close() -> None:
    """Before the close a picture is for its team alone, and afterwards for everybody."""
    contest = small_contest()
    contest.must(contest.upload(1, "foxes"))
    assert seen(contest, team="foxes") == [handle(1)]
    assert seen(contest) == seen(contest, team="wolves") == seen(contest, member="b1") == []
    contest.close_week()
    assert seen(contest) == seen(contest, member="b1") == [handle(1)]


def test_u8_a_recused_member_sees_neither_the_case_nor_its_picture() -> None:
    """A member with an address of the team's organization is recused, before the decision and after it."""
    contest = broken_contest()
    contest.add_board(b4="four@owls.example")
    contest.must(contest.appeal(APPEAL, 1, "owls"))
    teams = contest.state.teams_of(f"appeal:{handle(APPEAL)}")
    contest.must(contest.vote(f"appeal:{handle(APPEAL)}:bird", "b1", "b2"))
    for _ in range(2):
        assert is_recused(contest.state, "b4", teams, contest.now)
        assert not is_recused(contest.state, "b1", teams, contest.now)
        assert handle(1) in seen(contest, member="b1")
        assert handle(1) not in seen(contest, member="b4")
        decide = (contest.state, contest.now, "desk", handle(APPEAL), "bird", "It is a bird.")
        contest.done(commands.rule_on_appeal(*decide))
