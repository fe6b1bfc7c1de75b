"""The service behind nginx, with the configuration that docs/web.md gives: TLS, large uploads, and who a visitor is."""

import re
import shutil
import socket
import ssl
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from orchestrator.remote import upload

from .browsing import CODE
from .real_service import PATIENCE, ROOT, RealService, await_listener, free_ports

pytestmark = pytest.mark.slow
HOST = "cup.example.org"
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
MEBIBYTE = 1024 * 1024
MAIN = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {servers}
}}
"""
"""What a distribution's own nginx.conf says around the servers, with everything in one folder."""


def documented_servers(*, ports: list[int], service: int, folder: Path) -> str:
    """Returns the servers of docs/web.md with our certificate, on ports of this machine that are free."""
    text = (ROOT / "docs/web.md").read_text("utf-8")
    (servers,) = re.findall(r"^```nginx\n(.+?)^```", text, re.MULTILINE | re.DOTALL)
    changes = {
        "listen 443 ssl;": f"listen 127.0.0.1:{ports[0]} ssl;",
        "listen 80;": f"listen 127.0.0.1:{ports[1]};",
        "# ssl_certificate and ": f"ssl_certificate {folder}/certificate; ssl_certificate_key {folder}/key; # ",
        "http://127.0.0.1:8000;": f"http://127.0.0.1:{service};",
    }
    for old, new in changes.items():
        assert servers.count(old) == 1, old
        servers = servers.replace(old, new)
    return servers


def make_certificate(folder: Path) -> None:
    """Writes a certificate that signs itself, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key").write_bytes(key.private_bytes(*form))


@pytest.fixture(scope="module")
def site(tmp_path_factory, require) -> Iterator[tuple[RealService, list[int], Path]]:
    """The service, nginx in front of it at two ports for https and http, and the folder with its certificate."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        require("nginx", "there is no nginx: apt-get install nginx")
    folder = tmp_path_factory.mktemp("nginx")
    ports = free_ports(2)
    make_certificate(folder)
    with ExitStack() as ending:
        service = RealService(folder, f"https://{HOST}")
        ending.callback(service.kill)
        service.start()
        servers = documented_servers(ports=ports, service=service.port, folder=folder)
        (folder / "nginx.conf").write_text(MAIN.format(folder=folder, servers=servers))
        words = [program, "-p", str(folder), "-e", str(folder / "errors"), "-c", str(folder / "nginx.conf")]
        process = ending.enter_context(subprocess.Popen(words))
        ending.callback(process.terminate)
        await_listener(ports[0], process, folder / "errors")
        yield service, ports, folder


@pytest.fixture
def service(site, monkeypatch) -> RealService:
    """The service as others see it: its name leads to nginx, and they trust its certificate."""
    made, ports, folder = site
    connect = socket.create_connection
    named = {(HOST, 443): ("127.0.0.1", ports[0]), (HOST, 80): ("127.0.0.1", ports[1])}
    monkeypatch.setattr(socket, "create_connection", lambda place, *more, **how: connect(named[place], *more, **how))
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "certificate"))
    monkeypatch.setenv("no_proxy", "*")
    return made


def ask(words: bytes) -> bytes:
    """Sends the beginning of a request through TLS and returns the first line of the answer."""
    plain = socket.create_connection((HOST, 443), timeout=PATIENCE)
    with ssl.create_default_context().wrap_socket(plain, server_hostname=HOST) as line:
        line.sendall(words)
        return line.makefile("rb").readline()


def test_people_sign_up(service) -> None:
    """By forms, which are sent from the same address; the cookie needs TLS; nobody chooses their own address."""
    cookies = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    opener.addheaders = [("X-Forwarded-For", "203.0.113.9")]

    def post(path: str, **words: str) -> str:
        url = f"https://{HOST}{path}"
        words["csrfmiddlewaretoken"] = TOKEN.search(opener.open(url, timeout=PATIENCE).read().decode())[1]
        request = urllib.request.Request(url, urllib.parse.urlencode(words).encode(), {"Referer": url})
        with opener.open(request, timeout=PATIENCE) as answer:
            return urllib.parse.urlsplit(answer.url).path

    assert post("/account/signup/", email="eve@example.org", name="Eve") == "/account/email/confirm/"
    (code,) = [code for to, code in CODE.findall(service.log.read_text("utf-8")) if to == "eve@example.org"]
    assert post("/account/email/confirm/", code=code) == "/"
    assert {cookie.secure for cookie in cookies} == {True}
    (line,) = [line for line in service.log.read_text("utf-8").splitlines() if "signed_up" in line]
    assert "127.0.0.1" in line
    assert "203.0.113.9" not in line


def test_a_file_of_several_parts_arrives(service, tmp_path) -> None:
    """As `sparring submit --to` sends it."""
    file = tmp_path / "it.tar"
    file.write_bytes(bytes(2 * upload.PART_BYTES + 1))
    seen: list[int] = []
    arrival = upload.upload_file(service.client(), file, {"team": "Corner Shop"}, seen.append)
    assert service.client().get(f"/arrivals/{arrival}")["arrival"] == arrival
    assert seen[-1] == file.stat().st_size


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(("mebibytes", "status"), [(60, b"302"), (70, b"413")])
def test_a_strangers_file_is_refused_before_it_is_sent(mebibytes, status) -> None:
    """The service is asked at once, with nothing kept; what is larger than any form takes nginx refuses itself."""
    begin = f"POST /my/corner-shop/submit/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {mebibytes * MEBIBYTE}\r\n\r\n"
    assert ask(begin.encode() + bytes(1000)).split()[1] == status


@pytest.mark.usefixtures("service")
def test_without_tls_people_are_sent_to_it() -> None:
    """By nginx; the service itself is not asked."""
    with socket.create_connection((HOST, 80), timeout=PATIENCE) as line:
        line.sendall(f"GET /boards/ HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        answer = line.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 301 ")
    assert f"\r\nLocation: https://{HOST}/boards/\r\n".encode() in answer
