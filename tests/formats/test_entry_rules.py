"""Who may enter what: tasks of a person, sides, tries of a team, prizes, released source (A1, A4, A5, A6)."""

import pytest

from orchestrator.domain import contest_events
from orchestrator.domain.season import Person, Season
from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.entry_rules import (
    entry_problems,
    membership_problems,
    prize_ineligibility,
    promotion_warnings,
    release_problems,
)
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.formats.tournament.format import Tournament
from orchestrator.formats.tournament.rules import TournamentRules

RULES = TournamentRules()
ATTACK, DEFENCE = Side.ATTACK, Side.DEFENCE


def season(teams: dict[str, str], *entries: tuple[str, str, Side], organizers: str = "") -> Season:
    """Returns a season: the letters of a team are its people; each entry is a team, a task and a side."""
    made = Season()
    for name, letters in teams.items():
        people = [contest_events.PersonRecord(id=one, name=one.upper(), organizer=one in organizers) for one in letters]
        made.apply(contest_events.TeamAdded(actor="desk", team=name, people=people), "t")
    for number, (team, task, side) in enumerate(entries):
        body = {"id": f"s{number}", "name": "n", "digest": "d", "image": "i", "attempt": 1, "attempts_left": 0}
        made.apply(contest_events.SubmissionReceived(actor="desk", team=team, task=task, side=side, **body), "t")
    return made


def whats(problems) -> list[str]:
    """Returns what is wrong, without the remedies."""
    return [problem.what for problem in problems]


def test_a_team_that_nobody_knows_is_told_who_is_there() -> None:
    """A misspelt team is one clear problem."""
    tournament = Tournament(RULES)
    found = tournament.entry_problems(season({"One": "a", "Two": "b"}), "one", "digits", ATTACK)
    assert [str(problem) for problem in found] == [
        "team: there is no team 'one' (known: One, Two); add it with `sparring team add`"
    ]
    assert "known: none yet" in whats(tournament.entry_problems(Season(), "x", "digits", ATTACK))[0]


def test_the_first_entry_is_welcome() -> None:
    """A new team may enter any task on either side."""
    assert entry_problems(season({"One": "ab"}), RULES, "One", "digits", DEFENCE) == []


def test_a_fourth_task_is_refused() -> None:
    """Three tasks at a time, counted over all teams of a person; more of the same task is no fourth (A1)."""
    teams = {"One": "a", "Two": "ab"}
    entries = [("One", "t1", ATTACK), ("One", "t2", ATTACK), ("Two", "t3", DEFENCE)]
    found = entry_problems(season(teams, *entries), RULES, "Two", "t4", ATTACK)
    assert whats(found) == ["A already takes part in 3 tasks: t1, t2, t3 (A1)"]
    assert entry_problems(season(teams, *entries), RULES, "Two", "t3", DEFENCE) == []
    assert entry_problems(season(teams, *entries), TournamentRules(tasks_per_person=4), "Two", "t4", ATTACK) == []


def test_withdrawing_frees_a_task() -> None:
    """Three at a time are three that still play (A1)."""
    made = season({"One": "a"}, *(("One", f"t{n}", ATTACK) for n in range(3)))
    made.apply(contest_events.SubmissionWithdrawn(actor="desk", id="s0", reason="r"), "t")
    assert entry_problems(made, RULES, "One", "t4", DEFENCE) == []


@pytest.mark.parametrize(("first", "second"), [(ATTACK, DEFENCE), (DEFENCE, ATTACK)])
def test_nobody_plays_both_sides(first, second) -> None:
    """On one task a person is on one side, through whichever team; on another task they are free (A1)."""
    made = season({"One": "ab", "Two": "bc"}, ("One", "digits", first))
    assert whats(entry_problems(made, RULES, "Two", "digits", second)) == [
        f"B already plays {first} on digits; nobody plays both sides (A1)"
    ]
    assert entry_problems(made, RULES, "Two", "digits", first) == []
    assert entry_problems(made, RULES, "Two", "faint", second) == []


def test_a_fourth_submission_is_refused() -> None:
    """Three of one team for a task and side are all; a withdrawn one was one of them (A4)."""
    made = season({"One": "a"}, *[("One", "digits", ATTACK)] * 3)
    made.apply(contest_events.SubmissionWithdrawn(actor="desk", id="s0", reason="r"), "t")
    assert whats(entry_problems(made, RULES, "One", "digits", ATTACK)) == [
        "One has used its 3 submissions for attack on digits (A4)"
    ]
    assert entry_problems(made, TournamentRules(submissions_per_team=4), "One", "digits", ATTACK) == []


def test_all_objections_come_at_once() -> None:
    """Both people of a team and the team itself are objected to together (A1, A4)."""
    entries = [*[("One", "digits", ATTACK)] * 3, ("Two", "digits", DEFENCE), ("Two", "t2", DEFENCE)]
    found = entry_problems(
        season({"One": "ab", "Two": "ab"}, *entries), TournamentRules(tasks_per_person=1), "One", "digits", ATTACK
    )
    assert [problem.what.split()[-1] for problem in found] == ["(A4)", "(A1)", "(A1)"]
    assert all(problem.remedy for problem in found)


def test_a_new_member_is_held_to_what_the_team_plays() -> None:
    """Who defends a task cannot join a team that attacks it, nor bring it to a fourth task (A1)."""
    entries = [("One", "digits", ATTACK), ("Two", "digits", DEFENCE), ("Two", "t2", DEFENCE), ("Two", "t3", DEFENCE)]
    made = season({"One": "a", "Two": "b"}, *entries)
    assert membership_problems(made, RULES, "One", [Person("a", "A"), Person("c", "C")]) == []
    assert whats(membership_problems(made, RULES, "One", [Person("a", "A"), Person("b", "B")])) == [
        "B plays defence on digits, One the other side (A1)"
    ]
    assert whats(membership_problems(made, TournamentRules(tasks_per_person=2), "One", [Person("b", "B")]))[1:] == [
        "B would take part in 3 tasks: digits, t2, t3 (A1)"
    ]
    assert membership_problems(made, RULES, "New", [Person("b", "B")]) == []


def test_an_entry_binds_whoever_handed_it_in() -> None:
    """Who is taken out of a team stays bound by what it entered with them, until that is withdrawn (A1)."""
    made = season({"One": "ab", "Two": "c"}, ("One", "digits", ATTACK), ("One", "t2", ATTACK))
    made.apply(
        contest_events.TeamAdded(actor="desk", team="One", people=[contest_events.PersonRecord(id="b", name="B")]), "t"
    )
    made.apply(
        contest_events.TeamAdded(actor="desk", team="Alone", people=[contest_events.PersonRecord(id="A", name="A")]),
        "t",
    )
    said = ["A already plays attack on digits; nobody plays both sides (A1)"]
    assert whats(entry_problems(made, RULES, "Alone", "digits", DEFENCE)) == said
    assert whats(entry_problems(made, TournamentRules(tasks_per_person=2), "Alone", "t3", DEFENCE)) == [
        "A already takes part in 2 tasks: digits, t2 (A1)"
    ]
    made.apply(contest_events.SubmissionWithdrawn(actor="desk", id="s0", reason="r"), "t")
    assert entry_problems(made, RULES, "Alone", "digits", DEFENCE) == []


def test_who_left_a_team_cannot_join_its_opponents() -> None:
    """Nor can they be taken in by a team that defends what they attack (A1)."""
    made = season({"One": "ab", "Two": "c"}, ("One", "digits", ATTACK), ("Two", "digits", DEFENCE))
    made.apply(
        contest_events.TeamAdded(actor="desk", team="One", people=[contest_events.PersonRecord(id="b", name="B")]), "t"
    )
    assert whats(membership_problems(made, RULES, "Two", [Person("c", "C"), Person("a", "A")])) == [
        "A plays attack on digits, Two the other side (A1)"
    ]


@pytest.mark.parametrize("other", ["A@X.org", "a@x.org.", "\uff41@x.org", "a@x.org\u200b"])
def test_one_person_is_one_however_the_address_is_written(other) -> None:
    """Capital letters, the root's dot, full width and invisible characters make nobody a second person (A1)."""
    made = Season()
    for team, name in (("One", "a@x.org"), ("Two", other)):
        made.apply(
            contest_events.TeamAdded(actor="desk", team=team, people=[contest_events.PersonRecord(id=name, name="A")]),
            "t",
        )
    body = {"id": "s", "name": "n", "digest": "d", "image": "i", "attempt": 1, "attempts_left": 0}
    made.apply(contest_events.SubmissionReceived(actor="desk", team="One", task="digits", side=ATTACK, **body), "t")
    assert whats(entry_problems(made, RULES, "Two", "digits", DEFENCE)) == [
        "A already plays attack on digits; nobody plays both sides (A1)"
    ]


def test_organizers_are_no_winners() -> None:
    """A team with a member of the organizing institution gets no prize; boards are public and name nobody (A5)."""
    made = season(
        {"House": "ab", "Guests": "c"}, ("House", "digits", ATTACK), ("Guests", "digits", ATTACK), organizers="b"
    )
    assert prize_ineligibility(made, made.entries["s0"]) == "a member is of the organizing institution (A5)"
    assert prize_ineligibility(made, made.entries["s1"]) == ""


def test_an_organizer_who_leaves_the_team_frees_no_prize() -> None:
    """What a team submitted with an organizer gets no prize, and what it submitted before one came neither (A5)."""
    made = season({"House": "ab"}, ("House", "digits", ATTACK), organizers="b")
    made.apply(
        contest_events.TeamAdded(actor="desk", team="House", people=[contest_events.PersonRecord(id="a", name="A")]),
        "t",
    )
    assert prize_ineligibility(made, made.entries["s0"]) == "a member is of the organizing institution (A5)"
    late = season({"House": "a"}, ("House", "digits", ATTACK))
    late.apply(
        contest_events.TeamAdded(
            actor="desk", team="House", people=[contest_events.PersonRecord(id="b", name="B", organizer=True)]
        ),
        "t",
    )
    assert prize_ineligibility(late, late.entries["s0"]) == "a member is of the organizing institution (A5)"


@pytest.mark.parametrize(
    ("licence", "source", "places"),
    [
        ("MIT", "https://example.org", []),
        ("", "https://example.org", ["licence"]),
        ("MIT", "", ["source"]),
        ("mine", "", ["licence", "source"]),
        ("MIT", "notaurl", ["source"]),
        ("MIT", "https://", ["source"]),
        ("MIT", "https://localhost/here", ["source"]),
        ("MIT", "https://...", ["source"]),
        ("MIT", "https://example.org/a b", ["source"]),
        ("MIT", "https://[::1", ["source"]),
        ("MIT", "file:///etc/passwd", ["source"]),
        ("MIT", "ssh://git@example.org/team/net.git", []),
        ("MIT", "doi:10.5281/zenodo.123", []),
        ("MIT", "doi:zenodo", ["source"]),
    ],
)
def test_released_source_is_a_licence_and_an_address(licence, source, places) -> None:
    """A licence that is not OSI-approved is as good as none, as is what nobody can look up; all is named (A6)."""
    found = release_problems(licence, source)
    assert [problem.place for problem in found] == places
    assert all("(A6)" in problem.what for problem in found)


def test_organizers_are_warned_of_a_final_without_ranks() -> None:
    """A side without finalists, and a finalist without a released source, are told with the remedy (A6, A11, A12)."""
    cup = season({"One": "a"}, ("One", "digits", ATTACK))
    promoted = FinalistsPromoted(actor="desk", task="digits", attacks=["s0"], defences=[])
    nobody, unreleased = promotion_warnings(cup, promoted)
    assert nobody.startswith("no defence goes on to the final round of digits, so nobody will be ranked there")
    assert "no defence was submitted; receive one (`sparring submit`)" in nobody
    cup = season({"One": "a", "Two": "b"}, ("One", "digits", ATTACK), ("Two", "digits", DEFENCE))
    below_the_floor, _ = promotion_warnings(cup, promoted)
    assert "read the reasons on the board of the initial round" in below_the_floor
    assert unreleased.startswith(
        "s0 will not be ranked in the final round as it is: licence missing (A6); source missing"
    )
    assert "sparring set-source" in unreleased
