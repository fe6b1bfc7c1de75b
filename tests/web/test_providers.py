"""Signing in through a provider of OpenID Connect, and through GitHub. The tests are both providers."""

import base64
import hashlib
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from orchestrator.application.contests import seasons

from .browsing import answering

SECRET = "a secret of the tests"  # noqa: S105

WAYS = ("oidc/university", "github")

# What browsers do, in a process that is configured with the providers: it prints one JSON document.
BROWSER = """
import json, sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
import requests
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings
from tests.postgresql import url_of
from tests.web.conftest import ADDRESS

folder, there, *ways = Path(sys.argv[1]), *sys.argv[2:]
database = url_of(folder)
setup.configure(WebSettings(contest=folder, address=ADDRESS, database=database, file=setup.read_web_file(folder)))
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter as GitHub
for name in ("authorize_url", "access_token_url", "profile_url", "emails_url"):  # they are constants
    setattr(GitHub, name, there + urlsplit(getattr(GitHub, name)).path)
setup.make_tables()
from django.test import Client
from orchestrator.web.models import Account

def come_back(way, tamper):
    # Returns the browser of somebody who signs in, the page where they began, and the answer to coming back.
    client = Client(HTTP_HOST="127.0.0.1:8000")
    page = client.get("/account/login/")
    start = client.post(f"/account/{way}/login/")
    parts = urlsplit(requests.get(start["Location"], allow_redirects=False, timeout=30).headers["Location"])
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    if tamper == "state":
        query["state"] = "another"
    if tamper == "stranger":
        client = Client(HTTP_HOST="127.0.0.1:8000")
    return client, page, client.get(parts.path, query)

def visit(way):
    # Returns what browsers saw that sign in this way, two of them tampered with.
    found = {"tampered": {}}
    for tamper in ("state", "stranger"):
        come_back(way, tamper)
        found["tampered"][tamper] = Account.objects.count()
    client, page, back = come_back(way, "none")
    found |= {"page": page.content.decode(), "policy": page["Content-Security-Policy"]}
    found["form"] = client.get(back["Location"]).content.decode()
    done = client.post(back["Location"], {"email": "ada@university.example", "name": "Ada of U."}, follow=True)
    found |= {"done": done.content.decode(), "accounts": [[each.email, each.name] for each in Account.objects.all()]}
    Account.objects.all().delete()
    return found

print(json.dumps({way: visit(way) for way in ways}))
"""


class Provider(BaseHTTPRequestHandler):
    """Says who everybody is: Ada. As a provider of OpenID Connect it asks for the secret of a challenge (PKCE)."""

    challenges: dict[str, str] = {}  # noqa: RUF012  one at a time

    def do_GET(self):
        """The discovery document, the page that people sign in on, and who they are."""
        host = f"http://127.0.0.1:{self.server.server_port}"
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/.well-known/openid-configuration":
                self.answer(
                    {
                        "issuer": host,
                        "authorization_endpoint": f"{host}/authorize",
                        "token_endpoint": f"{host}/token",
                        "userinfo_endpoint": f"{host}/userinfo",
                        "jwks_uri": f"{host}/keys",
                    }
                )
            case "/authorize" | "/login/oauth/authorize":
                self.challenges["code"] = query.get("code_challenge", "")
                self.send_response(302)
                self.send_header(
                    "Location", query["redirect_uri"] + "?" + urlencode({"code": "code", "state": query["state"]})
                )
                self.end_headers()
            case "/userinfo":
                self.answer({"sub": "7", "email": "ada@university.example", "email_verified": True, "name": "Ada"})
            case "/user":
                self.answer({"id": 7, "login": "ada", "name": "Ada", "email": None})
            case "/user/emails":
                self.answer([{"email": "ada@university.example", "primary": True, "verified": True}])
            case _:
                self.send_error(404)

    def do_POST(self):
        """The token, for whoever has the code, the client's secret and that of the challenge."""
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        verifier = hashlib.sha256(body.get("code_verifier", [""])[0].encode()).digest()
        given = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() if self.challenges["code"] else ""
        basic = base64.b64decode(self.headers.get("Authorization", "Basic Og==").split()[1]).decode()
        secret = body.get("client_secret", [basic.partition(":")[2]])[0]
        if given != self.challenges["code"] or secret not in (
            SECRET,
            SECRET.replace(" ", "+"),
            SECRET.replace(" ", "%20"),
        ):
            self.send_error(401)
            return
        self.answer({"access_token": "token", "token_type": "Bearer", "expires_in": 60})

    def answer(self, document):
        """Sends JSON."""
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        """Says nothing."""


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    """The providers' address, and what browsers saw that sign in each way."""
    folder = tmp_path_factory.mktemp("provider") / "cup"
    seasons.create_contest(folder, "tournament")
    secret = folder / "secret"
    secret.write_text(SECRET)
    application = f"client_id: cup\n  secret_file: {secret}\n"
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Provider)) as address:
        university = f"openid:\n- id: university\n  name: Example University\n  server: {address}\n  {application}"
        (folder / "web.yaml").write_text(f"github:\n  {application}{university}")
        words = [sys.executable, "-c", BROWSER, str(folder), address, *WAYS]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return address, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_somebody_signs_up_through_a_provider(visited, way):
    """With the address that the provider verified, and not before they saw the name."""
    address, found = visited[0], visited[1][way]
    assert ("GitHub" if way == "github" else "Example University") in found["page"]
    targets = found["policy"].split("form-action")[1].split(";")[0]
    assert ("https://github.com" if way == "github" else address) in targets
    assert 'value="Ada"' in found["form"]
    assert found["accounts"] == [["ada@university.example", "Ada of U."]]
    assert "Sign out" in found["done"]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_nobody_signs_up_who_did_not_begin_it(visited, way):
    """Another state, or another browser that comes back from the provider, makes no account."""
    assert visited[1][way]["tampered"] == {"state": 0, "stranger": 0}
