"""Every page as everybody in a real browser: axe-core finds nothing, the console is empty, nothing is cut off.

Pages are looked at in light in a window of 320 pixels and in dark on a desk. Where several people are shown the same
masthead or the same content below it, that part is looked at as the first of them.
"""

import json
import re
import subprocess
import sys

import pytest

from tests import chromium, postgresql

from .browsing import AXE, LOOKS, ROOT, Person, free_port, serving
from .test_canaries import ALLAUTH
from .test_rights import filled
from .world import EVERYBODY, VISITOR, World

DRAWN = re.compile(
    r'name="csrfmiddlewaretoken" value="\w+"|person-\w+|/tokens/\w+|spar_\w+|\w+ Canaryson|canary-\w+@example\.org'
    r"|[\d-]{10} [\d:]{8} UTC"
)
"""What is another on each page, or for each person."""
MASTHEAD = re.compile(r'<div class="masthead">.*?</div>', re.DOTALL)
MISSING_PAGE = "/nothing/"


@pytest.fixture(scope="module")
def tools(require, running_browser) -> None:
    """What the tests need of this machine."""
    if not AXE.is_file():
        require("axe", f"there is no {AXE}; run .ci/axe.sh")


@pytest.fixture(scope="module")
def served(tools, service, played_world, tmp_path_factory):
    """The contest with everybody in it, served, and everybody's session by name."""
    folder = tmp_path_factory.mktemp("served") / "cup"
    postgresql.copy_contest(played_world.folder, folder)
    port = free_port()
    made = subprocess.run(
        [sys.executable, "-m", "tests.web.world", str(folder), f"http://127.0.0.1:{port}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    said = json.loads(made.stdout.splitlines()[-1])
    world = World(folder, played_world.ids, played_world.request, said["secret"], said["invitation"])
    with serving(folder, port) as running:
        yield running, world, said["sessions"]


@pytest.fixture(scope="module")
def to_look_at(served) -> dict[str, list[str]]:
    """Whole pages that are shown, by whom they are looked at as: those with a masthead or a content not seen before."""
    from orchestrator.web.urls import PAGES

    running, world, sessions = served
    found: dict[str, list[str]] = {each.name: [] for each in EVERYBODY}
    seen: set[tuple[str, ...]] = set()
    for who in EVERYBODY:
        addresses = [*ALLAUTH, *(filled(world, page, who) for page in PAGES)]
        for address in dict.fromkeys(addresses):
            status, kind, text = running.get(address, sessions.get(who.name, ""))
            if (status, kind) != (200, "text/html") or "<!DOCTYPE html>" not in text:
                continue
            drawn = DRAWN.sub("", text)
            parts = {tuple(MASTHEAD.findall(drawn)), (address, MASTHEAD.sub("", drawn))}
            if not parts <= seen:
                seen |= parts
                found[who.name].append(address)
    return found


@pytest.fixture
def person(served, running_browser, tmp_path):
    """Somebody at a browser, who is nobody yet."""
    chromium.start_afresh(running_browser, tmp_path, served[0].address)
    somebody = Person(running_browser, served[0])
    with somebody.axe_along():
        yield somebody


def problems(person: Person, address: str) -> list[str]:
    """Returns what is wrong with a page in each of its looks. It is loaded once: colours and layout follow the look."""
    person.go(address)
    return [each for scheme, width in LOOKS for each in person.problems(scheme, width)]


@pytest.mark.slow
def test_every_page(person, served, to_look_at):
    """No page keeps anybody from using it, breaks the policy of what it may load, or has to be moved sideways."""
    _, _, sessions = served
    found = []
    for who in EVERYBODY:
        person.take_session(sessions.get(who.name, ""))
        found += [f"{who.name}: {each}" for address in to_look_at[who.name] for each in problems(person, address)]
    assert found == []
    assert person.console() == []
    assert "/" in to_look_at[VISITOR.name]


@pytest.mark.slow
def test_a_page_that_is_missing(person):
    """An error is a page like every other; the console says what its status was, and nothing else."""
    assert problems(person, MISSING_PAGE) == []
    assert all("status of 404" in each for each in person.console())


@pytest.mark.slow
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
