"""What the ledger says of each event of a format, in a sentence that is read after the name of who did it."""

from datetime import UTC, date, datetime

import pytest

from orchestrator import plugins
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.recusal import ConflictSource

from .unrestricted.simulated_contest import answers

PICTURE = "0" * 16
VOTE = events.Vote(eligible=["b2", "b3"], recused={"b1": "person (kites)"}, in_favour=["b2", "b3"], against=[])
VOTED = "(in favour: b2, b3; against: nobody; with a conflict: b1)"
MOVED = events.TransferRecord(kind="funded", source="outside", target="pool", amount=1)


def test_every_event_of_every_format_has_its_sentence() -> None:
    """A kind that is added needs one: what the base class says is for formats that others write."""
    found = [
        kind for name in plugins.plugin_names("formats") for kind in plugins.load_plugin("formats", name).event_types
    ]
    assert len(found) == 35
    assert [kind for kind in found if kind.in_words is FormatEvent.in_words] == []


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            events.WeekOpened(
                actor="rules",
                week="2027-W03",
                opens=datetime(2027, 1, 18, tzinfo=UTC),
                closes=datetime(2027, 1, 23, tzinfo=UTC),
                tzdata="2026a",
            ),
            "opened the week 2027-W03, which closes at 2027-01-23 00:00 UTC",
        ),
        (
            events.ReadabilityDecided(actor="b2", defence="d1", readable=False, vote=VOTE, reason="It is packed."),
            f"recorded that the board finds that the code of d1 cannot be read {VOTED}",
        ),
        (
            events.DefencesStaked(
                actor="b2", batch="x", criteria={"d1": "New.", "d2": "Easy."}, vote=VOTE, transfers=[]
            ),
            f"recorded that the board stakes d1 and d2 {VOTED}",
        ),
        (
            events.AttackerAdmitted(actor="desk", team="foxes", preprint="https://x.example/1"),
            "admitted foxes to attack, by the preprint https://x.example/1",
        ),
        (
            events.AttackerAdmitted(actor="b2", team="foxes", vote=VOTE),
            f"recorded that the board admits foxes to attack without a preprint {VOTED}",
        ),
        (
            events.PictureRated(actor="r1", picture=PICTURE, rater="r1", answers=answers(side=8)),
            f"judged the picture {PICTURE}: bird definitely yes, bicycle definitely no",
        ),
        (
            events.PictureRated(actor="r1", picture=PICTURE, rater="r1", answers=None),
            f"reported the picture {PICTURE}",
        ),
        (
            events.AppealRuled(actor="rules", appeal=PICTURE, class_name=None, reason="Four of five."),
            f"recorded that its panel decided the appeal {PICTURE}: the picture is not valid",
        ),
        (
            events.BoardMemberSeated(actor="desk", member="b1", person="p1", case="readable:d1"),
            "seated Bea on the review board as b1 for the case readable:d1 alone",
        ),
        (
            events.BoardMemberUnseated(actor="rules", member="b1"),
            "recorded that the seat of b1 on the review board ended with the role",
        ),
        (
            events.ConflictNoted(
                actor="b1", member="b1", team="foxes", source=ConflictSource.CO_AUTHOR, until=date(2031, 1, 1)
            ),
            "recorded a conflict of b1 with foxes: co-author of the last 48 months, until 2031-01-01",
        ),
        (
            events.VoteCast(actor="b2", member="b2", question=f"appeal:{PICTURE}:bird", in_favour=True),
            f"voted for: in the appeal {PICTURE}, the picture is valid and shows: bird",
        ),
        (
            events.VoteCast(actor="b2", member="b2", question=f"report:{PICTURE}:show", in_favour=False),
            f"voted against: the picture {PICTURE} is shown to raters",
        ),
        (
            events.MoneyMoved(actor="rules", cause="stake:d1", transfers=[MOVED]),
            "moved money by the rules: the stake on d1 is settled",
        ),
        (
            FinalistsPromoted(actor="desk", task="quarters", attacks=["a1", "a2"], defences=[]),
            "recorded who goes on to the final round of quarters: attacks: a1, a2; defences: none",
        ),
    ],
)
def test_an_event_is_told_in_a_sentence(event, words) -> None:
    """As people say it, and without the names of fields."""
    assert event.in_words({"p1": "Bea"}.__getitem__) == words


def test_the_reasons_for_a_staking_are_told_for_each_defence() -> None:
    """They are the explanation, as what a team says is that of an appeal."""
    staked = events.DefencesStaked(actor="b2", batch="x", criteria={"d1": "New."}, vote=VOTE, transfers=[])
    appealed = events.PictureAppealed(actor="p", appeal=PICTURE, picture=PICTURE, team="owls", text="A drawing.")
    assert (staked.explanation(), appealed.explanation()) == ("d1: New.", "A drawing.")
