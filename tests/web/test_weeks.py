"""The pages of an unrestricted contest: who may open what, what is hidden until the close, and a case of a conflict."""

import html
import json
import re
from datetime import timedelta

import pytest
from django.test import override_settings
from selenium.webdriver.common.by import By

from orchestrator.application.contests import seasons
from orchestrator.application.contests.roles import grant_role
from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.bundles.receipts import verify_receipt
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.domain.submissions import Side
from orchestrator.formats.unrestricted import events
from orchestrator.web.settings import WebSettings
from tests import chromium, postgresql

from ..formats.unrestricted.simulated_contest import answers
from . import week_world
from .browsing import AXE, SCHEMES, WIDE, Person, Service, serving_here
from .conftest import ADDRESS, acts, empty_tables
from .week_world import PEOPLE, ROLES, SECOND, SIDE, TEAMS, WEEK, WeekWorld, png

PARAMETER = re.compile(r"<(?:\w+):(\w+)>")
OPEN = frozenset({200, 302, 303, 400, 409})
"""What somebody with the right is answered: the page, or what is wrong with a form that holds nothing."""


@pytest.fixture(scope="module")
def made_world(tmp_path_factory):
    """The contest, which nobody changes."""
    return week_world.make(tmp_path_factory.mktemp("weeks") / "cup")


@pytest.fixture
def world(service, made_world, tmp_path):
    """A copy of the contest, served."""
    from orchestrator.web import contest_site

    folder = tmp_path / "cup"
    postgresql.copy_contest(made_world.folder, folder)
    made = WeekWorld(folder, SECOND, dict(made_world.pictures), dict(made_world.appeals))
    empty_tables()
    with override_settings(SPARRING=WebSettings(contest=folder, address=ADDRESS)):
        contest_site.current_site().clock = made.clock
        week_world.people_sign_up()
        yield made


@pytest.fixture
def mails(world):
    """The mails that are sent: each to one person, and none of them names anybody."""
    from django.core import mail

    with override_settings(EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend"):
        mail.outbox = []
        yield mail.outbox
        assert all(len(each.to) == 1 and not each.cc and not each.bcc for each in mail.outbox)
        said = "\n".join(f"{each.subject}\n{each.body}" for each in mail.outbox)
        assert re.findall(r"person-\w+|\S+@\S+", said) == []


def address(world: WeekWorld, page, **instead: str) -> str:
    """Returns the address of a page, of a thing of the foxes."""
    samples = {
        "team": "foxes",
        "week_id": WEEK,
        "picture_id": world.pictures["broken"],
        "token": "0" * 24,
        "case": f"overrule:{world.pictures['broken']}",
    } | instead
    return "/" + PARAMETER.sub(lambda found: samples[found[1]], page.route)


def may_open(name: str, page) -> bool:
    """Returns whether somebody has the right to open a page of the foxes."""
    roles = {"organizer": "organizer", "rater": "rater", "review board": "board"}
    has = {role.value for role, people in ROLES.items() if name in people}
    match page.right.value:
        case "everybody":
            return True
        case "member of the team":
            return name in TEAMS["foxes"]
        case right:
            return roles[right] in has


@pytest.mark.slow
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("name", ["", "Fay", "Oda", "Bo", "Rae", "Org", "Nell"])
def test_every_route_is_opened_by_whom_the_table_says(world, name, method) -> None:
    """A visitor is asked to sign in, another team's page is not there, another role's is refused; nothing is noted."""
    from orchestrator.web.urls import WEEK_PAGES

    before, wrong, client = world.head(), [], world.client(name)
    for page in WEEK_PAGES:
        answer = getattr(client, method)(address(world, page))
        status = answer.status_code
        to_login = status == 302 and answer["Location"].startswith("/account/login/?next=")
        if may_open(name, page):
            good = not to_login and (status in OPEN or (status == 404 and page.name == "judge-picture"))
        elif not name:
            good = to_login
        else:
            good = status == (404 if page.right.value == "member of the team" else 403)
        if not good:
            wrong.append(f"{page.name}: {status}")
    assert wrong == []
    assert world.head() == before


@pytest.mark.slow
def test_nobody_else_sees_a_picture_before_its_week_closes(world) -> None:
    """The team sees it on its pages; on every page of everybody else there is neither its id nor their number (U5)."""
    from orchestrator.web.urls import WEEK_PAGES

    hidden = world.pictures["open"]
    assert hidden in world.client("Fay").get("/my/foxes/pictures/").content.decode()
    for name in ("", "Oda", "Bo", "Rae", "Org"):
        client = world.client(name)
        for page in WEEK_PAGES:
            for picture in (hidden, world.pictures["broken"]):
                answer = client.get(address(world, page, picture_id=picture, case=f"overrule:{picture}"))
                if picture == hidden and "picture_id" in page.route:
                    assert answer.status_code != 200, page.name
                elif "text/html" in answer["Content-Type"] and picture != hidden:
                    assert hidden not in answer.content.decode(), page.name
    assert "not told before the close" in world.client().get("/weeks/").content.decode()


@pytest.mark.slow
def test_a_conflicted_member_finds_no_trace_of_the_case(world) -> None:
    """On every route, with every id, neither the appeal, nor its picture, nor that there is one, is told to b1 (U8)."""
    from orchestrator.web.urls import PAGES, WEEK_PAGES

    from .test_rights import PARAMETER as PARAMETERS

    picture, appeal = world.pictures["kites"], world.appeals["kites"]
    assert f"appeal:{appeal}" in world.client("Bo").get("/board/").content.decode()
    client, seen = world.client("Bea"), 0
    for page in (*PAGES, *WEEK_PAGES):
        for case in (f"appeal:{appeal}", f"overrule:{picture}", f"report:{picture}", f"appeal:{appeal}:bird"):
            samples = {"picture_id": picture, "case": case, "week_id": WEEK, "team": "kites", "slug": "kites"}
            route = PARAMETERS.sub(lambda found: samples.get(found[2], "0" * 16), page.route)  # noqa: B023
            if page.route.startswith("my/<slug:team>/"):
                continue  # those are of the team, which she is in
            answer = client.get(f"/{route}")
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content
            text = body.replace(f"/{route}".encode(), b"").decode(errors="replace")
            assert picture not in text, page.name
            assert appeal not in text, page.name
            seen += answer.status_code == 200
    assert seen > 10
    assert "Appeals" not in client.get("/board/").content.decode()
    assert client.get(f"/pictures/{picture}/file/").status_code == 404


def test_no_name_of_a_team_takes_the_cases_from_the_board(world) -> None:
    """Each team waits for its admission under a link of its own, whatever it is called."""
    names = ("a/b", "x/picture", "50%?#&", "é:valid", "a+b", "//")
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        for number, name in enumerate(names):
            admin.add_team(name, [PersonRecord(id=f"p{number}@z.example", name=f"P{number}")])
    client = world.client("Bo")
    page = client.get("/board/")
    assert page.status_code == 200
    for name in names:
        [link] = re.findall(rf'href="([^"]*)"><bdi>{re.escape(html.escape(name))}</bdi>', page.content.decode())
        assert f"<h1><bdi>May {html.escape(name)} attack" in client.get(html.unescape(link)).content.decode(), link


def test_a_recused_member_cannot_vote_by_the_form(world) -> None:
    """A form that b1 sends to the case is answered as if there were none, and no vote is noted."""
    case = f"/board/cases/appeal:{world.appeals['kites']}/"
    question = f"appeal:{world.appeals['kites']}:invalid"
    answer = world.client("Bea").post(case, {"for": question})
    assert answer.status_code == 404
    assert [each for each in acts(world.folder, events.VoteCast) if each.question == question] == []


@pytest.mark.slow
def test_a_team_hands_in_a_picture_and_gets_a_genuine_receipt(world, tmp_path) -> None:
    """The receipt is signed by the contest's key; the same file again is the same picture; a JPEG is refused."""
    from django.core.files.uploadedfile import SimpleUploadedFile

    client = world.client("Fay")

    def send(data: bytes):
        return client.post("/my/foxes/pictures/", {"file": SimpleUploadedFile("a.png", data)})

    assert send(png(77)).status_code == 302
    picture = acts(world.folder, events.PictureReceived)[-1].picture
    assert send(png(77)).status_code == 302
    assert acts(world.folder, events.PictureReceived)[-1].picture == picture
    refused = send(b"\xff\xd8\xff\xe0 no picture")
    assert (refused.status_code, "save it as PNG" in refused.content.decode()) == (409, True)
    file = tmp_path / "receipt.json"
    file.write_bytes(client.get(f"/my/foxes/pictures/{picture}/receipt/").content)
    found = verify_receipt(file).receipt
    assert (found.submission, found.attempt, found.attempts_left) == (picture, 2, 8)
    ledger_entry = json.loads(file.read_bytes())["entry"]
    assert ledger_entry == len(acts(world.folder, object))


def program(world, name: str):
    """Returns somebody's programs: a function that sends a request to the API with their token."""
    from django.test import Client

    from orchestrator.web import tokens
    from orchestrator.web.models import Account

    account, day = Account.objects.get(person=PEOPLE[name]), timedelta(days=1)
    token = tokens.issue(account, "laptop", tokens.Scope.SUBMIT, now=world.now, lifetime=day)
    client = Client(HTTP_HOST="127.0.0.1:8000", headers={"Authorization": f"Bearer {token}"})

    def send(path: str, data: bytes | dict[str, str] | None = None):
        address, kind = f"/api/v1{path}", "image/png" if isinstance(data, bytes) else "application/json"
        return client.get(address) if data is None else client.post(address, data, content_type=kind)

    return send


@pytest.mark.slow
def test_programs_hand_in_pictures_and_read_weeks(world) -> None:
    """A new picture is 201 and the same again 200; a receipt is for its team, and an open week has no pictures."""
    send = program(world, "Fay")
    first = send("/pictures?team=foxes", png(78))
    assert (first.status_code, send("/pictures?team=foxes", png(78)).status_code) == (201, 200)
    picture = first.json()["id"]
    assert picture in [each["id"] for each in send("/pictures?team=foxes").json()]
    assert send(f"/pictures/{picture}/receipt").json()["submission"] == picture
    others = program(world, "Oda")
    assert others(f"/pictures/{picture}/receipt").status_code == 404
    assert others("/pictures?team=foxes", png(79)).status_code == 404
    assert others("/pictures?team=owls", png(79)).status_code == 409
    assert [each["pictures"] for each in others("/weeks").json()] == [None, 5]
    assert (others("/weeks/2027-W04/pictures").status_code, len(others(f"/weeks/{WEEK}/pictures").json())) == (404, 5)


def test_programs_appeal_against_a_ruling(world, mails) -> None:
    """The owls object to the picture that breaks d1, once; the board is told; it is nobody else's to object to."""
    path, text = f"/pictures/{world.pictures['broken']}/appeals", {"text": "It is a model bird."}
    send = program(world, "Oda")
    assert send(f"{path}?team=owls", {"text": ""}).status_code == 422
    done = send(f"{path}?team=owls", text)
    assert done.status_code == 201, done.content
    [filed] = [each for each in acts(world.folder, events.PictureAppealed) if each.appeal == done.json()["appeal"]]
    assert (filed.team, filed.picture, filed.text) == ("owls", world.pictures["broken"], text["text"])
    assert all(filed.appeal in each.body for each in mails if "An appeal waits" in each.subject)
    assert send(f"{path}?team=owls", text).status_code == 409
    assert program(world, "Kim")(f"{path}?team=owls", text).status_code == 404
    assert send(f"/pictures/{world.pictures['kites']}/appeals?team=owls", text).status_code == 404


def test_programs_of_a_conflicted_member_find_no_trace(world) -> None:
    """With the token of b1 the picture of the appeal is in no week, and is not counted."""
    send, picture = program(world, "Bea"), world.pictures["kites"]
    for path in ("/weeks", f"/weeks/{WEEK}/pictures"):
        assert picture not in send(path).content.decode()
    counts = [program(world, name)("/weeks").json()[1]["pictures"] for name in ("Bea", "Bo")]
    assert counts[0] < counts[1] == 5


@pytest.mark.slow
def test_a_rater_is_asked_by_lease_and_the_ruling_is_mailed(world, mails) -> None:
    """Three raters answer about the same picture; the fourth look finds nothing; its team gets a mail with the end."""
    waits = world.pictures["waits"]
    sent = {
        "presence.bird": "definitely_yes",
        "presence.bicycle": "definitely_no",
        "box.left": "0",
        "box.top": "0",
        "box.right": str(SIDE),
        "box.bottom": str(SIDE),
        "statements.complete": "true",
        "statements.unoccluded": "true",
        "statements.real": "true",
        "step": "object",
    }
    for name in ROLES[next(role for role in ROLES if role.value == "rater")]:
        client = world.client(name)
        page = client.get("/judge/").content.decode()
        assert waits not in page
        [token] = re.findall(r'name="lease" value="(\w+)"', page)
        assert client.get(f"/judge/pictures/{token}/")["Content-Type"] == "image/png"
        assert client.post("/judge/", sent | {"lease": token}).status_code == 303
        assert client.get(f"/judge/pictures/{token}/").status_code == 404
        assert "Nothing waits for you" in client.get("/judge/").content.decode()
    assert [each.picture for each in acts(world.folder, events.PictureRated)][-3:] == [waits] * 3
    [told] = [each for each in mails if waits in each.body]
    assert told.to == ["fay@fay.example"]
    assert "appealed against until" in told.body


@pytest.mark.slow
def test_a_rater_practises_first_and_is_tested_later(world, monkeypatch) -> None:
    """Public pictures are practice, with a word on each; then they hide, who is wrong about them is not asked on."""
    from orchestrator.application.grading import picture_raters

    drawn = picture_raters.next_test
    monkeypatch.setattr(picture_raters, "next_test", lambda rules, record, known, _: drawn(rules, record, known, 0))
    file = json.loads((world.folder / "contest.yaml").read_text())
    file["task"]["sample"] = file["task"]["dataset"] | {"split": "train"}
    file["rules"] |= {"raters": {"practice_items": 1, "hidden_minimum": 2}}
    (world.folder / "contest.yaml").write_text(json.dumps(file))
    rae, said = world.client("Rae"), {"presence.bird": "definitely_no", "presence.bicycle": "definitely_no"}
    pages = []
    for _ in range(3):
        page = rae.get("/judge/").content.decode()
        [token] = re.findall(r'name="lease" value="(\w+)"', page)
        assert rae.get(f"/judge/pictures/{token}/")["Content-Type"] == "image/png"
        assert rae.post("/judge/", said | {"lease": token, "step": "presence"}).status_code == 303
        pages.append(page)
    last = rae.get("/judge/").content.decode()
    assert ["Practice: " in page for page in pages] == [True, False, False]
    assert ["Not so: the picture shows" in page for page in (*pages, last)] == [False, True, False, False]
    assert [each.practice for each in acts(world.folder, events.RaterTested)] == [True, False, False]
    assert "You get no more pictures" in last
    assert "gets no more pictures" in world.client().get("/weeks/").content.decode()
    assert "sha256:" not in "".join(pages)


def test_no_more_raters_are_asked_than_are_missing(world) -> None:
    """While three raters have a picture, a fourth is asked about none."""
    from orchestrator.application.grading.picture_raters import AskedItem
    from orchestrator.web import leases

    item = AskedItem("0" * 16, "", 3)
    tokens = [leases.take(f"r{number}", [item]) for number in range(4)]
    assert [each is None for each in tokens] == [False, False, False, True]
    assert leases.take("r0", [item]) == tokens[0]
    leases.give_back("r0")
    assert leases.take("r3", [item]) is not None


def test_the_board_decides_an_appeal_on_its_pages(world) -> None:
    """Two members read the appeal and vote, one notes the decision; then its reason is public, and the case is gone."""
    case = f"/board/cases/appeal:{world.appeals['kites']}/"
    question = f"appeal:{world.appeals['kites']}:invalid"
    decide = {"decide": question, question: "Drawings are no photographs."}
    assert "It is a drawing." in world.client("Bo").get(case).content.decode()
    early = world.client("Bo").post(case, decide)
    assert (early.status_code, "have to" in early.content.decode()) == (409, True)
    for name in ("Bo", "Bix"):
        assert world.client(name).post(case, {"for": question}).status_code == 302
    assert world.client("Bix").post(case, decide).status_code == 302
    [ruled] = acts(world.folder, events.AppealRuled)
    assert (ruled.class_name, ruled.vote.recused) == (None, {"b1": "person (kites)"})
    assert world.client("Bo").get(case).status_code == 404
    public = world.client().get(f"/pictures/{world.pictures['kites']}/").content.decode()
    assert "Drawings are no photographs." in public
    assert "not valid, decided on an appeal<" in public
    assert "It is a drawing." not in public


def test_what_a_team_and_the_board_write_is_shown_whole(world) -> None:
    """Line by line: an appeal takes 10,000 characters, and a page cuts one text off after 2,000."""
    lines = [f"{number}: " + "It is a model bird. " * 60 for number in range(8)]
    page = f"/my/owls/pictures/{world.pictures['broken']}/"
    assert world.client("Oda").post(page, {"text": "\r\n\r\n".join(lines)}).status_code == 302
    appeal = acts(world.folder, events.PictureAppealed)[-1].appeal
    case, question = f"/board/cases/appeal:{appeal}/", f"appeal:{appeal}:bird"
    told = world.client("Bix").get(case).content.decode()
    assert [each for each in lines if f'<p dir="auto">{each.rstrip()}' not in told] == []
    for name in ("Bo", "Bix"):
        assert world.client(name).post(case, {"for": question}).status_code == 302
    decide = {"decide": question, question: "It is alive.\r\nTwo of us know it."}
    assert world.client("Bix").post(case, decide).status_code == 302
    told = world.client().get(f"/pictures/{world.pictures['broken']}/").content.decode()
    assert "It is alive.<br>Two of us know it." in told
    assert "\\r" not in told


def decide_for(world, case: str, question: str) -> None:
    """Has b2 and b3 vote for the answer to a question, and b2 note it."""
    for name in ("Bo", "Bix"):
        voted = world.client(name).post(case, {"for": question})
        assert voted.status_code == 302
    noted = world.client("Bo").post(case, {"decide": question, question: "As it is."})
    assert noted.status_code == 302


def test_a_panel_decides_an_appeal(world) -> None:
    """The case says that raters are asked; then who appealed still finds the picture, with the panel's reason."""
    appeal, picture = world.appeals["kites"], world.pictures["kites"]
    case = f"/board/cases/appeal:{appeal}/"
    assert "New raters are asked" not in world.client("Bo").get(case).content.decode()
    assert world.client("Bo").post(case, {"panel": "new"}).status_code == 302
    told = world.client("Bix").get(case).content.decode()
    assert ("New raters are asked" in told, "Ask five new raters" in told) == (True, False)
    with open_unrestricted(world.folder) as contest:
        for number in range(4, 9):
            said = {"rater": f"r{number}", "answers": answers(side=SIDE, real=number == 4)}
            contest.propose(events.PictureRated(actor="desk", picture=picture, appeal=appeal, **said), world.now)
        contest.tick(world.now)
    assert world.client("Bo").get(case).status_code == 404
    own = world.client("Kim").get(f"/my/kites/pictures/{picture}/").content.decode()
    assert "<dd>not valid" in own
    assert "The panel finds: invalid." in own
    assert "The panel finds: invalid." in world.client("Fay").get(f"/my/foxes/pictures/{picture}/").content.decode()


def test_a_prize_is_confirmed_and_paid(world) -> None:
    """The defence holds, the board confirms every rejection, and organizers pay: each page says how far it is."""
    from orchestrator.web import contest_site

    contest, own = contest_site.current_site().unrestricted(), world.pictures
    decide_for(world, "/board/cases/stake:d3/", "stake:d3")
    with open_unrestricted(world.folder) as opened:
        rated = [(own["waits"], "r1"), (own["waits"], "r2"), (own["waits"], "r3")]
        for picture, rater in rated:
            said = {"rater": rater, "answers": answers(side=SIDE, real=False)}
            opened.propose(events.PictureRated(actor=rater, picture=picture, **said), world.now)
    for case, question in (
        (f"appeal:{world.appeals['kites']}", f"appeal:{world.appeals['kites']}:bird"),
        (f"report:{own['reported']}", f"report:{own['reported']}:withhold"),
    ):
        decide_for(world, f"/board/cases/{case}/", question)
    world.now += timedelta(days=8)
    contest.tick(world.now)
    week = contest.read(lambda state: state.pictures[own["open"]].week)
    for rater in ("r1", "r2", "r3"):
        said = {"rater": rater, "answers": answers(side=SIDE, real=False)}
        contest.propose(events.PictureRated(actor=rater, picture=own["open"], **said), world.now)
    for name in ("d1", "d2", "d3"):
        given = {own["open"]: "bird"}
        contest.propose(events.AnswersRecorded(actor="desk", defence=name, week=week, answers=given), world.now)
    world.now += timedelta(days=91)
    contest.tick(world.now)
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        grant_role(admin, PersonRecord(id=PEOPLE["Nell"], name="Nell"), Role.BOARD)
    seat = {"person": PEOPLE["Nell"], "member": "b4"}
    assert world.client("Org").post("/organize/weeks/seat/", seat).status_code == 302
    member = world.client("Nell")
    listed = set(re.findall(r"/board/cases/(overrule:\w+)/", member.get("/board/").content.decode()))
    assert listed == {f"overrule:{own[each]}" for each in ("rejected", "waits", "open", "reported")}
    for case in listed:
        confirmed = member.post(f"/board/cases/{case}/", {"confirm": "d3"}, follow=True)
        assert "It is on the record." in confirmed.content.decode()
    contest.tick(world.now)
    assert "500.00 EUR to owls, because of d3" in member.get("/board/").content.decode()
    assert "1 payment owed" in world.client("Org").get("/organize/").content.decode()
    desk = world.client("Org").get("/organize/weeks/").content.decode()
    [payment] = re.findall(r'href="(/organize/weeks/payment/[^"]+)">Record the payment of <bdi>500.00 EUR', desk)
    form = world.client("Org").get(html.unescape(payment)).content.decode()
    assert "Reference of the payment for <bdi>500.00 EUR to owls</bdi>" in form
    [award] = re.findall(r'name="award" value="([^"]+)"', form)
    assert "The award of 500.00 EUR to owls" in member.get(f"/board/cases/withhold:{award}/").content.decode()
    paid = {"award": award, "reference": "by bank, 7/19"}
    assert world.client("Org").post("/organize/weeks/payment/", paid).status_code == 302
    assert "by bank, 7/19" in world.client().get("/money/").content.decode()
    own_page = world.client("Oda").get("/my/owls/submissions/d3/").content.decode()
    assert (
        '<span dir="auto">Paid: the prize of d3 for 90 days</span>: <span dir="auto">by bank, 7/19</span>' in own_page
    )
    assert "It cannot be withdrawn: the prize for 90 days was paid." in own_page
    assert "/withdraw/" not in own_page
    refused = world.client("Oda").post("/my/owls/submissions/d3/withdraw/", {"reason": "We are done with it."})
    assert refused.status_code == 409
    assert "We are done with it." in refused.content.decode()
    assert "Withdraw it…" in world.client("Oda").get("/my/owls/submissions/d1/").content.decode()
    assert "1 payment owed" not in world.client("Org").get("/organize/").content.decode()


def test_who_voted_about_a_picture_is_not_asked_to_confirm_its_rejection(world) -> None:
    """It is not among what they may confirm: another member does, and two pages say where there is none."""
    from orchestrator.web import contest_site

    appeal, picture = world.appeals["kites"], world.pictures["kites"]
    decide_for(world, f"/board/cases/appeal:{appeal}/", f"appeal:{appeal}:invalid")
    decide_for(world, "/board/cases/stake:d3/", "stake:d3")
    world.now += timedelta(days=4)
    contest_site.current_site().unrestricted().tick(world.now)  # as a worker does
    missing, listed = world.client("Bo").get("/board/").content.decode().split("Rejections to confirm")
    assert f"overrule:{world.pictures['rejected']}" in listed
    assert f"overrule:{picture}" not in listed
    assert f"overrule:{picture}" in missing.split("More members are needed")[1]
    case = world.client("Bo").get(f"/board/cases/overrule:{picture}/").content.decode()
    assert "You voted about this picture, so that another member confirms its rejection" in case
    assert "Confirm the rejection" not in case
    desk = world.client("Org").get("/organize/weeks/").content.decode()
    assert f'Invite one more member</a> of the whole board: <bdi class="id">{picture}</bdi>.' in desk
    other = world.client("Bo").get(f"/board/cases/overrule:{world.pictures['rejected']}/").content.decode()
    assert "Confirm the rejection" in other


def test_an_appeal_is_filed_and_mailed_to_who_may_judge_it(world, mails) -> None:
    """The owls appeal against the picture that breaks d1; the members without a conflict are told, once each."""
    picture = world.pictures["broken"]
    assert picture in world.client("Oda").get("/my/owls/pictures/").content.decode()
    page = f"/my/owls/pictures/{picture}/"
    assert world.client("Oda").post(page, {"text": "It is a model bird."}).status_code == 302
    [filed] = [each for each in acts(world.folder, events.PictureAppealed) if each.picture == picture]
    assert {address for each in mails for address in each.to} >= {"bo@bo.example", "bix@bix.example"}
    assert all(filed.appeal in each.body for each in mails if "An appeal waits" in each.subject)
    assert world.client("Oda").post(page, {"text": "Again."}).status_code == 409


def test_a_decided_appeal_and_a_break_are_mailed_once(world, mails) -> None:
    """The board rejects the kites' appeal: they and the foxes are told at once; d1's team when it breaks."""
    from orchestrator.web import contest_site, unrestricted_mails

    case, question = f"/board/cases/appeal:{world.appeals['kites']}/", f"appeal:{world.appeals['kites']}:bird"
    for name in ("Bo", "Bix"):
        world.client(name).post(case, {"for": question})
    world.client("Bo").post(case, {"decide": question, question: "It is a photograph."})
    told = [each for each in mails if "is decided" in each.subject]
    assert {address for each in told for address in each.to} == {
        "fay@fay.example",
        "kim@kim.example",
        "bea@bea.example",
    }
    assert all(world.pictures["kites"] in each.body and "valid: bird" in each.body for each in told)
    mails.clear()
    site = contest_site.current_site()
    world.now += timedelta(days=4)
    site.unrestricted().tick(world.now)  # as a worker does
    for _ in range(2):
        unrestricted_mails.mail_outcomes(site)
    assert sorted((each.subject.partition(": ")[2], *each.to) for each in mails) == [
        ("d1 is broken", "oda@oda.example"),
        ("d2 is broken", "bea@bea.example"),
        ("d2 is broken", "kim@kim.example"),
    ]


def test_a_panel_that_does_not_agree_is_mailed_to_the_board_once(world, mails) -> None:
    """Members without a conflict are told until when they may decide, as the ruling stands afterwards (U8)."""
    from orchestrator.web import contest_site, unrestricted_mails

    appeal, site = world.appeals["kites"], contest_site.current_site()
    assert world.client("Bo").post(f"/board/cases/appeal:{appeal}/", {"panel": "new"}).status_code == 302
    change_address("Bix", "bix@kites.example")
    change_address("Kim", "kim@kites.example")
    with open_unrestricted(world.folder) as contest:
        for number in range(4, 9):
            unrestricted_mails.mail_outcomes(site)
            assert mails == []
            said = {"rater": f"r{number}", "answers": answers(side=SIDE, real=number > 6)}
            rated = events.PictureRated(actor="desk", picture=world.pictures["kites"], appeal=appeal, **said)
            contest.propose(rated, world.now)
    for _ in range(2):
        unrestricted_mails.mail_outcomes(site)
    [told] = mails
    assert told.to == ["bo@bo.example"]
    assert "2027-01-28 09:00 UTC" in told.body
    assert f"/board/cases/appeal:{appeal}/" in told.body
    mails.clear()
    world.now += timedelta(days=3)
    site.unrestricted().tick(world.now)  # the ruling stands
    unrestricted_mails.mail_outcomes(site)
    assert [each.subject for each in mails if "do not agree" in each.subject] == []


def test_a_reported_picture_is_shown_to_the_board_and_withheld(world) -> None:
    """After two votes its pixels are shown to nobody, and its ruling is on its page."""
    picture = world.pictures["reported"]
    case = f"/board/cases/report:{picture}/"
    assert world.client("Bo").get(f"/board/pictures/report:{picture}/")["Content-Type"] == "image/png"
    for name in ("Bo", "Bix"):
        world.client(name).post(case, {"for": f"report:{picture}:withhold"})
    decide = {"decide": f"report:{picture}:withhold", f"report:{picture}:withhold": "Nobody has to see it."}
    assert world.client("Bo").post(case, decide).status_code == 302
    assert world.client().get(f"/pictures/{picture}/file/").status_code == 404
    assert "withheld by the board" in world.client().get(f"/pictures/{picture}/").content.decode()


def test_a_defence_is_staked_with_reasons_and_the_money_is_on_its_page(world) -> None:
    """Votes and a reason stake d3 for 100.00 EUR, which the page of money shows; broken d1 cannot be staked."""
    case = "/board/cases/stake:d3/"
    for name in ("Bo", "Bix"):
        assert world.client(name).post(case, {"for": "stake:d3"}).status_code == 302
    decide = {"decide": "stake:d3", "stake:d3": "Simple to run, and novel."}
    assert world.client("Bo").post(case, decide).status_code == 302
    [staked] = acts(world.folder, events.DefencesStaked)
    assert staked.criteria == {"d3": "Simple to run, and novel."}
    money = world.client().get("/money/").content.decode()
    assert "reserved:d3" in money
    assert "100.00 EUR" in money
    assert world.client("Bo").get("/board/cases/stake:d1/").status_code == 404
    standing = world.client().get("/standing/").content.decode()
    assert "staked" in standing
    assert PEOPLE["Fay"] not in standing


def test_a_week_of_many_pictures_has_several_pages(world, monkeypatch) -> None:
    """Each picture is on one of them, and a page that is none of them shows the first or nothing."""
    from orchestrator.web.pages import weeks

    monkeypatch.setattr(weeks, "PICTURES_PER_PAGE", 2)
    listed = [
        re.findall(
            r'class="id">([0-9a-f]{16})<', world.client().get(f"/weeks/{WEEK}/", {"page": page}).content.decode()
        )
        for page in ("1", "2", "3", "4", "-1")
    ]
    own = [each for what, each in world.pictures.items() if what != "open"]
    assert [*listed[0], *listed[1], *listed[2]] == own
    assert [len(each) for each in listed] == [2, 2, 1, 0, 2]
    assert listed[4] == listed[0]


def test_the_standing_of_another_day_is_shown(world) -> None:
    """`?day=` shows what stood when that day was over; a day before the contest, or none, is told as a fault."""

    def rows(**asked: str) -> tuple[int, str]:
        found = world.client().get("/standing/", asked)
        return found.status_code, found.content.decode()

    status, first_day = rows(day="2027-01-18")
    assert (status, "when 2027-01-18 was over" in first_day, "None yet." in first_day) == (200, True, True)
    assert "foxes" not in first_day
    assert "foxes" in rows(day="2027-01-25")[1]
    assert rows(day="2027-01-17")[0] == 400
    assert rows(day="soon")[0] == 400


def test_organizers_seat_members_and_admit_teams(world) -> None:
    """The desk notes a preprint; a refused act says why."""
    client = world.client("Org")
    desk, page = "/organize/weeks/", "/organize/weeks/admit/"
    assert f'href="{page}?team=owls">Admit <bdi>owls</bdi>' in client.get(desk).content.decode()
    assert "You cannot undo this." in client.get(f"{page}?team=owls").content.decode()
    admit = {"team": "owls", "preprint": "https://arxiv.example/2"}
    assert client.post(page, admit).status_code == 302
    assert acts(world.folder, events.AttackerAdmitted)[-1].team == "owls"
    assert client.post(page, admit).status_code == 409
    assert client.post(page, {"team": "kites"}).status_code == 400
    gone = client.get(f"{page}?team=owls", follow=True)
    assert (gone.redirect_chain[-1][0], "That was done already." in gone.content.decode()) == (desk, True)


def test_organizers_read_who_did_what(world) -> None:
    """Every entry has its line, of whatever the event is made; pictures of the open week are not among them (U5)."""
    answer = world.client("Org").get("/organize/ledger/")
    assert answer.status_code == 200
    text = answer.content.decode()
    told = (
        "moved money by the rules: the accounts of the contest are opened",
        "recorded that the board finds that the code of d1 can be read (in favour: b2, b3; against: nobody)",
        f"submitted the picture {world.pictures['rejected']} for foxes",
        "seated Bea on the review board as b1",
        '<strong><bdi>The rules</bdi></strong> <span dir="auto">opened the week',
        '<option value="unrestricted.week_opened">week opened</option>',
    )
    for words in told:
        assert words in text
    assert "{" not in re.sub(r"<script.*?</script>", "", text)
    assert world.pictures["open"] not in text
    assert text.count("It is a drawing.") == 1


def test_an_organizer_on_the_board_finds_no_case_of_a_conflict(world) -> None:
    """Who did what, and what waits, leave out the appeal of the kites, its picture and the votes about it (U8)."""
    picture, appeal = world.pictures["kites"], world.appeals["kites"]
    question = {"for": f"appeal:{appeal}:bird"}
    assert world.client("Bo").post(f"/board/cases/appeal:{appeal}/", question).status_code == 302
    pages = ("/organize/", "/organize/ledger/", "/organize/weeks/")
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        for name in ("Bea", "Bo"):
            grant_role(admin, PersonRecord(id=PEOPLE[name], name=name), Role.ORGANIZER)
        grant_role(admin, PersonRecord(id=PEOPLE["Nell"], name="Nell"), Role.BOARD)
    declare = {"team": "kites", "source": "declared"}
    assert f"appealed for kites against the ruling on the picture {picture}" in (
        world.client("Bo").get("/organize/ledger/").content.decode()
    )
    assert world.client("Bo").post("/board/conflicts/", declare).status_code == 302  # too few may decide it now
    assert f"<code>appeal:{appeal}</code>" in world.client("Org").get("/organize/weeks/").content.decode()
    seat = {"person": PEOPLE["Nell"], "member": "o1", "case": f"appeal:{appeal}"}
    assert world.client("Org").post("/organize/weeks/seat/", seat).status_code == 302
    assert f"as o1 for the case appeal:{appeal} alone" in world.client("Org").get("/organize/ledger/").content.decode()
    for name in ("Bea", "Bo"):
        seen = "".join(world.client(name).get(each).content.decode() for each in pages)
        assert "opened the contest" in seen
        assert f"submitted the picture {world.pictures['broken']}" in seen
        assert [each for each in (picture, appeal) if each in seen] == []


def test_a_team_reads_how_far_its_defence_is(world) -> None:
    """Its page says the state; the reasons of the board are on the page that everybody reads."""
    page = world.client("Oda").get("/my/owls/submissions/d3/").content.decode()
    assert "published, not staked" in page
    for text in (page, world.client().get("/teams/owls/").content.decode()):
        assert "Found readable" in text
        assert "Plain code." in text
        assert "Tested on the eligibility set: 9 right, 0 wrong, 1 abstained, 0 without an answer" in text


def test_a_refused_defence_says_why(world) -> None:
    """The team reads that the board found its code unreadable, and why: so does everybody."""
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        admin.append_event(
            contest_events.SubmissionReceived(
                actor="desk",
                id="d4",
                name="d4",
                team="owls",
                side=Side.DEFENCE,
                task="digits",
                digest="sha256:d4",
                image="",
                attempt=1,
                attempts_left=0,
                source="https://x.example",
            )
        )
    state = "/my/owls/submissions/d4/"
    assert "the review board votes whether its code can be read" in world.client("Oda").get(state).content.decode()
    for name in ("Bo", "Bix"):
        vote = {"against": "readable:d4"}
        assert world.client(name).post("/board/cases/readable:d4/", vote).status_code == 302
    decide = {"decide": "readable:d4", "readable:d4": "It is packed."}
    assert world.client("Bo").post("/board/cases/readable:d4/", decide).status_code == 302
    assert "refused: not readable: It is packed." in world.client("Oda").get(state).content.decode()
    public = world.client().get("/teams/owls/").content.decode()
    assert "its code cannot be read" in public
    assert "It is packed." in public


def test_nobody_waits_for_organizers_to_play_a_round(world) -> None:
    """A worker asks for the rounds: no page says that defences of other rounds came since, or to ask once more."""
    for page in ("/organize/", "/organize/rounds/"):
        text = world.client("Org").get(page).content.decode()
        assert "eligibility-d1" in text
        assert "came since" not in text
        assert "request it once more" not in text


def test_organizers_see_what_waits_for_them(world) -> None:
    """The first page counts what their page of the board, teams and payments has forms for."""
    assert "may not attack yet" not in world.client("Org").get("/organize/").content.decode()  # the others defend
    newcomers(world)
    text = world.client("Org").get("/organize/").content.decode()
    assert '<a href="/organize/weeks/">1 team that may not attack yet</a>' in text
    assert "without a seat" not in text
    assert (
        'aria-current="page">Board, teams and payments<' in world.client("Org").get("/organize/weeks/").content.decode()
    )


def newcomers(world) -> None:
    """Founds the team of herons, which has submitted nothing."""
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        admin.add_team("herons", [PersonRecord(id=PEOPLE["Nell"], name="Nell")])


def test_a_team_that_defends_does_not_wait_to_be_admitted(world) -> None:
    """The board finds newcomers among what waits, and beside it the teams that defend; it may admit both (U4)."""
    newcomers(world)
    page = world.client("Bo").get("/board/").content.decode()
    waiting, _, beside = page.partition("Teams that defend need no admission.")
    assert ("/board/cases/admit:herons/" in waiting, "/board/cases/admit:owls/" in waiting) == (True, False)
    assert "/board/cases/admit:owls/" in beside
    assert "/board/cases/admit:kites/" not in world.client("Bea").get("/board/").content.decode()  # she is of them
    decide_for(world, "/board/cases/admit:owls/", "admit:owls")
    assert acts(world.folder, events.AttackerAdmitted)[-1].team == "owls"
    assert "admit:owls" not in world.client("Bo").get("/board/").content.decode()


def test_a_ruling_that_is_appealed_against_says_so(world) -> None:
    """Nobody may appeal any more, and the board decides."""
    text = world.client("Fay").get(f"/pictures/{world.pictures['kites']}/").content.decode()
    assert "a team appeals against it, and the review board decides" in text
    assert "appeals until" not in text


def test_the_page_of_a_picture_leads_to_the_appeal(world) -> None:
    """For the team that the ruling hurts; a mail about a ruling leads there. Nobody else has the link."""
    page = f"/pictures/{world.pictures['broken']}/"
    own = f'href="/my/owls/pictures/{world.pictures["broken"]}/"'
    assert own in world.client("Oda").get(page).content.decode()
    for name in ("", "Fay", "Org"):
        assert "Appeal against the ruling" not in world.client(name).get(page).content.decode()


def test_the_form_for_pictures_says_what_it_takes(world) -> None:
    """Grey in a contest of grey pictures, in their size; and nothing before a defence is published."""
    page = world.client("Fay").get("/my/foxes/pictures/").content.decode()
    assert "A PNG of 8 x 8 pixels in grey, of at most 1 MiB." in page
    assert "can be submitted today, by the calendar of Europe/Berlin." in page
    assert 'href="/my/foxes/conflict/"' in page


def test_no_picture_is_asked_for_before_a_defence_is_published(service, tmp_path) -> None:
    """The page says when the first defences are published, in place of a form that is refused."""
    from orchestrator.web import contest_site

    made = week_world.make_first_day(tmp_path / "cup")
    empty_tables()
    with override_settings(SPARRING=WebSettings(contest=made.folder, address=ADDRESS)):
        contest_site.current_site().clock = made.clock
        week_world.people_sign_up()
        page = made.client("Fay").get("/my/foxes/pictures/").content.decode()
    assert "No defence is published yet" in page
    assert "Submit this picture" not in page


def test_the_standing_leads_to_the_source_of_a_defence(world) -> None:
    """A row leads to the page of the team, which has the address of the code and its digest (U3)."""
    standing = world.client().get("/standing/").content.decode()
    for name, page in (("d1", "owls"), ("d2", "kites"), ("foxes", "foxes")):
        assert f'<a href="/teams/{page}/"><bdi>{name}</bdi></a>' in standing
    text = world.client().get("/teams/owls/").content.decode()
    assert "https://x.example" in text
    assert "sha256:d1" in text


@pytest.mark.parametrize(("role", "page"), [("rater", "/judge/"), ("board", "/board/"), ("organizer", "/organize/")])
def test_whoever_accepts_a_role_is_led_to_its_page(world, role, page) -> None:
    """Not to those of contests without weeks, on which nothing would ever wait for them."""
    from orchestrator.web import invitations

    client = world.client("Nell")
    link = invitations.invite(by=PEOPLE["Org"], role=Role(role), now=world.now)
    assert client.post(link, follow=True).redirect_chain[-1][0] == page
    if role == "rater":
        assert client.get("/rate/").headers["Location"] == "/judge/"
    if role == "board":
        assert 'href="/review/"' in world.client("Bo").get("/board/").content.decode()


def test_a_rater_who_is_in_a_team_reads_why_nobody_asks_them(world) -> None:
    """Nothing that they sent was refused: they only opened the page."""
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        admin.add_team("new", [PersonRecord(id=PEOPLE["Rae"], name="Rae")])
    page = world.client("Rae").get("/judge/").content.decode()
    assert "<h1>You are not asked</h1>" in page
    assert "is of the team new" in page
    assert "Nothing waits for you" not in page
    assert "This was not done" not in page


def change_address(name: str, address: str) -> None:
    """Gives somebody another e-mail address."""
    from orchestrator.web.models import Account

    assert Account.objects.filter(person=PEOPLE[name]).update(email=address) == 1


def test_a_member_of_the_same_organization_sees_no_case(world) -> None:
    """Accounts have the addresses, and the ledger what follows from them: b2 is recused before a page is shown (U8)."""
    assert "d3 of owls" in world.client("Bo").get("/board/").content.decode()
    change_address("Oda", "oda@owls.example")
    change_address("Bo", "bo@lab.owls.example")
    assert "d3 of owls" not in world.client("Bo").get("/board/").content.decode()
    assert world.client("Bo").get("/board/cases/stake:d3/").status_code == 404
    assert "d3 of owls" in world.client("Bix").get("/board/").content.decode()
    [noted] = [each for each in acts(world.folder, events.ConflictNoted) if each.source == "organization"]
    assert (noted.member, noted.team) == ("b2", "owls")
    assert "lab.owls.example" not in noted.model_dump_json()
    own = world.client("Bo").get("/board/conflicts/").content.decode()
    assert "<bdi>owls</bdi>: an address of the same organization" in own
    for name in ("Bea", "Bix"):
        link = "/board/conflicts/waive/?member=b2&amp;team=owls"
        assert f'href="{link}"' in world.client(name).get("/board/conflicts/").content.decode()
        assert "b2 and owls" in world.client(name).get(html.unescape(link)).content.decode()
        waive = {"member": "b2", "team": "owls", "reason": "It is another faculty."}
        assert world.client(name).post("/board/conflicts/waive/", waive).status_code == 302
    assert "d3 of owls" in world.client("Bo").get("/board/").content.decode()


def test_programs_of_a_member_of_the_same_organization_find_no_trace(world) -> None:
    """Also where the member never opened a page: the picture is in no week."""
    change_address("Fay", "fay@foxes.example")
    change_address("Bo", "bo@foxes.example")
    send = program(world, "Bo")
    assert send(f"/weeks/{WEEK}/pictures").json() == []


def test_a_member_of_the_same_organization_gets_no_mail_of_an_appeal(world, mails) -> None:
    """Also where the member opened no page since the address is the same."""
    change_address("Oda", "oda@owls.example")
    change_address("Bo", "bo@owls.example")
    page = f"/my/owls/pictures/{world.pictures['broken']}/"
    assert world.client("Oda").post(page, {"text": "It is a model bird."}).status_code == 302
    told = {address for each in mails if "An appeal waits" in each.subject for address in each.to}
    assert "bix@bix.example" in told
    assert "bo@owls.example" not in told


def test_no_conflict_is_chosen_beforehand(world) -> None:
    """A declaration cannot be taken back: a press of the button alone declares none."""
    for name, page in (("Bea", "/board/conflicts/"), ("Oda", "/my/owls/conflict/")):
        client = world.client(name)
        text = client.get(page).content.decode()
        assert text.count('<option value="" selected>Choose</option>') == 2
        assert client.post(page, {"team": "", "member": "", "source": ""}).status_code == 400
    assert all(each.source != "declared" for each in acts(world.folder, events.ConflictNoted))


def test_conflicts_are_said_in_words(world) -> None:
    """On the forms of members and of teams, and in the list of one's own."""
    for client, page in ((world.client("Bea"), "/board/conflicts/"), (world.client("Oda"), "/my/owls/conflict/")):
        text = client.get(page).content.decode()
        assert [each for each in ("another stake", "co-author of the last 48 months") if each not in text] == []
    own = world.client("Bea").get("/board/conflicts/").content.decode()
    assert "<bdi>kites</bdi>: in the team, or was" in own


def test_organizers_seat_somebody_from_outside_for_one_case(world) -> None:
    """Where too few members may vote: the page names the case, and the new member finds that one alone."""
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        grant_role(admin, PersonRecord(id=PEOPLE["Nell"], name="Nell"), Role.BOARD)
    appeal = f"appeal:{world.appeals['kites']}"
    organizer, desk = world.client("Org"), "/organize/weeks/"
    assert appeal not in organizer.get(desk).content.decode()
    declare = {"team": "kites", "source": "declared"}
    assert world.client("Bo").post("/board/conflicts/", declare).status_code == 302
    assert f"<code>{appeal}</code>" in organizer.get(desk).content.decode()
    pages = {name: world.client(name).get("/board/").content.decode() for name in ROLES[Role.BOARD]}
    assert [name for name, page in pages.items() if "More members are needed" in page] == ["Bix"]
    case = world.client("Bix").get(f"/board/cases/{appeal}/").content.decode()
    assert "Too few members may vote on this case" in case
    form, seat = "/organize/weeks/seat/", {"person": PEOPLE["Nell"], "member": "o1"}
    assert f"<code>{appeal}</code>" in organizer.get(f"{form}?person={PEOPLE['Nell']}").content.decode()
    assert organizer.post(form, seat | {"case": "appeal:0"}).status_code == 409
    assert organizer.post(form, seat | {"case": appeal}).status_code == 302
    assert appeal not in organizer.get(desk).content.decode()
    assert f"/board/cases/{appeal}/" in world.client("Nell").get("/board/").content.decode()
    assert "d3 of owls" not in world.client("Nell").get("/board/").content.decode()
    before, declare = world.head(), {"member": "o1", "source": "declared"}
    refused = program(world, "Kim")("/conflicts?team=kites", declare)
    assert (refused.status_code, "tell the organizers" in refused.text) == (409, True)
    assert world.client("Kim").post("/my/kites/conflict/", declare).status_code == 400
    assert world.head() == before


def test_a_seat_ends_where_organizers_take_the_role_away(world) -> None:
    """The page says so before; afterwards the member is neither seated nor asked, and the ledger tells why."""
    organizer, address = world.client("Org"), f"/organize/people/board/{PEOPLE['Bea']}/revoke/"
    assert "A seat on the board ends with the role" in organizer.get(address).content.decode()
    assert "Seated: b1, b2, b3." in organizer.get("/organize/weeks/").content.decode()
    assert organizer.post(address, {"reason": "Bea resigned.", "once": "x"}).status_code == 302
    with open_unrestricted(world.folder) as contest:
        assert [each.id for each in contest.tick(world.now)] == ["unseat:b1"]
    assert "Seated: b2, b3." in organizer.get("/organize/weeks/").content.decode()
    assert world.client("Bea").get("/board/").status_code == 403
    ledger = organizer.get("/organize/ledger/").content.decode()
    assert "recorded that the seat of b1 on the review board ended with the role" in ledger
    with seasons.administer(world.folder, "desk", world.clock) as admin:
        grant_role(admin, PersonRecord(id=PEOPLE["Bea"], name="Bea"), Role.BOARD)
    form, seat = "/organize/weeks/seat/", {"person": PEOPLE["Bea"]}
    refused = organizer.post(form, seat | {"member": "b9"})
    assert (refused.status_code, "this person is b1 on the record" in refused.content.decode()) == (409, True)
    assert organizer.post(form, seat | {"member": "b1"}).status_code == 302


def test_nobody_closes_submissions_of_weeks(world) -> None:
    """No tab leads to the page, which says that each week closes by itself (U5); a form that is sent is refused."""
    client, said = world.client("Org"), "each week closes by itself (U5)"
    page = client.get("/organize/close/")
    assert page.status_code == 200
    assert said in page.content.decode()
    assert "Close submissions now" not in page.content.decode()
    assert 'href="/organize/close/"' not in client.get("/organize/").content.decode()
    answer = client.post("/organize/close/", {"once": "x"})
    assert answer.status_code == 409
    assert said in answer.content.decode()


def test_a_declared_conflict_hides_the_cases_of_the_team(world) -> None:
    """b2 declares one with the foxes, and sees none of their pictures from then on."""
    client, picture = world.client("Bo"), world.pictures["broken"]
    assert client.get(f"/pictures/{picture}/").status_code == 200
    declare = {"team": "foxes", "source": "declared"}
    assert client.post("/board/conflicts/", declare).status_code == 302
    assert client.get(f"/pictures/{picture}/").status_code == 404
    assert picture not in client.get(f"/weeks/{WEEK}/").content.decode()


def noted(world, kind):
    """Returns what an act of the ledger says, without its text."""
    return [each.model_dump(exclude={"kind", "reason"}, mode="json") for each in acts(world.folder, kind)]


def test_programs_of_a_team_declare_a_conflict(world) -> None:
    """The entry is the one of the form; only of one's own team, with a member there is, of a kind that is declared."""
    assert world.client("Fay").post("/my/foxes/conflict/", {"member": "b2", "source": "advisor"}).status_code == 302
    send, said = program(world, "Fay"), {"member": "b3", "source": "co_author"}
    assert send("/conflicts?team=foxes").json() == {
        "members": ["b1", "b2", "b3"],
        "sources": ["declared", "co_author", "advisor"],
    }
    assert send("/conflicts?team=foxes", said).json() == {**said, "team": "foxes"}
    by_form, by_program = noted(world, events.ConflictNoted)[-2:]
    assert by_form == {"actor": PEOPLE["Fay"], "member": "b2", "team": "foxes", "source": "advisor", "until": None}
    assert by_program == {**by_form, **said, "until": "2031-01-25"}
    before = world.head()
    assert send("/conflicts?team=owls", said).status_code == 404
    assert program(world, "Oda")("/conflicts?team=foxes").status_code == 404
    assert send("/conflicts?team=foxes", {**said, "member": "b9"}).status_code == 409
    assert send("/conflicts?team=foxes", {**said, "source": "person"}).status_code == 422
    assert world.head() == before


def test_programs_of_a_member_declare_their_own_conflict(world) -> None:
    """The cases of the team are gone for them at once; others than members of the board are refused."""
    send, picture, said = program(world, "Bo"), world.pictures["broken"], {"team": "foxes", "source": "declared"}
    assert picture in send(f"/weeks/{WEEK}/pictures").content.decode()
    done = send("/board/conflicts", said)
    assert (done.status_code, done.json()) == (201, {**said, "member": "b2"})
    assert noted(world, events.ConflictNoted)[-1] == {**said, "actor": "b2", "member": "b2", "until": None}
    assert send("/board/conflicts").json()["own"] == [{**said, "member": "b2"}]
    assert picture not in send(f"/weeks/{WEEK}/pictures").content.decode()
    before = world.head()
    assert send("/board/conflicts", {**said, "team": "no team"}).status_code == 409
    for name in ("Fay", "Rae", "Org", "Nell"):
        others = program(world, name)
        found = [others("/board/conflicts"), others("/board/conflicts", said)]
        found.append(others("/board/conflicts/waive", {"member": "b1", "team": "kites", "reason": "None."}))
        assert [(each.status_code, each.json()["code"]) for each in found] == [(403, "role")] * 3
    assert world.head() == before


def test_programs_waive_a_coincidence_as_the_page_does(world) -> None:
    """One member by a program and one by the page, who leave the same entry; none waives what is no coincidence."""
    from orchestrator.web.contest_site import current_site

    with seasons.administer(world.folder, "desk", world.clock) as admin:
        ann = PersonRecord(id="ann@institute.example", name="Ann")
        admin.append_event(contest_events.RoleGranted(actor="desk", person=ann, role=Role.BOARD))
        admin.add_team("herons", [PersonRecord(id="zed@institute.example", name="Zed")])
    contest = current_site().unrestricted()
    contest.propose(events.BoardMemberSeated(actor="desk", member="b4", person=ann.id), world.now)
    contest.tick(world.now)
    said, first = {"member": "b4", "team": "herons", "reason": "Another house."}, program(world, "Bo")
    assert first("/board/conflicts").json()["waivable"] == [{"member": "b4", "team": "herons"}]
    assert first("/board/conflicts/waive", {**said, "member": "b1", "team": "kites"}).status_code == 409
    assert first("/board/conflicts/waive", {**said, "reason": ""}).status_code == 422
    assert acts(world.folder, events.ConflictWaived) == []
    assert first("/board/conflicts/waive", said).status_code == 201
    assert first("/board/conflicts/waive", said).status_code == 409
    assert contest.read(lambda state: state.board.recusal("b4", ["herons"], world.now.date())) != ""
    assert world.client("Bix").post("/board/conflicts/waive/", said).status_code == 302
    by_program, by_form = noted(world, events.ConflictWaived)
    assert {**by_program, "actor": "b3", "by": "b3"} == by_form
    assert first("/board/conflicts").json()["waivable"] == []
    assert contest.read(lambda state: state.board.recusal("b4", ["herons"], world.now.date())) == ""


def test_conflicts_are_counted_as_acts(world, monkeypatch) -> None:
    """However they come: by the page and by programs."""
    from orchestrator.web import rate_limits
    from orchestrator.web.rate_limits import Limit, RequestKind

    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.ACT, Limit(1, 3600, "few"))
    declare = {"team": "foxes", "source": "declared"}
    assert world.client("Bo").post("/board/conflicts/", declare).status_code == 302
    assert program(world, "Bo")("/board/conflicts", declare).status_code == 429
    assert world.client("Bo").post("/board/conflicts/", declare).status_code == 429


@pytest.fixture
def person(world, running_browser, tmp_path):
    """Somebody at a browser, who is nobody yet, at the site of the contest."""
    with serving_here() as address:
        chromium.start_afresh(running_browser, tmp_path, address)
        yield Person(running_browser, Service(address, None, tmp_path / "log"))


def become(person, world, name: str) -> None:
    """Has the person at the browser be somebody else."""
    person.take_session(world.client(name).cookies["session"].value if name else "")


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_one_week_in_a_browser(person, world, tmp_path) -> None:
    """A picture is submitted, hidden until the close, judged, and public; and the board decides an appeal."""
    from orchestrator.web.contest_site import current_site

    file, found = tmp_path / "bird.png", []
    file.write_bytes(png(80))
    become(person, world, "Fay")
    person.go("/my/foxes/pictures/")
    person.driver.find_element(By.NAME, "file").send_keys(str(file))
    person.press("Submit this picture")
    picture = acts(world.folder, events.PictureReceived)[-1].picture
    assert f"The picture {picture} was received." in person.driver.page_source
    found += looked_at(person)
    become(person, world, "")
    person.go("/weeks/")
    assert "not told before the close" in person.driver.page_source
    world.now = SECOND + timedelta(days=7)
    contest = current_site().unrestricted()
    assert "close:2027-W04" in [each.id for each in contest.tick(world.now)]
    become(person, world, "Rae")
    person.go("/judge/")
    for _ in range(3):  # `waits` of the first week, and two pictures of the second
        for choice in ("presence.bird:definitely_yes", "presence.bicycle:definitely_no"):
            choose(person, choice)
        found += looked_at(person)
        send_answers(person)
        person.fill(**{"box.left": "0", "box.top": "0", "box.right": str(SIDE), "box.bottom": str(SIDE)})
        for statement in ("complete", "unoccluded", "real"):
            choose(person, f"statements.{statement}:true")
        found += looked_at(person)
        send_answers(person)
    assert person.heading() == "Nothing waits for you"
    assert picture in [each.picture for each in acts(world.folder, events.PictureRated)]
    for name in ("Bo", "Bix"):
        become(person, world, name)
        person.go(f"/board/cases/appeal:{world.appeals['kites']}/")
        person.driver.find_element(By.XPATH, "//tr[contains(., 'not valid')]//button[@name='for']").click()
        chromium.wait(person.driver, lambda: "It is on the record." in person.driver.page_source, "the vote")
    reason = person.driver.find_element(By.NAME, f"appeal:{world.appeals['kites']}:invalid")
    reason.send_keys("It is a drawing.")
    found += looked_at(person)
    person.press("Note: It is not valid")
    assert [each.reason for each in acts(world.folder, events.AppealRuled)] == ["It is a drawing."]
    become(person, world, "")
    for path in (f"/pictures/{picture}/", "/weeks/2027-W04/", "/standing/", "/money/"):
        person.go(path)
        found += looked_at(person)
    assert found == []
    assert person.console() == []


def choose(person, choice: str) -> None:
    """Chooses an answer, as NAME:VALUE."""
    name, _, value = choice.partition(":")
    person.driver.find_element(By.CSS_SELECTOR, f"input[name='{name}'][value='{value}']").click()


def send_answers(person) -> None:
    """Sends a step of the questionnaire once its picture was on the screen, and waits for the page that follows."""
    driver = person.driver
    form = driver.find_element(By.ID, "rating")
    chromium.wait(driver, lambda: form.get_attribute("data-painted"), "a picture")
    person.mark_page()
    driver.find_element(By.CSS_SELECTOR, "#rating button[type=submit]").click()
    chromium.wait(driver, person.has_new_page, "the next step")


def looked_at(person) -> list[str]:
    """Returns what keeps somebody from using the page that is shown: axe's findings where it is here, and its width."""
    if AXE.exists():
        return person.problems(SCHEMES[0], WIDE)
    person.look(SCHEMES[0], WIDE)
    return [f"{person.path} is too wide"] if person.overflow() > 0 else []
