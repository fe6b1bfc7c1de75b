"""A whole contest as its people meet it, each with cookies of their own: an organizer, three teams, a review board.

Pages on the way are looked at in light at a phone's width, and in dark at a desk's, except those that
`test_browser_pages` looks at. `SPARRING_SCREENSHOTS` names a folder that keeps pictures of each page in both
schemes and widths.
"""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from orchestrator.application.contests import seasons
from orchestrator.domain import contest_events
from orchestrator.intake.package_writer import write_package
from tests import chromium, plain_player
from tests.application.conftest import Cup

from .browsing import AXE, NARROW, ROOT, SCHEMES, WIDE, Person, Service, serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
SCREENSHOTS = os.environ.get("SPARRING_SCREENSHOTS")
Start = Callable[..., Person]


@pytest.fixture
def cup(tmp_path: Path) -> Cup:
    """A contest that was just opened, with nobody in it, whose rounds find out who answers by chance."""
    made = Cup(tmp_path, more={"replay": {"power": 0.9, "cheat": 0.3}}, trial_pictures=10)
    made.write()
    seasons.open_contest(made.folder.path, "desk")
    return made


@pytest.fixture
def service(cup: Cup) -> Iterator[Service]:
    """That contest, served, with a worker that admits and plays."""
    with serving(cup.folder.path, options=("--backend", "process", "--allow-unisolated")) as served:
        yield served


class OwnCookies:
    """A driver with cookies of its own, which it puts in place of those of others before each command.

    All drivers share one window, because a window takes seconds to open. Whoever goes on has to open a page.
    """

    turn: "OwnCookies | None" = None

    def __init__(self, driver: chromium.webdriver.Chrome) -> None:
        self._driver, self._cookies = driver, []

    def __getattr__(self, name: str) -> Any:
        if OwnCookies.turn is not self:
            if OwnCookies.turn is not None:
                OwnCookies.turn._cookies = self._driver.get_cookies()
            self._driver.delete_all_cookies()
            for cookie in self._cookies:
                self._driver.add_cookie(cookie)
            OwnCookies.turn = self
        return getattr(self._driver, name)


@pytest.fixture
def person(require, running_browser, service: Service, tmp_path: Path) -> Start:
    """Returns `person()`: somebody with cookies of their own."""
    if not AXE.is_file():
        require("axe", f"there is no {AXE}; run .ci/axe.sh")
    chromium.start_afresh(running_browser, tmp_path, service.address)
    OwnCookies.turn = None
    return lambda: Person(OwnCookies(running_browser), service)


def see(who: Person, name: str) -> None:
    """Looks at the page that is shown in each of its looks, and keeps pictures of it where they are wanted."""
    assert who.problems_in_all_looks() == []
    glance(who, name)


def glance(who: Person, name: str) -> None:
    """Keeps pictures, where they are wanted, of a page that another test looks at, and finds the console empty."""
    for scheme, width in itertools.product(SCHEMES, (NARROW, WIDE)) if SCREENSHOTS else ():
        who.look(scheme, width)
        picture = Path(SCREENSHOTS, f"{name}-{width}-{scheme}.png")
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(who.whole_page())
    assert who.console() == [], name


def link_on(who: Person) -> str:
    """Returns the link of an invitation that a page shows once."""
    found = re.search(r"http\S+/invitations/[\w-]+/", who.driver.find_element(By.TAG_NAME, "body").text)
    assert found is not None
    return found[0]


def found_team(who: Person, name: str, email: str, team: str) -> None:
    """Signs up and founds a team, below the rules that will bind its people."""
    who.sign_up(name, email)
    who.go("/my/")
    assert "A1" in who.driver.find_element(By.CLASS_NAME, "ruled").text
    who.fill(team=team)
    who.press("Found the team")
    who.press(team)
    assert who.heading() == team


def package(cup: Cup, kind: str) -> Path:
    """Returns the package of a player."""
    folder = cup.player(kind)
    for file in plain_player.FILES:
        (folder / file.name).write_bytes(file.read_bytes())
    return write_package(folder, cup.path / f"{kind}.sparring.tar").path


def submit_file(who: Person, team: str, file: Path) -> None:
    """Hands a file in by the form."""
    who.go(f"/my/{team}/submit/")
    Select(who.driver.find_element(By.NAME, "task")).select_by_value("quarters")
    who.driver.find_element(By.NAME, "file").send_keys(str(file))
    who.press("Submit this file")


def test_a_contest_from_its_first_link_to_its_bundle(cup: Cup, service: Service, person: Start) -> None:
    """Everything that the people of a contest do with it, and what they see of it meanwhile."""
    olga, ada, ben, cleo, bob = (person() for _ in range(5))
    organize_and_invite(olga, bob, service)
    found_team(ada, "Ada", "ada@example.org", "Reds")
    see(ada, "team-new")
    hand_in_by_form(ada, cup)
    found_team(ben, "Ben", "ben@example.org", "Blues")
    hand_in_by_command(ben, cup, service)
    found_team(cleo, "Cleo", "cleo@example.org", "Greens")
    submit_file(cleo, "greens", package(cup, "defence_honest"))
    cleo.wait_for("It is the submission")
    ask_for_a_round(olga, watched_by=cleo)
    read_boards(cleo)
    appeal(ben)
    decide(bob)
    ben.go("/my/blues/")
    assert "we looked at both sessions" in ben.driver.page_source
    see(ben, "team-decided")
    publish(olga, cup)
    assert [type(each) for each in acts_of_appeal(cup)] == [contest_events.AppealFiled, contest_events.AppealDecided]


def organize_and_invite(olga: Person, bob: Person, service: Service) -> None:
    """The first link makes an organizer; a link of hers makes a member of the review board; she announces prizes."""
    olga.go(service.organizer_link or "")
    olga.press("sign up")
    olga.sign_up("Olga", "olga@example.org")
    olga.press("Accept as Olga")
    see(olga, "organize-first")
    olga.go("/organize/announce/")
    olga.fill(title="Prizes", text="The best team gets a cup.\n\nIt is small.")
    olga.press("See how it looks")
    see(olga, "announce-preview")
    olga.press("Publish it")
    olga.go("/organize/people/")
    Select(olga.driver.find_element(By.NAME, "role")).select_by_value("board")
    olga.press("Make a link")
    see(olga, "people-link")
    bob.go(link_on(olga))
    assert bob.heading() == "You are invited"
    see(bob, "invitation")
    bob.press("sign up")
    glance(bob, "sign-up")
    bob.sign_up("Bob", "bob@example.org")
    bob.press("Accept as Bob")


def hand_in_by_form(ada: Person, cup: Cup) -> None:
    """What is no archive is refused with the remedy; the right file is admitted while its page is watched."""
    ada.go("/my/reds/submit/")
    glance(ada, "submit")
    large = cup.path / "large.zip"
    with large.open("wb") as file:
        file.truncate(64 * 1024**2 + 1)
    field = ada.driver.find_element(By.NAME, "file")
    field.send_keys(str(large))
    assert "up to 64 MiB" in field.get_property("validationMessage")
    nonsense = cup.path / "nonsense.zip"
    nonsense.write_bytes(b"no archive at all")
    submit_file(ada, "reds", nonsense)
    ada.wait_for("Refused, and no try used up")
    see(ada, "arrival-refused")
    ada.press("Hand it in again")
    submit_file(ada, "reds", package(cup, "attack_honest"))
    ada.wait_for("It is the submission")
    see(ada, "arrival-received")
    ada.press("attack_honest")
    glance(ada, "submission")


def hand_in_by_command(ben: Person, cup: Cup, service: Service) -> None:
    """With a token that Ben made on its page; the command ends with the receipt."""
    ben.go("/account/tokens/")
    ben.fill(name="laptop")
    ben.press("Make a token")
    see(ben, "token")
    token = ben.driver.find_element(By.CSS_SELECTOR, "[aria-label='The token']").text.strip()
    words = ("submit", str(package(cup, "defence_chance")), "--to", service.address, "--team", "Blues")
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words, "--task", "quarters"],
        cwd=cup.path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(cup.path), "SPARRING_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (cup.path / "defence_chance.receipt.json").is_file()


def ask_for_a_round(olga: Person, watched_by: Person) -> None:
    """The organizer sees what would be played, and asks for it; somebody else watches it until it is over."""
    watched_by.go("/progress/")
    see(watched_by, "progress-idle")
    olga.go("/organize/rounds/initial/")
    glance(olga, "round-preview")
    Select(olga.driver.find_element(By.NAME, "task")).select_by_value("quarters")
    olga.press("Request the round initial")
    watched_by.go("/progress/")
    see(watched_by, "progress")
    watched_by.wait_for("Nothing is being played, and nothing waits.")
    olga.go("/organize/")
    see(olga, "organize-played")


def read_boards(who: Person) -> None:
    """The boards have the round; who answered by chance is not ranked, with the reason."""
    who.go("/boards/")
    see(who, "boards")
    who.go("/rounds/initial/quarters/")
    assert "defence_chance" in who.driver.page_source
    see(who, "round")
    who.go("/my/greens/results/")
    see(who, "team-results")


def appeal(ben: Person) -> None:
    """The team sees the evidence, and objects."""
    ben.go("/my/blues/")
    see(ben, "team-accused")
    ben.press("See the evidence, and appeal")
    assert "initial-quarters-finding-1" in ben.driver.page_source
    ben.press("Appeal to the review board…")
    ben.fill(text="Our player draws no numbers.\nPlease look at both sessions.")
    see(ben, "appeal-form")
    ben.press("File the appeal")
    see(ben, "appeal-filed")


def decide(bob: Person) -> None:
    """The board sees the appeal with the evidence, and decides."""
    bob.go("/review/")
    glance(bob, "review")
    bob.press("Blues")
    see(bob, "review-appeal")
    Select(bob.driver.find_element(By.NAME, "decision")).select_by_value("dismiss")
    bob.fill(reason="we looked at both sessions")
    bob.press("Decide")


def publish(olga: Person, cup: Cup) -> None:
    """The bundle that the organizer publishes verifies."""
    for page in ("rounds", "submissions", "close", "rules", "ledger", "promote"):
        olga.go(f"/organize/{page}/")
        glance(olga, f"organize-{page}")
    olga.go("/organize/publish/")
    glance(olga, "publish")
    olga.press("Publish sealed-1")
    assert "sealed-1 is written and checked" in olga.driver.page_source
    see(olga, "published")
    words = [sys.executable, "-m", "orchestrator", "verify", str(cup.folder.path / "published" / "sealed-1"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def acts_of_appeal(cup: Cup) -> list[object]:
    """Returns what the ledger has of appeals."""
    kinds = (contest_events.AppealFiled, contest_events.AppealDecided)
    return [entry.event for entry in cup.entries() if isinstance(entry.event, kinds)]
