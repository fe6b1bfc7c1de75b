"""A rater at a real browser and a real server: 20 items by keyboard alone, and some without JavaScript (C7)."""

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from orchestrator.application.contests import roles, seasons
from orchestrator.application.grading.raters import rater_id
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.formats.attack_set.events import GradeGiven
from orchestrator.formats.attack_set.grading.sheets import MINIMUM_MILLISECONDS
from orchestrator.ledger.contest_folder import ContestFolder
from tests import chromium, postgresql
from tests.web import rating_contest

from .browsing import Service
from .test_kills import Browser

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
ITEMS = 20


@contextmanager
def served(folder: Path, log: Path) -> Iterator[str]:
    """Serves a contest at a free port and gives the address of the site; it is ended with the block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    command = [sys.executable, "-m", "orchestrator", "serve", str(folder), "--port", str(port), "--no-worker"]
    if database := postgresql.url_of(folder):
        command += ["--database", database]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def answers_at(port: int) -> bool:
    """Returns whether something listens at a port of this machine."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


class Person:
    """Somebody at a browser, who does what a person does and waits for what a person would wait for."""

    def __init__(self, driver: chromium.webdriver.Chrome, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, path: str) -> None:
        """Goes to a page."""
        self.driver.get(self.address + path)

    def find(self, selector: str) -> object:
        """Returns the first element of a selector, as soon as there is one."""
        return chromium.wait(
            self.driver, lambda: (self.driver.find_elements(By.CSS_SELECTOR, selector) or [None])[0], selector
        )

    def press(self, *keys: str) -> None:
        """Types keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def token(self) -> str:
        """Returns the token of the item on the page."""
        return re.search("pictures/([0-9a-f]{16})/", self.find(".stage img").get_attribute("src"))[1]

    def look(self) -> float:
        """Looks until an answer counts, and returns when the pictures were painted, in ms since the answer before."""
        form = self.find("#rating")
        chromium.wait(self.driver, lambda: form.get_attribute("data-painted"), "painted pictures")
        painted = float(form.get_attribute("data-painted"))
        clock = "const [until, done] = arguments; setTimeout(done, Math.max(0, until - performance.now()))"
        self.driver.execute_async_script(clock, painted + MINIMUM_MILLISECONDS + 1)
        return painted

    def await_other(self, token: str) -> None:
        """Waits for the page of another item."""
        chromium.wait(self.driver, lambda: self.token_or_none() not in (token, None), "the next item")

    def token_or_none(self) -> str | None:
        """Returns the token on the page, None while another page is being loaded."""
        found = re.search(r'pictures/([0-9a-f]{16})/1/" alt="[A-Z]', self.driver.page_source)
        return found and found[1]


@dataclass(frozen=True)
class Site:
    """A served contest with a plan, and each rater's session and id on the record, by name."""

    folder: Path
    address: str
    sessions: dict[str, str]
    raters: dict[str, str]

    def given(self, name: str) -> list[GradeGiven]:
        """Returns the answers of a rater that are on record."""
        ledger = ContestFolder(self.folder).ledger()
        try:
            found = [entry.event for entry in ledger.read() if isinstance(entry.event, GradeGiven)]
        finally:
            ledger.close()
        return [each for each in found if each.rater == self.raters[name]]


@pytest.fixture(scope="module")
def site(running_browser, tmp_path_factory) -> Iterator[Site]:
    """A contest whose raters signed up: one for each test."""
    folder = tmp_path_factory.mktemp("rating") / "cup"
    log, clock = folder.with_name("log"), seasons.now
    rating_contest.make_contest(folder, clock)
    with served(folder, log) as address:
        port, known, sessions = int(address.rpartition(":")[2]), {}, {}
        chromium.wait(running_browser, lambda: answers_at(port), "the service")
        for name in ("Ada", "Ben", "Cleo"):
            somebody = Browser(Service(address, None, log))
            somebody.sign_up(f"{name.lower()}@example.org", name)
            sessions[name] = somebody.session
            known[name] = re.search(r"person-\w+", somebody.read("/account/"))[0]
        with seasons.administer(folder) as admin:
            for name, person in known.items():
                roles.grant_role(admin, PersonRecord(id=person, name=name), Role.RATER)
            raters = {name: rater_id(admin.folder.key(), person) for name, person in known.items()}
        rating_contest.plan_for(folder, clock, known.values(), more=())
        yield Site(folder, address, sessions, raters)


@pytest.fixture
def rater(running_browser, site, tmp_path) -> Callable[[str], Person]:
    """Returns `rater(name)`: the rater of that name at the browser."""

    def become(name: str) -> Person:
        chromium.start_afresh(running_browser, tmp_path, site.address)
        somebody = Person(running_browser, site.address)
        running_browser.add_cookie({"name": "session", "value": site.sessions[name], "path": "/"})
        return somebody

    return become


def test_twenty_items_by_keyboard_alone(rater, site, record_testsuite_property):
    """Keys choose and send and take back; nothing is in the console; every answer is on record with its look."""
    person = rater("Ada")
    person.open("/rate/next/")
    painted = []
    for number in range(ITEMS):
        token = person.token()
        painted.append(person.look())
        keys = ("3", "y") if person.driver.find_elements(By.NAME, "proper") else ("4",)
        person.press(*keys, Keys.ENTER)
        person.await_other(token)
        if number == 2:
            after = person.token()
            person.look()
            person.press("u")
            person.await_other(after)
            assert person.token() == token
            person.look()
            person.press("x", "n", Keys.ENTER)
            person.await_other(token)
    answers = site.given("Ada")
    assert len(answers) == ITEMS + 1
    assert len({each.answer.token for each in answers}) == ITEMS
    assert (answers[3].answer.token, answers[3].answer.class_index) == (answers[2].answer.token, None)
    assert answers[0].answer.class_index == 3
    assert all(each.answer.milliseconds >= MINIMUM_MILLISECONDS for each in answers)
    record_testsuite_property("milliseconds_to_the_next_picture", [round(each) for each in sorted(painted[1:])])
    assert person.driver.get_log("browser") == []


def test_keys_can_be_switched_off(rater):
    """The button switches them off for all pages (WCAG 2.1.4); while typing into the form they never work."""
    person = rater("Ben")
    person.open("/rate/next/")
    person.look()
    person.find("#keys").click()
    person.press("3")
    assert not person.driver.find_elements(By.CSS_SELECTOR, "input:checked")
    person.open("/rate/next/")
    assert person.find("#keys").text == "Keys are off"
    person.find("#keys").click()
    person.press("3")
    assert person.find("input:checked").get_attribute("value") == "3"
    assert person.driver.get_log("browser") == []


def test_it_works_without_scripts(rater, site):
    """Tab, Space and Enter of the browser itself answer three items, whose look the server measures."""
    person = rater("Cleo")
    chromium.switch_scripts_off(person.driver)
    person.open("/rate/next/")
    for _ in range(3):
        token = person.token()
        assert not person.find("#keys").is_displayed()
        person.find("input[name=class_index]").send_keys(Keys.SPACE)
        person.press(Keys.TAB, Keys.SPACE, Keys.ENTER)
        person.await_other(token)
    assert person.driver.get_log("browser") == []
    assert [(each.answer.class_index, each.answer.proper) for each in site.given("Cleo")] == [(0, True)] * 3
