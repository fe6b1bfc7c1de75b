"""Pages for visitors without an account are answered from memory, are right soon, and are nobody else's."""

import asyncio

import pytest

from orchestrator.application.contests import seasons
from orchestrator.domain.contest_events import ContestAnnounced
from tests.web import asgi
from tests.web.conftest import client_of, make_account


class Seconds:
    """The time that the cache is told."""

    now = 1000.0

    def __call__(self):
        """Returns it."""
        return self.now


class Asked:
    """The service behind the cache, and which requests came through to it."""

    def __init__(self, application):
        self.paths, self.came, self.gate = [], None, None
        self._application = application

    async def __call__(self, scope, receive, send):
        """Answers a request, once the gate is open."""
        self.paths.append(scope["path"])
        if self.came is not None:
            self.came.set()
            await self.gate.wait()
        await self._application(scope, receive, send)


@pytest.fixture
def seconds():
    """The time of the cache."""
    return Seconds()


@pytest.fixture
def asked(season):
    """A season's site."""
    with asgi.running_application() as application:
        yield Asked(application)


@pytest.fixture
def cache(asked, seconds):
    """The cache in front of it."""
    from orchestrator.web.page_cache import PageCache

    return PageCache(asked, seconds)


def announce(folder, title):
    """Announces something, which the first page shows."""
    with seasons.administer(folder) as admin:
        admin.append_event(ContestAnnounced(actor="organizer", title=title, text="It is so."))


def test_a_page_is_made_once_for_all_visitors(cache, asked):
    """The second gets the same bytes and headers, and Django is not asked."""
    first, second = asgi.ask(cache, "/boards/"), asgi.ask(cache, "/boards/")
    assert (first.status, first.body[:15].lower()) == (200, b"<!doctype html>")
    assert second == first
    assert asked.paths == ["/boards/"]


def test_who_has_the_page_is_told_so_without_a_body(cache, asked):
    """304 keeps the headers that protect, with every way to write If-None-Match."""
    page = asgi.ask(cache, "/boards/")
    tag = page.headers["etag"]
    for said in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = asgi.ask(cache, "/boards/", If_None_Match=said)
        assert (again.status, again.body) == (304, b"")
        assert {"content-length", "content-type"}.isdisjoint(again.headers)
        for name in ("etag", "cache-control", "vary", "content-security-policy"):
            assert again.headers[name] == page.headers[name]
    assert asgi.ask(cache, "/boards/", If_None_Match='"other"').status == 200
    assert asked.paths == ["/boards/"]


def test_what_is_new_is_shown_after_a_second(cache, asked, seconds, season):
    """Within it the page may be the one before."""
    before = asgi.ask(cache, "/")
    announce(season, "Cake at noon")
    seconds.now += 0.9
    assert asgi.ask(cache, "/").body == before.body
    seconds.now += 0.2
    after = asgi.ask(cache, "/", If_None_Match=before.headers["etag"])
    assert after.status == 200
    assert b"Cake at noon" in after.body
    assert asked.paths == ["/", "/"]


@pytest.mark.parametrize(("taken", "shown"), [(0.01, 1.0), (0.3, 3.0), (0.8, 5.0)])
def test_a_page_that_takes_long_is_asked_for_less_often(asked, seconds, season, taken, shown):
    """It is shown for ten times as long as asking took, for a second at least and for five at most."""
    from orchestrator.web.page_cache import PageCache

    async def slow(scope, receive, send):
        await asked(scope, receive, send)
        seconds.now += taken

    cache, began = PageCache(slow, seconds), seconds.now
    asgi.ask(cache, "/")
    seconds.now = began + shown - 0.001
    asgi.ask(cache, "/")
    assert asked.paths == ["/"]
    seconds.now = began + shown + 0.001
    asgi.ask(cache, "/")
    assert asked.paths == ["/", "/"]


def test_a_page_that_is_still_right_is_not_made_again(cache, asked, seconds):
    """Django says 304 to the cache, which goes on with what it has for another second."""
    first = asgi.ask(cache, "/boards/")
    seconds.now += 1.1
    assert asgi.ask(cache, "/boards/") == first
    assert asgi.ask(cache, "/boards/") == first
    assert len(asked.paths) == 2


def test_one_asks_whether_a_page_is_right_and_the_others_get_what_is_there(cache, asked, seconds, season):
    """They wait only where that is older than ten seconds."""

    async def play():
        before = await asgi.send_request(cache, "/")
        announce(season, "Cake at noon")
        asked.came, asked.gate = asyncio.Event(), asyncio.Event()
        seconds.now += 5
        first = asyncio.ensure_future(asgi.send_request(cache, "/"))
        await asked.came.wait()
        meanwhile = await asgi.send_request(cache, "/")
        asked.came.clear()
        seconds.now += 5.5
        late = asyncio.ensure_future(asgi.send_request(cache, "/"))
        await asked.came.wait()
        asked.gate.set()
        return before, meanwhile, await first, await late

    before, meanwhile, first, late = asyncio.run(play())
    assert meanwhile == before
    assert b"Cake at noon" in first.body
    assert b"Cake at noon" in late.body


def test_what_a_person_sees_is_never_kept_and_never_answered_from_memory(cache, asked):
    """Whoever has a cookie asks Django, and visitors get nothing of it."""
    account = make_account("Ada")
    session = client_of(account).cookies["session"].value
    own = [asgi.ask(cache, "/boards/", Cookie=f"session={session}") for _ in range(2)]
    visitors = asgi.ask(cache, "/boards/")
    again = asgi.ask(cache, "/boards/", Cookie=f"session={session}")
    assert len(asked.paths) == 4
    for each in (*own, again):
        assert b"Sign out" in each.body
        assert each.headers["cache-control"] == "private, no-cache"
    assert b"Sign out" not in visitors.body
    assert visitors.headers["cache-control"] == "public, no-cache"


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/progress/", {}),
        ("/account/login/", {}),
        ("/my/", {}),
        ("/nothing/", {}),
        ("/healthz/", {}),
        ("/downloads/", {}),
        ("/api/v1/contest", {}),
        ("/boards/", {"query": "a=1"}),
        ("/boards/", {"method": "HEAD"}),
        ("/boards/", {"Range": "bytes=0-9"}),
        ("/boards/", {"Authorization": "Bearer spar_a_b"}),
        ("/boards/", {"Content_Length": "2"}),
        ("/boards/", {"Transfer_Encoding": "chunked"}),
    ],
)
def test_everything_else_is_asked_each_time(cache, asked, path, more):
    """Only pages that say of themselves that they are everybody's are kept."""
    asgi.ask(cache, path, **more)
    asgi.ask(cache, path, **more)
    assert len(asked.paths) == 2


def test_another_host_gets_no_page_from_memory(cache):
    """Its request is refused as before."""
    assert asgi.ask(cache, "/boards/").status == 200
    assert asgi.ask(cache, "/boards/", Host="evil.example").status == 400


def test_a_request_with_two_hosts_gets_no_page_from_memory(cache):
    """Whichever comes first: it is refused as before."""
    assert asgi.ask(cache, "/boards/").status == 200
    for hosts in (("127.0.0.1:8000", "evil.example"), ("evil.example", "127.0.0.1:8000")):
        assert asgi.ask(cache, "/boards/", hosts=hosts).status == 400


def test_a_request_that_is_refused_takes_no_page_away(cache, seconds):
    """What Django says to a request with a body of its own says nothing about the page of the others."""
    asgi.ask(cache, "/boards/")
    seconds.now += 2
    assert asgi.ask(cache, "/boards/", Content_Length="2000000").status == 413
    assert list(cache._pages) == ["/boards/"]


def test_a_page_that_is_gone_is_forgotten(cache, asked, seconds, season):
    """Once Django answers otherwise, so does the cache; a fault of ours is passed on and not kept."""
    assert asgi.ask(cache, "/boards/").status == 200
    hidden = (season / "contest.yaml").rename(season / "hidden")
    seconds.now += 2
    assert asgi.ask(cache, "/boards/").status in (500, 503)
    hidden.rename(season / "contest.yaml")
    assert asgi.ask(cache, "/boards/").status == 200


def test_memory_is_bounded(cache, monkeypatch):
    """Pages that were asked for longest ago go where all together are too large."""
    from orchestrator.web import page_cache

    asgi.ask(cache, "/boards/")
    size = cache._bytes
    monkeypatch.setattr(page_cache, "MOST_BYTES", size)
    asgi.ask(cache, "/")
    asgi.ask(cache, "/boards/")
    assert cache._bytes <= size
    assert len(cache._pages) <= 1


def test_spellings_of_an_address_are_one_page(cache, asked):
    """An escaped letter makes no other page, so nobody fills the memory with one."""
    for path in ("/boards/", "/bo%61rds/", "/%62oards/"):
        assert asgi.ask(cache, path).status == 200
    assert asked.paths == ["/boards/"]


def test_spellings_of_the_host_are_one_page(cache, asked):
    """What Django takes for the same host makes no other page: pages say nothing of the host that was named."""
    for host in ("127.0.0.1:8000", "127.0.0.1:1", "127.0.0.1", "127.0.0.1."):
        assert asgi.ask(cache, "/boards/", Host=host).status == 200
    assert asked.paths == ["/boards/"]


def test_small_pages_are_bounded_too(seconds, monkeypatch):
    """A page takes more than its body: of pages with hardly any, no more are kept than there is room for."""
    from orchestrator.web import page_cache

    async def tiny(_scope, _receive, send):
        headers = [(b"cache-control", b"public, no-cache"), (b"etag", b'"1"'), (b"content-length", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"1"})

    cache = page_cache.PageCache(tiny, seconds)
    monkeypatch.setattr(page_cache, "MOST_BYTES", 64 * 1024)
    for number in range(100):
        assert asgi.ask(cache, f"/{number}/").body == b"1"
    assert 1 <= len(cache._pages) <= 64
