"""Signing up and in by a code that comes by mail, invitations, and the end of an account."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail
from django.test import override_settings

from orchestrator.domain import contest_events
from orchestrator.ledger.contest_folder import ContestFolder
from tests.web.conftest import client_of, make_account

MEMORY = "django.core.mail.backends.locmem.EmailBackend"


@pytest.fixture
def outbox(contest):
    """The mails that were sent."""
    with override_settings(EMAIL_BACKEND=MEMORY):
        mail.outbox = []
        yield mail.outbox


def code_in(message) -> str:
    """Returns the code of a mail."""
    return re.search(r"^([A-Z0-9-]{6,12})$", message.body, re.MULTILINE)[1]


def events_of(contest):
    """Returns the events of a contest's ledger."""
    ledger = ContestFolder(contest).ledger()
    try:
        return [entry.event for entry in ledger.read()]
    finally:
        ledger.close()


def invitation(**kind) -> str:
    """Returns the path of a new invitation."""
    from orchestrator.web import invitations

    return invitations.invite(**{"by": "organizer", "now": datetime.now(UTC), **kind})


@pytest.mark.slow
def test_sign_up_by_code(outbox):
    """The address is proved with the code, and the name is on the page."""
    client = client_of()
    client.post("/account/signup/", {"email": "ada@example.org", "name": "Ada L."})
    [message] = outbox
    answer = client.post("/account/email/confirm/", {"code": code_in(message)}, follow=True)
    assert answer.redirect_chain[-1][0] == "/"
    assert "Ada L." in answer.content.decode()


def test_sign_in_by_code(outbox):
    """An account signs in again with a new code, and a wrong one does not do."""
    make_account("Ada")
    client = client_of()
    client.post("/account/login/", {"email": "ada@example.org"})
    wrong = client.post("/account/login/confirm/", {"code": "ZZZZ-ZZZZ"})
    assert wrong.status_code == 200
    assert "Sign out" not in wrong.content.decode()
    answer = client.post("/account/login/confirm/", {"code": code_in(outbox[0])}, follow=True)
    assert "Sign out" in answer.content.decode()


def test_an_unknown_address_is_answered_like_a_known_one(outbox):
    """Nobody learns from the pages who has an account; the mail tells its owner."""
    make_account("Ada")
    pages = []
    for address in ("ada@example.org", "eve@example.org"):
        answer = client_of().post("/account/login/", {"email": address}, follow=True)
        pages.append((answer.redirect_chain, re.sub(r'value="[^"]*"|ada|eve', "", answer.content.decode())))
    assert pages[0] == pages[1]
    assert "no account has it" in outbox[1].body


@pytest.mark.slow
def test_signing_up_again_is_answered_like_the_first_time(outbox):
    """The page tells nobody that the address is known; the mail does."""
    make_account("Ada")
    answer = client_of().post("/account/signup/", {"email": "ada@example.org", "name": "Eve"}, follow=True)
    assert answer.redirect_chain == [("/account/email/confirm/", 302)]
    assert "has an account already" in outbox[0].body


@pytest.mark.parametrize("name", ["", "a\x07b", "x" * 121], ids=["empty", "control", "long"])
def test_a_name_that_the_ledger_would_not_take_is_refused_on_the_form(outbox, name):
    """The form says so, and no mail is sent."""
    answer = client_of().post("/account/signup/", {"email": "ada@example.org", "name": name})
    assert answer.status_code == 200
    assert outbox == []


def test_an_invitation_gives_a_role_once(contest):
    """Its acceptance is an entry of the ledger; the link is used up then."""
    path, ada = invitation(role=contest_events.Role.ORGANIZER), make_account("Ada")
    client = client_of(ada)
    assert client.get("/organize/").status_code == 403
    assert client.post(path).status_code == 302
    assert client.get("/organize/").status_code == 200
    granted = [event for event in events_of(contest) if isinstance(event, contest_events.RoleGranted)]
    assert [(e.actor, e.person.id, e.person.name, e.role.value) for e in granted] == [
        ("organizer", ada.person, "Ada", "organizer")
    ]
    assert client_of(make_account("Eve")).post(path).status_code == 404


def test_an_expired_invitation_gives_nothing(contest):
    """It is answered like one that never was."""
    path = invitation(role=contest_events.Role.ORGANIZER, now=datetime.now(UTC) - timedelta(days=15))
    client = client_of(make_account("Ada"))
    assert client.get(path).status_code == 404
    assert client.post(path).status_code == 404
    assert client.get("/organize/").status_code == 403


def test_the_ledger_holds_no_address(contest):
    """Who signed up, and acts, is an opaque id and a name there."""
    client_of(make_account("Ada")).post(invitation(role=contest_events.Role.RATER))
    assert all("example.org" not in event.model_dump_json() for event in events_of(contest)[1:])


def test_a_deleted_account_is_gone(contest):
    """Its address and session are; what it did stays on the record."""
    from orchestrator.web.models import Account

    ada = make_account("Ada")
    client = client_of(ada)
    client.post(invitation(role=contest_events.Role.ORGANIZER))
    client.post("/account/delete/")
    assert not Account.objects.filter(person=ada.person).exists()
    assert client.get("/organize/").status_code == 302
    assert any(isinstance(event, contest_events.RoleGranted) for event in events_of(contest))
