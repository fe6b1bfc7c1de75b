"""A form that is refused loses nothing that somebody typed: it is shown again with it, or its text is, to be copied."""

import html
import re
from collections.abc import Iterable

import pytest
from django.http import HttpResponse, HttpResponseBase
from django.test import override_settings

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.application.contests.roles import grant_role
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.formats.unrestricted import events
from orchestrator.web.settings import WebSettings
from tests import postgresql

from . import week_world
from .conftest import ADDRESS, acts, empty_tables
from .test_rights import filled
from .test_weeks import address as week_address
from .week_world import PEOPLE, SECOND, WeekWorld
from .world import PEOPLE as CUP_PEOPLE
from .world import TASK, VISITOR

TEXT = 'It is "plain" <b>code</b>.\r\n\r\nTwo of us ran it.'
"""What somebody typed: lines, and what HTML has to escape."""
SHOWN = "It is &quot;plain&quot; &lt;b&gt;code&lt;/b&gt;.\r\n\r\nTwo of us ran it."
DESK = "/organize/weeks/"
"""Where the pages of organizers' acts begin."""


@pytest.fixture(scope="module")
def made_weeks(tmp_path_factory):
    """An unrestricted contest, which nobody changes."""
    return week_world.make(tmp_path_factory.mktemp("weeks") / "cup")


@pytest.fixture
def weeks(service, made_weeks, tmp_path):
    """A copy of it, served."""
    from orchestrator.web import contest_site

    folder = tmp_path / "cup"
    postgresql.copy_contest(made_weeks.folder, folder)
    made = WeekWorld(folder, SECOND, dict(made_weeks.pictures), dict(made_weeks.appeals))
    empty_tables()
    with override_settings(SPARRING=WebSettings(contest=folder, address=ADDRESS)):
        contest_site.current_site().clock = made.clock
        week_world.people_sign_up()
        yield made


def page(answer, status: int) -> str:
    """Returns the text of a page that has the status."""
    assert answer.status_code == status
    return answer.content.decode()


def is_typed(name: str, text: str, page: str) -> bool:
    """Returns whether a field of the page holds a text."""
    areas = re.findall(rf'<textarea name="{name}"[^>]*>\r?\n?([^<]*)</textarea>', page)
    inputs = [each for each in re.findall(r"<input[^>]*>", page) if f'name="{name}"' in each]
    return text in areas or any(f'value="{text}"' in each for each in inputs)


def copied(page: str) -> list[str]:
    """Returns the texts that a page shows to be copied."""
    return re.findall(r'<textarea name="typed-\d+"[^>]*readonly[^>]*>\r?\n?([^<]*)</textarea>', page)


def test_the_desk_of_organizers_keeps_what_was_typed(weeks) -> None:
    """In the form of that row, with the one error."""
    typed = "not yet: see " + "x" * 500
    told = page(weeks.client("Org").post(f"{DESK}admit/", {"team": "owls", "preprint": typed}), 400)
    assert is_typed("preprint", typed, told)
    assert told.count(typed) == 1
    assert told.count('<ul class="wrong"') == 1


def test_a_payment_that_was_noted_meanwhile_is_not_lost(weeks) -> None:
    """Its form is not on the page any more: the reference is shown to be copied."""
    address, sent = f"{DESK}stake/", {"defence": "d3", "reference": "by bank, 2027-01-25, 7/19"}
    assert weeks.client("Org").post(address, sent).status_code == 302
    assert copied(page(weeks.client("Org").post(address, sent), 409)) == [sent["reference"]]


def test_a_refused_seat_keeps_the_name_and_the_case(weeks) -> None:
    """A name that no seat has is told in one line, and both fields hold what was typed."""
    with seasons.administer(weeks.folder, "desk", weeks.clock) as admin:
        grant_role(admin, PersonRecord(id=PEOPLE["Nell"], name="Nell"), Role.BOARD)
    sent = {"person": PEOPLE["Nell"], "member": "Nell of B", "case": f"appeal:{weeks.appeals['kites']}"}
    told = page(weeks.client("Org").post(f"{DESK}seat/", sent), 409)
    assert is_typed("member", "Nell of B", told)
    assert is_typed("case", sent["case"], told)
    assert told.count("letters, digits, ., _ and -") == 1
    assert "Name of <bdi>Nell</bdi> on the record" in told


def test_a_refused_decision_keeps_its_reason_as_it_was_typed(weeks) -> None:
    """With its lines, in the field of its question alone."""
    case, question = f"/board/cases/appeal:{weeks.appeals['kites']}/", f"appeal:{weeks.appeals['kites']}:invalid"
    told = page(weeks.client("Bo").post(case, {"decide": question, question: TEXT}), 409)
    assert is_typed(question, SHOWN, told)
    assert told.count("Two of us ran it.") == 1
    told = page(weeks.client("Bo").post(case, {"decide": question, question: "x" * 2001}), 400)
    assert is_typed(question, "x" * 2001, told)
    told = page(weeks.client("Bo").post(case, {"decide": question, f"appeal:{weeks.appeals['kites']}:bird": TEXT}), 400)
    assert told.count('<ul class="wrong"') == 1
    assert is_typed(f"appeal:{weeks.appeals['kites']}:bird", SHOWN, told)


@pytest.mark.parametrize("act", ["for", "against", "panel"])
def test_a_vote_keeps_the_reasons_that_are_typed_on_the_page(weeks, act) -> None:
    """So does the call of new raters: all of the page is one form. Without a reason the page is loaded anew."""
    case, question = f"/board/cases/appeal:{weeks.appeals['kites']}/", f"appeal:{weeks.appeals['kites']}"
    form = re.search(r"<form.*?</form>", page(weeks.client("Bo").get(case), 200).split("<main")[1], re.DOTALL)[0]
    assert {f'name="{question}:{each}"' in form for each in ("bird", "bicycle", "invalid")} == {True}
    assert f'<button type="submit" name="{"ask" if act == "panel" else act}"' in form
    assert " required" not in form
    sent = {act: f"{question}:invalid", f"{question}:bird": TEXT, f"{question}:invalid": " ", f"{question}:bicycle": ""}
    told = page(weeks.client("Bo").post(case, sent), 200)
    assert "It is on the record." in told
    assert is_typed(f"{question}:bird", SHOWN, told)
    assert told.count("Two of us ran it.") == 1
    noted = acts(weeks.folder, events.PanelCalled if act == "panel" else events.VoteCast)[-1]
    said = noted.appeal if act == "panel" else (noted.question, noted.in_favour)
    assert said == (weeks.appeals["kites"] if act == "panel" else (f"{question}:invalid", act == "for"))
    assert weeks.client("Bix").post(case, {"for": f"{question}:invalid"}).status_code == 302


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_new_raters_are_asked_after_a_question(weeks, answer) -> None:
    """The first press asks, and says that it cannot be undone. What was typed stays, whatever is answered."""
    case, question = f"/board/cases/appeal:{weeks.appeals['kites']}/", f"appeal:{weeks.appeals['kites']}"
    client, typed = weeks.client("Bo"), {f"{question}:bird": TEXT}
    told = page(client.post(case, {"ask": "panel new", **typed}), 200)
    assert "Ask five new raters?" in told
    assert "You cannot undo this." in told
    assert is_typed(f"{question}:bird", SHOWN, told)
    assert not acts(weeks.folder, events.PanelCalled)
    button = {"yes": ("panel", "new"), "no": ("ask", "no")}[answer]
    assert f'form="case" name="{button[0]}" value="{button[1]}"' in told.replace(' class="quiet"', "")
    told = page(client.post(case, dict([button], **typed)), 200)
    assert is_typed(f"{question}:bird", SHOWN, told)
    assert "Ask five new raters?" not in told
    assert len(acts(weeks.folder, events.PanelCalled)) == (answer == "yes")


def test_a_vote_keeps_the_reason_for_what_is_no_choice_any_more(weeks) -> None:
    """Others decided so meanwhile: the text is shown to be copied."""
    case = f"overrule:{weeks.pictures['rejected']}"
    sent = {"for": f"{case}:bird", f"{case}:invalid": TEXT, f"{case}:bicycle": "It has wheels."}
    told = page(weeks.client("Bo").post(f"/board/cases/{case}/", sent), 200)
    assert copied(told) == [SHOWN]
    assert is_typed(f"{case}:bicycle", "It has wheels.", told)


def test_a_decision_that_came_too_late_is_not_lost(weeks) -> None:
    """Another member noted theirs meanwhile: its text is shown to be copied, and nothing about cases is told."""
    case, question = "/board/cases/stake:d3/", "stake:d3"
    for name in ("Bo", "Bix"):
        assert weeks.client(name).post(case, {"for": question}).status_code == 302
    decide = {"decide": question, question: TEXT}
    assert weeks.client("Bix").post(case, decide).status_code == 302
    told = page(weeks.client("Bo").post(case, decide), 404)
    assert copied(told) == [SHOWN]
    assert "It may be decided by now." in told
    recused = f"/board/cases/appeal:{weeks.appeals['kites']}/"  # b1 is of the kites
    others = [page(weeks.client("Bea").post(each, decide), 404) for each in (recused, "/board/cases/appeal:0/")]
    assert len({re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", each) for each in others}) == 1


def test_a_refused_waiver_keeps_its_reason(weeks) -> None:
    """It is of another conflict by now, or of none: the text is shown to be copied."""
    waive = {"member": "b1", "team": "kites", "reason": "It is another faculty."}
    told = page(weeks.client("Bo").post("/board/conflicts/waive/", waive), 409)
    assert copied(told) == ["It is another faculty."]


def test_an_appeal_against_a_ruling_that_came_too_late_is_not_lost(weeks) -> None:
    """The time for it is over when it is sent."""
    address = f"/my/owls/pictures/{weeks.pictures['broken']}/"
    weeks.now = SECOND.replace(month=3)
    told = page(weeks.client("Oda").post(address, {"text": TEXT}), 409)
    assert copied(told) == [SHOWN]
    assert acts(weeks.folder, events.PictureAppealed)[1:] == []


def test_too_many_requests_lose_no_text(weeks, monkeypatch) -> None:
    """Nor does a fault of ours: both pages show what was sent."""
    from orchestrator.errors import StoreFault
    from orchestrator.web import rate_limits
    from orchestrator.web.pages import board

    def broken(*_args, **_more):
        raise StoreFault("the disk is away")

    case = f"/board/cases/appeal:{weeks.appeals['kites']}/"
    decide = {"decide": f"appeal:{weeks.appeals['kites']}:invalid", f"appeal:{weeks.appeals['kites']}:invalid": TEXT}
    with monkeypatch.context() as patched:
        patched.setattr(board, "attempt", broken)
        assert copied(page(weeks.client("Bo").post(case, decide), 503)) == [SHOWN]
    monkeypatch.setattr(rate_limits, "wait_seconds", lambda *_: 7)
    assert copied(page(weeks.client("Bo").post(case, decide), 429)) == [SHOWN]


def cup_client(world, name: str):
    """Returns the browser of somebody in the tournament."""
    return world.client(next(each for each in CUP_PEOPLE if each.name == name))


def test_a_reason_for_closing_what_is_closed_is_not_lost(world) -> None:
    """Another organizer closed submissions meanwhile."""
    with seasons.administer(world.folder, "desk") as admin:
        submission_closing.close_submissions(admin, "Everything is here.")
    told = page(cup_client(world, "Olga").post("/organize/close/", {"once": "a", "reason": TEXT}), 409)
    assert copied(told) == [SHOWN]


def test_a_second_disqualification_keeps_its_reason(world) -> None:
    """Another organizer disqualified it meanwhile."""
    own = world.ids["Reds"]
    with seasons.administer(world.folder, "desk") as admin:
        admin.disqualify(own["submission"], "It slept.")
    address = f"/organize/submissions/{own['submission']}/disqualify/"
    assert copied(page(cup_client(world, "Olga").post(address, {"once": "a", "reason": TEXT}), 409)) == [SHOWN]


def test_a_second_withdrawal_keeps_its_reason(world) -> None:
    """Another member of the team withdrew it meanwhile."""
    own = world.ids["Reds"]
    address = f"/my/{own['team']}/submissions/{own['submission']}/withdraw/"
    assert cup_client(world, "Arno").post(address, {"reason": "It sleeps."}).status_code == 302
    assert copied(page(cup_client(world, "Ada").post(address, {"reason": TEXT}), 409)) == [SHOWN]


def test_a_second_decision_on_an_appeal_keeps_its_reason(world) -> None:
    """Another member decided it meanwhile."""
    address = f"/review/{world.ids['Reds']['appeal']}/"
    decide = {"decision": "dismiss", "reason": TEXT}
    assert cup_client(world, "Bob").post(address, {**decide, "once": "a"}).status_code == 302
    told = page(cup_client(world, "Bob").post(address, {**decide, "once": "b"}), 409)
    assert copied(told) == [SHOWN]


def test_what_was_looked_at_before_keeps_the_reason(world) -> None:
    """Who goes on is shown anew when it changed, and so are other rules: the reason stays."""
    client = cup_client(world, "Olga")
    told = page(client.post("/organize/promote/", {"once": "a", "shown": "other", "reason": TEXT}), 409)
    assert is_typed("reason", SHOWN, told) or copied(told) == [SHOWN]
    sent = {"once": "b", "shown": "other", "decision": "drop", "reason": TEXT}
    told = page(client.post("/organize/rules/", sent), 409)
    assert copied(told) == [SHOWN]


def test_an_image_that_came_too_late_is_not_lost(world) -> None:
    """Submissions were closed while somebody filled in the form."""
    with seasons.administer(world.folder, "desk") as admin:
        submission_closing.close_submissions(admin, "Everything is here.")
    image = "registry.example.org/reds/attack@sha256:" + "0" * 64
    sent = {"task": "quarters", "side": "attack", "name": "late", "image": image}
    told = page(cup_client(world, "Ada").post(f"/my/{world.ids['Reds']['team']}/submit/image/", sent), 409)
    assert image in copied(told)


def forms_to_type_into(page: str) -> list[str]:
    """Returns the forms of a page that have a field in which somebody types or chooses something."""
    forms = re.findall(r"<form.*?</form>", page.split("<main", 1)[-1], re.DOTALL)
    hidden = re.compile(r'<input[^>]*type="hidden"')
    return [each for each in forms if re.search("<(input|select|textarea)", hidden.sub("", each))]


def assert_one_form(answers: Iterable[tuple[str, HttpResponseBase]]) -> None:
    """Fails for an answer with two forms to type into: whoever sends one loses what they typed into the other."""
    seen = set()
    for where, answer in answers:
        answer.close()
        if isinstance(answer, HttpResponse) and answer.status_code == 200 and "text/html" in answer["Content-Type"]:
            found = forms_to_type_into(answer.content.decode())
            assert len(found) < 2, where
            seen.update(found)
    assert len(seen) > 5


def test_no_page_has_two_forms_to_type_into(world) -> None:
    """Of a tournament, whoever opens it."""
    from orchestrator.web.urls import PAGES

    assert_one_form(
        (f"{who.name} at {page.route}", client.get(filled(world, page, who)))
        for who, client in [(each, world.client(each)) for each in CUP_PEOPLE]
        for page in PAGES
    )


def test_no_page_of_weeks_has_two_forms_to_type_into(weeks) -> None:
    """Of an unrestricted contest, whoever opens it; a page about a row of a list is opened for each row."""
    from orchestrator.web.urls import PAGES, WEEK_PAGES

    with seasons.administer(weeks.folder, "desk", weeks.clock) as admin:
        grant_role(admin, PersonRecord(id=PEOPLE["Nell"], name="Nell"), Role.BOARD)
    desk = weeks.client("Org").get(DESK).content.decode()
    rows = [html.unescape(each) for each in re.findall(rf'href="({DESK}\w+/[^"]+)"', desk)]
    assert {each.partition("?")[0] for each in rows} == {f"{DESK}{act}/" for act in ("seat", "admit", "stake")}
    plain = [f"/{page.route}" for page in PAGES if "<" not in page.route]
    own = [week_address(weeks, page) for page in WEEK_PAGES]
    assert_one_form(
        (f"{name} at {each}", client.get(each))
        for name, client in [(each, weeks.client(each)) for each in PEOPLE]
        for each in (*plain, *own, *rows)
    )


def test_a_session_that_ended_loses_no_text(world) -> None:
    """The page shows the text to be copied, and leads to signing in and back; without a text it is the sign-in page."""
    visitor, address = world.client(VISITOR), "/organize/announce/"
    told = page(visitor.post(address, {"once": "a", "title": "News", "text": TEXT}), 403)
    assert copied(told) == [SHOWN]
    assert 'href="/account/login/?next=%2Forganize%2Fannounce%2F"' in told
    assert visitor.post(address, {"once": "a", "title": "News"}).status_code == 302


@pytest.mark.parametrize("fault", ["expired", "bare"])
def test_an_error_page_leads_on(world, fault) -> None:
    """To the form that has expired, or to the contest."""
    from django.test import Client

    from orchestrator.web.pages import errors

    if fault == "bare":
        assert 'href="/"' in errors.too_slow().content.decode()
        return
    checked = Client(HTTP_HOST="127.0.0.1:8000", enforce_csrf_checks=True)
    assert 'href="/account/signup/"' in page(checked.post("/account/signup/", {"name": "Ada"}), 403)


@pytest.mark.parametrize("page_of_team", ["withdraw", "correct", "image", "found", "invitation"])
def test_a_fault_of_ours_on_a_page_of_a_team_is_told_as_one(world, monkeypatch, page_of_team: str) -> None:
    """The answer is 503 without a path of the organizers' machine, and what was typed is shown again."""
    from orchestrator.errors import StoreFault
    from orchestrator.web import contest_site, invitations

    def broken(*_args, **_more):
        raise StoreFault("/secret/place cannot be written")

    own, site = world.ids["Reds"], contest_site.current_site()
    submission = f"/my/{own['team']}/submissions/{own['submission']}/"
    image = {"task": TASK, "name": "late", "side": "attack", "image": f"host/late@sha256:{'0' * 64}"}
    address, form = {
        "withdraw": (f"{submission}withdraw/", {"reason": TEXT}),
        "correct": (f"{submission}correct/", {"reason": TEXT, "source": "https://example.org"}),
        "image": (f"/my/{own['team']}/submit/image/", image),
        "found": ("/my/", {"team": "Five Owls"}),
        "invitation": (invitations.invite(by="desk", team="Reds", now=site.clock()), {}),
    }[page_of_team]
    monkeypatch.setattr(contest_site.ContestSite, "administer", broken)
    monkeypatch.setattr(contest_site.ContestSite, "administer_without_reports", broken)
    told = page(cup_client(world, "Arno").post(address, form), 503)
    assert "secret" not in told
    assert copied(told) == {"found": ["Five Owls"], "image": [], "invitation": []}.get(page_of_team, [SHOWN])
