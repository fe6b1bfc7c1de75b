"""Every page as everybody in a real browser: axe-core finds nothing, the console is empty, nothing is cut off.

Pages are looked at in light in a window of 320 pixels and in dark on a desk. Where several people are shown the same
masthead, or at an address the same elements in other words, that part is looked at as the first of them.
"""

import re

import pytest

from tests import chromium

from . import world as worlds
from .browsing import AXE, Person, Service, serving_here
from .conftest import serving
from .test_canaries import ALLAUTH
from .test_rights import filled
from .world import EVERYBODY, VISITOR

WORDS = re.compile(r'(?<=>)[^<]+|(?<!class)="[^"]*"')
"""What may differ between pages of the same elements: texts, and values of attributes other than classes."""
MASTHEAD = re.compile(r'<div class="masthead">.*?</div>', re.DOTALL)
MISSING_PAGE = "/nothing/"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def tools(require, running_browser) -> None:
    """What the tests need of this machine."""
    if not AXE.is_file():
        require("axe", f"there is no {AXE}; run .ci/axe.sh")


@pytest.fixture(scope="module")
def world(tools, service, played_world, tmp_path_factory):
    """The contest with everybody in it."""
    made = worlds.copied(played_world, tmp_path_factory.mktemp("served") / "cup")
    with serving(made.folder):
        worlds.people_sign_up(made)
        yield made


@pytest.fixture(scope="module")
def to_look_at(world) -> dict[str, list[str]]:
    """Whole pages that are shown, by whom they are looked at as: those with a masthead or elements not seen before.

    The last pages come first: those for a role are among them, so that its masthead is seen on one of them.
    """
    from orchestrator.web.urls import PAGES

    found: dict[str, list[str]] = {each.name: [] for each in EVERYBODY}
    seen: set[tuple[str, ...]] = set()
    for who in EVERYBODY:
        client = world.client(who)
        addresses = [*ALLAUTH, *(filled(world, page, who) for page in PAGES)]
        for address in dict.fromkeys(reversed(addresses)):
            answer = client.get(address)
            answer.close()
            if answer.status_code != 200 or "text/html" not in answer["Content-Type"]:
                continue
            text = answer.content.decode()
            if "<!DOCTYPE html>" not in text:
                continue
            elements = WORDS.sub("", text)
            parts = {tuple(MASTHEAD.findall(elements)), (address, MASTHEAD.sub("", elements))}
            if not parts <= seen:
                seen |= parts
                found[who.name].append(address)
    return found


@pytest.fixture
def person(world, running_browser, tmp_path):
    """Somebody at a browser, who is nobody yet."""
    with serving_here() as address:
        chromium.start_afresh(running_browser, tmp_path, address)
        somebody = Person(running_browser, Service(address, None, tmp_path / "log"))
        with somebody.axe_along():
            yield somebody


def problems(person: Person, address: str) -> list[str]:
    """Returns what is wrong with a page in each of its looks. It is loaded once: colours and layout follow the look."""
    person.go(address)
    return person.problems_in_all_looks()


def test_every_page(person, world, to_look_at):
    """No page keeps anybody from using it, breaks the policy of what it may load, or has to be moved sideways."""
    found = []
    for who in EVERYBODY:
        person.take_session(world.client(who).cookies["session"].value if who.person else "")
        found += [f"{who.name}: {each}" for address in to_look_at[who.name] for each in problems(person, address)]
    assert found == []
    assert person.console() == []
    assert "/" in to_look_at[VISITOR.name]


def test_a_page_that_is_missing(person):
    """An error is a page like every other; the console says what its status was, and nothing else."""
    assert problems(person, MISSING_PAGE) == []
    assert all("status of 404" in each for each in person.console())


def test_what_is_wrong_with_a_page_is_found(person):
    """Text without contrast, a picture without words, a page that is too wide: the other tests would see them."""
    person.go("/")
    person.driver.execute_script(
        "document.querySelector('main').innerHTML += "
        '\'<img src="data:,"><p id="faint">faint words</p><div id="wide">wide</div>\';'
        "document.getElementById('faint').style.color = '#fdfdfd';"
        "document.getElementById('wide').style.width = '5000px';"
    )
    rules = {each.partition(":")[0] for each in person.axe_violations()}
    assert {"image-alt", "color-contrast"} <= rules
    assert person.overflow() > 0
