"""What every answer of the service has, and what it refuses whoever asks."""

import re

import pytest
from django.test import Client

from tests.web.conftest import client_of, make_account

STATIC = re.compile(r'(?:href|src)="(/static/[^"]+)"')


@pytest.mark.parametrize("path", ["/", "/account/login/", "/account/signup/", "/nothing/", "/organize/"])
def test_headers_of_every_page(contest, path):
    """Nothing inline runs, nobody frames a page, and types are not guessed."""
    answer = client_of().get(path)
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"


def test_static_files_set_no_cookie_and_stay(contest):
    """A cache in front keeps them for everybody, so nobody's session may be in them."""
    found = STATIC.findall(client_of().get("/").content.decode())
    assert len(found) == 3
    for path in found:
        answer = client_of(make_account(f"u{len(path)}")).get(path)
        assert answer.status_code == 200
        assert not answer.cookies
        assert "immutable" in answer["Cache-Control"]
    assert client_of().get("/static/0000000000000000/style.css").status_code == 404


def test_a_form_without_its_token_is_refused(contest):
    """403, with a page that says what to do."""
    client = Client(HTTP_HOST="127.0.0.1:8000", enforce_csrf_checks=True)
    client.force_login(make_account("Ada"))
    answer = client.post("/account/", {"name": "Eve"})
    assert answer.status_code == 403
    assert "This form has expired" in answer.content.decode()


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 302), ("none", 302)]
)
def test_another_site_cannot_send_a_form(contest, site, status):
    """Whatever token it may have."""
    client = client_of(make_account("Ada"))
    answer = client.post("/account/", {"name": "Ada B."}, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == status


@pytest.mark.parametrize("secure", [True, False], ids=["https", "http"])
def test_cookies(tmp_path, secure):
    """Scripts do not see them; over TLS they are bound to this host and sent through TLS only."""
    from orchestrator.web.settings import WebSettings, django_settings

    (tmp_path / "web").mkdir()
    address = "https://cup.example.org" if secure else "http://127.0.0.1:8000"
    made = django_settings(WebSettings(contest=tmp_path, address=address))
    for kind in ("SESSION", "CSRF"):
        assert made[f"{kind}_COOKIE_SECURE"] is secure
        assert made[f"{kind}_COOKIE_NAME"].startswith("__Host-") is secure
        assert made[f"{kind}_COOKIE_HTTPONLY"] is True
        assert made[f"{kind}_COOKIE_SAMESITE"] == "Lax"
    assert ((tmp_path / "web" / "secret_key").stat().st_mode & 0o777) == 0o600


def test_another_host_is_refused(contest):
    """Its name would go into links of mails."""
    assert Client(HTTP_HOST="evil.example").get("/").status_code == 400


def test_a_fault_of_ours_says_when_to_come_back(contest, monkeypatch):
    """503, and nothing about the inside."""
    from orchestrator.errors import StoreFault
    from orchestrator.web.contest_site import ContestSite

    def broken(_site):
        raise StoreFault("/secret/place cannot be read")

    client = client_of()
    client.raise_request_exception = False
    monkeypatch.setattr(ContestSite, "season", broken)
    answer = client.get("/")
    assert answer.status_code == 503
    assert answer["Retry-After"]
    assert "secret" not in answer.content.decode()
