"""Measures how an unrestricted contest grows: seconds to fold its ledger, milliseconds of a page, at a size and half.

The format's own commands, checks and due actions write the ledger: teams submit pictures, weeks close, three raters
judge each, defences answer with five seeds, the board stakes, and due actions run as in a worker.

    python bench/unrestricted.py [--weeks 52] [--teams 200] [--defences 20] [--pictures 20000] [--json]

`fold` applies events that were read before; `open` also reads, verifies and parses the ledger file, as a process does
when it starts. Pages are requested with Django's test client, in this process, after a first request. Seconds depend on
the machine; what matters is that they are proportional to the size.
"""

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator import logs
from orchestrator.application.contests import seasons
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.cli.console import GC_THRESHOLDS
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import ContestEvent, PersonRecord, Role
from orchestrator.domain.ids import digest
from orchestrator.domain.submissions import Side
from orchestrator.formats.unrestricted import commands, due_events, events
from orchestrator.formats.unrestricted.bounding_boxes import Box
from orchestrator.formats.unrestricted.commands import Refusal, Result, Upload
from orchestrator.formats.unrestricted.fold import apply, fold
from orchestrator.formats.unrestricted.questionnaire import BICYCLE, BIRD, Answers, Certainty, Statements
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.formats.unrestricted.state import ANSWERING, State
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.stores.base import format_time

START = datetime(2027, 1, 18, 9, tzinfo=UTC)
"""A Monday morning."""
RULES = {"prizes": {"pool": "100000.00 EUR", "per_break": "100.00 EUR"}}
FILE = {
    "sparring": 1,
    "contest": "large",
    "title": "A large contest",
    "format": "unrestricted",
    "task": {
        "name": "digits",
        "dataset": {
            "kind": "digits",
            "classes": ["0", "1", "2", "3", "4", "5", "bird", "bicycle", "8", "9"],
            "only": ["bird", "bicycle"],
            "first": 10,
        },
    },
    "rules": RULES,
}
SIDE = 8
BOARD = ("b1", "b2", "b3")
RATERS = tuple(f"r{number}" for number in range(30))
VALID, BREAKS = 0.3, 0.002
"""The share of pictures that raters find valid, and the share of a defence's answers to them that are wrong."""
REQUESTS = 7
PAGES = {
    "": ("/", "/standing/", "/weeks/", "/weeks/WEEK/", "/pictures/PICTURE/", "/money/"),
    "team": ("/my/attackers-0/pictures/",),
    "board": ("/board/", "/board/cases/overrule:PICTURE/"),
    "rater": ("/judge/",),
}


class LargeContest:
    """A contest that is being made: its state, and the entries of its ledger."""

    def __init__(self, weeks: int, teams: int, defences: int, pictures: int) -> None:
        self.chance = random.Random(1)  # noqa: S311  not for secrets
        self.state, self.now = State(UnrestrictedRules.model_validate(RULES)), START
        self.entries: list[tuple[ContestEvent, datetime]] = []
        self.number = 0
        self._found(teams - defences, defences)
        for week in range(weeks):
            self._play_week(week, pictures * (week + 1) // weeks - pictures * week // weeks)

    def append(self, *events: ContestEvent) -> None:
        """Applies events and appends them."""
        for event in events:
            apply(self.state, event, self.now)
            self.entries.append((event, self.now))

    def act(self, result: Result) -> None:
        """Appends the events that a command returns."""
        if isinstance(result, Refusal):
            raise SystemExit(f"the benchmark asks for what may not be: {result.problems}")
        self.append(*result)

    def tick(self) -> None:
        """Runs the due actions."""
        for action in due_events.catch_up(self.state, self.now):
            self.entries += [(event, self.now) for event in action.events]

    def _found(self, attackers: int, defences: int) -> None:
        self.append(contest_events.ContestOpened(actor="desk", contest={}, key_fingerprint="k", software="0"))
        self.tick()
        for member in BOARD:
            self._seat(member)
        for rater in RATERS:
            person = PersonRecord(id=f"{rater}@raters.example", name=rater)
            self.append(contest_events.RoleGranted(actor="desk", person=person, role=Role.RATER))
        self.attackers = [f"attackers-{number}" for number in range(attackers)]
        for team in (*self.attackers, *(f"owners-{number}" for number in range(defences))):
            people = [PersonRecord(id=f"somebody@{team}.example", name=team)]
            self.append(contest_events.TeamAdded(actor="desk", team=team, people=people))
        for team in self.attackers:
            self.act(commands.admit_attacker(self.state, self.now, "desk", team, "https://arxiv.example/1"))
        for number in range(defences):
            self._add_defence(f"d{number}", f"owners-{number}")

    def _seat(self, member: str) -> None:
        person = f"{member}@{member}.example"
        record = PersonRecord(id=person, name=member)
        self.append(contest_events.RoleGranted(actor="desk", person=record, role=Role.BOARD))
        self.append(events.BoardMemberSeated(actor="desk", member=member, person=person))

    def vote(self, question: str) -> None:
        """Makes the board vote in favour of a question."""
        for each in BOARD[:2]:
            self.append(events.VoteCast(actor=each, member=each, question=question, in_favour=True))

    def _add_defence(self, name: str, team: str) -> None:
        body = {"name": name, "task": "digits", "digest": digest(name), "image": "", "attempt": 1, "attempts_left": 0}
        source = "https://code.example/1"
        self.append(
            contest_events.SubmissionReceived(
                actor="desk", id=name, team=team, side=Side.DEFENCE, source=source, **body
            )
        )
        self.vote(f"readable:{name}")
        decide = partial(commands.decide_readability, defence=name, readable=True, reason="It is plain.")
        self.act(decide(self.state, self.now, "desk"))
        counts = {"right": 10, "wrong": 0, "abstained": 0, "faults": 0, "accepted": 0, "timed_pictures": 10}
        self.append(events.DefenceTested(actor="desk", defence=name, broken_by=[], seconds=1.0, **counts))
        self.append(events.DefencePublished(actor="desk", defence=name, digest=digest(name), source=source))
        self.vote(f"stake:{name}")
        self.act(commands.stake_by_board(self.state, self.now, "desk", name, {name: "It is easy to run."}))

    def _play_week(self, week: int, pictures: int) -> None:
        """Submits pictures on the days of a week, closes it, and adds answers and ratings."""
        opened = self.now
        for number in range(pictures):
            self.now = opened + timedelta(days=3 * number / pictures)
            content = digest(f"{week} {number}")
            team = self.attackers[number % len(self.attackers)]
            upload = Upload(f"{self.number:016x}", team, content, content, SIDE, SIDE)
            self.number += 1
            self.act(commands.receive_picture(self.state, self.now, team, upload))
        self.now = opened + timedelta(days=6)
        self.tick()
        [*_, closed] = self.state.closed_weeks
        shown = {each: self._rate(each) for each in self.state.closed_weeks[closed]}
        for defence in self.state.defences.values():
            if shown and defence.status in ANSWERING:
                self._answer(defence.id, closed, shown)
        self.now = opened + timedelta(days=7)
        self.tick()

    def _rate(self, picture: str) -> str:
        """Adds the same rating by three raters to a picture, and returns the class that it shows."""
        seen = self.chance.choice((BIRD.name, BICYCLE.name))
        other = BICYCLE.name if seen == BIRD.name else BIRD.name
        real = self.chance.random() < VALID
        answers = Answers(
            presence={seen: Certainty.DEFINITELY_YES, other: Certainty.DEFINITELY_NO},
            box=Box(left=0, top=0, right=SIDE - 1, bottom=SIDE - 1),
            statements=Statements(complete=True, unoccluded=True, real=real),
        )
        for rater in self.chance.sample(RATERS, 3):
            self.append(events.PictureRated(actor=rater, picture=picture, rater=rater, answers=answers))
        return seen

    def _answer(self, defence: str, week: str, shown: dict[str, str]) -> None:
        wrong = {BIRD.name: BICYCLE.name, BICYCLE.name: BIRD.name}
        given = {each: wrong[seen] if self.chance.random() < BREAKS else seen for each, seen in shown.items()}
        others = {each: [answer] * OTHER_SEEDS for each, answer in given.items()}
        self.append(events.AnswersRecorded(actor="desk", defence=defence, week=week, answers=given, other_seeds=others))


def write(folder: Path, entries: Iterable[tuple[ContestEvent, datetime]]) -> None:
    """Writes a contest's folder with this ledger, whose first entry the command that opens the contest writes."""
    opened = ContestFolder(folder)
    opened.create()
    opened.file.write_text(json.dumps(FILE))
    seasons.open_contest(folder, clock=lambda: START)
    with closing(opened.ledger()) as ledger:
        batch: list[ContestEvent] = []
        at = START
        for event, time_ in list(entries)[1:]:
            if batch and time_ != at:
                ledger.append(*batch, time=format_time(at))
                batch = []
            batch.append(event)
            at = time_
        ledger.append(*batch, time=format_time(at))


def ask(folder: Path, now: datetime, contest: LargeContest) -> Iterator[tuple[str, float]]:
    """Yields pages, each with the median of its milliseconds."""
    from orchestrator.web import setup  # noqa: PLC0415  Django is configured for one contest a process
    from orchestrator.web.settings import WebSettings  # noqa: PLC0415

    setup.configure(WebSettings(contest=folder, address="http://127.0.0.1:8000"))
    setup.make_tables()
    from django.test import Client  # noqa: PLC0415  not before Django is configured

    from orchestrator.web import contest_site  # noqa: PLC0415
    from orchestrator.web.models import Account  # noqa: PLC0415

    contest_site.current_site().clock = lambda: now
    people = {
        "team": f"somebody@{contest.attackers[0]}.example",
        "board": "b1@b1.example",
        "rater": "r0@raters.example",
    }
    [*_, week] = contest.state.closed_weeks
    instead = {"WEEK": week, "PICTURE": contest.state.closed_weeks[week][0]}
    for who, pages in PAGES.items():
        client = Client(HTTP_HOST="127.0.0.1:8000")
        if who:
            client.force_login(Account.objects.create(email=people[who], name=who, person=people[who]))
        for page in pages:
            place = page
            for name, value in instead.items():
                place = place.replace(name, value)
            yield page, median_of_page(client, place)


def median_of_page(client: Any, place: str) -> float:
    """Returns the median of the milliseconds of a page. Raises SystemExit if there is no such page."""
    times = []
    for _ in range(1 + REQUESTS):
        began = time.perf_counter()
        response = client.get(place)
        times.append(1000 * (time.perf_counter() - began))
        if response.status_code != 200:  # noqa: PLR2004  the page itself
            raise SystemExit(f"{place} answers {response.status_code}")
    return statistics.median(times[1:])


def measure(weeks: int, teams: int, defences: int, pictures: int) -> dict[str, Any]:
    """Returns the figures of one size. Call it once in a process, because Django is configured for one contest."""
    contest = LargeContest(weeks, teams, defences, pictures)
    with tempfile.TemporaryDirectory(prefix="sparring-unrestricted-") as root:
        folder = Path(root) / "contest"
        write(folder, contest.entries)
        began = time.perf_counter()
        with closing(ContestFolder(folder).ledger()) as ledger:
            read = [
                (e.event, datetime.fromisoformat(e.time)) for e in ledger.read() if isinstance(e.event, ContestEvent)
            ]
        parsed = time.perf_counter()
        fold(contest.state.rules, read)
        folded = time.perf_counter()
        UnrestrictedContest(ContestFolder(folder), contest.state.rules).close()
        opened = time.perf_counter()
        return {
            "pictures": pictures,
            "entries": len(read),
            "read_seconds": parsed - began,
            "fold_seconds": folded - parsed,
            "open_seconds": opened - folded,
            "page_milliseconds": dict(ask(folder, contest.now, contest)),
        }


def main(words: Sequence[str] | None = None) -> None:
    """Measures the size and half of it, each in a process of its own, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--teams", type=int, default=200)
    parser.add_argument("--defences", type=int, default=20)
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--one", action="store_true", help="this size alone, as JSON")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    logs.configure_logging(quiet=True)
    gc.set_threshold(*GC_THRESHOLDS)  # as the command line does
    if given.one:
        print(json.dumps(measure(given.weeks, given.teams, given.defences, given.pictures)))
        return
    found = []
    for weeks, pictures in ((given.weeks // 2, given.pictures // 2), (given.weeks, given.pictures)):
        sizes = ["--weeks", weeks, "--pictures", pictures, "--teams", given.teams, "--defences", given.defences]
        command = [sys.executable, __file__, "--one", *map(str, sizes)]
        found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    if given.json:
        print(json.dumps({"sizes": found}))
        return
    print(f"| {given.teams} teams, {given.defences} defences | {' | '.join(str(e['pictures']) for e in found)} |")
    print("| --- | --- | --- |")
    for key in ("entries", "read_seconds", "fold_seconds", "open_seconds"):
        print(f"| {key.replace('_', ' ')} | {' | '.join(f'{each[key]:.2f}' for each in found)} |")
    for page in found[0]["page_milliseconds"]:
        times = (f"{each['page_milliseconds'][page]:.0f}" for each in found)
        print(f"| `{page}` ms | {' | '.join(times)} |")


if __name__ == "__main__":
    main()
