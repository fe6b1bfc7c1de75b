"""The desk: what is received, refused, withdrawn, disqualified and corrected, each an act with who and when."""

import json
from datetime import timedelta

import pytest

from orchestrator import redaction
from orchestrator.application.contests import roles, submission_admission
from orchestrator.application.contests.administration import validated
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.domain import contest_events
from orchestrator.domain.contest_format import RoundOfSeason
from orchestrator.domain.ids import canonical_json
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.formats.tournament.format import Tournament
from orchestrator.formats.tournament.rules import TournamentRules
from orchestrator.signatures import fingerprint, verify_signature

NOON = "2026-03-01T12:00:00.000+00:00"


def places(refusal) -> list[str]:
    """Returns where each problem of a refusal is."""
    return [problem.place for problem in refusal.value.problems]


def test_a_receipt_says_what_was_received_and_when(cup) -> None:
    """Digest, time and attempts left are on the receipt and in its file, for the team that handed it in (A4)."""
    receipt = cup.submit("One", cup.player("attack_honest"))
    assert (receipt.team, receipt.task, receipt.side, receipt.submission) == (
        "One",
        "quarters",
        "attack",
        "attack_honest",
    )
    assert (receipt.received, receipt.attempt, receipt.attempts_left, receipt.warnings) == (NOON, 1, 2, ())
    assert receipt.digest == cup.acts(contest_events.SubmissionReceived)[0].digest
    written = json.loads((cup.folder.path / "receipts" / "attack_honest.json").read_text())
    assert written == receipt.document()


def test_a_receipt_is_signed(cup) -> None:
    """Its signature is the contest key's over everything else; any other word on it does not verify."""
    document = cup.submit("One", cup.player("attack_honest")).document()
    signature = bytes.fromhex(document.pop("signature"))
    key = bytes.fromhex(document["key"])
    assert fingerprint(key) == cup.acts(contest_events.ContestOpened)[0].key_fingerprint
    assert verify_signature(key, signature, canonical_json(document).encode())
    for name, forged in (("received", "2026-01-01T00:00:00.000+00:00"), ("attempts_left", 3), ("digest", "sha256:0")):
        assert not verify_signature(key, signature, canonical_json(document | {name: forged}).encode())


def test_few_of_many_problems_are_on_record(cup) -> None:
    """A submission may have thousands, a refusal costs no attempt, and everybody keeps the ledger."""
    with cup.desk() as desk, pytest.raises(Rejected) as refusal:
        submission_admission.refuse(desk, SubmissionRequest("One", "quarters"), [Problem("line", "x")] * 1000)
    [refused] = cup.acts(contest_events.SubmissionRefused)
    assert len(refused.problems) == len(refusal.value.problems) == 51
    assert refused.problems[-1].endswith("and 950 more problems")


def test_another_key_signs_nothing(cup) -> None:
    """Where the key is not the one that the contest was opened with, nothing is received: its receipt would be void."""
    (cup.folder.path / "key").write_bytes(b"x" * 32)
    with pytest.raises(StoreFault, match="the contest was opened with sha256:"):
        cup.submit("One", cup.player("attack_honest"))
    assert cup.acts(contest_events.SubmissionReceived) == []


@pytest.mark.slow
def test_what_is_kept_is_a_copy(cup) -> None:
    """What a team changes in its folder afterwards is a new submission; the old one stays as it was received."""
    folder = cup.player("attack_honest")
    first = cup.submit("One", folder)
    with (folder / "player.py").open("a") as file:
        file.write("# a second thought\n")
    second = cup.submit("One", folder)
    assert first.digest != second.digest
    kept = {act.id: cup.folder.path / act.folder for act in cup.acts(contest_events.SubmissionReceived)}
    assert set(kept) == {"attack_honest", "attack_honest-2"}
    assert len((kept["attack_honest"] / "player.py").read_text()) > 100


@pytest.mark.slow
def test_names_are_told_apart(cup) -> None:
    """Two teams may use one name, and a baseline's name is the baseline's: ids have a number then."""
    ids = [cup.submit(team, cup.player("defence_honest", "measure")).submission for team in ("One", "Two")]
    assert ids == ["measure-2", "measure-3"]
    assert [act.name for act in cup.acts(contest_events.SubmissionReceived)] == ["measure", "measure"]


def test_a_missing_licence_is_a_warning(cup) -> None:
    """Without licence and source a submission is received, warned, and the warning is on record (A6)."""
    receipt = cup.submit("One", cup.player("attack_honest", licence="Proprietary", source=""))
    assert [warning.split(";")[0] for warning in receipt.warnings] == [
        "licence 'Proprietary' is not the SPDX id of an OSI-approved licence (A6)",
        "source missing (A6)",
    ]
    assert cup.acts(contest_events.SubmissionReceived)[0].warnings == list(receipt.warnings)


def test_all_objections_come_at_once(cup) -> None:
    """A wrong side, an unknown task and team, and a late hour are told together, and all are on record."""
    cup.more = {"closes": NOON}
    cup.write()
    with pytest.raises(Rejected) as refusal:
        cup.submit("Nobody", cup.player("attack_honest"), "thirds", side="defence", name="../up")
    assert places(refusal) == ["time", "task", "side", "name", "team"]
    assert all(problem.remedy for problem in refusal.value.problems)
    refused = cup.acts(contest_events.SubmissionRefused)
    assert [len(act.problems) for act in refused] == [5]
    assert not (cup.folder.path / "receipts").exists()


def test_an_attack_for_a_warm_up_is_refused(warmup) -> None:
    """A warm-up has its own attacks (B2): a team's attack is refused, and plays no trial match."""
    with pytest.raises(Rejected) as refusal:
        warmup.submit("One", warmup.player("attack_honest"))
    [problem] = refusal.value.problems
    assert str(problem) == "side: the format warmup takes no attack programs; submit a defence"
    assert len(warmup.acts(contest_events.SubmissionRefused)) == 1


def test_a_broken_manifest_is_refused_with_its_lines(cup) -> None:
    """What is wrong in submission.yaml is told as everywhere; the side is then unknown."""
    folder = cup.player("attack_honest")
    (folder / "submission.yaml").write_text("sparring: 1\nname: UPPER\n")
    with pytest.raises(Rejected) as refusal:
        cup.submit("One", folder)
    assert "line 2, name" in places(refusal)
    assert cup.acts(contest_events.SubmissionRefused)[0].side is None


def test_a_broken_manifest_is_the_only_problem(cup) -> None:
    """What only the manifest could have said is not missed as well: neither side nor command nor image."""
    broken = cup.player("attack_honest", "broken", licence=7)
    with pytest.raises(Rejected) as refusal:
        cup.submit("One", broken)
    assert [problem.place for problem in refusal.value.problems] == ["line 1, licence"]


@pytest.mark.parametrize("name", ["One\0", "One\nTwo"])
def test_a_name_with_control_characters_is_refused_at_the_door(cup, name) -> None:
    """A team, its people and their ids are plain text; nothing of it comes on record."""
    with cup.desk() as desk:
        for team, person in ((name, "a@x.org"), ("Four", name)):
            with pytest.raises(UsageError, match="a control character, which a name cannot have"):
                desk.add_team(team, [validated(contest_events.PersonRecord, id=person, name="A")])
    assert len(cup.acts(contest_events.TeamAdded)) == 3


@pytest.mark.parametrize("name", ["   ", "\u200b"])
def test_a_name_that_nobody_can_see_is_refused_at_the_door(cup, name) -> None:
    """Of a team and of a person, as on the site."""
    with cup.desk() as desk:
        for team, person in ((name, "A"), ("Four", name)):
            with pytest.raises(UsageError, match="needs a character that people can see"):
                desk.add_team(team, [validated(contest_events.PersonRecord, id="a@x.org", name=person)])
    assert len(cup.acts(contest_events.TeamAdded)) == 3


@pytest.mark.parametrize("where", ["team", "task", "name"])
def test_what_is_no_text_is_refused_and_on_record(cup, where) -> None:
    """Bytes that are no UTF-8 reach a command as half characters: they are recorded as escapes."""
    said = {"team": "One", "task": "quarters"} | {where: "x\udcff"}
    with pytest.raises(Rejected):
        cup.submit(folder=cup.player("attack_honest"), **said)
    [refusal] = cup.acts(contest_events.SubmissionRefused)
    assert getattr(refusal, where) == "x\\udcff"


@pytest.mark.slow
def test_a_refusal_uses_up_nothing(cup) -> None:
    """Three tries are three that were received: a refused one is not among them (A4)."""
    with pytest.raises(Rejected):
        cup.submit("One", cup.player("attack_honest"), "thirds")
    tries = [cup.player("attack_honest", name) for name in ("first", "second", "third", "fourth")]
    assert [cup.submit("One", folder).attempts_left for folder in tries[:3]] == [2, 1, 0]
    with pytest.raises(Rejected) as refusal:
        cup.submit("One", tries[3])
    assert "has used its 3 submissions for attack on quarters (A4)" in str(refusal.value)


def test_strangers_are_refused_without_isolation(cup) -> None:
    """On the process backend a stranger's folder is refused unless the operator allows it."""
    submitted = SubmissionRequest("One", "quarters", cup.player("attack_honest"))
    with cup.desk() as desk:
        strict = play_rounds.ready_backend(
            desk.contest, cup.folder.path.resolve(), play_rounds.RunOptions(backend="process")
        )
        with pytest.raises(Rejected, match="--backend container"):
            submission_admission.submit(desk, submitted, strict)
    assert cup.acts(contest_events.SubmissionReceived) == []


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(milliseconds=-1), "submissions open at 2026-03-01T13:00:00+01:00"),
        (timedelta(), None),
        (timedelta(hours=1, milliseconds=-1), None),
        (timedelta(hours=1), "submissions closed at 2026-03-01T14:00:00+01:00"),
        (timedelta(days=9), "submissions closed at 2026-03-01T14:00:00+01:00"),
    ],
)
def test_submissions_open_and_close(cup, after, said) -> None:
    """From the first moment of `opens` to the last before `closes`, in whatever zone the file names."""
    cup.more = {"opens": "2026-03-01T13:00:00+01:00", "closes": "2026-03-01T14:00:00+01:00"}
    cup.write()
    cup.time += after
    if said is None:
        assert cup.submit("One", cup.player("attack_honest")).attempts_left == 2
    else:
        with pytest.raises(Rejected, match="time") as refusal:
            cup.submit("One", cup.player("attack_honest"))
        assert refusal.value.problems[0].what.startswith(said)


def test_withdrawing_is_an_act_with_a_reason(cup) -> None:
    """A withdrawn submission stays on record, plays no more, and stays an attempt (A4)."""
    cup.submit("One", cup.player("attack_honest"))
    cup.wait(hours=1)
    with cup.desk() as desk:
        desk.withdraw("attack_honest", "the team found a bug")
    last = cup.entries()[-1]
    assert (last.time, last.event.actor, last.event.reason) == (
        "2026-03-01T13:00:00.000+00:00",
        "desk",
        "the team found a bug",
    )
    with cup.desk() as desk:
        assert not desk.season.entries["attack_honest"].is_active
    assert cup.submit("One", cup.player("attack_honest")).attempt == 2


def test_correcting_changes_the_record_by_an_act(cup) -> None:
    """A licence that was forgotten is added later, with a reason, and the receipt stays as it was (A6)."""
    cup.submit("One", cup.player("attack_honest", licence=""))
    with cup.desk() as desk:
        desk.correct_release("attack_honest", "published late", licence="MIT", source=None)
    with cup.desk() as desk:
        assert (desk.season.entries["attack_honest"].licence, desk.season.entries["attack_honest"].source) == (
            "MIT",
            "https://example.org",
        )
    assert cup.acts(contest_events.SubmissionReceived)[0].licence == ""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda desk: desk.withdraw("nobody", "r"), r"no submission 'nobody' in this contest \(known: none yet\)"),
        (lambda desk: desk.disqualify("nobody", "r"), "no submission 'nobody'"),
        (lambda desk: desk.correct_release("nobody", "r", licence="MIT", source=None), "no submission 'nobody'"),
        (lambda desk: desk.add_team("Empty", []), "give its people, each once"),
        (
            lambda desk: desk.add_team("", [contest_events.PersonRecord(id="a", name="A")]),
            "a team.s name needs a character",
        ),
    ],
)
def test_impossible_acts_are_refused_and_leave_no_trace(cup, act, said) -> None:
    """What cannot be done is a usage error, and the ledger is as it was."""
    before = cup.entries()
    with cup.desk() as desk, pytest.raises(UsageError, match=said):
        act(desk)
    assert cup.entries() == before


@pytest.mark.parametrize("reason", ["", "x" * 2001])
def test_a_reason_is_needed(cup, reason) -> None:
    """No reason, or an endless one, is a usage error and no crash."""
    cup.submit("One", cup.player("attack_honest"))
    with cup.desk() as desk:
        for act in (desk.withdraw, desk.disqualify):
            with pytest.raises(UsageError, match="reason"):
                act("attack_honest", reason)
        with pytest.raises(UsageError, match="nothing to correct"):
            desk.correct_release("attack_honest", "r", licence=None, source=None)
    assert cup.acts(contest_events.SubmissionWithdrawn) == []


def test_one_person_is_in_a_team_once(cup) -> None:
    """The same id twice is one person under two names."""
    twice = [contest_events.PersonRecord(id="a", name="A"), contest_events.PersonRecord(id="a", name="B")]
    with cup.desk() as desk, pytest.raises(UsageError, match="each once"):
        desk.add_team("Twins", twice)


@pytest.mark.parametrize("other", ["ONE@x.org", "one@X.ORG.", "\uff4fne@x.org"])
def test_one_person_is_in_a_team_once_however_written(cup, other) -> None:
    """Two ways to write an address are one person (A1)."""
    twice = [contest_events.PersonRecord(id=name, name="P") for name in ("one@x.org", other)]
    with cup.desk() as desk, pytest.raises(UsageError, match="each once"):
        desk.add_team("Twins", twice)


@pytest.mark.parametrize("name", ['"one"@x.org', "one@x@y", "\u200b", "one two@x.org"])
def test_a_person_has_a_plain_id(cup, name) -> None:
    """What can be written in many ways cannot be compared, and is refused with the remedy (A1)."""
    with cup.desk() as desk, pytest.raises(UsageError, match="no plain word or address to know a person by; write it"):
        desk.add_team("New", [contest_events.PersonRecord(id=name, name="P")])


@pytest.mark.parametrize("name", ["one", "ONE", "One\u200b", " One", "O\uff4ee"])
def test_no_team_has_the_looks_of_another(cup, name) -> None:
    """A name that differs from a team's in case, spaces or invisible characters only is refused."""
    with cup.desk() as desk, pytest.raises(UsageError, match="there is a team 'One' already"):
        desk.add_team(name, [contest_events.PersonRecord(id="x", name="X")])


@pytest.mark.slow
def test_who_left_a_team_is_bound_by_its_entries(cup) -> None:
    """A member who is taken out after the attack was submitted cannot defend against it by another team (A1)."""
    cup.submit("One", cup.player("attack_honest"))
    with cup.desk() as desk:
        desk.add_team("One", [contest_events.PersonRecord(id="friend", name="F")])
        desk.add_team("Mask", [contest_events.PersonRecord(id="ONE", name="P. One")])
    with pytest.raises(Rejected, match=r"P\. One already plays attack on quarters"):
        cup.submit("Mask", cup.player("defence_honest"))
    with cup.desk() as desk:
        desk.withdraw("attack_honest", "a bug")
    assert cup.submit("Mask", cup.player("defence_honest")).attempt == 1


def test_an_organizer_is_one_in_every_team(cup) -> None:
    """Whoever is said to be one in any team is noted as such in all of them, so that bundles count the same (A5)."""
    with cup.desk() as desk:
        desk.add_team("House", [contest_events.PersonRecord(id="ONE", name="P. One", organizer=True)])
        desk.add_team("Mask", [contest_events.PersonRecord(id="one", name="P. One")])
        assert {name: [p.organizer for p in people] for name, people in desk.season.teams.items()} == {
            "One": [True],
            "Two": [False],
            "Three": [False],
            "House": [True],
            "Mask": [True],
        }


def no_prize(season: Season) -> dict[str, str]:
    """Returns why each submission on quarters gets no prize in the initial round."""
    where = RoundOfSeason("initial", "quarters", season)
    rules = TournamentRules(initial={"classifier": "measure", "weights": {"fgsm": 1}})
    return {entry.id: Tournament(rules).eligibility(entry, where).no_prize for entry in season.entries.values()}


def as_published(cup) -> Season:
    """Returns the season that a reader of a bundle folds."""
    season = Season()
    for entry in cup.entries():
        public = redaction.redact_contest_event(entry.event)
        event = entry.event if public is None else redaction.parse_redacted_event(public, "entry")
        season.apply(event, entry.time)
    return season


def mark_in_another_team(desk) -> None:
    """Says in another team that this person is of the organizing institution."""
    desk.add_team("House", [contest_events.PersonRecord(id="OTTO", name="Otto", organizer=True)])


def grant_the_role(desk) -> None:
    """Makes this person an organizer, and takes the role back."""
    for person in ("otto", "ada"):
        roles.grant_role(desk, contest_events.PersonRecord(id=person, name=person), contest_events.Role.ORGANIZER)
    roles.revoke_role(desk, "otto", contest_events.Role.ORGANIZER, "a mistake")


@pytest.mark.parametrize("mark", [mark_in_another_team, grant_the_role])
@pytest.mark.parametrize("leaves_first", [True, False])
def test_who_submitted_and_is_marked_later_bars_the_submission_from_prizes(cup, mark, leaves_first) -> None:
    """It counts who was in the team when it submitted, whenever that person is marked or leaves; bundles agree (A5)."""
    ours = contest_events.PersonRecord(id="one", name="P. One")
    with cup.desk() as desk:
        desk.add_team("One", [ours, contest_events.PersonRecord(id="otto", name="Otto")])
    cup.submit("One", cup.player("attack_honest"))
    steps = [lambda desk: desk.add_team("One", [ours]), mark]
    with cup.desk() as desk:
        for step in steps if leaves_first else reversed(steps):
            step(desk)
    cup.submit("One", cup.player("attack_honest", "second"))
    expected = {"attack_honest": "a member is of the organizing institution (A5)", "second": ""}
    with cup.desk() as desk:
        assert no_prize(desk.season) == expected
    assert no_prize(as_published(cup)) == expected


def test_who_is_marked_while_a_submission_waits_bars_it_from_prizes(cup) -> None:
    """A member who leaves and is marked before the arrival is admitted counts as one who is marked after (A5)."""
    ours = contest_events.PersonRecord(id="one", name="P. One")
    with cup.desk() as desk:
        desk.add_team("One", [ours, contest_events.PersonRecord(id="otto", name="Otto")])
        arrival = {"arrival": "a" * 16, "team": "One", "task": "quarters", "side": Side.ATTACK}
        desk.append_event(contest_events.SubmissionArrived(actor="one", **arrival, size=1, digest=f"sha256:{'0' * 64}"))
        desk.add_team("One", [ours])
        mark_in_another_team(desk)
    cup.submit("One", cup.player("attack_honest"), arrival="a" * 16)
    with cup.desk() as desk:
        assert no_prize(desk.season) == {"attack_honest": "a member is of the organizing institution (A5)"}
    assert no_prize(as_published(cup)) == {"attack_honest": "a member is of the organizing institution (A5)"}


def test_a_clock_that_is_set_back_opens_nothing_again(cup) -> None:
    """After an entry that is later than the close, an earlier hour of the clock lets nobody in."""
    cup.more = {"closes": "2026-03-01T12:30:00+00:00"}
    cup.write()
    cup.wait(hours=1)
    with pytest.raises(Rejected, match=r"submissions closed at .*nothing can be added"):
        cup.submit("One", cup.player("attack_honest"))
    cup.wait(hours=-1)
    with pytest.raises(Rejected, match="the clock was set back; set it, or move `closes`"):
        cup.submit("One", cup.player("attack_honest"))


def test_a_team_cannot_take_in_its_opponent(cup) -> None:
    """Who defends a task in one team is not added to another that attacks it, whichever was first (A1)."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_honest"))
    people = [contest_events.PersonRecord(id=name, name=name.title()) for name in ("one", "two")]
    with cup.desk() as desk, pytest.raises(Rejected, match=r"Two plays defence on quarters, One the other side"):
        desk.add_team("One", people)
    with cup.desk() as desk:
        assert [person.id for person in desk.season.teams["One"]] == ["one"]
        desk.withdraw("defence_honest", "to change sides")
        desk.add_team("One", people)


def test_the_rules_of_the_file_hold_at_the_desk(cup) -> None:
    """`tasks_per_person` and `submissions_per_team` are the contest file's to set (A1, A4)."""
    cup.write(tasks_per_person=1, submissions_per_team=1)
    assert cup.submit("One", cup.player("attack_honest")).attempts_left == 0
    with pytest.raises(Rejected, match=r"has used its 1 submissions"):
        cup.submit("One", cup.player("attack_noop"))
    with pytest.raises(Rejected, match=r"already takes part in 1 tasks: quarters"):
        cup.submit("One", cup.player("attack_honest"), "halves")


def test_every_act_is_read_again(cup) -> None:
    """A desk that is opened again knows everything that was done, in order."""
    cup.submit("One", cup.player("attack_honest"))
    with cup.desk() as desk:
        desk.disqualify("attack_honest", "two people, one team")
        season = desk.season
    with cup.desk() as desk:
        assert desk.season == season
        assert desk.head == cup.entries()[-1].hash
