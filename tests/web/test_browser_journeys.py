"""People at a real browser: from the organizers' first link to a team, with scripts and without."""

import pytest

from orchestrator.application.contests import seasons
from tests import chromium

from .browsing import Person, serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A new contest that is served."""
    folder = tmp_path_factory.mktemp("journeys") / "cup"
    seasons.create_contest(folder, "tournament")
    with serving(folder) as served:
        yield served


@pytest.fixture
def person(running_browser, service, tmp_path):
    """Somebody at a browser, who is nobody yet."""
    chromium.start_afresh(running_browser, tmp_path, service.address)
    return Person(running_browser, service)


def test_the_first_link_makes_an_organizer(person):
    """Whoever opens it signs up by code, accepts, and organizes; the console stays empty on the way."""
    olga = person
    olga.go(person.service.organizer_link)
    assert olga.heading() == "You are invited"
    olga.press("sign up")
    olga.sign_up("Olga", "olga@example.org")
    assert olga.heading() == "You are invited"
    olga.press("Accept as Olga")
    assert olga.path == "/organize/"
    olga.sign_out()
    olga.sign_in("olga@example.org")
    olga.go("/organize/")
    assert olga.heading() == "What waits for you"
    assert olga.console() == []


def test_without_javascript(person):
    """Signing up, signing in and a form need no script; what would be loaded again says so."""
    ada = person
    chromium.switch_scripts_off(ada.driver)
    ada.sign_up("Ada", "ada@example.org")
    ada.sign_out()
    ada.sign_in("ada@example.org")
    ada.go("/account/")
    ada.fill(name="Ada L.")
    ada.press("Save")
    assert "Your name is changed" in ada.driver.page_source
    assert ada.driver.find_element("name", "name").get_attribute("value") == "Ada L."
    ada.go("/progress/")
    ada.wait_for("load the page again")
    ada.driver.get("data:text/html,<title>off</title><script>document.title='on'</script>")
    assert ada.driver.title == "off"
