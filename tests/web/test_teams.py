"""Teams: founded, joined, submitting from a browser, and what they see of it, each team for itself."""

import io
import json
import re
import shutil
import zipfile
from datetime import datetime, timedelta

import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.bundles.receipts import verify_receipt
from orchestrator.domain import contest_events
from orchestrator.intake import package_writer
from orchestrator.web.settings import FORM_BYTES, WebSettings
from tests import plain_player
from tests.application.conftest import HOW, Cup
from tests.web.conftest import ADDRESS, client_of, empty_tables, give_role, make_account

HOSTILE = '<b>"One"</b> \u202egnp & {{ 7*7 }}'
WITHDRAWAL = {"reason": "it was the wrong one"}


@pytest.fixture
def cup(contest, tmp_path, monkeypatch) -> Cup:
    """A small contest of eight pictures that is served, its clock in the test's hand; nobody has founded a team."""
    from django.test import override_settings

    from orchestrator.web import contest_site

    cup = Cup(tmp_path / "small").open()
    monkeypatch.setattr(contest_site, "_site", contest_site.ContestSite(cup.folder.path, cup.clock))
    with override_settings(SPARRING=WebSettings(contest=cup.folder.path, address=ADDRESS)):
        yield cup


@pytest.fixture
def ada(cup):
    """Somebody whose team is Rooks."""
    return _founder("Ada", "Rooks")


@pytest.fixture
def bo(cup):
    """Somebody whose team is Knights."""
    return _founder("Bo", "Knights")


@pytest.fixture
def stranger(cup):
    """Somebody in no team."""
    return client_of(make_account("Cy"))


def _founder(name: str, team: str):
    client = client_of(make_account(name))
    assert client.post("/my/", {"team": team}).status_code == 302
    return client


def text_of(answer) -> str:
    """Returns a page."""
    return answer.content.decode()


def season_of(cup):
    """Returns the contest as its ledger tells it."""
    with cup.desk() as desk:
        return desk.season


def package(cup, kind="attack_honest", name="") -> bytes:
    """Returns a packed submission."""
    folder = cup.player(kind, name or kind)
    target = cup.path / f"{name or kind}.sparring.tar"
    target.unlink(missing_ok=True)
    return package_writer.write_package(folder, target).path.read_bytes()


def upload(client, team, data: bytes, file_name="player.tar", task="quarters", **more):
    """Hands a file in."""
    file = io.BytesIO(data)
    file.name = file_name
    return client.post(f"/my/{team}/submit/", {"task": task, "file": file} | more)


def admit(cup, arrival: str):
    """Admits an arrival, as a worker does."""
    from orchestrator.application.contests import arrivals

    with cup.desk() as desk:
        backend = play_rounds.ready_backend(desk.contest, cup.folder.path.resolve(), HOW)
        with arrivals.hold_arrival(desk, arrival):
            return arrivals.admit_arrival(desk, arrival, backend)


def submit_player(cup, client, team, **more) -> str:
    """Hands a submission in, has it admitted, and returns what it is called."""
    arrival = arrival_in(upload(client, team, package(cup, **more)))
    return admit(cup, arrival).submission


def arrival_in(answer) -> str:
    """Returns the arrival whose page an answer leads to."""
    assert answer.status_code == 302, text_of(answer)
    return re.fullmatch(r"/my/[a-z0-9-]+/arrivals/([0-9a-f]{16})/", answer["Location"])[1]


def test_the_rules_for_people_come_first(ada, stranger) -> None:
    """The page that founds teams says A1, A4 and A5, before there is a team."""
    page = text_of(stranger.get("/my/"))
    assert "You are in no team yet" in page
    assert all(f"<dt>{rule}</dt>" in page for rule in ("A1", "A4", "A5"))


def test_a_form_sent_twice_founds_one_team(cup, ada) -> None:
    """The second time changes nothing, and leads to the same page."""
    before = len(cup.entries())
    assert ada.post("/my/", {"team": "Rooks"}).status_code == 302
    assert len(cup.entries()) == before
    [person] = season_of(cup).teams["Rooks"]
    assert (person.name, person.organizer) == ("Ada", False)
    assert re.fullmatch("person-[0-9a-f]{16}", person.id)


def test_an_organizers_team_gets_no_prize(cup) -> None:
    """Whoever organizes the contest is told before, and the record says so of the person (A5)."""
    from orchestrator.application.contests.roles import grant_role

    account = make_account("Dora")
    with cup.desk() as desk:
        person = contest_events.PersonRecord(id=account.person, name="Dora")
        grant_role(desk, person, contest_events.Role.ORGANIZER)
    client = client_of(account)
    assert "counts as one of the organizing institution" in text_of(client.get("/my/"))
    client.post("/my/", {"team": "House"})
    assert [person.organizer for person in season_of(cup).teams["House"]] == [True]
    assert "no prizes for this team (A5)" in text_of(client.get("/my/house/"))


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        pytest.param("Rooks", 409, "there is a team &#39;Rooks&#39; already", id="the same"),
        pytest.param("rOOKs", 409, "there is a team &#39;Rooks&#39; already", id="in other letters"),
        pytest.param("\u200b", 409, "a character that people can see", id="invisible"),
        pytest.param("", 400, "This field is required", id="none"),
        pytest.param("a\x07b", 400, "control character", id="with a bell"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(cup, ada, stranger, name, status, words) -> None:
    """In the words of the use case, and nobody's team changes."""
    before = season_of(cup).teams
    answer = stranger.post("/my/", {"team": name})
    assert (answer.status_code, words in text_of(answer)) == (status, True), text_of(answer)
    assert season_of(cup).teams == before


def test_names_of_strangers_are_text(cup, stranger) -> None:
    """Markup, templates and direction marks in names of teams and files do nothing."""
    stranger.post("/my/", {"team": HOSTILE})
    team = "b-one-b-gnp-7-7"
    for address in ("/my/", f"/my/{team}/", f"/my/{team}/submit/"):
        page = text_of(stranger.get(address))
        assert "&lt;b&gt;&#34;One&#34;&lt;/b&gt; \\u202egnp &amp; {{ 7*7 }}" in page
        assert "<b>" not in page
        assert "\u202e" not in page
    arrival = arrival_in(upload(stranger, team, b"x", file_name='../<img src=x onerror="x">.zip'))
    page = text_of(stranger.get(f"/my/{team}/arrivals/{arrival}/"))
    assert "<img" not in page
    assert "&lt;img src=x onerror=" in page


@pytest.mark.slow
def test_every_page_of_a_team_is_its_own(cup, ada, bo, stranger) -> None:
    """To another team and a stranger there is no such address; a visitor is asked to sign in."""
    arrival = arrival_in(upload(ada, "rooks", package(cup)))
    submission = admit(cup, arrival).submission
    own = ["", "waiting/", "results/", "submit/", f"arrivals/{arrival}/", f"arrivals/{arrival}/fragment/"]
    own += [f"submissions/{submission}/", f"submissions/{submission}/receipt/"]
    acts = [f"submissions/{submission}/{act}/" for act in ("withdraw", "correct", "appeal")] + ["invitation/"]
    before = len(cup.entries())
    for page in own:
        assert ada.get(f"/my/rooks/{page}").status_code == 200, page
        assert client_of().get(f"/my/rooks/{page}").status_code == 302
    for client in (bo, stranger):
        assert {client.get(f"/my/rooks/{page}").status_code for page in own} == {404}
        assert {client.post(f"/my/rooks/{page}", WITHDRAWAL).status_code for page in acts} == {404}
    # Another team's ids below one's own address.
    for page in (*own[4:], *acts[:3]):
        assert bo.post(f"/my/knights/{page}", WITHDRAWAL).status_code == 404, page
    assert ada.get("/my/nobody/").status_code == 404
    assert len(cup.entries()) == before


def test_an_invitation_says_what_it_binds_to(cup, ada, bo) -> None:
    """The rules for people, what the team and who is invited play, and that an organizer costs it the prize (A5)."""
    submit_player(cup, ada, "rooks")
    submit_player(cup, bo, "knights", kind="defence_honest")
    link = re.search(r"/invitations/[\w-]+/", text_of(ada.post("/my/rooks/invitation/")))[0]
    for client in (client_of(), bo):
        page = text_of(client.get(link))
        assert all(f"<dt>{rule}</dt>" in page for rule in ("A1", "A4", "A5"))
        assert "<bdi>quarters</bdi>: attack" in page
    assert "<bdi>quarters</bdi>: defence" in page
    assert "no prize" not in page.partition("</dl>")[2]
    answer = bo.post(link)
    assert (answer.status_code, "A1" in text_of(answer)) == (409, True)
    give_role(cup.folder.path, dora := make_account("Dora"), contest_events.Role.ORGANIZER)
    assert "counts as one of the organizing institution" in text_of(client_of(dora).get(link))


def test_a_rater_is_told_what_a_team_costs_them(cup, ada) -> None:
    """Before they found one or accept an invitation: who is in a team judges nobody's pictures (C7)."""
    give_role(cup.folder.path, rae := make_account("Rae"), contest_events.Role.RATER)
    link = re.search(r"/invitations/[\w-]+/", text_of(ada.post("/my/rooks/invitation/")))[0]
    for page in ("/my/", link):
        assert "once you are in a team you rate no more" in text_of(client_of(rae).get(page))
        assert "you rate no more" not in text_of(ada.get(page))


def test_an_invitation_is_shown_once(cup, ada, stranger) -> None:
    """The link lets one person in; the page and the database do not have it afterwards."""
    from orchestrator.web.models import Invitation

    answer = ada.post("/my/rooks/invitation/")
    link = re.search(re.escape(ADDRESS) + r"(/invitations/[\w-]+/)", text_of(answer))[1]
    assert answer["Cache-Control"] == "no-store"
    assert link not in text_of(ada.get("/my/rooks/"))
    assert Invitation.objects.get().digest not in link
    assert stranger.post(link).status_code == 302
    assert "Cy" in text_of(ada.get("/my/rooks/"))
    assert stranger.get("/my/rooks/").status_code == 200
    assert ada.get("/my/rooks/invitation/").status_code == 302  # where somebody loads the page again


@pytest.mark.slow
def test_a_file_is_handed_in_and_watched(cup, ada) -> None:
    """It waits, each step is shown, and it ends with a receipt; the browser is told when nothing more comes."""
    cup.trial_pictures = 10
    cup.write()
    page = text_of(ada.get("/my/rooks/submit/"))
    assert "3 of 3 (A4)" in page
    assert f"sparring submit --to {ADDRESS} --team Rooks --task TASK FILE" in page
    cup.wait(minutes=1)
    arrival = arrival_in(upload(ada, "rooks", package(cup)))
    address = f"/my/rooks/arrivals/{arrival}/"
    assert f'data-refresh="{address}fragment/" data-seconds="2"' in text_of(ada.get(address))
    assert "1 arrival undecided" in text_of(ada.get("/my/rooks/"))
    waiting = ada.get(f"{address}fragment/")
    assert "It is the next" in text_of(waiting)
    assert ada.get(f"{address}fragment/", HTTP_IF_NONE_MATCH=waiting["ETag"]).status_code == 304

    cup.wait(hours=1)
    submission = admit(cup, arrival).submission
    ended = ada.get(f"{address}fragment/", HTTP_IF_NONE_MATCH=waiting["ETag"])
    assert ended.status_code == 200
    assert "match, hello" in text_of(ended)
    assert ada.get(f"{address}fragment/", HTTP_IF_NONE_MATCH=ended["ETag"]).status_code == 204
    assert "data-refresh" not in text_of(ada.get(address)).split("</head>")[1]

    page = text_of(ada.get(f"/my/rooks/submissions/{submission}/"))
    assert "2026-03-01 12:01:00 UTC" in page  # when it arrived, not when it was admitted
    receipt = ada.get(f"/my/rooks/submissions/{submission}/receipt/")
    assert receipt["Content-Disposition"] == f'attachment; filename="{submission}.json"'
    saved = cup.path / "saved.json"
    saved.write_bytes(receipt.content)
    assert verify_receipt(saved, cup.folder.key().fingerprint).receipt.team == "Rooks"
    assert "2 of 3 (A4)" in text_of(ada.get("/my/rooks/"))


def test_the_same_file_twice_is_one_arrival(cup, ada) -> None:
    """A double click leads to the same page."""
    data = package(cup)
    first = arrival_in(upload(ada, "rooks", data))
    again = upload(ada, "rooks", data)
    assert arrival_in(again) == first
    assert "was not accepted again" in text_of(ada.get(again["Location"]))
    assert list(season_of(cup).arrivals) == [first]


@pytest.mark.slow
def test_submissions_by_form_are_limited_as_at_the_api(cup, ada, bo, monkeypatch) -> None:
    """One bucket a team, however it is filled; looking costs nothing, and what is put off leaves no arrival."""
    from orchestrator.web import rate_limits
    from orchestrator.web.rate_limits import Limit, RequestKind

    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.SUBMISSION, Limit(2, 60, "for this test"))
    taken = [arrival_in(upload(ada, "rooks", package(cup, name=name))) for name in ("first", "second")]
    put_off = upload(ada, "rooks", package(cup, name="third"))
    assert (put_off.status_code, put_off["Retry-After"]) == (429, "30")
    assert list(season_of(cup).arrivals) == taken
    assert ada.get("/my/rooks/submit/").status_code == 200
    arrival_in(upload(bo, "knights", package(cup, name="other")))
    cup.wait(seconds=30)
    arrival_in(upload(ada, "rooks", package(cup, name="third")))


def test_what_stays_in_the_record_is_limited_as_at_the_api(cup, ada, monkeypatch) -> None:
    """Teams and links of one account are counted together, through forms and by however many tokens."""
    from orchestrator.web import rate_limits, tokens
    from orchestrator.web.models import Account
    from orchestrator.web.rate_limits import Limit, RequestKind
    from tests.web.api_client import Api

    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.ACT, Limit(4, 3600, "for this test"))
    account, lifetime = Account.objects.get(email="ada@example.org"), timedelta(days=1)
    issued = [tokens.issue(account, name, tokens.Scope.SUBMIT, now=cup.time, lifetime=lifetime) for name in "xy"]
    programs = [Api(account, token) for token in issued]
    assert ada.post("/my/", {"team": "Bishops"}).status_code == 302
    assert ada.post("/my/rooks/invitation/").status_code == 200
    assert [each.post("/invitations", {"team": "Rooks"}).status_code for each in programs] == [201, 201]
    assert [each.post("/teams", {"team": "Kings"}).status_code for each in programs] == [429, 429]
    for address, said in {"/my/": {"team": "Kings"}, "/my/rooks/invitation/": {}}.items():
        assert ada.post(address, said).status_code == 429
    assert "Kings" not in season_of(cup).teams


def test_a_wrong_archive_is_refused_with_everything(cup, ada) -> None:
    """With what intake says of it, and the remedy; no try is used up."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("player.py", "print()")
    arrival = arrival_in(upload(ada, "rooks", data.getvalue(), "player.zip"))
    ended = admit(cup, arrival)
    assert ended.outcome == "refused"
    page = text_of(ada.get(f"/my/rooks/arrivals/{arrival}/"))
    assert "Refused, and no try used up" in page
    assert "submission.yaml" in page
    assert '<span class="step failed">failed</span>' in page
    page = text_of(ada.get("/my/rooks/"))
    assert "player.zip" in page
    assert "3 of 3 (A4)" in page


def test_what_is_too_large_is_not_kept(cup, ada, monkeypatch) -> None:
    """Neither where the request says so, with 413, nor where it is larger than it said."""
    from orchestrator.web import form_uploads

    answer = ada.post("/my/rooks/submit/", {"task": "quarters"}, CONTENT_LENGTH=str(FORM_BYTES + 10**6))
    assert answer.status_code == 413
    assert "sparring submit" in text_of(answer)
    monkeypatch.setattr(form_uploads, "FORM_BYTES", 1000)
    monkeypatch.setattr(form_uploads, "_FORM_OVERHEAD", 10**6)
    answer = upload(ada, "rooks", b"x" * 200_000)
    assert answer.status_code == 400
    assert not season_of(cup).arrivals
    assert not list(cup.folder.path.glob("arrivals/*"))


def test_what_comes_late_is_not_kept(cup, ada) -> None:
    """The page says so before; who sends it all the same is told why, and nothing stays."""
    data = package(cup)
    cup.more["closes"] = (cup.time + timedelta(hours=1)).isoformat()
    cup.write()
    assert "The time at which the last byte arrives counts" in text_of(ada.get("/my/rooks/submit/"))
    cup.wait(hours=1)
    page = text_of(ada.get("/my/rooks/submit/"))
    assert "Nothing is received any more" in page
    assert 'type="file"' not in page
    answer = upload(ada, "rooks", data)
    assert answer.status_code == 409
    said = "submissions closed at 2026-03-01T13:00:00+00:00, and this came at 2026-03-01T13:00:00.000+00:00"
    assert said in text_of(answer)
    assert not season_of(cup).arrivals


def test_what_came_in_time_is_admitted_after_the_close(cup, ada) -> None:
    """Its page says when it arrived, and two days later that it was received."""
    data = package(cup, "attack_noop")
    cup.more["closes"] = (cup.time + timedelta(hours=1)).isoformat()
    cup.write()
    cup.wait(minutes=59)
    arrival = arrival_in(upload(ada, "rooks", data))
    cup.wait(days=2)
    assert "2026-03-01 12:59" in text_of(ada.get(f"/my/rooks/arrivals/{arrival}/"))
    assert admit(cup, arrival).outcome == "received"
    page = text_of(ada.get(f"/my/rooks/arrivals/{arrival}/"))
    assert ("2026-03-01 12:59" in page, "Received" in page) == (True, True)


def test_a_hand_in_waits_for_no_report(cup, ada, monkeypatch) -> None:
    """Results that are computed again take minutes; what came before the close would be noted after it."""
    from orchestrator.application.contests import report_writer

    data = package(cup)
    closes = cup.time + timedelta(hours=1)
    cup.more["closes"] = closes.isoformat()
    cup.write()
    monkeypatch.setattr(report_writer, "update_reports", lambda _: cup.wait(hours=2))
    arrival = arrival_in(upload(ada, "rooks", data))
    assert datetime.fromisoformat(season_of(cup).arrivals[arrival].time) < closes


def test_a_full_disk_takes_no_file_from_a_form(cup, ada, monkeypatch) -> None:
    """The reserve that uploads in parts leave free is left by forms too, and nothing is kept."""
    from orchestrator.web import uploads

    class Usage:
        free = uploads.RESERVED_BYTES - 1

    data = package(cup)
    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _: Usage)
    answer = upload(ada, "rooks", data)
    assert (answer.status_code, "has no space for it" in text_of(answer)) == (409, True)
    assert not season_of(cup).arrivals
    assert not list(cup.folder.path.glob("arrivals/*"))


def test_an_image_is_named_by_its_digest(cup, ada) -> None:
    """One with a digest arrives; a tag alone is refused, with everything else that is wrong."""
    digest = "sha256:" + "ab" * 32
    said = {
        "task": "quarters",
        "side": "attack",
        "name": "rook",
        "image": f"reg.example.org/r@{digest}",
    }
    assert 'href="/my/rooks/submit/image/"' in text_of(ada.get("/my/rooks/submit/"))
    assert 'name="image"' in text_of(ada.get("/my/rooks/submit/image/"))
    arrival = arrival_in(ada.post("/my/rooks/submit/image/", said))
    assert digest in text_of(ada.get(f"/my/rooks/arrivals/{arrival}/"))
    answer = ada.post("/my/rooks/submit/image/", said | {"image": "example.org/r:latest", "name": "No Name"})
    assert answer.status_code == 409
    page = text_of(answer)
    assert "@sha256:" in page
    assert "is no name" in page
    assert len(season_of(cup).arrivals) == 1


def test_rules_are_said_before_they_hurt(cup, ada) -> None:
    """Who attacks a task is told on the form that the team cannot defend there (A1)."""
    submit_player(cup, ada, "rooks")
    page = text_of(ada.get("/my/rooks/submit/"))
    assert "Ada already plays attack on quarters; nobody plays both sides (A1)" in page


@pytest.mark.slow
def test_a_submission_is_withdrawn_and_corrected(cup, ada) -> None:
    """Each with a reason, each an act of the person in the ledger; what was done already is refused in words."""
    submission = submit_player(cup, ada, "rooks")
    address = f"/my/rooks/submissions/{submission}/"
    assert (
        ada.post(f"{address}correct/", {"licence": "MIT", "source": "https://example.org", "reason": "x"}).status_code
        == 400
    )
    page = text_of(ada.get(address))
    assert {f'href="{address}{act}/"' in page for act in ("correct", "withdraw")} == {True}
    assert "<form" not in page.split("<main")[1]
    assert "You cannot undo this." in text_of(ada.get(f"{address}withdraw/"))
    said = {"licence": "Apache-2.0", "source": "https://example.org", "reason": "it was named wrong"}
    assert ada.post(f"{address}correct/", said).status_code == 302
    assert ada.post(f"{address}withdraw/", {"reason": ""}).status_code == 400
    assert ada.post(f"{address}withdraw/", WITHDRAWAL).status_code == 302
    again = ada.post(f"{address}withdraw/", WITHDRAWAL)
    assert (again.status_code, "withdrawn already" in text_of(again)) == (409, True)
    corrected, withdrawn = (entry.event for entry in cup.entries()[-2:])
    assert (corrected.licence, corrected.source) == ("Apache-2.0", None)
    assert isinstance(withdrawn, contest_events.SubmissionWithdrawn)
    [person] = season_of(cup).teams["Rooks"]
    assert {corrected.actor, withdrawn.actor} == {person.id}
    page = text_of(ada.get(address))
    assert "it was the wrong one" in page
    assert "Apache-2.0" in page
    assert f"{address}withdraw/" not in page
    page = text_of(ada.get(f"{address}withdraw/"))
    assert "This is not possible: it is withdrawn." in page
    assert "<form" not in page.split("<main")[1]


@pytest.fixture
def accused(cup, ada, bo) -> str:
    """A defence of the Rooks that answers by chance, which a round found out."""
    cup.more["replay"] = {"power": 0.9, "cheat": 0.3}
    cup.write()
    folder = cup.player("defence_chance")
    for file in plain_player.FILES:
        shutil.copy(file, folder)
    target = package_writer.write_package(folder, cup.path / "chance.sparring.tar").path
    submission = admit(cup, arrival_in(upload(ada, "rooks", target.read_bytes()))).submission
    submit_player(cup, bo, "knights")
    cup.play("initial")
    return submission


def test_a_team_sees_its_results_and_appeals(cup, ada, bo, accused) -> None:
    """Scores, what is public of a finding, and an appeal that is filed once; the other team sees none of it."""
    [finding] = json.loads((cup.folder.round("initial", "quarters").path / "results.json").read_text())["findings"]
    page = text_of(ada.get("/my/rooks/results/"))
    assert "disqualified" in page
    assert "For this team alone" in page
    address = f"/my/rooks/submissions/{accused}/"
    page = text_of(ada.get(address))
    label = "initial-quarters-finding-1"
    assert label in page
    assert finding["id"] not in page  # it follows from hidden data
    saved = ada.get(f"{address}findings/{label}/").json()
    assert (saved["submission"], saved["disagreements"], saved["sequence"]) == (accused, [], [])
    assert finding["id"] not in json.dumps(saved)
    assert ada.get(f"{address}findings/other/").status_code == 404

    said = {"about": label, "text": "Our server\nwas <warm>."}
    assert f'href="{address}appeal/"' in page
    assert f'value="{label}"' in text_of(ada.get(f"{address}appeal/"))
    assert ada.post(f"{address}appeal/", said | {"about": "other"}).status_code == 400
    assert ada.post(f"{address}appeal/", said).status_code == 302
    again = ada.post(f"{address}appeal/", said)
    assert again.status_code == 409
    [appeal] = season_of(cup).appeals.values()
    assert (appeal.team, appeal.submission, appeal.finding) == ("Rooks", accused, finding["id"])
    from orchestrator.application.contests.appeals import decide_appeal

    with cup.desk() as desk:
        decide_appeal(desk, appeal.id, "the machine was cold", upheld=False)
    assert f"{address}appeal/" not in text_of(ada.get(address))  # nothing is left to appeal against
    page = text_of(ada.get("/my/rooks/"))
    assert "<br>was &lt;warm&gt;.</p>" in page
    assert "the machine was cold" in page
    assert finding["id"] not in page
    theirs = text_of(bo.get("/my/knights/")) + text_of(bo.get("/my/knights/results/"))
    assert accused not in theirs
    assert "the machine was cold" not in theirs


def test_a_log_is_shown_with_its_step() -> None:
    """Lines of a builder belong to their step; what failed and was received all the same is a warning."""
    from orchestrator.application.contests.admission_steps import AdmissionStep
    from orchestrator.web.pages.submissions import shown_steps

    steps = [
        AdmissionStep("", "archive", True),
        AdmissionStep("", "build", None, "FROM base"),
        AdmissionStep("", "build", None, "COPY . /"),
    ]
    going_on = shown_steps(steps, received=False)
    assert [(step.name, step.state) for step in going_on] == [("archive", "passed"), ("build", "going on")]
    assert going_on[1].lines == ("FROM base", "COPY . /")
    steps += [AdmissionStep("", "build", True), AdmissionStep("", "match, replay", False, "", "2 differ", "fix seeds")]
    ended = shown_steps([*steps, AdmissionStep("", "outcome", True, "received as x")], received=True)
    assert [(step.name, step.state) for step in ended[1:]] == [("build", "passed"), ("match, replay", "warned")]
    assert ended[1].lines == ("FROM base", "COPY . /")


def test_pictures_are_handed_in_where_the_format_takes_them(service, tmp_path) -> None:
    """The form then takes an archive of pictures and a name, no image and no side, and counts tries by day (C9)."""
    from django.test import override_settings

    from orchestrator.application.contests import seasons

    folder = tmp_path / "set"
    seasons.create_contest(folder, "attack_set")
    empty_tables()
    with override_settings(SPARRING=WebSettings(contest=folder, address=ADDRESS)):
        client = _founder("Ada", "Rooks")
        page = text_of(client.get("/my/rooks/submit/"))
        assert "An archive of pictures" in page
        assert "today in UTC (C9)" in page
        assert 'value="image"' not in page
        task = re.search(r'name="task" value="([^"]+)"', page)[1]
        arrival = arrival_in(upload(client, "rooks", b"PK\x03\x04", "mine.zip", task, name="mine"))
        assert "attack" not in text_of(client.get(f"/my/rooks/arrivals/{arrival}/")).split("<h1")[1].split("</dl>")[0]
