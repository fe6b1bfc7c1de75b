"""What every answer of the service has, and what it refuses whoever asks."""

import re

import pytest
from django.test import Client, override_settings

from tests.web import asgi
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


@pytest.mark.parametrize("path", ["/", "/account/login/", "/account/", "/nothing/", "/organize/"])
def test_nothing_is_kept_unless_its_page_says_so(contest, path):
    """Neither the browser of a shared machine nor a cache in between has another's page."""
    visitor, ada = client_of().get(path), client_of(make_account("Ada")).get(path)
    assert "private" in ada["Cache-Control"]
    assert "private" in visitor["Cache-Control"] or not visitor.cookies
    for answer in (visitor, ada):
        assert {"no-store", "no-cache"} & set(answer["Cache-Control"].split(", "))
        assert answer["Cross-Origin-Resource-Policy"] == "same-origin"


def test_tls_is_remembered_by_browsers(contest):
    """On every answer of a site whose address is https, refusals too; on none of one without TLS."""
    from orchestrator.web.contest_site import web_settings

    secure = web_settings().model_copy(update={"address": "https://127.0.0.1"})
    for path, host in (("/", "127.0.0.1"), ("/nothing/", "127.0.0.1"), ("/", "evil.example")):
        assert "Strict-Transport-Security" not in Client(HTTP_HOST=host).get(path)
        with override_settings(SPARRING=secure):
            assert Client(HTTP_HOST=host).get(path)["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize("most_waiting", [0, 200], ids=["put off", "too large"])
def test_early_answers_are_protected_as_others_are(contest, monkeypatch, most_waiting):
    """Those, too, that are given before Django is asked."""
    from orchestrator.web import application as module
    from orchestrator.web.contest_site import web_settings

    monkeypatch.setattr(module, "MOST_WAITING", most_waiting)
    secure = web_settings().model_copy(update={"address": "https://127.0.0.1"})
    with override_settings(SPARRING=secure), asgi.running_application() as application:
        answer = asgi.ask(application, "/account/login/", "POST", Content_Length=str(10**6))
    assert answer.status == (503 if not most_waiting else 413)
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    for name in ("x-frame-options", "referrer-policy", "cross-origin-opener-policy", "cross-origin-resource-policy"):
        assert name in answer.headers


@pytest.mark.parametrize(
    ("address", "said", "believed"),
    [
        ("http://127.0.0.1:8000", None, 0),
        ("https://cup.example.org", None, 1),
        ("https://cup.example.org", 2, 2),
        ("https://cup.example.org", 0, 0),
    ],
    ids=["none", "https", "two", "said-none"],
)
def test_proxies_are_believed_as_far_as_there_are_some(tmp_path, address, said, believed):
    """A visitor who reaches the service itself cannot say where they come from, or that they came through TLS."""
    from orchestrator.web.settings import WebFile, WebSettings, django_settings

    (tmp_path / "web").mkdir()
    made = django_settings(WebSettings(contest=tmp_path, address=address, file=WebFile(trusted_proxies=said)))
    assert made["ALLAUTH_TRUSTED_PROXY_COUNT"] == believed
    assert (made["SECURE_PROXY_SSL_HEADER"] is not None) is (believed > 0)
    assert made.get("USE_X_FORWARDED_HOST", False) is False


def test_the_clients_address_is_what_the_last_proxy_says(contest):
    """What a client itself writes into X-Forwarded-For stands before it, and without a proxy counts for nothing."""
    from allauth.account.adapter import get_adapter
    from django.test import RequestFactory

    request = RequestFactory().get("/", headers={"X-Forwarded-For": "1.2.3.4, 198.51.100.7"})
    assert get_adapter().get_client_ip(request) == "127.0.0.1"
    with override_settings(ALLAUTH_TRUSTED_PROXY_COUNT=1):
        assert get_adapter().get_client_ip(request) == "198.51.100.7"


def test_every_cookie_is_one_of_the_two_that_are_protected(contest):
    """A message to somebody is in their session, not in a cookie of its own."""
    client = client_of(make_account("Ada"))
    for answer in (
        client.get("/account/"),
        client.post("/account/", {"name": "Ada B."}),
        client_of().get("/account/signup/"),
    ):
        assert set(answer.cookies) <= {"session", "csrf"}


@pytest.mark.parametrize("cookie", ["csrf", "session"])
@pytest.mark.parametrize("path", ["/", "/boards/"])
def test_no_cache_in_between_keeps_a_cookie(contest, path, cookie):
    """Whoever sends a cookie that is not right gets another one or none, and nobody else may get that answer."""
    client = client_of()
    client.cookies[cookie] = "wrong"
    answer = client.get(path)
    assert set(answer.cookies) == {cookie}
    assert answer["Cache-Control"] == "private, no-store"


def test_text_says_its_encoding(contest):
    """Nothing is left to be guessed."""
    found = STATIC.findall(client_of().get("/").content.decode())
    for path in ("/", "/account/login/", "/nothing/", *found):
        assert client_of().get(path)["Content-Type"].endswith("charset=utf-8")


def test_a_session_is_no_secret_that_can_be_guessed(contest):
    """Drawn anew for each, from more than 128 bits; the key of signatures is drawn once and for the owner alone."""
    from django.conf import settings

    keys = {client_of(make_account(f"p{n}")).cookies["session"].value for n in range(5)}
    assert len(keys) == 5
    assert all(re.fullmatch(r"[a-z0-9]{32}", key) for key in keys)  # log2(36) * 32 = 165 bits
    assert len(settings.SECRET_KEY) >= 64
    folder = settings.SPARRING.folder
    assert not folder.exists() or (folder.stat().st_mode & 0o077) == 0


def test_two_first_starts_draw_one_key(tmp_path, monkeypatch):
    """Processes on one folder sign with the same key, also where both found none and drew one."""
    from orchestrator.web.settings import read_secret_key

    first = read_secret_key(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(type(tmp_path), "exists", lambda _path: False)
        assert read_secret_key(tmp_path) == first
    assert ((tmp_path / "secret_key").stat().st_mode & 0o777) == 0o600


def test_nothing_changes_by_looking(contest):
    """A link or a picture on another site signs nobody out and deletes nothing."""
    ada = make_account("Ada")
    client = client_of(ada)
    for path in ("/account/logout/", "/account/delete/", "/account/sessions/", "/account/"):
        client.get(path, {"name": "Eve"})
        client.head(path)
        client.options(path)
    assert client.get("/account/").status_code == 200
    ada.refresh_from_db()
    assert ada.name == "Ada"


def test_a_fault_of_code_shows_nothing_of_it(contest, monkeypatch):
    """500, without a trace, a path or a setting."""
    from orchestrator.web.contest_site import ContestSite

    def broken(_site):
        raise RuntimeError("/secret/place")

    client = client_of()
    client.raise_request_exception = False
    monkeypatch.setattr(ContestSite, "season", broken)
    answer = client.get("/")
    assert answer.status_code == 500
    assert not re.search("secret|Traceback|RuntimeError", answer.content.decode())


@pytest.mark.parametrize("path", ["/", "/account/", "/account/login/", "/nothing/"])
def test_no_other_site_may_read_an_answer(contest, path):
    """No header of cross-origin resource sharing is sent, whatever origin asks, and whatever it asks to send."""
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("get", "options"):
        answer = getattr(client_of(make_account(f"a{method}")), method)(path, headers=asked)
        assert not [name for name in answer.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    ("method", "path", "mebibytes"),
    [
        ("POST", "/", 1),
        ("POST", "/my/rooks/", 1),
        ("POST", "/my/rooks/submit/", 65),
        ("POST", "/my/rooks/pictures/", 2),
        ("POST", "/api/v1/pictures", 1),
        ("PATCH", "/api/v1/uploads/ab", 16),
        ("POST", "/api/v1/device", 1 / 16),
        ("GET", "/my/rooks/submit/", 1 / 16),
        ("GET", "/api/v1/uploads/ab", 1 / 16),
    ],
)
def test_large_bodies_come_only_where_files_are_handed_in(service, method, path, mebibytes):
    """Other addresses take the words of a form, and what only reads takes next to nothing, whoever sends it."""
    from orchestrator.web.body_limits import largest_body

    assert largest_body(method, path) == mebibytes * 1024**2


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/my/rooks/submit/", ("<h1>This file is too large</h1>", "64 MiB", "sparring submit --to")),
        ("/account/login/", ("<h1>This form is too large</h1>", "1048576 bytes")),
        ("/api/v1/uploads/ab", ('"code": "too-large"', "send at most 16777216 bytes in a request here")),
    ],
)
def test_who_sends_too_much_is_told_how_much_may_come(contest, path, words):
    """People on a page, programs in JSON, with the headers of every other answer."""
    with asgi.running_application() as application:
        answer = asgi.ask(application, path, "POST", Content_Length=str(10**9))
    assert answer.status == 413
    assert [word for word in words if word not in answer.body.decode()] == []
    assert (answer.headers["cache-control"], answer.headers["connection"]) == ("private, no-store", "close")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
