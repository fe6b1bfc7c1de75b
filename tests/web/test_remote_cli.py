"""The command line against a service in another process: uploads that are killed, submissions, tokens, boards."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.errors import ServiceUnavailable, UsageError
from orchestrator.remote import client as client_module
from orchestrator.remote import upload
from orchestrator.remote.client import ServiceClient, ServiceRefused
from orchestrator.remote.token_store import TokenStore
from tests.web.real_service import ROOT, RealService, environment

SUBMISSION = ROOT / "examples" / "demo" / "submissions" / "attack_corners"
SAID = {"team": "Corner Shop", "task": "digits"}
pytestmark = pytest.mark.xdist_group("real service")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A running service; tests that kill it start it again."""
    service = RealService(tmp_path_factory.mktemp("real"))
    service.start()
    yield service
    service.kill()


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 64 KiB, so that files of a megabyte have many."""
    monkeypatch.setattr(upload, "PART_BYTES", 64 * 1024)


def random_file(folder, name="big.tar", size=1024 * 1024):
    """Returns a file of random bytes."""
    path = folder / name
    path.write_bytes(os.urandom(size))
    return path


def arrival_of(service, path):
    """Returns what arrived with a file's digest."""
    digest = f"sha256:{upload.file_digest(path)}"
    with seasons.administer(service.folder) as admin:
        [found] = [each for each in admin.season.arrivals.values() if each.digest == digest]
    return found


def wait_for_nothing(_seconds):
    """Waits for nothing: what is asked again is ready at once."""


def said(done):
    """Returns what a command printed as an error, on one line."""
    return " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_killed_server_costs_a_part(real, tmp_path, small_parts):
    """It is killed with kill -9 in the middle, and started again: the upload goes on, and the file is whole."""
    path, offsets = random_file(tmp_path), []

    def watch(offset):
        offsets.append(offset)
        if offset == 5 * upload.PART_BYTES and real.process is not None and offsets.count(offset) == 1:
            real.kill()

    def restart(_seconds):
        real.start()

    arrival = upload.upload_file(real.client(), path, SAID, watch, restart)
    assert offsets.count(5 * upload.PART_BYTES) == 2
    assert offsets == sorted(offsets)
    assert (arrival_of(real, path).id, arrival_of(real, path).size) == (arrival, path.stat().st_size)


@pytest.mark.slow
def test_a_server_that_is_killed_within_a_part_forgets_it(real, tmp_path, small_parts):
    """Half of a part is not counted, and the next one begins where the last whole one ended."""
    path, client = random_file(tmp_path), real.client()
    with pytest.raises(KeyboardInterrupt):
        upload.upload_file(client, path, SAID, _interrupt_at(2 * upload.PART_BYTES))
    place = _open_upload(client, path)
    with socket.create_connection(("127.0.0.1", real.port)) as connection:
        head = (
            f"PATCH /api/v1{place} HTTP/1.1\r\nHost: 127.0.0.1:{real.port}\r\nAuthorization: Bearer {real.token}\r\n"
            f"Tus-Resumable: 1.0.0\r\nUpload-Offset: {2 * upload.PART_BYTES}\r\n"
            f"Content-Type: application/offset+octet-stream\r\nContent-Length: {upload.PART_BYTES}\r\n\r\n"
        )
        connection.sendall(head.encode() + b"?" * 1000)
        real.kill()
    real.start()
    assert client.request("HEAD", place, headers={"Tus-Resumable": "1.0.0"}).headers["Upload-Offset"] == str(
        2 * upload.PART_BYTES
    )
    upload.upload_file(client, path, SAID, wait_for_nothing)
    assert arrival_of(real, path).size == path.stat().st_size


@pytest.mark.slow
def test_a_killed_client_goes_on(real, tmp_path):
    """It is killed with kill -9 in the middle; the same command again begins at the right offset."""
    path = random_file(tmp_path)
    script = (
        "import os, signal, sys; from pathlib import Path; from orchestrator.remote import upload\n"
        "from orchestrator.remote.client import ServiceClient\n"
        "upload.PART_BYTES = 65536\n"
        "watch = lambda done: done >= 4 * 65536 and os.kill(os.getpid(), signal.SIGKILL)\n"
        "client = ServiceClient(sys.argv[1], sys.argv[2])\n"
        "upload.upload_file(client, Path(sys.argv[3]), {'team': 'Corner Shop', 'task': 'digits'}, watch)\n"
    )
    words = [sys.executable, "-c", script, real.address, real.token, str(path)]
    killed = subprocess.run(words, env=environment(real.home), check=False)
    assert killed.returncode == -signal.SIGKILL
    offsets = []
    upload.upload_file(real.client(), path, SAID, offsets.append)
    assert offsets[0] == 4 * 65536
    assert arrival_of(real, path).size == path.stat().st_size


@pytest.mark.slow
def test_a_file_that_changes_is_not_taken(real, tmp_path, small_parts):
    """The digest at the end is another: nothing arrived, and the error says what to do."""
    path = random_file(tmp_path)

    def change(offset):
        if offset == upload.PART_BYTES:
            path.write_bytes(bytes(path.stat().st_size))

    with pytest.raises(ServiceRefused, match="send the file once more") as refused:
        upload.upload_file(real.client(), path, SAID, change)
    assert refused.value.reason == "digest-mismatch"


@pytest.mark.slow
def test_a_submission_is_handed_in_from_elsewhere(real):
    """A folder is packed, sent and admitted; the receipt is kept and genuine. Again, it gets the same receipt."""
    words = ("submit", str(SUBMISSION), "--to", real.address, "--team", "Corner Shop")
    sent = real.sparring(*words, "--no-wait", "--json")
    assert sent.exit_code == 0, sent.stderr
    arrival = json.loads(sent.stdout)["arrival"]
    assert arrival["state"] == "waiting"
    worked = real.sparring("work", str(real.folder), "--once", "--allow-unisolated", "--backend", "process")
    assert worked.exit_code == 0, worked.stderr
    done = real.sparring(*words)
    assert done.exit_code == 0, done.stderr
    assert f"arrived  {arrival['arrival']}" in done.stdout
    receipt = real.home / "corners.receipt.json"
    assert receipt.read_bytes() == (real.folder / "receipts" / "corners.json").read_bytes()
    assert "passed" in done.stderr
    shown = json.loads(real.sparring("status", "--from", real.address, "--json").stdout)
    assert ("received", "corners") in {(each["state"], each["submission"]) for each in shown["arrivals"]}


@pytest.mark.slow
def test_a_refused_file_says_why(real, tmp_path):
    """Exit code 1, each problem with its remedy, and the same as JSON."""
    path = tmp_path / "nonsense.tar"
    path.write_bytes(b"no archive at all")
    words = ("submit", str(path), "--to", real.address, "--team", "Corner Shop")
    assert real.sparring(*words, "--no-wait").exit_code == 0
    real.sparring("work", str(real.folder), "--once", "--allow-unisolated", "--backend", "process")
    [refused] = [each for each in real.client().get("/arrivals") if each["file_name"] == "nonsense.tar"]
    assert (refused["state"], bool(refused["problems"])) == ("refused", True)


@pytest.mark.slow
def test_the_close_is_said_on_both_sides_of_it(real, tmp_path):
    """What came before has its time, after the close too; what comes later is told when and how submissions closed."""
    file = real.folder / "contest.yaml"
    text = file.read_text("utf-8")
    words = ("--to", real.address, "--team", "Corner Shop", "--no-wait")
    before, late = random_file(tmp_path, "before.tar"), random_file(tmp_path, "late.tar")
    arrival = upload.upload_file(real.client(), before, SAID, wait_for_nothing)
    came = arrival_of(real, before).time
    try:
        file.write_text(f"{text}\ncloses: {datetime.now(UTC).isoformat()}\n", "utf-8")
        done = real.sparring("submit", str(before), *words)
        assert done.stdout.startswith(f"arrived  {arrival} at {came}: this time counts"), done.stderr
        done = real.sparring("submit", str(late), *words)
        assert done.exit_code == 1
        assert re.search(r"submissions closed at \S+, and this came at \S+", said(done))
    finally:
        file.write_text(text, "utf-8")
    with seasons.administer(real.folder) as admin:
        submission_closing.close_submissions(admin, "enough")
    try:
        done = real.sparring("submit", str(late), *words)
        assert done.exit_code == 1
        assert re.search(r"the organizers closed submissions at \S+ \(enough\)", said(done))
        assert ", by the organizers (enough);" in real.sparring("status", "--from", real.address).stdout
    finally:
        with seasons.administer(real.folder) as admin:
            submission_closing.reopen_submissions(admin, "the end of the test")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        pytest.param(["it", "--to", "{}"], 2, "Missing option '--team'", id="no team"),
        pytest.param(["a", "b", "--to", "{}", "--team", "x"], 2, "with --to give one SUBMISSION", id="two words"),
        pytest.param(["a", "--team", "x"], 2, "give DIR and SUBMISSION, or --to and SUBMISSION", id="one word"),
        pytest.param(["nothing", "--to", "{}", "--team", "x"], 2, "there is no nothing", id="no file"),
        pytest.param(["a", "b", "--team", "x", "--no-wait"], 2, "are for a site; give --to", id="no site"),
        pytest.param(["a", "--to", "{}", "--team", "x", "--by", "me"], 2, "leave them out", id="desk option"),
        pytest.param(["x@sha256:00", "--to", "{}", "--team", "x"], 2, "give --name and --side", id="no side"),
        pytest.param(["pyproject.toml", "--to", "{}", "--team", "x"], 2, "or it is not yours", id="not my team"),
        pytest.param(["a", "--to", "ftp://x", "--team", "x"], 2, "is no address of a site", id="address"),
        pytest.param(["a", "--to", "http://198.51.100.1", "--team", "x"], 2, "has no TLS", id="no TLS"),
    ],
)
def test_what_cannot_be_done_is_said(real, words, code, text):
    """With exit code 2, before anything is sent."""
    shutil.copy(ROOT / "pyproject.toml", real.home)
    done = real.sparring("submit", *(word.replace("{}", real.address) for word in words))
    assert (done.exit_code, text in said(done)) == (code, True), done.stderr


@pytest.mark.slow
def test_an_expired_token_says_so(real):
    """When, and how to get another."""
    _, token = real.make_token(days=-10)
    done = real.sparring("submit", str(SUBMISSION), "--to", real.address, "--team", "Corner Shop", token=token)
    assert done.exit_code == 2
    assert re.search(r"expired on \d{4}-\d\d-\d\d at \d\d:\d\d UTC; get another with `sparring login http", said(done))


@pytest.mark.slow
def test_without_a_token_it_says_how_to_get_one(real):
    """And nothing is asked of the service."""
    done = real.sparring("submit", str(SUBMISSION), "--to", real.address, "--team", "Corner Shop", token="")
    assert f"get one with `sparring login {real.address}`" in said(done)


@pytest.mark.slow
def test_login_and_logout(real):
    """A person approves; the token is in a file of theirs alone until they log out, and then it is revoked."""
    words = [sys.executable, "-m", "orchestrator", "login", real.address, "--name", "laptop", "--json"]
    with subprocess.Popen(
        words, env=environment(real.home, SPARRING_TOKEN=""), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        lines = iter(asking.stderr.readline, "")
        code = next(found[0] for line in lines if (found := re.search(r"[A-Z]{4}-[A-Z]{4}", line)))
        assert real.approve(code) == ["laptop", "True"]
        shown = json.loads(asking.communicate()[0])
    assert shown["account"]["teams"] == ["Corner Shop"]
    file = real.home / "config" / "sparring" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    token = json.loads(file.read_bytes())[real.address]
    assert ServiceClient(real.address, token).get("/me")["token"] == "laptop"  # noqa: S105  its name
    assert real.sparring("logout", real.address, token="").exit_code == 0
    assert json.loads(file.read_bytes()) == {}
    with pytest.raises(UsageError, match="unknown, or was revoked"):
        ServiceClient(real.address, token).get("/me")


@pytest.mark.slow
def test_boards_of_a_site(real):
    """Without a token; before the first round it says so."""
    done = real.sparring("board", "--from", real.address, token="")
    assert (done.exit_code, "no round has results" in said(done)) == (2, True)
    assert json.loads(real.sparring("board", "--from", real.address, "--json", token="").stdout) == []
    assert real.sparring("board").exit_code == 2


@pytest.mark.slow
def test_a_large_body_is_refused_before_it_is_read(real):
    """By its length alone, also without a token."""
    with socket.create_connection(("127.0.0.1", real.port)) as connection:
        connection.sendall(b"POST /api/v1/device HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.slow
def test_a_body_without_a_length_is_counted(real):
    """Chunks that go on and on are ended."""
    with socket.create_connection(("127.0.0.1", real.port)) as connection:
        connection.sendall(b"POST /api/v1/device HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
        connection.sendall(chunk)
        connection.sendall(b"1\r\nx\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("status", [408, 429, 503])
def test_what_passes_by_itself_is_asked_again(status):
    """A body that came too slowly, too, and a service that is busy."""
    answers = [status, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"code": "passes", "problems": [{"place": "body", "what": "no", "remedy": "again"}]}'
            self.send_response(answers.pop(0))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Says nothing."""

    waits = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = ServiceClient(f"http://127.0.0.1:{server.server_port}", sleep=waits.append)
        assert client.request("PATCH", "/uploads/ab", b"part").status == 200
        server.shutdown()
    assert (answers, waits) == ([], [1.0])


def test_an_absent_service_is_an_infrastructure_fault():
    """It is asked a few times, with longer waits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        waits = []
        client = ServiceClient(f"http://127.0.0.1:{free.getsockname()[1]}", sleep=waits.append)
        with pytest.raises(ServiceUnavailable, match="does not answer"):
            client.get("/status")
    assert waits == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("address", ["http://cup.example.org", "http://10.0.0.1:8000"])
def test_no_token_is_sent_in_clear(address):
    """Another machine needs TLS; what everybody may read does not."""
    with pytest.raises(UsageError, match="has no TLS"):
        ServiceClient(address, "spar_x_y")
    ServiceClient(address)


def test_addresses():
    """What stands behind the host is left out, and what is no address is refused."""
    assert client_module.service_address("https://Cup.example.org/some/page?x") == "https://cup.example.org"
    for wrong in ("cup.example.org", "https://ada:secret@cup.example.org", "file:///etc/passwd"):
        with pytest.raises(UsageError, match="is no address"):
            client_module.service_address(wrong)


def test_tokens_are_kept_by_address(tmp_path):
    """One each; that of the environment goes first."""
    store = TokenStore({"XDG_CONFIG_HOME": str(tmp_path)})
    store.keep("https://a.example.org", "spar_a")
    store.keep("https://b.example.org", "spar_b")
    assert store.require("https://a.example.org") == "spar_a"
    assert TokenStore({"XDG_CONFIG_HOME": str(tmp_path), "SPARRING_TOKEN": "spar_c"}).find("x") == "spar_c"
    store.forget("https://a.example.org")
    assert (store.find("https://a.example.org"), store.find("https://b.example.org")) == ("", "spar_b")


def _interrupt_at(offset):
    def watch(done):
        if done >= offset:
            raise KeyboardInterrupt

    return watch


def _open_upload(client, path):
    """Returns where the unfinished upload of a file is."""
    found = []
    send = client.request

    def keep_place(method, place, *rest, **more):
        if method == "HEAD":
            found.append(place)
            raise KeyboardInterrupt
        return send(method, place, *rest, **more)

    client.request = keep_place
    try:
        with pytest.raises(KeyboardInterrupt):
            upload.upload_file(client, path, SAID, wait_for_nothing)
    finally:
        client.request = send
    return found[0]
