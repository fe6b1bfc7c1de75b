"""Bodies of requests: who may send how much of one is asked before it is read, and it has to come at some speed."""

import asyncio

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from structlog.testing import capture_logs

from tests.web import asgi
from tests.web.conftest import client_of

SMALL, MEBIBYTE = 64 * 1024, 1024 * 1024
TUS = {"Tus_Resumable": "1.0.0", "Upload_Offset": "0", "Content_Type": "application/offset+octet-stream"}


@pytest.fixture
def application(contest):
    """The service of a contest."""
    with asgi.running_application() as made:
        yield made


@pytest.fixture
def team(contest):
    """Programs of Ada, of the team Corner Shop."""
    return member(contest, "Ada", "Corner Shop")


@pytest.fixture
def others(contest):
    """Programs of Bob, of another team."""
    return member(contest, "Bob", "Others")


def member(contest, name, team):
    """Returns the programs of somebody who is in a team alone."""
    from orchestrator.application.contests import seasons
    from tests.web import api_client

    api = api_client.make_api(name, now=seasons.now())
    api_client.join_team(contest, api.account, team)
    return api


def session_of(api):
    """Returns the cookie of somebody who is signed in."""
    return f"session={client_of(api.account).cookies['session'].value}"


class Sender:
    """Sends a body piece by piece, also more than was said, and knows how much of it was read before the answer."""

    def __init__(self, pieces, *, ends=True):
        self._pieces, self._ends = list(pieces), ends
        self.read, self.status, self.headers, self.body = 0, 0, {}, b""
        self.waits, self.all_read = asyncio.Event(), asyncio.Event()

    async def receive(self):
        """Gives the next piece; whoever does not end stays silent after the last."""
        if not self._pieces:
            self.waits.set()
            await asyncio.Event().wait()
        piece = self._pieces.pop(0)
        self.read += 0 if self.status else len(piece)
        if not self._pieces:
            self.all_read.set()
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or not self._ends}

    async def send(self, message):
        """Takes the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        self.body += message.get("body", b"")

    async def ask(self, application, method, path, **headers):
        """Sends a request and takes its answer."""
        await application(asgi.scope_of(path, method, **headers), self.receive, self.send)
        return self


def send(application, method, path, pieces, **headers):
    """Returns who sent a body, with the answer."""
    return asyncio.run(Sender(pieces).ask(application, method, path, **headers))


@pytest.mark.parametrize("told", [True, False], ids=["told", "in chunks"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/my/corner-shop/submit/", 302),
        ("POST", "/my/corner-shop/pictures/", 302),
        ("POST", "/my/no-such-team/submit/", 302),
        ("POST", "/organize/announce/", 302),
        ("POST", "/account/tokens/", 302),
        ("POST", "/account/login/", 413),
        ("POST", "/account/signup/", 413),
        ("POST", "/", 413),
        ("POST", "/nothing/", 404),
        ("GET", "/boards/", 413),
        ("PATCH", "/api/v1/uploads/ab", 401),
        ("POST", "/api/v1/submissions", 401),
        ("POST", "/api/v1/nothing", 401),
        ("POST", "/api/v1/device", 413),
    ],
)
def test_nothing_large_is_read_from_a_stranger(application, team, method, path, status, told):
    """Where its length is told none of it is read; else as much as anybody may send, in memory, and no more."""
    pieces = [bytes(SMALL)] * 15
    headers = {"Content_Length": str(15 * SMALL)} if told else {"Transfer_Encoding": "chunked"}
    sent = send(application, method, path, pieces, **headers)
    assert (sent.status, sent.headers["connection"]) == (status, "close")
    assert sent.read <= (0 if told else 2 * SMALL)
    if status == 302:
        assert sent.headers["location"].startswith("/account/login/?next=")


def test_no_file_of_a_stranger_is_read_however_small(application, team):
    """Django writes files of a form to the disk, so it is asked whose they are before the first byte."""
    sent = send(application, "POST", "/my/corner-shop/submit/", [b"x"], Content_Length="1")
    assert (sent.status, sent.read) == (302, 0)


def test_a_file_where_no_form_takes_one_is_read_over(contest, monkeypatch):
    """A stranger's file in a small form comes to no disk, and the form is answered as it would be without it."""
    from orchestrator.web import form_uploads

    begun = []
    monkeypatch.setattr(form_uploads.TemporaryFileUploadHandler, "new_file", lambda *_args, **_more: begun.append(1))
    answer = client_of().post("/account/login/", {"email": "ada@example.org", "file": SimpleUploadedFile("a", b"x")})
    assert (answer.status_code, begun) == (302, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/my/corner-shop/submit/", 404), ("/organize/announce/", 403), ("/account/login/", 413), ("/my/", 200)],
)
def test_nothing_large_is_read_without_the_right_to_the_page(application, team, others, path, status):
    """Somebody with an account sends large bodies to pages of their own only, where a form needs its token."""
    size = 15 * SMALL
    sent = send(
        application,
        "POST",
        path,
        [bytes(size)],
        cookie=session_of(others),
        Content_Length=str(size),
        Content_Type="application/x-www-form-urlencoded",
    )
    if status == 200:
        assert (sent.status, sent.read) == (403, size)  # read, and it has no token of a form
        assert "This form has expired" in sent.body.decode()
    else:
        assert (sent.status, sent.read) == (status, 0)


def test_no_part_is_read_that_the_upload_s_team_did_not_send(application, team, others):
    """Not with a token that is unknown, that may only read, or of another team."""
    from datetime import timedelta

    from orchestrator.application.contests import seasons
    from orchestrator.web import tokens

    path = f"/api/v1{team.upload_path(team.begin_upload(bytes(MEBIBYTE)))}"
    reading = tokens.issue(team.account, "reads", tokens.Scope.READ, now=seasons.now(), lifetime=timedelta(days=1))
    for token, status in ((f"{team.token}0", 401), (reading, 403), (others.token, 404), (team.token, 204)):
        headers = {**TUS, "Content_Length": str(MEBIBYTE), "Authorization": f"Bearer {token}"}
        sent = send(application, "PATCH", path, [bytes(MEBIBYTE)], **headers)
        assert (sent.status, sent.read) == (status, MEBIBYTE if status == 204 else 0)


def test_a_large_file_of_a_member_comes_through_the_form(application, team, contest):
    """With a session and the form's token, as before."""
    from orchestrator.ledger.contest_folder import ContestFolder

    client = client_of(team.account)
    client.get("/my/corner-shop/submit/")
    data, mark = bytes(range(256)) * 8000, "a-mark"
    fields = {"csrfmiddlewaretoken": client.cookies["csrf"].value, "task": "digits"}
    form = "".join(
        f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    form += f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="it.zip"\r\n\r\n'
    body = form.encode() + data + f"\r\n--{mark}--\r\n".encode()
    sent = send(
        application,
        "POST",
        "/my/corner-shop/submit/",
        [body[at : at + 300_001] for at in range(0, len(body), 300_001)],
        cookie="; ".join(f"{name}={each.value}" for name, each in client.cookies.items()),
        Content_Length=str(len(body)),
        Content_Type=f"multipart/form-data; boundary={mark}",
    )
    assert sent.status == 302, sent.body.decode()
    [package] = (ContestFolder(contest).path / "arrivals").glob("*/package*")
    assert package.read_bytes() == data


def test_signing_in_needs_no_account(application, contest):
    """Its form is small, and is taken from everybody who has its token."""
    client = client_of()
    page = client.get("/account/login/").content.decode()
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    body = f"csrfmiddlewaretoken={token}&email=ada%40example.org".encode()
    sent = send(
        application,
        "POST",
        "/account/login/",
        [body],
        cookie=f"csrf={client.cookies['csrf'].value}",
        Content_Length=str(len(body)),
        Content_Type="application/x-www-form-urlencoded",
    )
    assert (sent.status, sent.headers["location"]) == (302, "/account/login/confirm/")


def test_a_body_that_comes_slowly_is_given_up(application, contest, monkeypatch):
    """After its time 408 is answered, on a page and in JSON, to a small body and to a large one."""
    from orchestrator.web import request_bodies

    monkeypatch.setattr(request_bodies, "GRACE_SECONDS", 0.0)
    for path, said in (("/account/login/", "<h1>This came too slowly</h1>"), ("/api/v1/device", '"code": "too-slow"')):
        sent = asyncio.run(Sender([b"x"], ends=False).ask(application, "POST", path, Content_Length="100"))
        assert (sent.status, said in sent.body.decode()) == (408, True)


@pytest.mark.parametrize(("seconds_a_piece", "is_whole"), [(0.9, True), (1.1, False)])
def test_a_body_has_to_come_at_a_speed(service, seconds_a_piece, is_whole):
    """After the first half minute 8 KiB earn another second; counted is the time that the sender takes."""
    from orchestrator.web.request_bodies import LEAST_BYTES_A_SECOND, Body, TooSlowError, Turns

    now, left = [0.0], 1000

    async def receive():
        nonlocal left
        left -= 1
        now[0] += seconds_a_piece
        return {"type": "http.request", "body": bytes(LEAST_BYTES_A_SECOND), "more_body": left > 0}

    async def play():
        body = Body(asgi.scope_of("/", "POST"), receive, Turns(2), 10**9, lambda: now[0])
        while body.more:
            await body.read(MEBIBYTE)
            now[0] += 1000  # our own time, on the disk say

    if is_whole:
        asyncio.run(play())
    else:
        with pytest.raises(TooSlowError):
            asyncio.run(play())
        assert 0 < left < 1000


@pytest.mark.parametrize("limit", ["MOST_OF_ONE_PERSON", "MOST_ON_DISK"])
def test_few_large_bodies_come_at_once(application, team, monkeypatch, limit):
    """The next is put off; once the first ended, there is a place again."""
    from orchestrator.web import request_bodies

    monkeypatch.setattr(request_bodies, limit, 1)
    path = f"/api/v1{team.upload_path(team.begin_upload(bytes(MEBIBYTE)))}"
    headers = {**TUS, "Content_Length": str(MEBIBYTE), "Authorization": f"Bearer {team.token}"}

    async def play():
        first = Sender([bytes(SMALL)], ends=False)
        asked = asyncio.ensure_future(first.ask(application, "PATCH", path, **headers))
        await first.waits.wait()
        second = await Sender([bytes(MEBIBYTE)]).ask(application, "PATCH", path, **headers)
        asked.cancel()
        await asyncio.wait([asked])
        return second, await Sender([bytes(MEBIBYTE)]).ask(application, "PATCH", path, **headers)

    with capture_logs() as logs:
        second, third = asyncio.run(play())
    assert (second.status, second.read, second.headers["retry-after"], third.status) == (503, 0, "5", 204)
    [refused] = [each for each in logs if each["event"] == "request_refused"]
    assert (refused["status"], refused["method"], refused["person"]) == (503, "PATCH", team.account.person)
    assert refused["page"].startswith("api/v1/uploads/<")


def test_a_full_disk_is_said_before_a_body_is_read(application, team, monkeypatch):
    """What has to stay free is not given to bodies of requests, of programs and of forms."""
    from orchestrator.web import uploads

    path = f"/api/v1{team.upload_path(team.begin_upload(bytes(MEBIBYTE)))}"
    monkeypatch.setattr(uploads, "RESERVED_BYTES", 10**18)
    size = {"Content_Length": str(MEBIBYTE)}
    part = send(application, "PATCH", path, [bytes(MEBIBYTE)], **TUS, **size, Authorization=f"Bearer {team.token}")
    form = send(application, "POST", "/my/corner-shop/submit/", [bytes(MEBIBYTE)], cookie=session_of(team), **size)
    assert [(each.status, each.read) for each in (part, form)] == [(507, 0), (507, 0)]


def test_bodies_that_are_coming_count_as_taken_space(application, team, monkeypatch):
    """What another request was promised is not promised twice."""
    from orchestrator.web import uploads

    asked = []
    monkeypatch.setattr(uploads, "require_space", lambda _now, size: asked.append(size))
    headers = {"cookie": session_of(team), "Content_Length": str(MEBIBYTE)}

    async def play():
        first = Sender([bytes(SMALL)], ends=False)
        waiting = asyncio.ensure_future(first.ask(application, "POST", "/my/corner-shop/submit/", **headers))
        await first.waits.wait()
        await Sender([bytes(MEBIBYTE)]).ask(application, "POST", "/my/corner-shop/submit/", **headers)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(play())
    assert asked[:2] == [MEBIBYTE, 2 * MEBIBYTE]


def test_who_asks_before_a_large_body_waits_for_no_view(application, team, monkeypatch):
    """Views that wait for the contest do not make the last byte of a file late."""
    import threading

    leave = threading.Event()
    path = f"/api/v1{team.upload_path(team.begin_upload(bytes(MEBIBYTE)))}"
    headers = {**TUS, "Content_Length": str(MEBIBYTE), "Authorization": f"Bearer {team.token}"}

    async def play():
        held = [asyncio.ensure_future(application._writing.run(leave.wait, 60)) for _ in range(8)]
        sender = Sender([bytes(MEBIBYTE)])
        asked = asyncio.ensure_future(sender.ask(application, "PATCH", path, **headers))
        await sender.all_read.wait()
        leave.set()
        await asyncio.gather(*held, asked)
        return sender.status

    assert asyncio.run(asyncio.wait_for(play(), 60)) == 204


def test_what_comes_after_an_early_answer_is_read_over(application, contest, monkeypatch):
    """So that whoever still sends sees the answer; nobody who is silent is waited for, nor who goes on and on."""
    sender = Sender([bytes(SMALL)] * 15)
    asyncio.run(sender.ask(application, "POST", "/account/login/", Content_Length=str(15 * SMALL)))
    assert (sender.status, sender._pieces) == (413, [])
    for limit in ("IDLE_SECONDS", "LINGER_SECONDS"):
        with monkeypatch.context() as patched:
            patched.setattr(f"orchestrator.web.asgi.{limit}", 0.01)
            silent = Sender([bytes(SMALL)], ends=False)
            asked = silent.ask(application, "POST", "/account/login/", Content_Length=str(15 * SMALL))
            asyncio.run(asyncio.wait_for(asked, 60))
        assert silent.status == 413


def test_early_refusals_are_logged_and_protected(application, contest):
    """They pass Django's middleware as every other answer does."""
    with capture_logs() as logs:
        sent = send(application, "POST", "/account/login/", [b""], Content_Length=str(10**6))
    assert (sent.status, sent.headers["x-frame-options"], sent.headers["referrer-policy"]) == (
        413,
        "DENY",
        "same-origin",
    )
    assert [(each["event"], each["status"], each["page"]) for each in logs] == [
        ("request_refused", 413, "account/login/")
    ]
    other = send(application, "POST", "/account/login/", [b""], Content_Length=str(10**6), Host="evil.example")
    assert other.status == 400
