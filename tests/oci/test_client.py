"""How documents are fetched from registries that are busy, broken, private or hostile."""

import datetime as dt
import gzip
import ipaddress
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from orchestrator.errors import BackendUnavailable
from orchestrator.oci.client import ATTEMPTS, ImageNotFoundError
from orchestrator.oci.credentials import Credentials
from orchestrator.oci.manifests import UnusableImageError
from orchestrator.oci.resolver import ImageResolver

from .fake_registry import AMD, MANIFEST, RUN, Answer, Registry, auth, logged_in, named


def test_a_packed_answer_is_not_unpacked(registry, ask):
    """A body that unpacks to a gigabyte is taken as the few bytes that it is, and is no JSON."""
    bomb = gzip.compress(b"\0" * 50_000_000)
    registry.odd = lambda _: Answer(200, bomb, {"Content-Type": MANIFEST, "Content-Encoding": "gzip"})
    with pytest.raises(UnusableImageError, match="not plain JSON"):
        ask.resolve(named(registry), AMD)
    assert registry.asked[0].headers["Accept-Encoding"] == "identity"


def test_an_endless_answer_is_cut(registry, ask):
    """A body without an end is given up at its bound, whatever length it promises."""
    registry.odd = lambda _: Answer(200, b"x" * 5_000_000, {"Content-Type": MANIFEST, "Content-Length": "99999999"})
    with pytest.raises(UnusableImageError, match="more than 1048576 bytes"):
        ask.resolve(named(registry), AMD)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (401, UnusableImageError),
        (403, UnusableImageError),
        (404, ImageNotFoundError),
        (405, UnusableImageError),
        (400, UnusableImageError),
        (304, UnusableImageError),
    ],
)
def test_what_is_not_to_be_had_is_asked_for_once(code, wanted, registry, ask, slept):
    """A code that says no is the image's affair, and asking again would change nothing."""
    registry.odd = lambda _: Answer(code)
    with pytest.raises(wanted, match=str(code)) as caught:
        ask.resolve(named(registry), AMD)
    assert caught.value.problem.remedy
    assert (len(registry.asked), slept) == (1, [])


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_busy_registry_is_asked_again_and_then_ours(code, registry, ask, slept):
    """A code that means later is asked again a few times, longer apart each time; then it is our fault."""
    registry.odd = lambda _: Answer(code)
    with pytest.raises(BackendUnavailable, match=f"{ATTEMPTS} times: it answers {code}"):
        ask.resolve(named(registry), AMD)
    assert len(registry.asked) == ATTEMPTS
    assert slept == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("header", "wanted"), [("7", 7), ("0", 1), ("99999", 30), ("²", 1), ("Fri, 31 Dec 2027 23:59:59 GMT", 1), ("-5", 1)]
)
def test_a_registry_is_left_alone_as_long_as_it_asks(header, wanted, registry, ask, slept):
    """Retry-After is kept to within half a minute, and what is no number of seconds is not heard."""
    registry.put("team/entry", "1", registry.image(RUN))
    registry.odd = lambda _: Answer(429, headers={"Retry-After": header}) if len(registry.asked) == 1 else None
    assert ask.resolve(named(registry), AMD).sizes == (7,)
    assert slept == [wanted]


def test_waiting_is_bounded_in_all(registry):
    """Not more is waited for one document than was said, however long a registry asks for."""
    waited = []
    registry.odd = lambda _: Answer(429, headers={"Retry-After": "25"})
    with pytest.raises(BackendUnavailable, match="1 times"):
        ImageResolver([registry.host], Credentials, seconds=20, sleep=waited.append).resolve(named(registry), AMD)
    assert waited == []


@pytest.mark.parametrize(
    "headers", [{"Content-Length": "5000", "Connection": "close"}, {"Transfer-Encoding": "chunked"}]
)
def test_half_an_answer_is_asked_for_again(headers, registry, ask, slept):
    """An answer that ends too early or is garbage on the wire is the registry's trouble, not the image's."""
    registry.put("team/entry", "1", registry.image(RUN))
    registry.odd = lambda _: (
        Answer(200, b"{", headers | {"Content-Type": MANIFEST, "Connection": "close"})
        if len(registry.asked) == 1
        else None
    )
    assert ask.resolve(named(registry), AMD).sizes == (7,)
    assert slept == [1]


def test_a_registry_that_is_away_is_ours(slept):
    """Nobody listens: it is asked again, and is no fault of the image."""
    gone = Registry()
    gone._server.server_close()
    with pytest.raises(BackendUnavailable, match=r"asked 6 times: .*refused"):
        ImageResolver([gone.host], Credentials, sleep=slept.append).resolve(named(gone), AMD)
    assert len(slept) == ATTEMPTS - 1


def test_a_token_is_fetched_without_credentials(registry, ask):
    """Where tokens are for everybody, one is fetched for this repository and pulling alone, whatever scope is named."""
    registry.users, registry.anonymous = {}, True
    registry.put("team/entry", "1", registry.image(RUN))
    assert ask.resolve(named(registry), AMD).sizes == (7,)
    [asked] = [each for each in registry.asked if each.path == "/token"]
    assert asked.query == {"scope": ["repository:team/entry:pull"], "service": ["registry"]}
    assert "Authorization" not in asked.headers


@pytest.mark.parametrize("basic", [True, False])
def test_credentials_open_a_private_registry(basic, registry, tmp_path):
    """Name and password of docker's file get a token, or are sent as they are where that is asked for; not before."""
    registry.users, registry.basic = {"me": "se:cret"}, basic
    registry.put("team/entry", "1", registry.image(RUN))
    known = logged_in(tmp_path, {registry.host: auth("me", "se:cret")})
    assert ImageResolver([registry.host], lambda: known).resolve(named(registry), AMD).sizes == (7,)
    assert "Authorization" not in registry.asked[0].headers
    wrong = logged_in(tmp_path, {registry.host: auth("me", "wrong")})
    with pytest.raises(UnusableImageError, match=r"with the credentials that it was given .401."):
        ImageResolver([registry.host], lambda: wrong).resolve(named(registry), AMD)
    with pytest.raises(UnusableImageError, match="to somebody without credentials"):
        ImageResolver([registry.host], Credentials).resolve(named(registry), AMD)


def test_a_token_that_has_run_out_is_replaced(registry, ask):
    """A token that holds for the manifest and not for the configuration is fetched anew."""
    registry.users, registry.anonymous = {}, True
    registry.put("team/entry", "1", registry.image(RUN))

    def expire(asked):
        if "/blobs/" in asked.path and registry.token != "another":  # noqa: S105
            registry.token = "another"  # noqa: S105

    registry.odd = expire
    assert ask.resolve(named(registry), AMD).sizes == (7,)
    assert [each.path for each in registry.asked].count("/token") == 2


@pytest.mark.parametrize("basic", [True, False])
def test_credentials_do_not_follow_a_redirect(basic, registry, start, tmp_path):
    """A blob that lies elsewhere is fetched there by somebody unknown; its digest is what counts."""
    elsewhere = start()
    registry.users, registry.basic = {"me": "secret"}, basic
    registry.put("team/entry", "1", registry.image(RUN))
    elsewhere.blobs = registry.blobs
    registry.odd = lambda asked: (
        Answer(307, headers={"Location": f"{elsewhere.url}{asked.path}?sig=x", "Set-Cookie": "a=b"})
        if "/blobs/" in asked.path and "Authorization" in asked.headers
        else None
    )
    known = logged_in(tmp_path, {registry.host: auth("me", "secret"), elsewhere.host: auth("me", "secret")})
    assert ImageResolver([registry.host], lambda: known).resolve(named(registry), AMD).sizes == (7,)
    [asked] = elsewhere.asked
    assert not {"Authorization", "Cookie"} & set(asked.headers)


def test_credentials_stay_on_the_same_host(registry, tmp_path):
    """A redirect within the registry keeps them: a registry may move its own repositories."""
    registry.users, registry.basic = {"me": "secret"}, True
    registry.put("new", "1", registry.image(RUN))
    registry.odd = lambda asked: (
        Answer(301, headers={"Location": "/v2/new/manifests/1"})
        if "team" in asked.path and "manifests" in asked.path
        else None
    )
    known = logged_in(tmp_path, {registry.host: auth("me", "secret")})
    assert ImageResolver([registry.host], lambda: known).resolve(named(registry), AMD).sizes == (7,)


@pytest.mark.parametrize(
    "location",
    ["", "ftp://x/y", "file:///etc/passwd", "http://user:x@h/y", "http://[", "http://h:0/", "//", "http://h:99999/"],
)
def test_a_redirect_to_nowhere_is_not_followed(location, registry, ask, slept):
    """Only addresses over HTTP without a user in them are followed."""
    registry.odd = lambda _: Answer(302, headers={"Location": location})
    with pytest.raises(BackendUnavailable, match="redirects"):
        ask.resolve(named(registry), AMD)
    assert slept == []


def test_what_a_redirect_brings_along_is_not_read(registry, ask):
    """The body of a redirect may be endless, or unpack to something that is: nobody waits for it."""
    registry.put("team/entry", "1", registry.image(RUN))
    bomb = {"Location": "/v2/team/entry/manifests/1", "Content-Length": str(10**9), "Content-Encoding": "gzip"}
    registry.odd = lambda _: Answer(307, gzip.compress(b"x"), bomb) if len(registry.asked) == 1 else None
    began = time.monotonic()
    assert ask.resolve(named(registry), AMD).sizes == (7,)
    assert time.monotonic() - began < 10, "it would wait half a minute for the rest"


def test_a_circle_of_redirects_ends(registry, ask):
    """After a few redirects it is enough."""
    registry.odd = lambda asked: Answer(307, headers={"Location": asked.path})
    with pytest.raises(BackendUnavailable, match="more than 5 times"):
        ask.resolve(named(registry), AMD)
    assert len(registry.asked) == 6


@pytest.mark.parametrize(
    "realm", ["http://tokens.invalid/token", "ftp://x/", "https://u:p@h/", "/token", "", "https://["]
)
def test_credentials_do_not_go_to_any_realm(realm, registry, tmp_path):
    """A place for tokens without TLS gets no credentials, unless the operator said that it is theirs."""
    registry.users, registry.realm = {"me": "secret"}, realm or " "
    known = logged_in(tmp_path, {registry.host: auth("me", "secret")})
    with pytest.raises(BackendUnavailable, match="credentials are sent over TLS only"):
        ImageResolver([registry.host], lambda: known).resolve(named(registry), AMD)


def test_a_realm_on_another_host_gets_this_registrys_credentials_alone(registry, start, tmp_path):
    """Tokens may be had elsewhere, as docker.io's are: that place learns the login for this registry and no other."""
    other = start()
    registry.users = other.users = {"me": "here"}
    registry.realm = f"{other.url}/token"
    registry.put("team/entry", "1", registry.image(RUN))
    known = logged_in(tmp_path, {registry.host: auth("me", "here"), other.host: auth("root", "there")})
    both = ImageResolver([registry.host, other.host], lambda: known)
    assert both.resolve(named(registry), AMD).sizes == (7,)
    [asked] = other.asked
    assert asked.headers["Authorization"] == f"Basic {auth('me', 'here')['auth']}"


@pytest.mark.parametrize(
    "said",
    [b"", b"[]", b"null", b'{"token": 1}', b'{"token": "a\\r\\nHost: x"}', b'{"token": ""}', b"[" * 60_000, b"\xff"],
)
def test_a_token_that_is_none_is_ours(said, registry, ask):
    """What is no token is never sent on; the registry is out of order."""
    registry.users = {}
    registry.odd = lambda asked: Answer(200, said) if asked.path == "/token" else None
    with pytest.raises(BackendUnavailable, match="a token that is not valid"):
        ask.resolve(named(registry), AMD)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate for 127.0.0.1 that nobody knows: its file, and a server's context."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("authority") / "registry.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, context


def test_tls_is_the_rule_and_certificates_hold(authority, start, monkeypatch, slept):
    """A certificate of an unknown authority is not taken, with the remedy; SSL_CERT_FILE makes it known."""
    path, context = authority
    registry = start(context)
    registry.put("team/entry", "1", registry.image(RUN))
    asking = ImageResolver([], Credentials, sleep=slept.append)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(BackendUnavailable, match=r"no trusted certificate.*SSL_CERT_FILE"):
        asking.resolve(named(registry), AMD)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    assert asking.resolve(named(registry), AMD).sizes == (7,)
    assert slept == []


def test_from_tls_no_redirect_leads_away(authority, start, monkeypatch):
    """What was asked for over TLS is not fetched without."""
    path, context = authority
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    registry, elsewhere = start(context), start()
    registry.odd = lambda asked: Answer(307, headers={"Location": f"{elsewhere.url}{asked.path}"})
    with pytest.raises(BackendUnavailable, match="not an https address"):
        ImageResolver([], Credentials).resolve(named(registry), AMD)
    assert elsewhere.asked == []


def test_a_registry_without_tls_has_to_be_named(registry, slept):
    """A registry that speaks plain HTTP is not asked so unless the operator says it; the message says how."""
    with pytest.raises(BackendUnavailable, match="insecure_registries"):
        ImageResolver([], Credentials, sleep=slept.append).resolve(named(registry), AMD)
    assert registry.asked == []


def test_neither_netrc_nor_cookies_are_used(registry, ask, tmp_path, monkeypatch):
    """What the machine's other programs know is not told to a registry."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    registry.put("team/entry", "1", registry.image(RUN))
    old = registry._thing
    registry._thing = lambda *given, **more: (
        (answer := old(*given, **more)).headers.update({"Set-Cookie": "a=b"}) or answer
    )
    assert ask.resolve(named(registry), AMD).sizes == (7,)
    assert len(registry.asked) == 2
    assert not any({"Authorization", "Cookie"} & set(asked.headers) for asked in registry.asked)
