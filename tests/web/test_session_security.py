"""Sessions, codes and links: when they begin, when they end, how often they may be tried, and what is logged of it."""

import re
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.core import mail
from django.test import Client, override_settings
from structlog.testing import capture_logs

from orchestrator.domain.contest_events import Role
from tests.web.conftest import client_of, make_account
from tests.web.test_accounts import MEMORY, code_in, invitation

COOKIE = "session"


@pytest.fixture
def outbox(contest):
    """The mails that were sent."""
    with override_settings(EMAIL_BACKEND=MEMORY):
        mail.outbox = []
        yield mail.outbox


@pytest.fixture
def one_minute(monkeypatch):
    """Tries are counted as if all were made in one moment, however slow the machine is."""
    from allauth.core.internal import ratelimit

    at = time.time()
    frozen = SimpleNamespace(time=lambda: at, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(ratelimit, "time", frozen)


def with_session(key: str) -> Client:
    """Returns a browser that has somebody's cookie."""
    client = client_of()
    client.cookies[COOKIE] = key
    return client


def sign_in(client, outbox, address: str = "ada@example.org", follow: str = "/"):
    """Signs in by code and returns the last answer."""
    client.post("/account/login/", {"email": address, "next": follow})
    return client.post("/account/login/confirm/", {"code": code_in(outbox[-1]), "next": follow})


def test_signing_in_gives_another_session(outbox):
    """Whoever knew the session before signing in, or put it there, is nobody with it."""
    make_account("Ada")
    client = client_of()
    client.post("/account/login/", {"email": "ada@example.org"})
    before = client.cookies[COOKIE].value
    client.post("/account/login/confirm/", {"code": code_in(outbox[0])})
    after = client.cookies[COOKIE].value
    assert after != before
    assert with_session(after).get("/account/").status_code == 200
    assert with_session(before).get("/account/").status_code == 302


def test_signing_out_ends_the_session_here(contest):
    """A copy of the cookie opens nothing any more, and the browser forgets the pages that it keeps."""
    client = client_of(make_account("Ada"))
    key = client.cookies[COOKIE].value
    assert client.get("/account/logout/").status_code == 200
    assert with_session(key).get("/account/").status_code == 200
    answer = client.post("/account/logout/")
    assert answer["Clear-Site-Data"] == '"cache"'
    assert with_session(key).get("/account/").status_code == 302


def test_a_deleted_or_closed_account_has_no_session_anywhere(contest):
    """Other browsers are signed out with it."""
    ada, eve = make_account("Ada"), make_account("Eve")
    first, second, third = client_of(ada), client_of(ada), client_of(eve)
    first.post("/account/delete/")
    assert second.get("/account/").status_code == 302
    eve.is_active = False
    eve.save()
    assert third.get("/account/").status_code == 302


def test_other_sessions_are_ended_from_the_list(outbox):
    """Somebody who left a browser open somewhere ends its session from here."""
    make_account("Ada")
    here, there = client_of(), client_of()
    for client in (here, there):
        sign_in(client, outbox)
        client.get("/account/")
    here.post("/account/sessions/")
    assert there.get("/account/").status_code == 302
    assert here.get("/account/").status_code == 200


@pytest.mark.parametrize(
    ("minutes", "headers", "changed"),
    [
        (-60, {}, False),  # as if it had been used in an hour, however slow the machine is
        (2, {}, True),
        (-60, {"HTTP_USER_AGENT": "another browser"}, True),
        (-60, {"REMOTE_ADDR": "192.0.2.7"}, True),
    ],
    ids=["used just now", "used before", "another browser", "another address"],
)
def test_the_use_of_a_session_is_noted_once_a_minute(contest, minutes, headers, changed):
    """And at once if its address or its browser changes."""
    from allauth.usersessions.models import UserSession
    from django.utils import timezone

    client = client_of(make_account("Ada"))
    client.get("/account/")
    noted = UserSession.objects.get()
    UserSession.objects.update(last_seen_at=timezone.now() - timedelta(minutes=minutes))
    before = UserSession.objects.get()
    client.get("/account/", **headers)
    after = UserSession.objects.get()
    assert (after.last_seen_at != before.last_seen_at) == changed
    assert after.user_agent == headers.get("HTTP_USER_AGENT", noted.user_agent)
    assert after.ip == headers.get("REMOTE_ADDR", noted.ip)


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ("/my/", "/my/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("javascript:alert(1)", "/"),
    ],
    ids=["own", "absolute", "scheme-relative", "backslash", "script"],
)
def test_signing_in_leads_to_no_other_site(outbox, wanted, there):
    """`next` is followed within the service only."""
    make_account("Ada")
    assert sign_in(client_of(), outbox, follow=wanted)["Location"] == there


def test_signing_out_leads_to_no_other_site(contest):
    """Neither does `next` of signing out."""
    answer = client_of(make_account("Ada")).post("/account/logout/", {"next": "https://evil.example/"})
    assert answer["Location"] == "/"


def test_a_code_ends_after_three_wrong_tries(outbox):
    """The right one does not do any more then."""
    make_account("Ada")
    client = client_of()
    client.post("/account/login/", {"email": "ada@example.org"})
    told = [client.post("/account/login/confirm/", {"code": "ZZZZ-ZZZZ"}, follow=True) for _ in range(3)]
    assert "This is not the code. Try again, or ask for a new one." in told[0].content.decode()
    assert 'href="/account/login/">Ask for another code</a>' in told[0].content.decode()
    assert "Too many tries. Wait a minute, then ask for a new code." in told[2].content.decode()
    client.post("/account/login/confirm/", {"code": code_in(outbox[0])})
    assert client.get("/account/").status_code == 302


def test_a_code_is_for_the_browser_that_asked(outbox):
    """A code that somebody read in another's mail, or guessed, does nothing in another browser."""
    make_account("Ada")
    client_of().post("/account/login/", {"email": "ada@example.org"})
    thief = client_of()
    thief.post("/account/login/confirm/", {"code": code_in(outbox[0])})
    assert thief.get("/account/").status_code == 302


def test_a_code_is_good_once_and_for_fifteen_minutes(outbox, monkeypatch):
    """Late, it is refused; used, it is gone with the state of its browser."""
    from allauth.account.internal.flows import code_verification

    make_account("Ada")
    client = client_of()
    client.post("/account/login/", {"email": "ada@example.org"})
    later = code_verification.time.time() + 15 * 60 + 1
    with monkeypatch.context() as patched:
        patched.setattr(code_verification.time, "time", lambda: later)
        client.post("/account/login/confirm/", {"code": code_in(outbox[0])})
        assert client.get("/account/").status_code == 302
    again = client_of()
    sign_in(again, outbox)
    again.post("/account/logout/")
    again.post("/account/login/confirm/", {"code": code_in(outbox[1])})
    assert again.get("/account/").status_code == 302


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_few_codes_are_sent_to_an_address(outbox, one_minute, known):
    """Three a minute, from however many browsers, whether or not the address has an account."""
    if known:
        make_account("Ada")
    answers = [client_of().post("/account/login/", {"email": "ada@example.org"}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [302, 302, 302, 200]
    assert len(outbox) == 3


def test_few_codes_are_tried_from_an_address(contest, one_minute):
    """30 a minute, however many codes were asked for: also of ended ones, and by many requests at once."""
    answers = [client_of().post("/account/login/confirm/", {"code": "ZZZZ-ZZZZ"}) for _ in range(31)]
    assert [answer.status_code for answer in answers] == [302] * 30 + [429]
    assert answers[-1]["Retry-After"] == "60"
    assert "Too many requests" in answers[-1].content.decode()


def test_tries_are_counted_for_all_processes(contest):
    """They are in the database, and many strangers' tries do not push them out of it."""
    from django.conf import settings

    cache = settings.CACHES["default"]
    assert cache["BACKEND"].endswith("DatabaseCache")
    assert cache["OPTIONS"]["MAX_ENTRIES"] >= 100_000


def test_an_old_first_link_makes_no_second_organizer(contest):
    """Each start without an organizer prints one; all end with the first that is accepted."""
    from orchestrator.web import server

    links = [server.first_link().removeprefix("http://127.0.0.1:8000") for _ in range(2)]
    assert client_of(make_account("Ada")).post(links[0]).status_code == 302
    eve = client_of(make_account("Eve"))
    assert eve.post(links[1]).status_code == 409
    assert eve.get("/organize/").status_code == 403
    assert server.first_link() is None


def test_an_invitation_is_accepted_by_a_button_only(contest):
    """A program that follows links in mails accepts nothing, and only the digest of the secret is kept."""
    from orchestrator.web.models import Invitation

    path = invitation(role=Role.RATER)
    client = client_of(make_account("Ada"))
    assert client.get(path).status_code == 200
    [row] = Invitation.objects.all()
    assert row.uses_left == 1
    assert path.split("/")[2] not in str(vars(row))


def test_what_matters_for_security_is_logged(outbox, caplog):
    """Who, from where, and what was refused; never an address of mail, a code, or the secret of a link."""
    ada = make_account("Ada")
    client, path = client_of(), invitation(role=Role.RATER)
    with capture_logs() as logs:
        client.post("/account/login/", {"email": "ada@example.org"})
        client.post("/account/login/confirm/", {"code": "ZZZZ-ZZZZ"})
        client.post("/account/login/confirm/", {"code": code_in(outbox[0])})
        client.get("/organize/")
        client.post(path, headers={"Sec-Fetch-Site": "cross-site"})
        Client(HTTP_HOST="127.0.0.1:8000", enforce_csrf_checks=True).post(path)
        client.post("/account/logout/")
    seen = [(line["event"], line.get("person"), line.get("status"), line["client"]) for line in logs]
    here = "127.0.0.1"
    assert seen == [
        ("wrong_code", ada.person, None, here),
        ("signed_in", ada.person, None, here),
        ("request_refused", ada.person, 403, here),
        ("request_refused", "", 403, here),
        ("request_refused", "", 403, here),
        ("signed_out", ada.person, None, here),
    ]
    assert not re.search(f"example.org|{code_in(outbox[0])}|{path.split('/')[2]}", f"{logs}{caplog.messages}")
