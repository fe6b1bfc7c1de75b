"""An unrestricted contest in its first weeks, with a person of every kind, for tests that open its pages.

The foxes attack, the owls and the kites defend. The board has three members: b1 is in the team of the kites, whose
defence is d2, and so has a conflict with it; b2 and b3 have none. The first week is closed. The second week is open, so
only their own team may see its pictures.
"""

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from orchestrator.application.contests import seasons
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest, open_unrestricted
from orchestrator.application.grading import attack_pictures
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.domain.submissions import Side
from orchestrator.formats.unrestricted import commands, events
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.stores.base import format_time

from ..formats.unrestricted.simulated_contest import BICYCLE, RULES, START, answers

FILE = {
    "sparring": 1,
    "contest": "weeks",
    "title": "Birds and bicycles",
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
"""The contest file. The pictures are handwritten digits; a six is called a bird and a seven a bicycle."""
SIDE = 8
"""The height and the width of a digit in pixels."""
WEEK = "2027-W03"
SECOND = datetime(2027, 1, 25, 9, tzinfo=UTC)
"""A Monday in the second week."""
PEOPLE = {
    "Fay": "person-00000000000000a1",
    "Oda": "person-00000000000000b1",
    "Kim": "person-00000000000000c1",
    "Bea": "person-00000000000000d1",
    "Bo": "person-00000000000000d2",
    "Bix": "person-00000000000000d3",
    "Rae": "person-00000000000000e1",
    "Rob": "person-00000000000000e2",
    "Rio": "person-00000000000000e3",
    "Org": "person-00000000000000f1",
    "Nell": "person-00000000000000f2",
}
TEAMS = {"foxes": ("Fay",), "owls": ("Oda",), "kites": ("Kim", "Bea")}
ROLES = {
    Role.BOARD: ("Bea", "Bo", "Bix"),
    Role.RATER: ("Rae", "Rob", "Rio"),
    Role.ORGANIZER: ("Org",),
}
SEATS = {"b1": "Bea", "b2": "Bo", "b3": "Bix"}


def png(seed: int) -> bytes:
    """Returns a random picture of the contest's shape as PNG, a different one for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@dataclass
class WeekWorld:
    """The contest's folder, its current time, and its pictures and appeals by their purpose."""

    folder: Path
    now: datetime = START
    pictures: dict[str, str] = field(default_factory=dict)
    appeals: dict[str, str] = field(default_factory=dict)

    def clock(self) -> datetime:
        """Returns the contest's current time."""
        return self.now

    def client(self, name: str = "") -> Any:
        """Returns a test client in which a person is signed in, or nobody."""
        from django.test import Client

        from orchestrator.web.models import Account

        client = Client(HTTP_HOST="127.0.0.1:8000")
        if name:
            client.force_login(Account.objects.get(person=PEOPLE[name]))
        return client

    def head(self) -> str:
        """Returns the hash of the ledger's last entry."""
        ledger = ContestFolder(self.folder).ledger()
        try:
            return list(ledger.read())[-1].hash
        finally:
            ledger.close()


def make(folder: Path) -> WeekWorld:
    """Makes the contest in its second week.

    Its picture `broken` breaks the owls' d1; `kites` breaks the kites' d2, and its ruling is appealed; `rejected` is
    not valid; `reported` is reported; `waits` waits for raters; `open` belongs to the open week.
    """
    world, opened = WeekWorld(folder), ContestFolder(folder)
    _open(opened)
    with open_unrestricted(folder) as contest:
        _first_week(world, contest)
        _second_week(world, contest)
    world.now = SECOND
    return world


def make_first_day(folder: Path) -> WeekWorld:
    """Makes the contest on its first day: the foxes may submit pictures, and no defence is published."""
    world, opened = WeekWorld(folder), ContestFolder(folder)
    _open(opened)
    with open_unrestricted(folder) as contest:
        contest.tick(START)
        contest.act(_ADMIT, START)
    return world


def _open(opened: ContestFolder) -> None:
    opened.create()
    opened.file.write_text(json.dumps(FILE))
    seasons.open_contest(opened.path, clock=lambda: START)
    ledger = opened.ledger()
    for event in _people():
        ledger.append(event, time=format_time(START))
    ledger.close()


_ADMIT = partial(commands.admit_attacker, actor="desk", team="foxes", preprint="https://arxiv.example/1")


def _people() -> list[contest_events.ContestEvent]:
    def record(name: str) -> PersonRecord:
        return PersonRecord(id=PEOPLE[name], name=name)

    found: list[contest_events.ContestEvent] = [
        contest_events.TeamAdded(actor="desk", team=team, people=[record(each) for each in people])
        for team, people in TEAMS.items()
    ]
    found += [
        contest_events.RoleGranted(actor="desk", person=record(each), role=role)
        for role, people in ROLES.items()
        for each in people
    ]
    for name, team in (("d1", "owls"), ("d2", "kites"), ("d3", "owls")):
        body = {"name": name, "task": "digits", "digest": f"sha256:{name}", "image": "", "attempt": 1}
        found.append(
            contest_events.SubmissionReceived(
                actor="desk", id=name, team=team, side=Side.DEFENCE, source="https://x.example", attempts_left=0, **body
            )
        )
    return found


def _first_week(world: WeekWorld, contest: UnrestrictedContest) -> None:
    contest.tick(START)
    for member, name in SEATS.items():
        contest.propose(events.BoardMemberSeated(actor="desk", member=member, person=PEOPLE[name]), START)
    contest.act(_ADMIT, START)
    for name in ("d1", "d2", "d3"):
        for each in ("b2", "b3"):
            vote = events.VoteCast(actor=each, member=each, question=f"readable:{name}", in_favour=True)
            contest.propose(vote, START)
        decide = partial(commands.decide_readability, actor="b2", defence=name, readable=True, reason="Plain code.")
        contest.act(decide, START)
        numbers = {"right": 9, "wrong": 0, "abstained": 1, "faults": 0, "accepted": 0, "timed_pictures": 10}
        tested = events.DefenceTested(actor="desk", defence=name, broken_by=[], seconds=60.0, **numbers)
        contest.propose(tested, START)
        digest = contest.read(lambda state: state.defences[name].digest)  # noqa: B023
        published = events.DefencePublished(actor="desk", defence=name, digest=digest, source="https://x.example")
        contest.propose(published, START)
    for number, what in enumerate(("broken", "kites", "rejected", "reported", "waits")):
        data = png(number)
        world.pictures[what] = attack_pictures.submit_picture(
            contest, (1, SIDE, SIDE), PEOPLE["Fay"], "foxes", data, START
        )


def _second_week(world: WeekWorld, contest: UnrestrictedContest) -> None:
    contest.tick(SECOND - timedelta(days=1))
    own = world.pictures
    for defence, broken_by in (("d1", "broken"), ("d2", "kites"), ("d3", "")):
        given = {each: BICYCLE if what == broken_by else "bird" for what, each in own.items()}
        recorded = events.AnswersRecorded(actor="desk", defence=defence, week=WEEK, answers=given)
        contest.propose(recorded, SECOND - timedelta(days=1))
    said = {"broken": answers(side=SIDE), "kites": answers(side=SIDE), "rejected": answers(side=SIDE, real=False)}
    for what, answer in said.items():
        for rater in ("r1", "r2", "r3"):
            rated = events.PictureRated(actor=rater, picture=own[what], rater=rater, answers=answer)
            contest.propose(rated, SECOND - timedelta(hours=1))
    report = events.PictureRated(actor="r1", picture=own["reported"], rater="r1", answers=None)
    contest.propose(report, SECOND - timedelta(hours=1))
    world.appeals["kites"] = "00000000000000aa"
    appeal = events.PictureAppealed(
        actor=PEOPLE["Kim"], appeal=world.appeals["kites"], picture=own["kites"], team="kites", text="It is a drawing."
    )
    contest.propose(appeal, SECOND)
    own["open"] = attack_pictures.submit_picture(contest, (1, SIDE, SIDE), PEOPLE["Fay"], "foxes", png(9), SECOND)


def people_sign_up() -> None:
    """Makes the accounts of all people."""
    from allauth.account.models import EmailAddress

    from orchestrator.web.models import Account

    for name, person in PEOPLE.items():
        account = Account.objects.create(email=f"{name.lower()}@{name.lower()}.example", name=name, person=person)
        EmailAddress.objects.create(user=account, email=account.email, verified=True, primary=True)
