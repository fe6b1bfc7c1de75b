"""Who may open what: every address as everybody, held to the tables in docs/web.md."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from orchestrator.domain.contest_events import Role
from orchestrator.web.settings import GitHubLogin, OpenIdProvider, WebFile, WebSettings

from .conftest import ADDRESS
from .world import EVERYBODY, PEOPLE, VISITOR, Somebody

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "web.md"
ROW = re.compile(r"^\| `(/[^`]*)` \| (.+) \|$", re.MULTILINE)
PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>")
OPEN = frozenset({200, 204, 302, 303, 400, 405, 409, 413, 422})
"""What somebody with the right is answered: the page, or what is wrong with a form that holds nothing."""
DONE = frozenset({201, 204, 302, 303})
"""What follows an act."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOT_IN_THIS_WORLD = {
    "rate-picture": "this format asks no raters",
    "team-finding": "nobody cheated in the round",
}
"""Pages of which the world has no sample, so that even whoever has the right is told 404: by name, with the reason."""
NO_GET = {"revoke-token": "a form on the page of all tokens leads there"}
"""Pages that a browser is not shown, so that whoever has the right is told 404, and 405 would do as well."""
NOTHING = {"int": "999999", "uuid": "00000000-0000-0000-0000-000000000000"}
"""What stands for a thing that does not exist, by the type of a parameter; a word for every other type."""
ADA, BEN = (next(each for each in PEOPLE if each.name == name) for name in ("Ada", "Ben"))


def document_tables() -> tuple[dict[str, str], dict[str, str]]:
    """Returns the document's tables: the right of each address, and why an address has none."""
    from orchestrator.web.rights import Right

    _, _, after = DOCUMENT.read_text("utf-8").partition("\n## Who may open what\n")
    found = dict(ROW.findall(re.split(r"\n#{1,3} ", after)[0]))
    assert found, f"{DOCUMENT.name} has no such table"
    rights = {address: who for address, who in found.items() if who in {right.value for right in Right}}
    return rights, {address: why for address, why in found.items() if address not in rights}


def documented(route: str, table: dict[str, str]) -> str:
    """Returns what a table says of a route: of the longest address that fits; "" where none does."""
    address = "/" + PARAMETER.sub(lambda found: found[2].upper(), route)
    fitting = [
        each for each in table if each == address or (each.endswith("...") and address.startswith(each[: -len("...")]))
    ]
    longest = max(fitting, key=lambda each: (len(each.removesuffix("...")), not each.endswith("...")), default="")
    return table.get(longest, "")


def all_patterns() -> Iterator[tuple[str, object]]:
    """Yields every address that Django answers, as its route with parameters, and the view behind it."""
    from django.urls import URLResolver, get_resolver

    from orchestrator.web import urls

    def walk(patterns, before: str):
        for each in patterns:
            route = before + str(each.pattern)
            if isinstance(each, URLResolver):
                yield from walk(each.url_patterns, route)
            else:
                yield route, each.callback

    yield from walk(get_resolver().url_patterns, "")
    file = WebFile(
        openid=[OpenIdProvider(id="u", name="U", server="https://u.example", client_id="c", secret_file=DOCUMENT)],
        github=GitHubLogin(client_id="c", secret_file=DOCUMENT),
    )
    with override_settings(SPARRING=WebSettings(contest=DOCUMENT.parent, address=ADDRESS, file=file)):
        yield from walk(urls._provider_urls(), "")


def filled(world, page, who: Somebody, instead: dict[str, str] | None = None) -> str:
    """Returns the address of a page for somebody in the world, with other values for some parameters."""

    def value(found: re.Match[str]) -> str:
        return (instead or {}).get(found[2]) or world.sample(page.name, found[2], who)

    return "/" + PARAMETER.sub(value, page.route)


def has_right(somebody: Somebody, right) -> bool:
    """Returns whether somebody of the world has a right, to things of Reds."""
    from orchestrator.web.rights import Right

    roles = {Right.ORGANIZER: Role.ORGANIZER, Right.RATER: Role.RATER, Right.BOARD: Role.BOARD}
    if right in roles:
        return somebody.role is roles[right]
    return {Right.EVERYBODY: True, Right.SIGNED_IN: bool(somebody.person), Right.TEAM: somebody.team == "Reds"}[right]


def wrong_answer(somebody: Somebody, page, answer) -> str:
    """Returns what is wrong with how somebody was answered, "" where it is right."""
    from orchestrator.web.rights import Right

    answer.close()  # a file that is sent is open until then
    status = answer.status_code
    to_login = status == 302 and answer["Location"].startswith("/account/login/?next=")
    if has_right(somebody, page.right):
        is_missing = page.name in NOT_IN_THIS_WORLD or (page.name in NO_GET and answer.wsgi_request.method == "GET")
        good = status in ({404} if is_missing else OPEN)
        if to_login and somebody.person:
            good = False
        expected = "the page"
    elif not somebody.person:
        good, expected = to_login, "sign in"
    else:
        expected = "404" if page.right is Right.TEAM else "403"
        good = str(status) == expected
    return "" if good else f"{somebody.name} at {page.name}: {status}, expected {expected}"


@pytest.fixture
def pages(service):
    """The table of pages."""
    from orchestrator.web.urls import PAGES

    return PAGES


@pytest.fixture
def every_page(service):
    """The table of pages, and of those that an unrestricted contest has more."""
    from orchestrator.web.urls import PAGES, WEEK_PAGES

    return (*PAGES, *WEEK_PAGES)


def test_the_document_says_the_right_of_every_page(every_page):
    """The same that urls.py says."""
    rights, _ = document_tables()
    said = {page.route: documented(page.route, rights) for page in every_page}
    assert said == {page.route: page.right.value for page in every_page}


def test_no_address_escapes_the_tables(every_page):
    """Whatever is not opened by a right of ours is an address in the document, with its reason."""
    _, reasons = document_tables()
    guarded = {page.route for page in every_page}
    unguarded = [(route, view) for route, view in all_patterns() if getattr(view, "right", None) is None]
    assert [route for route, _ in unguarded if not documented(route.removeprefix("^"), reasons)] == []
    assert guarded == {route for route, view in all_patterns() if getattr(view, "right", None) is not None}
    used = {documented(route.removeprefix("^"), reasons) for route, _ in unguarded}
    assert used == set(reasons.values())


@pytest.mark.slow
@pytest.mark.parametrize("who", EVERYBODY, ids=lambda who: who.name)
def test_get_as(world, pages, who):
    """Everybody is answered as the rights say, and no look changes the ledger."""
    before, client = world.head(), world.client(who)
    wrong = [wrong_answer(who, page, client.get(filled(world, page, who))) for page in pages]
    assert [each for each in wrong if each] == []
    assert world.head() == before


@pytest.mark.slow
@pytest.mark.parametrize("who", EVERYBODY, ids=lambda who: who.name)
def test_post_as(fresh_world, pages, who):
    """A form is taken from those alone who have the right; from others nothing changes, in ledger and accounts."""
    from orchestrator.web.models import Account

    world, wrong = fresh_world(), []
    before, people, client = world.head(), Account.objects.count(), world.client(who)
    for page in pages:
        answer = client.post(filled(world, page, who))
        wrong.append(wrong_answer(who, page, answer))
        if has_right(who, page.right) and answer.status_code in DONE:
            world = fresh_world()
            client = world.client(who)
        assert (world.head(), Account.objects.count()) == (before, people), page.name
    assert [each for each in wrong if each] == []


def others(world, page, parameter: str, kind: str) -> list[str]:
    """Returns values of a parameter that Ada must not find: of nothing, of the other team, of somebody else."""
    found = [NOTHING.get(kind, "0000000000000bad")]
    if page.right.value == "member of the team" and parameter in world.ids["Blues"]:
        found.append(world.ids["Blues"][parameter])
    theirs = world.sample(page.name, parameter, BEN)
    return [*found, theirs] if theirs != world.sample(page.name, parameter, ADA) else found


@pytest.mark.slow
def test_what_is_not_there_or_not_yours_is_not_found(world, pages):
    """An id of nothing, or of another team's thing, is answered with 404: nobody learns what exists."""
    from orchestrator.web.rights import Right

    wrong, seen, clients = [], 0, {each: world.client(each) for each in EVERYBODY}
    for page in pages:
        who = next((each for each in PEOPLE if has_right(each, page.right)), VISITOR)
        there = clients[who].get(filled(world, page, who))
        there.close()
        allowed = {404} | ({405} & {there.status_code})
        for kind, name in PARAMETER.findall(page.route):
            for value in others(world, page, name, kind):
                seen += 1
                address = filled(world, page, who, {name: value})
                status = clients[who].get(address).status_code
                if status not in allowed:
                    wrong.append(f"{who.name} at {address}: {status}")
                if page.right is not Right.EVERYBODY and clients[VISITOR].get(address).status_code != 302:
                    wrong.append(f"visitor at {address}: not asked to sign in")
    assert seen > 0
    assert wrong == []


def api_routes() -> list[str]:
    """Returns the routes of the API, as Django has them."""
    return [route.removeprefix("^") for route, _ in all_patterns() if route.removeprefix("^").startswith("api/")]


@pytest.mark.slow
def test_the_api_asks_for_a_token(world):
    """A route that the document does not open to everybody refuses a visitor, and a cookie is no token."""
    _, reasons = document_tables()
    before, wrong, clients = world.head(), [], {who: world.client(who) for who in (VISITOR, ADA)}
    for route in api_routes():
        address = "/" + PARAMETER.sub("0000000000000bad", re.sub(r"\(\?P(<\w+>)[^)]*\)\$?", r"\1", route))
        is_open = documented(route, reasons).startswith("everybody")
        for who, client in clients.items():
            found = {method: client.generic(method, address).status_code for method in METHODS}
            good = OPEN | {404, 405, 422} if is_open else {401, 405}
            if not set(found.values()) <= good or (not is_open and 401 not in found.values()):
                wrong.append(f"{who.name} at {address}: {found}")
    assert wrong == []
    assert world.head() == before


@pytest.mark.slow
def test_no_form_is_taken_without_its_token(world, pages):
    """Of every page, from somebody who has the right to send it."""
    before, taken = world.head(), []
    for page in pages:
        who = next((each for each in PEOPLE if has_right(each, page.right)), VISITOR)
        answer = world.client(who, enforce_csrf_checks=True).post(filled(world, page, who))
        if answer.status_code != 403 or "This form has expired" not in answer.content.decode():
            taken.append((page.name, answer.status_code))
    assert taken == []
    assert world.head() == before
