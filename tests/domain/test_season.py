"""A contest folded from its acts: nothing is edited, everything follows from the order of what was done."""

import pytest
from pydantic import ValidationError

from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import Role
from orchestrator.domain.season import Person, Season
from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.formats.tournament.format import finalists
from orchestrator.ledger.event_registry import parse_event

FILE = "sha256:" + "5" * 64
NOON, LATER = "2026-03-01T12:00:00.000+00:00", "2026-03-02T12:00:00.000+00:00"


def received(name: str, team: str = "Corner Shop", task: str = "digits", side: Side = Side.ATTACK, **more):
    """Returns the act of admitting a submission."""
    body = {"actor": "desk", "id": name, "name": name, "team": team, "task": task, "side": side}
    return contest_events.SubmissionReceived(
        **body, digest=name, image=name, **({"attempt": 1, "attempts_left": 2} | more)
    )


def folded(*done: contest_events.ContestEvent) -> Season:
    """Returns the season after these acts, all at noon."""
    season = Season()
    for act in done:
        season.apply(act, NOON)
    return season


def team(name: str, *people: str) -> contest_events.TeamAdded:
    """Returns the act of adding a team of these people."""
    return contest_events.TeamAdded(
        actor="desk", team=name, people=[contest_events.PersonRecord(id=p, name=p.title()) for p in people]
    )


def granted(person: str, role: Role) -> contest_events.RoleGranted:
    """Returns the act of giving somebody a role."""
    record = contest_events.PersonRecord(id=person, name=person.title())
    return contest_events.RoleGranted(actor="desk", person=record, role=role)


def arrived(arrival: str, team_name: str = "Corner Shop", **more) -> contest_events.SubmissionArrived:
    """Returns the act of a file's arrival."""
    body = {"team": team_name, "task": "digits", "side": None, "file_name": "a.zip", "size": 7}
    return contest_events.SubmissionArrived(actor="ada", arrival=arrival, **body, **({"digest": FILE} | more))


def requested(request: str) -> contest_events.RoundRequested:
    """Returns the act of asking for a round."""
    return contest_events.RoundRequested(actor="desk", request=request, round="initial", task="digits")


def filed(appeal: str) -> contest_events.AppealFiled:
    """Returns the act of appealing."""
    return contest_events.AppealFiled(actor="ada", appeal=appeal, team="Corner Shop", submission="a", text="why?")


def test_a_season_begins_empty() -> None:
    """Before the first act there is no contest, nobody, and no changed rule."""
    season = Season()
    assert (season.opening, season.teams, season.entries, season.rules) == (None, {}, {}, None)


def test_an_entry_keeps_when_it_came() -> None:
    """Its time is the clock's; its number is the ledger's, and ties rank by that, whatever the clock said (A16)."""
    season = Season()
    season.apply(received("corners"), LATER)
    season.apply(received("later"), NOON)
    assert [season.entries[name].received_at for name in ("corners", "later")] == [LATER, NOON]
    assert [season.entries[name].receipt_number for name in ("corners", "later")] == [1, 2]
    assert season.entries_of_task("digits") == list(season.entries.values())
    assert season.entries_of_task("other") == []


def test_a_team_added_again_has_other_people() -> None:
    """The last act about a team says who it is."""
    season = folded(team("Corner Shop", "ada"), team("Corner Shop", "bo", "cem"))
    assert season.teams == {"Corner Shop": (Person("bo", "Bo"), Person("cem", "Cem"))}


def test_withdrawn_and_disqualified_stay_on_record() -> None:
    """Neither removes an entry; both say why, and it plays no more."""
    season = folded(
        received("a"),
        received("b"),
        received("c"),
        contest_events.SubmissionWithdrawn(actor="desk", id="a", reason="a bug"),
        contest_events.SubmissionDisqualified(actor="desk", id="b", reason="two people, one team"),
    )
    assert (season.entries["a"].withdrawn, season.entries["b"].disqualified) == ("a bug", "two people, one team")
    assert [entry.is_active for entry in season.entries.values()] == [False, False, True]


def test_a_correction_changes_what_it_names() -> None:
    """What a correction does not name stays (A6)."""
    season = folded(
        received("a", licence="MIT", source="https://example.org/old"),
        contest_events.SubmissionCorrected(actor="desk", id="a", source="https://example.org/new", reason="moved"),
    )
    assert (season.entries["a"].licence, season.entries["a"].source) == ("MIT", "https://example.org/new")
    season.apply(
        contest_events.SubmissionCorrected(actor="desk", id="a", licence="", reason="not theirs to license"), NOON
    )
    assert season.entries["a"].licence == ""


def test_attempts_are_counted_per_team_task_and_side() -> None:
    """Withdrawn submissions count, refused ones and those of others do not (A4)."""
    refused = contest_events.SubmissionRefused(
        actor="desk", name="x", team="Corner Shop", task="digits", side=Side.ATTACK, problems=["no"]
    )
    season = folded(
        received("a"),
        received("b"),
        contest_events.SubmissionWithdrawn(actor="desk", id="a", reason="a bug"),
        refused,
        received("c", task="faint"),
        received("d", side=Side.DEFENCE),
        received("e", team="Others"),
    )
    assert season.count_attempts("Corner Shop", "digits", Side.ATTACK) == 2
    assert season.refusals == [refused]


def test_a_person_is_found_in_every_team() -> None:
    """Tasks and sides of a person are those of all their teams, without what plays no more (A1)."""
    season = folded(
        team("One", "ada"),
        team("Two", "ada", "bo"),
        team("Three", "bo"),
        received("a", "One", "digits"),
        received("b", "Two", "faint", Side.DEFENCE),
        received("c", "Three", "euclid"),
        received("d", "One", "euclid"),
        contest_events.SubmissionWithdrawn(actor="desk", id="d", reason="a bug"),
    )
    ada = Person("Ada", "Ada")
    assert season.sides_by_task(ada) == {"digits": {Side.ATTACK}, "faint": {Side.DEFENCE}}
    assert season.sides_by_task(ada, except_teams=["One"]) == {"faint": {Side.DEFENCE}}
    assert season.sides_by_task(Person("nobody", "N")) == {}


def test_names_of_teams_that_look_the_same_are_found() -> None:
    """Case, spaces of another kind and invisible characters make no other team."""
    season = folded(team("Corner Shop", "ada"))
    alike = ["corner shop", "Corner\u00a0Shop", "Corner  Shop", " Corner Shop", "Corner\u3000Shop\u200d", "CORNER SHOP"]
    assert [season.find_similar_team(name) for name in alike] == ["Corner Shop"] * len(alike)
    assert [season.find_similar_team(name) for name in ("Corner Shop", "Corner-Shop", "CornerShop")] == [""] * 3


def test_the_last_promotion_and_the_last_rules_hold() -> None:
    """A promotion is made again after a re-judgement; the rules are those of the last change."""
    promoted = [
        FinalistsPromoted(actor="desk", task="digits", attacks=[name], defences=["d"], superseded={"x": "y"})
        for name in ("a", "b")
    ]
    changed = [contest_events.RulesChanged(actor="desk", rules={"finalists": number}, reason="r") for number in (1, 2)]
    dropped = contest_events.RejudgementDropped(actor="desk", rules={"finalists": 9}, reason="r")
    season = folded(*promoted, *changed, dropped)
    assert finalists(season, "digits") == promoted[1]
    assert finalists(season, "digits").submissions == {"b", "d"}
    assert season.rules == {"finalists": 2}


def test_rounds_are_known_by_name_and_task() -> None:
    """The head of a round that was played again replaces the old one."""
    played = [
        contest_events.RoundPlayed(actor="desk", round="initial", task="digits", head="1"),
        contest_events.RoundPlayed(actor="desk", round="initial", task="digits", head="2"),
        contest_events.RoundPlayed(actor="desk", round="final", task="digits", head="3"),
    ]
    season = folded(*played)
    assert {key: act.head for key, act in season.played_rounds.items()} == {
        ("initial", "digits"): "2",
        ("final", "digits"): "3",
    }


EVERY_ACT = [
    contest_events.ContestOpened(actor="desk", contest={"sparring": 1}, key_fingerprint="sha256:0", software="0"),
    team("One", "ada"),
    received("a"),
    contest_events.SubmissionRefused(actor="desk", name="", team="", task="", side=None, problems=["no"]),
    contest_events.SubmissionWithdrawn(actor="desk", id="a", reason="r"),
    contest_events.SubmissionDisqualified(actor="desk", id="a", reason="r"),
    contest_events.SubmissionCorrected(actor="desk", id="a", licence="MIT", reason="r"),
    contest_events.OrganizersRecognized(actor="desk", submissions=["a"]),
    contest_events.RoundPlayed(actor="desk", round="initial", task="digits", head="h"),
    FinalistsPromoted(actor="desk", task="digits", attacks=[], defences=[]),
    contest_events.RulesChanged(actor="desk", rules={}, reason="r"),
    contest_events.RejudgementDropped(actor="desk", rules={}, reason="r"),
    contest_events.BundlePublished(actor="desk", bundle="sealed", digest="d"),
    granted("person-1", Role.RATER),
    contest_events.RoleRevoked(actor="desk", person="person-1", role=Role.RATER, reason="r"),
    arrived("a" * 16),
    contest_events.ArrivalMatched(actor="desk", arrival="a" * 16, submission="a"),
    requested("b" * 16),
    contest_events.RoundRequestClosed(actor="desk", request="b" * 16, outcome="failed", problem="no"),
    contest_events.ContestAnnounced(actor="desk", title="t", text="words"),
    contest_events.SubmissionsClosed(actor="desk", reason="r"),
    contest_events.SubmissionsReopened(actor="desk", reason="r"),
    filed("c" * 16),
    contest_events.AppealDecided(actor="desk", appeal="c" * 16, upheld=False, reason="r"),
]


@pytest.mark.parametrize("act", EVERY_ACT, ids=lambda act: act.kind)
def test_every_act_is_read_back_from_the_ledger(act) -> None:
    """What is written is what is read, and a key that nobody knows is an error."""
    body = act.model_dump(mode="json")
    assert parse_event(body) == act
    with pytest.raises(ValidationError):
        parse_event(body | {"unknown": 1})


def test_every_kind_of_act_is_tested() -> None:
    """The list above has each act once."""
    assert {type(act) for act in EVERY_ACT} == {*contest_events.CoreContestEvent.__args__, FinalistsPromoted}


@pytest.mark.parametrize(
    "kind",
    [contest_events.SubmissionWithdrawn, contest_events.SubmissionDisqualified, contest_events.SubmissionCorrected],
)
@pytest.mark.parametrize("reason", ["", "x" * 2001])
def test_an_act_against_a_submission_has_a_reason(kind, reason) -> None:
    """No reason, or one that is no reason but a book, is refused."""
    with pytest.raises(ValidationError, match="reason"):
        kind(by="desk", id="a", reason=reason)


def test_somebody_did_it() -> None:
    """An act without who is refused."""
    with pytest.raises(ValidationError, match="actor"):
        contest_events.RoundPlayed(actor="", round="initial", task="digits", head="h")


def test_roles_are_what_was_granted_and_not_revoked() -> None:
    """A person may have several roles; one that is revoked is gone, another stays; revoking nothing changes nothing."""
    revoked = contest_events.RoleRevoked(actor="desk", person="ada", role=Role.BOARD, reason="left")
    season = folded(granted("ada", Role.BOARD), granted("ada", Role.RATER), granted("bo", Role.BOARD), revoked, revoked)
    assert season.roles[Role.BOARD] == {"bo": Person("bo", "Bo")}
    assert season.roles[Role.RATER] == {"ada": Person("ada", "Ada")}


def test_arrivals_wait_in_order_until_they_are_answered() -> None:
    """What waits is in the ledger's order; received, refused and matched ones are known with their outcome."""
    ids = [digit * 16 for digit in "dcba"]
    season = folded(*(arrived(each) for each in ids))
    assert list(season.pending_arrivals) == ids
    refusal = contest_events.SubmissionRefused(
        actor="ada", name="x", team="Corner Shop", task="digits", side=None, problems=["no"], arrival=ids[1]
    )
    matched = contest_events.ArrivalMatched(actor="ada", arrival=ids[2], submission="a")
    for act in (received("a", arrival=ids[0]), refusal, matched):
        season.apply(act, LATER)
    assert list(season.pending_arrivals) == [ids[3]]
    outcomes = [(arrival.outcome, arrival.submission, arrival.problems) for arrival in season.arrivals.values()]
    assert outcomes == [("received", "a", ()), ("refused", "", ("no",)), ("received", "a", ()), ("", "", ())]
    assert {arrival.time for arrival in season.arrivals.values()} == {NOON}


def test_no_team_waits_for_all_that_another_submits() -> None:
    """Teams take turns, also with what came while others waited; a team's own stay in their order."""
    teams = [("a", "One"), ("b", "One"), ("c", "One"), ("d", "Two"), ("e", "Two"), ("f", "Three")]
    season = folded(*(arrived(letter * 16, team_name) for letter, team_name in teams))
    assert [arrival.id[0] for arrival in season.admission_queue()] == ["a", "d", "f", "b", "e", "c"]
    season.apply(received("x", arrival="a" * 16), NOON)
    assert [arrival.id[0] for arrival in season.admission_queue()] == ["d", "f", "b", "e", "c"]
    season.apply(received("y", arrival="d" * 16), NOON)
    assert [arrival.id[0] for arrival in season.admission_queue()] == ["f", "b", "e", "c"]
    season.apply(arrived("0" * 16, "Four"), NOON)
    assert [arrival.id[0] for arrival in season.admission_queue()] == ["f", "0", "b", "e", "c"]


def test_what_arrived_earlier_is_earlier_in_whichever_order_it_was_admitted() -> None:
    """Two workers may admit out of order; the number and the day are those of the arrival (A16, C9)."""
    season = folded(arrived("a" * 16), received("desk"), arrived("b" * 16))
    season.apply(received("second", arrival="b" * 16), LATER)
    season.apply(received("first", arrival="a" * 16), LATER)
    assert [(entry.id, entry.receipt_number) for entry in season.entries_of_task("digits")] == [
        ("first", 1),
        ("desk", 2),
        ("second", 3),
    ]
    first = season.entries["first"]
    assert (first.received_at, first.arrived_at, season.entries["desk"].arrived_at) == (LATER, NOON, "")
    days = (season.count_on_day("Corner Shop", "digits", time[:10]) for time in (NOON, LATER))
    assert list(days) == [3, 0]


def test_a_try_of_a_day_is_one_of_everybody_in_the_team() -> None:
    """Nobody gets more tries by more teams, by leaving one, or in another spelling; others are not concerned (C9)."""
    season = folded(
        team("Reds", "eve@x.example", "ann@x.example"),
        team("Blues", "Eve@X.example"),
        team("Greens", "bob@x.example", "ann@x.example"),
        team("Browns", "cem@x.example"),
        received("a", "Reds"),
        received("b", "Reds"),
        received("c", "Blues"),
        received("d", "Browns"),
        received("e", "Reds", task="letters"),
        team("Reds", "ann@x.example"),
    )
    used = {name: season.count_on_day(name, "digits", NOON[:10]) for name in season.teams}
    assert used == {"Reds": 2, "Blues": 3, "Greens": 2, "Browns": 1}
    assert season.count_on_day("Blues", "letters", NOON[:10]) == 1
    season.apply(team("Reds", "ann@x.example", "dan@x.example"), NOON)
    season.apply(team("Blues", "dan@x.example"), NOON)
    assert season.count_on_day("Blues", "digits", NOON[:10]) == 3


@pytest.mark.parametrize(
    "words",
    [
        {"image": "registry.example/a:latest", "file_name": "", "size": 0},
        {"image": f"registry.example/a@{FILE}", "size": 0},
        {"image": f"registry.example/a@{FILE}", "file_name": ""},
        {"file_name": "a\nb.zip"},
        {"digest": "sha256:5"},
        {"arrival": "../../up"},
    ],
    ids=["tag", "image-and-name", "image-and-size", "line", "short-digest", "path"],
)
def test_an_arrival_is_a_file_or_an_image_by_digest(words) -> None:
    """Anything else is refused before it is on record."""
    body = arrived("a" * 16).model_dump(mode="json")
    assert contest_events.SubmissionArrived.model_validate(body)
    with pytest.raises(ValidationError):
        contest_events.SubmissionArrived.model_validate(body | words)


def test_requests_are_open_until_they_are_closed() -> None:
    """What waits to be played is in the ledger's order; how the others ended is known."""
    closed = contest_events.RoundRequestClosed(actor="worker", request="a" * 16, outcome="played")
    season = folded(requested("a" * 16), requested("b" * 16), closed)
    assert list(season.round_requests) == ["b" * 16]
    assert season.round_requests["b" * 16].time == NOON
    assert season.closed_requests == {"a" * 16: closed}


def test_announcements_and_appeals_are_known_with_their_times() -> None:
    """An appeal has no decision until there is one."""
    season = folded(contest_events.ContestAnnounced(actor="desk", title="t", text="words"), filed("c" * 16))
    assert [(each.title, each.text, each.time) for each in season.announcements] == [("t", "words", NOON)]
    appeal = season.appeals["c" * 16]
    assert (appeal.team, appeal.submission, appeal.text, appeal.decision) == ("Corner Shop", "a", "why?", None)
    season.apply(contest_events.AppealDecided(actor="board", appeal="c" * 16, upheld=True, reason="so"), LATER)
    decision = season.appeals["c" * 16].decision
    assert decision is not None
    assert (decision.actor, decision.upheld, decision.reason, decision.time) == ("board", True, "so", LATER)
