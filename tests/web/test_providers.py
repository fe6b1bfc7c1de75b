"""Signing in through a provider of OpenID Connect: one that the test runs itself, in a service of its own process."""

import base64
import hashlib
import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from orchestrator.application.contests import seasons

SECRET = "a secret of the tests"  # noqa: S105

# What a browser does, in a process that is configured with the provider: it prints one JSON document.
BROWSER = """
import json, sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
import requests
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings
from tests.postgresql import url_of
from tests.web.conftest import ADDRESS

folder, tamper = Path(sys.argv[1]), sys.argv[2]
database = url_of(folder)
setup.configure(WebSettings(contest=folder, address=ADDRESS, database=database, file=setup.read_web_file(folder)))
setup.make_tables()
from django.test import Client
client = Client(HTTP_HOST="127.0.0.1:8000")
page = client.get("/account/login/")
start = client.post("/account/oidc/university/login/")
there = requests.get(start["Location"], allow_redirects=False, timeout=30).headers["Location"]
parts = urlsplit(there)
query = {key: values[0] for key, values in parse_qs(parts.query).items()}
if tamper == "state":
    query["state"] = "another"
if tamper == "stranger":
    client = Client(HTTP_HOST="127.0.0.1:8000")
back = client.get(parts.path, query)
found = {"button": "Example University" in page.content.decode(), "policy": page["Content-Security-Policy"]}
if back.status_code == 302 and tamper == "none":
    form = client.get(back["Location"])
    found["form"] = form.content.decode()
    done = client.post(back["Location"], {"email": "ada@university.example", "name": "Ada of U."}, follow=True)
    found["page"] = done.content.decode()
from orchestrator.web.models import Account
found["accounts"] = [[account.email, account.name] for account in Account.objects.all()]
print(json.dumps(found))
"""


class Provider(BaseHTTPRequestHandler):
    """Says who everybody is: Ada. It remembers the challenge of the request, and asks for its secret (PKCE)."""

    challenges: dict[str, str] = {}  # noqa: RUF012  one provider a test

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
            case "/authorize":
                self.challenges["code"] = query["code_challenge"]
                self.send_response(302)
                self.send_header(
                    "Location", query["redirect_uri"] + "?" + urlencode({"code": "code", "state": query["state"]})
                )
                self.end_headers()
            case "/userinfo":
                self.answer({"sub": "7", "email": "ada@university.example", "email_verified": True, "name": "Ada"})
            case _:
                self.send_error(404)

    def do_POST(self):
        """The token, for whoever has the code, the client's secret and that of the challenge."""
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        verifier = hashlib.sha256(body["code_verifier"][0].encode()).digest()
        given = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
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


@contextmanager
def provider():
    """A provider on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module", params=["none", "state", "stranger"])
def visited(request, tmp_path_factory):
    """What a browser saw: with nothing changed, another state, or another browser that comes back."""
    folder = tmp_path_factory.mktemp("oidc") / "cup"
    seasons.create_contest(folder, "tournament")
    (folder / "oidc").write_text(SECRET)
    with provider() as address:
        (folder / "web.yaml").write_text(
            f"openid:\n- id: university\n  name: Example University\n  server: {address}\n"
            f"  client_id: cup\n  secret_file: {folder / 'oidc'}\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", BROWSER, str(folder), request.param], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    return request.param, address, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_who_is_signed_up_through_a_provider(visited):
    """Only a browser that began it, with the state that it was given; and nobody before the name was seen."""
    tampered, address, found = visited
    assert found["button"]
    assert address in found["policy"].split("form-action")[1].split(";")[0]
    if tampered != "none":
        assert found["accounts"] == []
        return
    assert 'value="Ada"' in found["form"]
    assert found["accounts"] == [["ada@university.example", "Ada of U."]]
    assert "Sign out" in found["page"]
