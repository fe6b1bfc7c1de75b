"""Django behind a bounded number of threads: bodies, streams, and what is put off."""

import asyncio
import io
import json
import os
import threading
import zipfile

import pytest
from structlog.testing import capture_logs

from tests.web import asgi
from tests.web.conftest import client_of


@pytest.fixture
def application(contest):
    """The service of a contest."""
    with asgi.running_application() as made:
        yield made


@pytest.fixture
def team(contest):
    """Programs of Ada, of the team Corner Shop."""
    from orchestrator.application.contests import seasons
    from tests.web import api_client

    api = api_client.make_api("Ada", now=seasons.now())
    api_client.join_team(contest, api.account)
    return api


def test_a_large_body_comes_whole(application, team, contest):
    """What is over a megabyte lies on the disk meanwhile, in whichever pieces it came."""
    data = bytes(range(256)) * 10_000
    path = f"/api/v1{team.upload_path(team.begin_upload(data))}"
    pieces = [data[at : at + 300_001] for at in range(0, len(data), 300_001)]
    answer = asgi.ask(
        application,
        path,
        "PATCH",
        pieces=pieces,
        Authorization=f"Bearer {team.token}",
        Tus_Resumable="1.0.0",
        Upload_Offset="0",
        Content_Type="application/offset+octet-stream",
        Content_Length=str(len(data)),
    )
    assert answer.status == 204, answer.body
    package = next((contest / "arrivals" / answer.headers["sparring-arrival"]).glob("package*"))
    assert package.read_bytes() == data


def test_a_body_that_breaks_off_changes_nothing(application, team):
    """Who sends it is gone, so nothing is answered, and its place on the disk is free again."""
    sent, cookie = [], client_of(team.account).cookies["session"].value
    messages = [{"type": "http.request", "body": bytes(900_000), "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(application(asgi.scope_of("/my/", "POST", cookie=f"session={cookie}"), receive, send))
    assert (sent, messages, application._spool.promised) == ([], [], 0)


def test_twenty_senders_leave_each_pass_of_the_loop_short(contest):
    """Two bodies are read on in a pass, in turn; whoever stops waiting holds nobody up."""
    from orchestrator.web.request_bodies import Turns

    turns, order = Turns(2), []

    async def passes():
        for number in range(8):
            order.append(number)
            await asyncio.sleep(0)

    async def read(name):
        for _ in range(2):
            await turns.take()
            order.append(name)

    async def play():
        gone = asyncio.ensure_future(read("gone"))
        await asyncio.sleep(0)
        readers = [asyncio.ensure_future(read(name)) for name in "abcde"]
        gone.cancel()
        await asyncio.gather(passes(), *readers)

    asyncio.run(play())
    read_in_order = [each for each in order if isinstance(each, str)]
    assert sorted(read_in_order[:5]) == sorted(read_in_order[5:]) == list("abcde")
    between = [0]
    for each in order:
        if isinstance(each, str):
            between[-1] += 1
        else:
            between.append(0)
    assert max(between) <= 2


def test_a_request_too_many_is_put_off(application, monkeypatch):
    """503 says when to come again, to people on a page; what only reads has a limit of its own, and is answered."""
    from orchestrator.web import application as module

    monkeypatch.setattr(module, "MOST_WAITING", 1)
    entered, leave = threading.Event(), threading.Event()

    def held():
        entered.set()
        leave.wait(60)

    async def play():
        first = asyncio.ensure_future(application._writing.run(held))
        await asyncio.to_thread(entered.wait, 60)
        put_off = await asgi.send_request(application, "/api/v1/uploads", "POST")
        form = await asgi.send_request(application, "/account/login/", "POST")
        page = await asgi.send_request(application, "/boards/")
        leave.set()
        await first
        return put_off, form, page, await asgi.send_request(application, "/api/v1/uploads", "POST")

    with capture_logs() as logs:
        put_off, form, page, after = asyncio.run(play())
    refused = [(each["status"], each["page"]) for each in logs if each["event"] == "request_refused"]
    assert refused[:2] == [(503, "api/v1/uploads"), (503, "account/login/")]
    for each in (put_off, form):
        assert (each.status, each.headers["retry-after"]) == (503, "5")
    assert json.loads(put_off.body)["code"] == "busy"
    assert "<h1>Come back in a moment</h1>" in form.body.decode()
    assert page.status == 200
    assert after.status == 401


def test_a_file_is_sent_in_pieces(application, contest):
    """An archive comes whole, a megabyte at a time."""
    folder = contest / "published" / "sealed-1"
    folder.mkdir(parents=True)
    data = os.urandom(2_500_000)
    (folder / "data").write_bytes(data)
    answer = asgi.ask(application, "/downloads/sealed-1.zip")
    assert answer.status == 200
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.read("sealed-1/data") == data
    assert answer.pieces > 2
