"""The site and its workers are killed with kill -9 while people sign up, found teams and hand in, and a round plays.

With the ledger and the accounts in PostgreSQL there are two of each, as on a cluster.
"""

import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from orchestrator.application.contests import round_requests, seasons
from orchestrator.domain import contest_events
from orchestrator.errors import ServiceUnavailable
from orchestrator.remote import upload
from tests.application.conftest import Cup

from .browsing import CODE
from .real_service import RealService

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgresql")]
KILLS = 30 if os.environ.get("SPARRING_SOAK") else 5
SEED = 9
PATIENCE = 300
LARGE_FILES = 20
"""The rate limit of a team's uploads is 30 an hour."""
SAID = {"team": "Corner Shop", "task": "quarters"}
WORK = ("--backend", "process", "--allow-unisolated", "--slots", "1")
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
AWAY = (urllib.error.URLError, HTTPException, OSError)
"""What a client meets when the service is killed, or says that it does not want something now."""


class Refused(Exception):
    """A form that was not taken: the service was killed on the way, or does not want more at this moment."""


@dataclass
class Acknowledged:
    """What people were told to be done."""

    sessions: list[str] = field(default_factory=list)
    teams: list[str] = field(default_factory=list)
    arrivals: list[str] = field(default_factory=list)


class Browser:
    """Somebody without scripts, at one of the services."""

    def __init__(self, service: RealService) -> None:
        self.service, self.cookies = service, CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def post(self, path: str, words: dict[str, str], leads_to: str, file: bytes = b"") -> str:
        """Fills in the form of a page, and returns the path that it leads to. Raises Refused where that is another."""
        try:
            page = self.opener.open(self.service.address + path, timeout=PATIENCE).read().decode()
            words = {**words, "csrfmiddlewaretoken": TOKEN.search(page)[1]}
            data, kind = _multipart(words, file) if file else (urllib.parse.urlencode(words).encode(), "")
            request = urllib.request.Request(self.service.address + path, data)  # noqa: S310  of this machine
            if kind:
                request.add_header("Content-Type", kind)
            answer = self.opener.open(request, timeout=PATIENCE)
            answer.read()
        except AWAY as error:
            raise Refused from error
        there = urllib.parse.urlsplit(answer.url).path
        if re.fullmatch(leads_to, there) is None:
            raise Refused
        return there

    @property
    def session(self) -> str:
        """The cookie by which somebody is known."""
        return next(each.value for each in self.cookies if each.name == "session")


def _multipart(words: dict[str, str], file: bytes) -> tuple[bytes, str]:
    line = b"--part\r\nContent-Disposition: form-data; name="
    parts = [line + f'"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in words.items()]
    parts.append(line + b'"file"; filename="it.tar"\r\nContent-Type: application/x-tar\r\n\r\n' + file + b"\r\n")
    return b"".join(parts) + b"--part--\r\n", "multipart/form-data; boundary=part"


def join(browser: Browser, number: int, told: Acknowledged) -> None:
    """Signs up by code, founds a team and hands in, each of it until it is acknowledged. Raises Refused."""
    email, team = f"p{number}@example.org", f"T{number}"
    browser.post("/account/signup/", {"email": email, "name": f"P {number}"}, "/account/email/confirm/")
    sent = [code for to, code in CODE.findall(browser.service.log.read_text("utf-8")) if to == email]
    browser.post("/account/email/confirm/", {"code": sent[-1]}, "/")
    told.sessions.append(browser.session)
    insist(browser, "/my/", {"team": team}, "/my/")
    told.teams.append(team)
    said = {"way": "file", "task": "quarters"}
    page = insist(browser, f"/my/t{number}/submit/", said, r"/my/.*/arrivals/\w+/", team.encode())
    told.arrivals.append(page.split("/")[-2])


def insist(browser: Browser, path: str, words: dict[str, str], leads_to: str, file: bytes = b"") -> str:
    """Sends a form until it is acknowledged; returns the path that it leads to."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return browser.post(path, words, leads_to, file)
        except Refused:
            assert time.monotonic() < until, path
            time.sleep(0.1)


class People(threading.Thread):
    """Somebody after somebody signs up and hands in, until it is enough and one did. What went wrong is in `failed`."""

    def __init__(self, services: list[RealService], told: Acknowledged, enough: threading.Event) -> None:
        super().__init__()
        self.services, self.told, self.enough, self.failed = services, told, enough, None

    def run(self) -> None:
        """Signs up."""
        try:
            number = 0
            while not (self.enough.is_set() and self.told.teams):  # on a slow machine nobody may get through before
                number += 1
                self.one(number)
        except Exception as error:  # noqa: BLE001  the test shows it
            self.failed = error

    def one(self, number: int) -> None:
        """Has one of them come; whose sign-up was cut off did not."""
        try:
            join(Browser(self.services[number % len(self.services)]), number, self.told)
        except Refused:
            time.sleep(0.1)


class Uploader(People):
    """One team sends large files in small parts, each until it arrived."""

    def run(self) -> None:
        """Sends."""
        try:
            for number in range(LARGE_FILES):
                path = self.services[0].home / f"large-{number}.tar"
                path.write_bytes(os.urandom(512 * 1024))
                self.told.arrivals.append(self.send(path))
                if self.enough.is_set():
                    return
        except Exception as error:  # noqa: BLE001  the test shows it
            self.failed = error

    def send(self, path: Path) -> str:
        """Begins as often as it takes."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return upload.upload_file(self.services[0].client(), path, SAID, lambda _: None)
            except ServiceUnavailable:
                assert time.monotonic() < until


class Workers:
    """Processes of `sparring work`."""

    def __init__(self, service: RealService, count: int) -> None:
        self.service = service
        self.processes = [self._start() for _ in range(count)]

    def _start(self, *more: str) -> subprocess.Popen:
        words = [sys.executable, "-m", "orchestrator", "work", str(self.service.folder), *WORK, *more]
        with self.service.log.open("a") as log:
            return subprocess.Popen(words, env=self.service.environment, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        """Ends one of them as a power cut does, and starts it again."""
        self.processes[number].kill()
        self.processes[number].wait()
        self.processes[number] = self._start()

    def end(self) -> None:
        """Ends all of them."""
        for process in self.processes:
            process.kill()
            process.wait()

    def finish(self) -> None:
        """Does what still waits."""
        self.end()
        assert self._start("--once").wait(PATIENCE) == 0, self.service.log.read_text("utf-8")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request) -> str | None:
    """Where ledger and accounts are: in files, or in a PostgreSQL of the test's own."""
    return request.getfixturevalue("database_url") if request.param == "postgresql" else None


@pytest.fixture
def cup(url: str | None, tmp_path: Path) -> Cup:
    """A contest with an attack and a defence, and a round that is asked for."""
    made = Cup(tmp_path, time=seasons.now()).open(url)
    made.submit("One", made.player("attack_noop"))
    made.submit("Two", made.player("defence_honest"))
    with made.desk() as desk:
        round_requests.request_round(desk, "initial", "quarters")
    return made


@pytest.fixture
def services(cup: Cup, url: str | None, tmp_path: Path, monkeypatch) -> Iterator[list[RealService]]:
    """One process that serves it, two with PostgreSQL."""
    monkeypatch.setattr(upload, "PART_BYTES", 32 * 1024)
    first = RealService(tmp_path, url)
    made = [first, first.another()] if url else [first]
    for service in made:
        service.start()
    yield made
    for service in made:
        service.kill()


def kill_at_random(services: list[RealService], workers: Workers, people: list[People]) -> None:
    """Kills a process at each of some random moments, as long as everybody is at it."""
    chance = random.Random(SEED)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.1, 3))
        assert [each.failed for each in people] == [None] * len(people)
        number = chance.randrange(len(services))
        if chance.random() < 0.5:
            workers.kill(number)
        else:
            services[number].kill()
            services[number].start()


def test_what_was_acknowledged_is_there_once(cup: Cup, services: list[RealService]) -> None:
    """Accounts, sessions, teams, arrivals and steps of the round: each is there, and none twice."""
    told, enough = Acknowledged(), threading.Event()
    people = [People(services, told, enough), Uploader(services, told, enough)]
    workers = Workers(services[0], len(services))
    try:
        for each in people:
            each.start()
        kill_at_random(services, workers, people)
        enough.set()
        for each in people:
            each.join(2 * PATIENCE)
            assert (each.is_alive(), each.failed) == (False, None)
        workers.finish()
    finally:
        enough.set()
        workers.end()
    assert min(len(told.sessions), len(told.teams), len(told.arrivals)) > 0
    assert told_by(services, told.sessions) == [200] * len(told.sessions)
    assert_once(cup, told)


def told_by(services: list[RealService], sessions: list[str]) -> list[int]:
    """Returns how each session is answered where one has to be signed in."""
    found = []
    for number, session in enumerate(sessions):
        address = f"{services[number % len(services)].address}/account/tokens/"
        request = urllib.request.Request(address, headers={"Cookie": f"session={session}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            found.append(answer.status if answer.url == address else 302)
    return found


def assert_once(cup: Cup, told: Acknowledged) -> None:
    """Fails unless the ledgers have each act that was acknowledged, and nothing twice."""
    teams = Counter(event.team for event in cup.acts(contest_events.TeamAdded))
    assert {teams[team] for team in told.teams} == {1}
    arrived = cup.acts(contest_events.SubmissionArrived)
    assert Counter(event.arrival for event in arrived) == Counter(set(told.arrivals) | {e.arrival for e in arrived})
    assert set(told.arrivals) <= {event.arrival for event in arrived}
    assert max(Counter(event.digest for event in arrived).values()) == 1
    kinds = (contest_events.SubmissionReceived, contest_events.SubmissionRefused, contest_events.ArrivalMatched)
    answered = [event.arrival for kind in kinds for event in cup.acts(kind) if event.arrival]
    assert sorted(answered) == sorted(event.arrival for event in arrived)
    assert [event.outcome for event in cup.acts(contest_events.RoundRequestClosed)] == ["played"]
    entries = [entry.event for entry in cup.round_entries("initial") if entry.event.kind == "step_finished"]
    assert Counter((event.job, event.step) for event in entries).most_common(1)[0][1] == 1
