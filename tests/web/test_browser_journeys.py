"""People at a real browser: from the organizers' first link to a team, with scripts and without."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from orchestrator.application.contests import seasons
from tests import chromium

from .browsing import Person, serving


@pytest.fixture
def service(tmp_path):
    """A new contest that is served."""
    seasons.create_contest(tmp_path / "cup", "tournament")
    with serving(tmp_path / "cup") as served:
        yield served


@pytest.fixture
def person(require, tmp_path, service) -> Iterator:
    """Returns `person(name, **preferences)`: somebody at a browser of their own."""
    if reason := chromium.lacking():
        require("chromium", reason)
    with ExitStack() as started:

        def start(name: str, **preferences) -> Person:
            driver = started.enter_context(chromium.browser(tmp_path / name, tmp_path, preferences))
            return Person(driver, service)

        yield start


@pytest.mark.slow
def test_the_first_link_makes_an_organizer(person, service):
    """Whoever opens it signs up by code, accepts, and organizes; the console stays empty on the way."""
    olga = person("olga")
    olga.go(service.organizer_link)
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


@pytest.mark.slow
def test_without_javascript(person):
    """Signing up, signing in and a form need no script; what would be loaded again says so."""
    ada = person("ada", **{"profile.managed_default_content_settings.javascript": 2})
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
