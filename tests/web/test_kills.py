"""The site and its workers are killed with kill -9 while people sign up, found teams and submit, and rounds play.

With the ledger and the accounts in PostgreSQL there are two of each, as on a cluster. SPARRING_SOAK kills at 30
moments; `pytest -rP` prints what was killed when, and what went on then.
"""

import itertools
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
from orchestrator.domain import contest_events, events
from orchestrator.errors import ServiceUnavailable
from orchestrator.intake import package_writer
from orchestrator.remote import upload
from tests.application.conftest import Cup

from .browsing import CODE, Service
from .real_service import RealService

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgresql"), pytest.mark.timeout(7200)]
KILLS = 30 if os.environ.get("SPARRING_SOAK") else 2
SEED = 9
PATIENCE = 300
LARGE_FILES = 25
"""The rate limit of a team's uploads is 30 an hour."""
LARGE_BYTES = 2 * 1024 * 1024
PARTS = 64
SAID = {"team": "Corner Shop", "task": "quarters"}
WORK = ("--backend", "process", "--allow-unisolated", "--slots", "1")
ANSWERS = (
    contest_events.SubmissionReceived,
    contest_events.SubmissionRefused,
    contest_events.ArrivalMatched,
)
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

    def __init__(self, service: RealService | Service) -> None:
        self.service, self.cookies = service, CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def post(self, path: str, words: dict[str, str], leads_to: str, file: bytes = b"") -> str:
        """Fills in the form of a page, and returns the path that it leads to. Raises Refused where that is another."""
        try:
            page = self.read(path)
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

    def read(self, path: str) -> str:
        """Returns a page."""
        return self.opener.open(self.service.address + path, timeout=PATIENCE).read().decode()

    def sign_up(self, email: str, name: str) -> None:
        """Signs up with the code that is in the log in place of a mail. Raises Refused."""
        self.post("/account/signup/", {"email": email, "name": name}, "/account/email/confirm/")
        sent = [code for to, code in CODE.findall(self.service.log.read_text("utf-8")) if to == email]
        self.post("/account/email/confirm/", {"code": sent[-1]}, "/")

    @property
    def session(self) -> str:
        """The cookie by which somebody is known."""
        return next(each.value for each in self.cookies if each.name == "session")


def _multipart(words: dict[str, str], file: bytes) -> tuple[bytes, str]:
    line = b"--part\r\nContent-Disposition: form-data; name="
    parts = [line + f'"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in words.items()]
    parts.append(line + b'"file"; filename="it.tar"\r\nContent-Type: application/x-tar\r\n\r\n' + file + b"\r\n")
    return b"".join(parts) + b"--part--\r\n", "multipart/form-data; boundary=part"


def package(home: Path, number: int) -> bytes:
    """Returns a submission of one person's own, packed."""
    folder = Cup(home).player("attack_noop", f"a{number}")
    return package_writer.write_package(folder, home / f"a{number}.tar").path.read_bytes()


def join(browser: Browser, number: int, told: Acknowledged) -> None:
    """Signs up by code, founds a team and submits, each of it until it is acknowledged. Raises Refused."""
    team = f"T{number}"
    browser.sign_up(f"p{number}@example.org", f"P {number}")
    told.sessions.append(browser.session)
    insist(browser, "/my/", {"team": team}, "/my/")
    told.teams.append(team)
    said = {"task": "quarters"}
    page = insist(
        browser, f"/my/t{number}/submit/", said, r"/my/.*/arrivals/\w+/", package(browser.service.home, number)
    )
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


class Person(threading.Thread):
    """Somebody who does one thing after another until it is `enough`. What went wrong is in `failed`."""

    def __init__(self, services: list[RealService], told: Acknowledged, enough: threading.Event) -> None:
        super().__init__()
        self.services, self.told, self.enough, self.failed = services, told, enough, None

    def run(self) -> None:
        """Does the first, and more until it is enough."""
        try:
            number = 0
            while not (number and self.enough.is_set()):
                number += 1
                self.do(number)
        except Exception as error:  # noqa: BLE001  the test shows it
            self.failed = error

    def do(self, number: int) -> None:
        """Does one thing."""
        raise NotImplementedError


class Newcomers(Person):
    """Somebody after somebody signs up and submits."""

    def do(self, number: int) -> None:
        """Has one of them come: of several, if the sign-up of the first is cut off."""
        for one in itertools.count(1000 * number):
            try:
                join(Browser(self.services[one % len(self.services)]), one, self.told)
            except Refused:
                if self.enough.is_set() and self.told.teams:
                    break
                time.sleep(0.5)
            else:
                break


class Uploader(Person):
    """One team sends large files in small parts, each until it arrived. `offset` bytes of the last one are there."""

    parts = offset = last = 0

    def do(self, number: int) -> None:
        """Sends one, and begins as often as it takes."""
        if number > LARGE_FILES:
            self.enough.wait(PATIENCE)
            return
        path = self.services[0].home / f"large-{number}.tar"
        path.write_bytes(os.urandom(LARGE_BYTES))
        self.last = time.monotonic()
        client, arrival = self.services[number % len(self.services)].client(), ""
        while not arrival:
            try:
                arrival = upload.upload_file(client, path, SAID, self.watch, lambda _: time.sleep(0.5))
            except ServiceUnavailable:
                assert time.monotonic() < self.last + 2 * PATIENCE
        self.told.arrivals.append(arrival)

    def watch(self, offset: int) -> None:
        """Notes how much is there."""
        self.parts, self.offset, self.last = self.parts + 1, offset % LARGE_BYTES, time.monotonic()


class Organizer(Person):
    """The organizers ask for the round whenever it was played: those who came meanwhile play in the next."""

    def __init__(self, cup: Cup, *words) -> None:
        super().__init__(*words)
        self.cup = cup

    def do(self, number: int) -> None:
        """Asks once, and waits until it is played."""
        with self.cup.desk() as desk:
            asked = round_requests.request_round(desk, "initial", "quarters").id
        while self.is_open(asked) and not self.enough.is_set():
            time.sleep(0.2)

    def is_open(self, asked: str) -> bool:
        """Whether a request waits or is being played."""
        return asked not in [event.request for event in self.cup.acts(contest_events.RoundRequestClosed)]


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
    """A contest with an attack and a defence."""
    made = Cup(tmp_path, time=seasons.now()).open(url)
    made.submit("One", made.player("attack_noop"))
    made.submit("Two", made.player("defence_honest"))
    return made


@pytest.fixture
def services(cup: Cup, url: str | None, tmp_path: Path, monkeypatch) -> Iterator[list[RealService]]:
    """One process that serves it, two with PostgreSQL."""
    monkeypatch.setattr(upload, "PART_BYTES", LARGE_BYTES // PARTS)
    first = RealService(tmp_path)
    made = [first, first.another()] if url else [first]
    for service in made:
        service.start()
    yield made
    for service in made:
        service.kill()


def played_steps(cup: Cup) -> list[events.StepFinished]:
    """Returns what is finished of the round."""
    if not cup.folder.round("initial", "quarters").exists:
        return []
    entries = cup.round_entries("initial")
    return [entry.event for entry in entries if isinstance(entry.event, events.StepFinished)]


def worked(cup: Cup) -> int:
    """Returns how much workers noted so far: answers to arrivals, steps of a round, and rounds that were played."""
    kinds = (*ANSWERS, contest_events.RoundRequestClosed)
    return len(played_steps(cup)) + sum(isinstance(entry.event, kinds) for entry in cup.entries())


def kill_at_random(cup: Cup, services: list[RealService], workers: Workers, people: list[Person]) -> None:
    """Kills a process at each of some random moments, while it does what it is there for: half of them are workers.

    A process that was killed gets something done before the next of its kind is: else a slow machine would show that
    processes can be killed while they start.
    """
    chance, begin = random.Random(SEED), time.monotonic()
    kinds = ["web", "worker"] * (KILLS // 2)
    chance.shuffle(kinds)
    done = {"web": lambda: uploader.parts, "worker": lambda: worked(cup)}
    (uploader,) = [each for each in people if isinstance(each, Uploader)]
    before = {"web": 0, "worker": 0}
    for kind in kinds:
        until = time.monotonic() + PATIENCE
        while done[kind]() == before[kind]:
            assert [each.failed for each in people] == [None] * len(people), services[0].log.read_text("utf-8")
            assert time.monotonic() < until, f"no {kind} gets anything done: {services[0].log.read_text('utf-8')}"
            time.sleep(0.1)
        time.sleep(chance.uniform(0, 2))
        number = chance.randrange(len(services))
        asked = len(cup.acts(contest_events.RoundRequested)) - len(cup.acts(contest_events.RoundRequestClosed))
        words = (
            f"{uploader.offset} bytes of an upload are there, {len(played_steps(cup))} steps played, {asked} asked for"
        )
        print(f"{time.monotonic() - begin:6.1f} s: {kind} {number} killed; {words}")  # noqa: T201
        if kind == "worker":
            workers.kill(number)
        else:
            services[number].kill()
            services[number].start()
        before[kind] = done[kind]()


def test_what_was_acknowledged_is_there_once(cup: Cup, services: list[RealService]) -> None:
    """Accounts, sessions, teams, arrivals and steps of the round: each is there, and none twice."""
    told, enough = Acknowledged(), threading.Event()
    who = (services, told, enough)
    people = [Newcomers(*who), Uploader(*who), Organizer(cup, *who)]
    workers = Workers(services[0], len(services))
    try:
        for each in people:
            each.start()
        kill_at_random(cup, services, workers, people)
        enough.set()
        for each in people:
            each.join(2 * PATIENCE)
            assert (each.is_alive(), each.failed) == (False, None), services[0].log.read_text("utf-8")
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
    assert max(Counter(event.arrival for event in arrived).values()) == 1
    assert set(told.arrivals) <= {event.arrival for event in arrived}
    assert_no_file_waits_twice(cup)
    answered = [event.arrival for kind in ANSWERS for event in cup.acts(kind) if event.arrival]
    assert sorted(answered) == sorted(event.arrival for event in arrived)
    received = cup.acts(contest_events.SubmissionReceived)
    assert max(Counter(event.id for event in received).values()) == 1
    closed = cup.acts(contest_events.RoundRequestClosed)
    assert [event.outcome for event in closed] == ["played"] * len(cup.acts(contest_events.RoundRequested))
    assert max(Counter((event.job, event.step) for event in played_steps(cup)).values()) == 1
    assert {event.id for event in received} <= {each.id for each in cup.play("initial")[0].submissions}


def assert_no_file_waits_twice(cup: Cup) -> None:
    """Fails where a file arrived again that waited or was received. One that was refused may be tried once more."""
    known: dict[str, str] = {}
    for entry in cup.entries():
        if isinstance(entry.event, contest_events.SubmissionArrived):
            assert entry.event.digest not in known.values()
            known[entry.event.arrival] = entry.event.digest
        if isinstance(entry.event, contest_events.SubmissionRefused):
            known.pop(entry.event.arrival, None)
