"""What a contest says of the submissions of a round, beyond what was played (A5, A6, A13)."""

from dataclasses import replace

import pytest

from orchestrator import plugins
from orchestrator.domain import contest_events
from orchestrator.domain.contest_format import Eligibility, RoundOfSeason
from orchestrator.domain.licences import is_osi_approved
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.ledger.season_fold import fold_season

OPEN = {"licence": "MIT", "source": "https://example.org"}


def standings(made: Season, *, first: bool, task: str = "digits") -> dict[str, Eligibility]:
    """Returns what is said of each submission, once it is seen that the ledger's order is told."""
    kind = plugins.load_plugin("formats", "tournament")
    where = RoundOfSeason("initial" if first else "final", task, made)
    seen = {entry.id: kind(kind.rules_type()).eligibility(entry, where) for entry in made.entries_of_task(task)}
    assert [seen[name].receipt_number for name in seen] == list(range(1, len(seen) + 1))
    return {name: replace(standing, receipt_number=None) for name, standing in seen.items()}


def season(*more: contest_events.ContestEvent, **manifests: dict[str, str]) -> Season:
    """Returns a season of one team with these submissions; A and B are the finalists' names."""
    made = Season()
    people = [contest_events.PersonRecord(id="ada", name="Ada")]
    made.apply(contest_events.TeamAdded(actor="desk", team="One", people=people), "t")
    for name, manifest in manifests.items():
        body = {"id": name, "name": name, "team": "One", "task": "digits", "side": Side.ATTACK}
        received = contest_events.SubmissionReceived(
            actor="desk", **body, digest="d", image="i", attempt=1, attempts_left=0, **manifest
        )
        made.apply(received, "t")
    for act in more:
        made.apply(act, "t")
    return made


def promoted(*attacks: str, **not_standing: str) -> FinalistsPromoted:
    """Returns the act of promoting these attacks."""
    return FinalistsPromoted(actor="desk", task="digits", attacks=list(attacks), defences=[], superseded=not_standing)


def test_in_the_first_round_everybody_stands() -> None:
    """Released source is asked for at final scoring, not before (A6); nobody is a finalist yet."""
    seen = standings(season(closed={}, free=OPEN), first=True)
    assert seen == {"closed": Eligibility(), "free": Eligibility()}


def test_in_the_final_only_finalists_stand() -> None:
    """Who was not promoted says why: another of the team stands (A4), or it was not among the first (A11, A12)."""
    seen = standings(season(promoted("a", b="a stands for this team (A4)"), a=OPEN, b=OPEN, c=OPEN), first=False)
    assert seen == {
        "a": Eligibility(),
        "b": Eligibility("a stands for this team (A4)", counts_in_means=False),
        "c": Eligibility("not among the finalists (A11, A12)", counts_in_means=False),
    }


def test_in_the_final_source_is_released() -> None:
    """A finalist without a licence or an address is shown, and means still run over it (A6)."""
    seen = standings(season(promoted("a"), a={"licence": "MIT"}), first=False)
    assert seen == {"a": Eligibility("source missing (A6)", counts_in_means=True)}
    corrected = contest_events.SubmissionCorrected(actor="desk", id="a", source="https://example.org", reason="late")
    seen = standings(season(promoted("a"), corrected, a={"licence": "MIT"}), first=False)
    assert seen == {"a": Eligibility()}


@pytest.mark.parametrize("first", [True, False])
def test_who_left_stands_nowhere(first) -> None:
    """Withdrawn and disqualified ones are out of every round, with the reason that is on record."""
    left = [
        contest_events.SubmissionWithdrawn(actor="desk", id="a", reason="a bug"),
        contest_events.SubmissionDisqualified(actor="desk", id="b", reason="two people, one team"),
    ]
    seen = standings(season(promoted("a", "b"), *left, a=OPEN, b=OPEN), first=first)
    assert seen == {
        "a": Eligibility("withdrawn: a bug", counts_in_means=False, has_left=True),
        "b": Eligibility("disqualified: two people, one team", counts_in_means=False, disqualified=True, has_left=True),
    }


@pytest.mark.parametrize("first", [True, False])
def test_organizers_win_nothing_in_any_round(first) -> None:
    """A team with a member of the organizing institution is ranked and gets no prize (A5)."""
    people = [contest_events.PersonRecord(id="ada", name="Ada", organizer=True)]
    house = contest_events.TeamAdded(actor="desk", team="One", people=people)
    seen = standings(season(house, promoted("a"), a=OPEN), first=first)
    assert seen == {"a": Eligibility(no_prize="a member is of the organizing institution (A5)")}


def test_tasks_are_apart() -> None:
    """What is said of one task's submissions and finalists says nothing of another's."""
    assert standings(season(promoted("a"), a=OPEN), first=False, task="faint") == {}


@pytest.mark.parametrize(
    ("licence", "approved"),
    [("MIT", True), ("Apache-2.0", True), ("mit", False), ("CC-BY-NC-4.0", False), ("", False), ("x" * 999, False)],
)
def test_the_list_of_licences_is_spdx(licence, approved) -> None:
    """A licence is an exact SPDX id that the Open Source Initiative approved (A6)."""
    assert is_osi_approved(licence) is approved


def test_a_ledger_without_acts_is_an_empty_season() -> None:
    """Nothing is known of a contest before its first act."""
    assert fold_season([]) == Season()
