"""Signing up and in by a code that comes by mail, invitations, and the end of an account."""

import re

from django.core import mail
from django.test import override_settings

from tests.web.conftest import client_of

MEMORY = "django.core.mail.backends.locmem.EmailBackend"


def code_in(message) -> str:
    """Returns the code of a mail."""
    return re.search(r"^([A-Z0-9-]{6,12})$", message.body, re.MULTILINE)[1]


def test_sign_up_by_code(contest):
    """The address is proved with the code, and the name is on the page."""
    client = client_of()
    with override_settings(EMAIL_BACKEND=MEMORY):
        mail.outbox = []
        answer = client.post("/account/signup/", {"email": "ada@example.org", "name": "Ada L."}, follow=True)
        assert answer.status_code == 200, answer.content.decode()
        [message] = mail.outbox
        answer = client.post("/account/email/confirm/", {"code": code_in(message)}, follow=True)
    assert answer.redirect_chain[-1][0] == "/"
    assert "Ada L." in answer.content.decode()
