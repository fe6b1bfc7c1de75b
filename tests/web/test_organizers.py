"""What organizers do: every act once, in their name, and by nobody else."""

import html
import io
import json
import re
import zipfile

import pytest
from typer.testing import CliRunner

from orchestrator.application.contests import ledger_in_words, round_requests, seasons, submission_closing
from orchestrator.cli.app import app
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import CoreContestEvent, FormatEvent, PersonRecord, Role
from orchestrator.domain.season import Season
from orchestrator.ledger.contest_folder import ContestFolder
from tests.web.conftest import acts, client_of, give_role, make_account

HOSTILE = "<script>alert('1')</script>\u202eevil"
REQUEST = "0123456789abcdef"


@pytest.fixture
def organizer(season):
    """Ada, an organizer, in her browser."""
    return browser_with(season, "Ada", Role.ORGANIZER)


def browser_with(season, name, *roles):
    """Returns the browser of somebody who has these roles."""
    account = make_account(name)
    for role in roles:
        give_role(season, account, role)
    client = client_of(account)
    client.person = account.person
    return client


def hidden_fields(page) -> dict[str, str]:
    """Returns what the last form of a page sends by itself."""
    form = page.content.decode().rpartition("<form")[2]
    found = (
        re.search(r'name="(\w+)" value="([^"]*)"', each) for each in re.findall(r"<input type=.hidden.[^>]*>", form)
    )
    return {each[1]: html.unescape(each[2]) for each in found if each and each[1] != "csrfmiddlewaretoken"}


def change_rules(season, **rules) -> None:
    """Writes other rules into contest.yaml."""
    file = season / "contest.yaml"
    body = json.loads(file.read_text())
    file.write_text(json.dumps(body | {"rules": body["rules"] | rules}))


def ask_for_a_round(season) -> None:
    """Notes a request for a round, as another organizer."""
    with seasons.administer(season, "desk") as admin:
        event = contest_events.RoundRequested(actor="desk", request=REQUEST, round="initial", task="halves")
        admin.append_event(event)


def withdraw_late(season) -> None:
    """Takes the submission back that came after the round was played."""
    with seasons.administer(season, "desk") as admin:
        admin.withdraw("late", "too late")


def appoint_rater(season) -> None:
    """Makes somebody a rater who has no account."""
    with seasons.administer(season, "desk") as admin:
        person = PersonRecord(id="bob@example.org", name="Bob")
        admin.append_event(contest_events.RoleGranted(actor="desk", person=person, role=Role.RATER))


def close_submissions(season) -> None:
    """Closes submissions, as another organizer."""
    with seasons.administer(season, "desk") as admin:
        submission_closing.close_submissions(admin)


ACTS = {
    "close": (None, "close/", {"reason": "enough"}, contest_events.SubmissionsClosed, {"reason": "enough"}),
    "reopen": (
        close_submissions,
        "reopen/",
        {"reason": "the site was away"},
        contest_events.SubmissionsReopened,
        {"reason": "the site was away"},
    ),
    "ask": (None, "rounds/initial/", {"task": "halves"}, contest_events.RoundRequested, {"round": "initial"}),
    "cancel": (
        ask_for_a_round,
        f"requests/{REQUEST}/cancel/",
        {},
        contest_events.RoundRequestClosed,
        {"outcome": "cancelled"},
    ),
    "promote": (withdraw_late, "promote/", {}, FormatEvent, {"kind": "tournament.finalists_promoted"}),
    "apply": (
        lambda season: change_rules(season, finalists=1),
        "rules/",
        {"decision": "apply", "reason": "too many"},
        contest_events.RulesChanged,
        {"reason": "too many"},
    ),
    "drop": (
        lambda season: change_rules(season, finalists=1),
        "rules/",
        {"decision": "drop", "reason": "no need"},
        contest_events.RejudgementDropped,
        {"reason": "no need"},
    ),
    "disqualify": (
        None,
        "submissions/attack_honest/disqualify/",
        {"reason": "copied"},
        contest_events.SubmissionDisqualified,
        {"id": "attack_honest", "reason": "copied"},
    ),
    "correct": (
        None,
        "submissions/attack_honest/correct/",
        {"licence": "Apache-2.0", "source": "https://example.org", "reason": "late"},
        contest_events.SubmissionCorrected,
        {"licence": "Apache-2.0", "source": None},
    ),
    "announce": (
        None,
        "announce/",
        {"title": "Soon", "text": "On Monday.", "step": "publish"},
        contest_events.ContestAnnounced,
        {"title": "Soon", "text": "On Monday."},
    ),
    "publish": (None, "publish/", {"name": "sealed-1"}, contest_events.BundlePublished, {"bundle": "sealed"}),
    "revoke": (
        appoint_rater,
        "people/rater/bob@example.org/revoke/",
        {"reason": "has left"},
        contest_events.RoleRevoked,
        {"person": "bob@example.org", "role": Role.RATER},
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_done_once_in_the_organizers_name(season, organizer, act) -> None:
    """The page shows what it is; sent twice, it leaves one entry, with the organizer's id as its actor."""
    prepare, address, fields, kind, said = ACTS[act]
    if prepare:
        prepare(season)
    before = len(acts(season, kind))
    page = organizer.get(f"/organize/{address}")
    assert page.status_code == 200
    assert len(acts(season, kind)) == before
    form = hidden_fields(page) | fields
    answers = [organizer.post(f"/organize/{address}", form)]
    # where the page of the act is gone with the act, that is the answer to the second click
    answers.append(organizer.post(f"/organize/{address}", form))
    assert answers[0].status_code == 302, answers[0].content.decode()
    assert answers[1].status_code in (302, 404)
    new = acts(season, kind)[before:]
    assert [event.actor for event in new] == [organizer.person] * (2 if act == "promote" else 1)  # a promotion a task
    assert {name: getattr(new[0], name) for name in said} == said


@pytest.mark.parametrize("act", ACTS)
def test_nobody_else_does_it(season, act) -> None:
    """A visitor is asked to sign in, and keeps the text; a rater, a member of the board and a team's member may not."""
    prepare, address, fields, *_ = ACTS[act]
    if prepare:
        prepare(season)
    rater = browser_with(season, "Rita", Role.RATER, Role.BOARD)
    member = browser_with(season, "Tom")
    with seasons.administer(season, "desk") as admin:
        admin.add_team("Toms", [PersonRecord(id=member.person, name="Tom")])
    before = len(acts(season, object))
    for client in (rater, member):
        for answer in (client.get(f"/organize/{address}"), client.post(f"/organize/{address}", {"once": "x"} | fields)):
            assert answer.status_code == 403
    assert client_of().get(f"/organize/{address}").status_code == 302
    sent = client_of().post(f"/organize/{address}", {"once": "x"} | fields)
    has_text = any(" " in each for each in fields.values() if isinstance(each, str))
    assert sent.status_code == (403 if has_text else 302)
    assert "You are signed out" in sent.content.decode() if has_text else sent["Location"].startswith("/account/login/")
    assert len(acts(season, object)) == before


PAGES = (
    "",
    "rounds/",
    "rounds/initial/",
    "promote/",
    "close/",
    "reopen/",
    "rules/",
    "publish/",
    "submissions/",
    "submissions/attack_honest/disqualify/",
    "announce/",
    "people/",
    "ledger/",
)


@pytest.mark.slow
def test_strangers_texts_are_escaped_on_every_page(season, organizer) -> None:
    """No tag of a team, a submission, a person, an announcement or a reason is one on a page."""
    stranger = make_account(HOSTILE[:80])
    give_role(season, stranger, Role.RATER)
    with seasons.administer(season, "desk") as admin:
        admin.add_team(HOSTILE, [PersonRecord(id=stranger.person, name=HOSTILE)])
        admin.disqualify("attack_honest", HOSTILE)
        refused = {"name": HOSTILE, "team": HOSTILE, "task": HOSTILE, "side": None, "problems": [HOSTILE]}
        admin.append_event(contest_events.SubmissionRefused(actor="desk", **refused))
        admin.append_event(contest_events.ContestAnnounced(actor="desk", title=HOSTILE, text=HOSTILE))
        arrived = {"team": HOSTILE, "task": "halves", "side": None, "name": HOSTILE, "file_name": HOSTILE, "size": 5}
        event = contest_events.SubmissionArrived(actor="desk", arrival=REQUEST, digest=f"sha256:{'0' * 64}", **arrived)
        admin.append_event(event)
    shown = 0
    for address in PAGES:
        text = organizer.get(f"/organize/{address}").content.decode()
        assert "<script>alert" not in text, address
        assert "\u202e" not in text, address
        shown += "&lt;script&gt;alert" in text
    assert shown >= 6


def test_what_waits_is_on_the_first_page(season, organizer) -> None:
    """The finding, the round with a newcomer, and what was asked for."""
    ask_for_a_round(season)
    text = organizer.get("/organize/").content.decode()
    for word in ("Findings without a decision", "defence_chance", ">requested<", "nobody was promoted on quarters yet"):
        assert word in text


def test_a_round_is_counted_before_it_is_asked_for(season, organizer) -> None:
    """On halves there is one new cell: the organizers' classifier against the attack that came since."""
    page = organizer.get("/organize/rounds/initial/").content.decode()
    row = page[page.index("<bdi>halves</bdi>") :].partition("</tr>")[0]
    assert re.findall(r"<td[^>]*>(?:<strong>)?(\d+)", row) == ["2", "1", "3", "2", "0", "1"]
    assert "1 submission came since" in row


def test_the_close_is_shown_before_and_after_it(season, organizer) -> None:
    """Before: what plays and what follows. After: why, on every page that tells it, and the way back."""
    page = organizer.get("/organize/close/").content.decode()
    assert "the organizers&#39; 2 baselines" in page or "the organizers' 2 baselines" in page
    row = page[page.index("<bdi>halves</bdi>") :].partition("</tr>")[0]
    assert re.findall(r"<td[^>]*>(?:<strong>)?(\w+)", row) == ["1", "0", "1", "3", "1"]
    assert "Close submissions now</button>" in page
    assert "It can be undone with a reason" in page
    form = hidden_fields(organizer.get("/organize/close/"))
    assert organizer.post("/organize/close/", form | {"reason": "a <b>flood"}).status_code == 302
    page = organizer.get("/organize/close/").content.decode()
    assert "Close submissions now" not in page
    for address in ("/organize/close/", "/organize/", "/organize/rounds/", "/"):
        assert "a &lt;b&gt;flood" in organizer.get(address).content.decode(), address
    assert '<a class="button quiet" href="/organize/reopen/">' in page
    status = client_of().get("/api/v1/status").json()
    assert [status[name] for name in ("state", "closed_by_organizers", "close_reason")] == [
        "closed",
        True,
        "a <b>flood",
    ]
    again = organizer.post("/organize/close/", form | {"once": "another"})
    assert again.status_code == 409
    assert "already" in again.content.decode()


def test_promotion_is_refused_while_somebody_is_missing(season, organizer) -> None:
    """The page says why; nothing can be pressed."""
    page = organizer.get("/organize/promote/").content.decode()
    assert "late came after the round initial of halves was played" in page
    assert '<button type="submit">Promote' not in page


@pytest.mark.slow
def test_other_boards_than_those_shown_promote_nobody(season, organizer) -> None:
    """Who confirms one list does not note another."""
    withdraw_late(season)
    form = hidden_fields(organizer.get("/organize/promote/"))
    with seasons.administer(season, "desk") as admin:
        admin.disqualify("attack_honest", "meanwhile")
    answer = organizer.post("/organize/promote/", form)
    assert answer.status_code == 409
    assert "it has changed since you opened the page" in answer.content.decode()
    assert not acts(season, FormatEvent)


def test_a_refused_act_may_be_sent_again(season, organizer) -> None:
    """A form that was refused is not spent: once the reason is gone, the same form does it."""
    address, form = "/organize/submissions/attack_honest/correct/", {"reason": "late", "source": "https://example.org"}
    form |= hidden_fields(organizer.get(address)) | {"licence": "MIT"}
    answer = organizer.post(address, form)
    assert answer.status_code == 409
    assert "nothing to correct" in answer.content.decode()
    assert organizer.post(address, form | {"licence": "GPL-3.0-only"}).status_code == 302
    assert [event.licence for event in acts(season, contest_events.SubmissionCorrected)] == ["GPL-3.0-only"]


def test_rules_are_shown_before_they_are_applied(season, organizer) -> None:
    """What differs, and what becomes of each row; rules that decide what is played cannot be applied."""
    change_rules(season, on_finding="flag")
    text = organizer.get("/organize/rules/").content.decode()
    assert "<code>on_finding</code>" in text
    assert "defence_chance" in text
    change_rules(season, on_missing="ask")
    text = organizer.get("/organize/rules/").content.decode()
    assert "rules.on_missing decide what is played" in text
    assert "Put it on the record" not in text


def test_the_page_of_bundles_shows_no_place_on_the_server(contest) -> None:
    """Neither what keeps one from being published, nor a bundle that is there, names a folder of the machine."""
    organizer = browser_with(contest, "Olga", Role.ORGANIZER)
    (contest / "published" / "sealed-1").mkdir(parents=True)
    page = organizer.get("/organize/publish/").content.decode()
    assert "there is nothing to publish" in page
    assert ">sealed-1.zip</a>" in page
    assert "sparring verify sealed-1 --key sha256:" in page
    assert [each for each in (str(contest.parent), "published/") if each in page] == []


@pytest.mark.slow
def test_a_sealed_bundle_is_offered_to_everybody(season, organizer, tmp_path) -> None:
    """As one zip, whose files are those of the bundle; a full one, which shows labels, to organizers alone."""
    page = organizer.get("/organize/publish/")
    assert "the final round of quarters was not played" in page.content.decode()
    organizer.post("/organize/publish/", hidden_fields(page) | {"name": "sealed-1"})
    data = organizer.get("/organize/publish/sealed-1.zip").getvalue()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
    folder = season / "published" / "sealed-1"
    assert names == {str(file.relative_to(folder.parent)) for file in folder.rglob("*") if file.is_file()}
    visitor = client_of()
    assert visitor.get("/organize/publish/sealed-1.zip").status_code == 302
    assert 'href="/downloads/sealed-1.zip"' in visitor.get("/downloads/").content.decode()
    assert visitor.get("/downloads/sealed-1.zip").getvalue() == data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # as the page says: unpacked, and verified with the key
        archive.extractall(tmp_path / "unpacked")
    key = re.search(r"sparring verify FOLDER --key (sha256:\w+)", visitor.get("/downloads/").content.decode())[1]
    verified = CliRunner().invoke(app, ["verify", str(tmp_path / "unpacked" / "sealed-1"), "--key", key])
    assert (verified.exit_code, "integrity only" in verified.output) == (0, False)
    full = {"name": "full-1", "unfinished": "on"}
    form = hidden_fields(organizer.get("/organize/publish/"))
    assert organizer.post("/organize/publish/", form | full).status_code == 302
    assert organizer.get("/organize/publish/full-1.zip").getvalue() not in (b"", data)
    assert "full-1" not in visitor.get("/downloads/").content.decode()
    assert visitor.get("/downloads/full-1.zip").status_code == 404
    for name in ("sealed-2", "..", "key"):
        assert organizer.get(f"/organize/publish/{name}.zip").status_code == 404


def test_an_announcement_is_looked_at_first(season, organizer) -> None:
    """The first click shows it as everybody will see it, and can be taken back to change it."""
    form = hidden_fields(organizer.get("/organize/announce/")) | {"title": "Soon", "text": "One.\n\nTwo\nthree."}
    page = organizer.post("/organize/announce/", form | {"step": "look"})
    assert '<p dir="auto">Two<br>three.</p>' in page.content.decode()
    assert hidden_fields(page)["text"] == form["text"]
    page = organizer.post("/organize/announce/", form | {"step": "change"}).content.decode()
    assert "One.\n\nTwo\nthree.</textarea>" in page
    assert not acts(season, contest_events.ContestAnnounced)
    assert organizer.post("/organize/announce/", form | {"step": "publish"}).status_code == 302
    assert '<p dir="auto">Two<br>three.</p>' in organizer.get("/").content.decode()


def test_the_last_organizer_stays(season, organizer) -> None:
    """Somebody has to be left who can let others in; with a second one, the first may go."""
    address = f"/organize/people/organizer/{organizer.person}/revoke/"
    form = hidden_fields(organizer.get(address)) | {"reason": "I leave"}
    answer = organizer.post(address, form)
    assert answer.status_code == 409
    assert "this is the last organizer" in answer.content.decode()
    give_role(season, make_account("Eve"), Role.ORGANIZER)
    assert organizer.post(address, form)["Location"] == "/"
    assert organizer.get("/organize/").status_code == 403


def test_an_invitations_link_is_shown_once(season, organizer) -> None:
    """Whoever opens it has the role, noted in the name of who invited; a link can be made worthless."""
    page = organizer.get("/organize/people/")
    organizer.post("/organize/people/", hidden_fields(page) | {"role": "board"})
    link = re.search(
        r"<code>(http[^<]*/invitations/[^<]*)</code>", organizer.get("/organize/people/").content.decode()
    )[1]
    again = organizer.get("/organize/people/").content.decode()
    assert link not in again
    assert "a member of the review board" in again
    guest = browser_with(season, "Grace")
    assert guest.post(link.partition(":8000")[2]).status_code == 302
    [_, granted] = acts(season, contest_events.RoleGranted)
    assert (granted.actor, granted.person.id, granted.role) == (organizer.person, guest.person, Role.BOARD)
    organizer.post("/organize/people/", hidden_fields(page) | {"role": "organizer"})
    page = organizer.get("/organize/people/").content.decode()
    link = re.search(r"<code>(http[^<]*/invitations/[^<]*)</code>", page)[1]
    organizer.post(re.search(r'action="(/organize/people/invitations/\d+/withdraw/)"', page)[1])
    assert guest.get(link.partition(":8000")[2]).status_code == 404


def test_the_ledger_names_people_and_is_read_page_by_page(season, organizer) -> None:
    """The account's name where there is one, the id else; a hundred entries a page, the latest first; by kind."""
    with seasons.administer(season, organizer.person) as admin:
        for number in range(101):
            admin.append_event(
                contest_events.ContestAnnounced(actor=admin.actor, title=f"Number {number}", text="Words")
            )
    first = organizer.get("/organize/ledger/").content.decode()
    assert '<bdi>Ada</bdi></strong> <span dir="auto">announced: Number 100' in first
    assert "Number 0<" not in first
    kind = "/organize/ledger/?kind=contest_announced"
    assert "Number 0<" in organizer.get(f"{kind}&page=2").content.decode()
    second = organizer.get("/organize/ledger/?page=2").content.decode()
    assert '<bdi>desk</bdi></strong> <span dir="auto">entered the team One: P. One' in second
    assert "opened the contest" not in organizer.get(f"{kind}&page=2").content.decode()


def test_a_reason_of_several_lines_is_read_as_one_text(season, organizer) -> None:
    """On the boards, and on the pages of the team: no page shows how its lines end."""
    reason = {"reason": "It slept.\r\nOnce an hour.", "once": "a"}
    assert organizer.post("/organize/submissions/attack_honest/disqualify/", reason).status_code == 302
    for page in ("/organize/submissions/", "/teams/one/"):
        text = client_of().get(page).content.decode() if page == "/teams/one/" else organizer.get(page).content.decode()
        assert "It slept. Once an hour." in text
        assert "It slept.\\" not in text


def test_every_kind_of_event_has_its_words() -> None:
    """A kind that is added needs a sentence."""
    assert set(ledger_in_words._WORDS) == set(CoreContestEvent.__args__)


@pytest.mark.parametrize(("arrival", "words"), [("", "refused late of Reds"), ("a" * 16, "had late of Reds")])
def test_a_team_does_not_refuse_its_own_submission(arrival, words) -> None:
    """What came from afar is answered in the name of who handed it in; what came to the desk is refused by the desk."""
    event = contest_events.SubmissionRefused(
        actor="a", name="late", team="Reds", task="quarters", side=None, problems=["no"], arrival=arrival
    )
    assert ledger_in_words.sentence(event, Season(), str).startswith(words)


def test_a_failed_request_says_why(season, organizer) -> None:
    """What the worker met stands beside the round that was asked for."""
    with seasons.administer(season, "worker") as admin:
        request = round_requests.request_round(admin, "initial", "halves")
        round_requests.close_request(admin, request.id, "failed", "the engine does not answer")
    page = organizer.get("/organize/rounds/").content.decode()
    assert "the engine does not answer" in page
    [entry] = [
        each
        for each in ledger_in_words.read_contest_entries(ContestFolder(season))
        if each.kind == "round_request_closed"
    ]
    assert ledger_in_words.sentence(entry.event, Season(), str) == f"gave up the request {request.id}"


def test_a_mistake_in_the_contest_file_takes_no_page_away(season, organizer) -> None:
    """While somebody edits it, pages show what was so before, organizers see what is wrong, and acts are refused."""
    assert organizer.get("/organize/").status_code == 200
    (season / "contest.yaml").write_text("sparring: 1\ncontest: [")
    assert client_of().get("/").status_code == 200
    assert "contest.yaml cannot be read" in organizer.get("/organize/").content.decode()
    for address in ("rules/", "publish/", "promote/"):
        assert organizer.get(f"/organize/{address}").status_code == 200
    address = "/organize/submissions/attack_honest/disqualify/"
    form = hidden_fields(organizer.get(address)) | {"reason": "copied"}
    assert organizer.post(address, form).status_code == 409
    assert not acts(season, contest_events.SubmissionDisqualified)


def test_alarms_and_parked_jobs_are_on_the_first_page(season, organizer) -> None:
    """A baseline that failed, and a submission that waits for another run, stand before everything else."""
    path = season / "rounds" / "initial" / "quarters" / "results.json"
    results = json.loads(path.read_text())
    results["alarms"] = ["fgsm failed on every picture"]
    waiting = {"submission": "attack_honest", "stage": "perturb", "job": "1", "code": "backend", "message": "no engine"}
    path.write_text(json.dumps(results | {"waiting": [waiting]}))
    page = organizer.get("/organize/").content.decode()
    assert "fgsm failed on every picture" in page
    assert 'waits for another run; perturb met backend: <span dir="auto">no engine</span>' in page
