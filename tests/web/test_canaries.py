"""What is on no page but those of the people whom it concerns: hidden data, secrets, addresses, people."""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from orchestrator.domain.contest_events import Role
from orchestrator.ledger.contest_folder import ContestFolder
from tests.web import asgi

from .test_rights import PARAMETER, api_routes, filled
from .world import (
    BUNDLE,
    COMMAND_PERSON,
    EVERYBODY,
    PEOPLE,
    ROUND,
    TASK,
    TOKEN_DIGEST,
    TOLD,
    VISITOR,
    Somebody,
    World,
    forms_of,
    hidden_digests,
)

LABELS = rb"\D{1,100}".join(str(number % 4).encode() for number in range(8))
"""The hidden labels in their order, whatever stands between them, such as cells of a table: see `Cup.write`."""
ALLAUTH = ("/account/login/", "/account/signup/", "/account/sessions/", "/account/logout/", "/account/inactive/")


@dataclass(frozen=True)
class Canary:
    """A word, as an expression, and who may see it."""

    what: str
    word: bytes
    seen_by: frozenset[str] = frozenset()


def canaries(world: World) -> Iterator[Canary]:
    """Yields what was planted, or is secret by itself."""
    from orchestrator.web.models import Invitation

    organizers = frozenset(each.name for each in PEOPLE if each.role is Role.ORGANIZER)

    def word(text: str) -> bytes:
        return re.escape(text).encode()

    secrets = {
        "key": (world.folder / "key").read_bytes(),
        "secret of the round": ContestFolder(world.folder).round(ROUND, TASK).secret(),
    }
    for what, data in secrets.items():
        yield from (Canary(what, word(form)) for form in forms_of(data))
    for each in PEOPLE:
        mates = frozenset(other.name for other in PEOPLE if each.team and other.team == each.team)
        yield Canary("address of an account", word(each.email), frozenset({each.name}))
        yield Canary("name of somebody", word(each.full_name), mates | organizers | {each.name})
    yield from (Canary("somebody of a team made with a command", word(text), organizers) for text in COMMAND_PERSON)
    yield from (Canary("digest of hidden data", word(digest), organizers) for digest in hidden_digests(world))
    yield Canary("hidden labels", LABELS, organizers)
    yield Canary("what a player wrote on stderr", word(TOLD), organizers)
    yield Canary("place on the organizers' machine", word(str(world.folder)), organizers)
    yield Canary("digest of a token", word(TOKEN_DIGEST))
    yield Canary("digest of an invitation", word(Invitation.objects.get(team="Reds").digest))
    yield Canary("link of an invitation", word(world.secret))


def test_what_is_planted_would_be_found(world):
    """The hidden words are in the contest's folder, from which pages are made, and the expressions fit them."""
    ledger = ContestFolder(world.folder).ledger()
    kept = "\n".join(entry.text for entry in ledger.read()).encode()
    ledger.close()
    kept += b"\n".join(path.read_bytes() for path in world.folder.rglob("*") if path.is_file())
    there = {each.what for each in canaries(world) if re.search(each.word, kept)}
    assert there >= {
        "name of somebody",
        "somebody of a team made with a command",
        "digest of hidden data",
        "what a player wrote on stderr",
    }
    for text in (
        b"0,1,2,3,0,1,2,3",
        b"<td>0</td><td>1</td><td>2</td><td>3</td><td>0</td><td>1</td><td>2</td><td>3</td>",
        b"".join(b'<td data-label="What the picture really shows">%d</td>' % (number % 4) for number in range(8)),
    ):
        assert re.search(LABELS, text)


def addresses(world: World, pages, who: Somebody) -> set[str]:
    """Returns every address that somebody may try: with what is of either team."""
    found = {*ALLAUTH, f"/downloads/{BUNDLE}.zip"}
    for page in pages:
        found.add(filled(world, page, who))
        others = {
            name: world.ids["Blues"][name] for _, name in PARAMETER.findall(page.route) if name in world.ids["Blues"]
        }
        found.add(filled(world, page, who, others))
    return found


def contents(answer) -> bytes:
    """Returns what was answered, with its headers; an archive as what is in it."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    if zipfile.is_zipfile(io.BytesIO(body)):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            body = b"\n".join(name.encode() + archive.read(name) for name in archive.namelist())
    return repr(answer.headers).encode() + body


@pytest.mark.slow
@pytest.mark.parametrize("who", EVERYBODY, ids=lambda who: who.name)
def test_nobody_sees_what_is_hidden_from_them(world, who: Somebody):
    """On any page, as anybody: of the canaries that somebody may not see, none is in an answer."""
    from orchestrator.web.urls import PAGES

    hidden = [each for each in canaries(world) if who.name not in each.seen_by]
    client, seen, read = world.client(who), [], 0
    for address in sorted(addresses(world, PAGES, who)):
        answer = contents(client.get(address))
        read += len(answer)
        # Whoever has a link may read it on its own page.
        body = answer.replace(address.encode(), b"") if world.secret in address else answer
        seen += [f"{each.what} at {address}" for each in hidden if re.search(each.word, body)]
    assert read > 0
    assert seen == []


@pytest.fixture
def application(world):
    """The service of that contest."""
    with asgi.running_application() as made:
        yield made


@pytest.mark.slow
def test_visitors_get_nothing_from_memory_that_others_saw(world, application):
    """Everybody with an account looks at every page first; then a visitor, twice, of whom Django is asked once."""
    from orchestrator.web.page_cache import PageCache
    from orchestrator.web.urls import PAGES

    hidden, cache = [each for each in canaries(world) if VISITOR.name not in each.seen_by], PageCache(application)
    for who in PEOPLE:
        session = world.client(who).cookies["session"].value
        for address in sorted(addresses(world, PAGES, who)):
            asgi.ask(cache, address, Cookie=f"session={session}")
    seen, kept = [], 0
    for address in sorted(addresses(world, PAGES, VISITOR)):
        for answer in (asgi.ask(cache, address), asgi.ask(cache, address)):
            text = repr(answer.headers).encode() + answer.body
            body = text.replace(address.encode(), b"") if world.secret in address else text
            seen += [f"{each.what} at {address}" for each in hidden if re.search(each.word, body)]
        kept += address in cache._pages
    assert seen == []
    assert kept >= 4


def api_addresses(world: World) -> set[str]:
    """Returns every address of the API, with what is of either team."""
    routes = [re.sub(r"\(\?P(<\w+>)[^)]*\)\$?", r"\1", route) for route in api_routes()]
    return {
        "/" + PARAMETER.sub(lambda found: ids.get(found[2], "0" * 16), route)  # noqa: B023  used at once
        for route in routes
        for ids in world.ids.values()
    }


@pytest.mark.slow
@pytest.mark.parametrize("who", EVERYBODY, ids=lambda who: who.name)
def test_no_program_is_told_what_is_hidden(world, who: Somebody):
    """What everybody's programs get of the API has none of the canaries that its owner may not see."""
    from orchestrator.web import tokens
    from orchestrator.web.models import Account

    headers = {}
    if who.person:
        account, day = Account.objects.get(person=who.person), timedelta(days=1)
        token = tokens.issue(account, "program", tokens.Scope.SUBMIT, now=datetime.now(UTC), lifetime=day)
        headers["Authorization"] = f"Bearer {token}"
    hidden = [each for each in canaries(world) if who.name not in each.seen_by]
    client, seen, answered = world.client(VISITOR), [], set()
    for address in sorted(api_addresses(world)):
        answer = client.get(address, headers=headers)
        answered |= {address} if answer.status_code == HTTPStatus.OK else set()
        seen += [f"{each.what} at {address}" for each in hidden if re.search(each.word, contents(answer))]
    assert seen == []
    assert {"/api/v1/boards", *(["/api/v1/me"] if who.person else [])} <= answered
    if who.team:
        assert f"/api/v1/submissions/{world.ids[who.team]['submission']}" in answered
