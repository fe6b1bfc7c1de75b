"""A contest with a person of every kind and a thing of every kind, for tests that open every page.

Two teams play: Reds with an attack, and Blues with a defence; the initial round is over. A third team was made with a
command, so the ids of its people are addresses.
"""

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orchestrator.application.contests import seasons
from orchestrator.application.publishing import published_bundles
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.domain.submissions import Side
from orchestrator.ledger.contest_folder import ContestFolder
from tests import postgresql
from tests.application.conftest import Cup

TASK, ROUND, BUNDLE = "quarters", "initial", "sealed-1"
TOLD = "canary-told-by-a-player"
"""The text that a player writes to stderr."""
COMMAND_PERSON = ("canary-carol@example.net", "Canary Carol")
"""Id and name of a person in a team that was made with a command: the id is an address."""
TOKEN_DIGEST = "canary" + "d" * 58
SIDES = {"Reds": Side.ATTACK, "Blues": Side.DEFENCE}


@dataclass(frozen=True)
class Somebody:
    """A person who opens pages. `person` is the id in ledgers, empty for a visitor."""

    name: str
    person: str = ""
    team: str = ""
    role: Role | None = None

    @property
    def full_name(self) -> str:
        """The name that teammates and organizers see."""
        return f"{self.name} Canaryson"

    @property
    def email(self) -> str:
        """The address of the account, which nobody else sees."""
        return f"canary-{self.name.lower()}@example.org"


VISITOR = Somebody("visitor")
PEOPLE = (
    Somebody("Ada", "person-00000000000000a1", team="Reds"),
    Somebody("Arno", "person-00000000000000a2", team="Reds"),
    Somebody("Ben", "person-00000000000000b1", team="Blues"),
    Somebody("Olga", "person-00000000000000c1", role=Role.ORGANIZER),
    Somebody("Rita", "person-00000000000000d1", role=Role.RATER),
    Somebody("Bob", "person-00000000000000e1", role=Role.BOARD),
    Somebody("Nora", "person-00000000000000f1"),
)
EVERYBODY = (VISITOR, *PEOPLE)


@dataclass
class World:
    """The contest's folder and ids. `ids` has for each team its slug and ids of a submission, arrivals, an appeal."""

    folder: Path
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    request: str = "00000000000000aa"
    secret: str = ""
    invitation: int = 0

    def client(self, somebody: Somebody, host: str = "127.0.0.1:8000", **more: Any) -> Any:
        """Returns a test client in which a person is signed in; nobody for a visitor."""
        from django.test import Client

        from orchestrator.web.models import Account

        client = Client(HTTP_HOST=host, **more)
        if somebody.person:
            client.force_login(Account.objects.get(person=somebody.person))
        return client

    def head(self) -> str:
        """Returns the hash of the contest ledger's last entry."""
        ledger = ContestFolder(self.folder).ledger()
        try:
            return list(ledger.read())[-1].hash
        finally:
            ledger.close()

    def sample(self, page: str, parameter: str, who: Somebody = VISITOR) -> str:
        """Returns a value for a parameter of a page's address: the id of a thing of Reds, or of a thing of `who`.

        A key `PAGE.PARAMETER` is for a parameter that has another meaning on that page.

        Raises KeyError for a parameter without a value here; add one.
        """
        own, role = self.ids["Reds"], Role.RATER.value
        somebody = next(each for each in PEOPLE if each.role is Role.RATER)
        samples = {
            "team": own["team"],
            "submission": own["submission"],
            "arrival": own["arrival"],
            "finding": "finding-1",
            "appeal_id": own["appeal"],
            "request_id": self.request,
            "role": role,
            "person": somebody.person,
            "secret": self.secret,
            "key": str(self.invitation),
            "round_name": ROUND,
            "public-round.name": ROUND,
            "task": TASK,
            "slug": own["team"],
            "public-file.name": "boards.csv",
            "download.name": "key.json",
            "bundle_name": BUNDLE,
            "token": "0" * 16,
            "number": "0",
            "revoke-token.token": token_of(who.person),
        }
        return samples.get(f"{page}.{parameter}") or samples[parameter]


def token_of(person: str) -> str:
    """Returns the public id of a person's token; for a visitor, an id that no token has."""
    return f"c{person[-4:] or 'none'}"


def play(path: Path) -> World:
    """Makes the contest in a folder and plays its initial round on the process backend, which takes seconds."""
    cup = Cup(path)
    cup.write()
    seasons.open_contest(cup.folder.path, "organizer", cup.clock)
    world = World(cup.folder.path)
    with cup.desk() as desk:
        for team in SIDES:
            own = [PersonRecord(id=each.person, name=each.full_name) for each in PEOPLE if each.team == team]
            desk.add_team(team, own)
        desk.add_team("By Hand", [PersonRecord(id=COMMAND_PERSON[0], name=COMMAND_PERSON[1])])
        for each in PEOPLE:
            if each.role is not None:
                person = PersonRecord(id=each.person, name=each.full_name)
                desk.append_event(contest_events.RoleGranted(actor="organizer", person=person, role=each.role))
    for team, side in SIDES.items():
        player = cup.player(f"{side.value}_honest", f"{team.lower()}-{side.value}")
        script = player / "player.py"
        script.write_text(f"import sys\nprint({TOLD!r}, file=sys.stderr, flush=True)\n{script.read_text()}")
        cup.submit(team, player)
    cup.play(ROUND)
    with cup.desk() as desk:
        for number, (team, side) in enumerate(SIDES.items(), start=1):
            world.ids[team] = _things_of_a_team(desk, number, team, side)
        desk.append_event(
            contest_events.RoundRequested(actor="organizer", request=world.request, round="final", task=TASK)
        )
        desk.append_event(contest_events.ContestAnnounced(actor="organizer", title="News", text="The round is over."))
        published_bundles.publish(desk, BUNDLE)
    return world


def _things_of_a_team(desk, number: int, team: str, side: Side) -> dict[str, str]:
    """Appends a waiting arrival, a refused arrival and an appeal of a team, and returns the ids of its things."""
    actor = next(each.person for each in PEOPLE if each.team == team)
    waiting, refused, appeal = (f"{kind}{number}".rjust(16, "0") for kind in ("a", "b", "c"))
    for arrival in (waiting, refused):
        desk.append_event(
            contest_events.SubmissionArrived(
                actor=actor,
                arrival=arrival,
                team=team,
                task=TASK,
                side=side,
                file_name="player.zip",
                size=1000,
                digest=f"sha256:{arrival * 4}",
            )
        )
    desk.append_event(
        contest_events.SubmissionRefused(
            actor="worker",
            name="late",
            team=team,
            task=TASK,
            side=side,
            problems=["name: it is taken; take another"],
            arrival=refused,
        )
    )
    submission = f"{team.lower()}-{side.value}"
    desk.append_event(
        contest_events.AppealFiled(actor=actor, appeal=appeal, team=team, submission=submission, text="It was not so.")
    )
    return {"team": team.lower(), "submission": submission, "arrival": waiting, "refused": refused, "appeal": appeal}


def people_sign_up(world: World) -> None:
    """Fills Django's tables: makes the accounts and tokens of all people, and invitations."""
    from allauth.account.models import EmailAddress

    from orchestrator.web import invitations
    from orchestrator.web.models import Account, ApiToken, Invitation

    for each in PEOPLE:
        account = Account.objects.create(email=each.email, name=each.full_name, person=each.person)
        EmailAddress.objects.create(user=account, email=each.email, verified=True, primary=True)
    now = datetime.now(UTC)
    for account in Account.objects.all():
        ApiToken.objects.create(
            account=account,
            public_id=token_of(account.person),
            digest=TOKEN_DIGEST,
            name="laptop",
            scope="read",
            expires=now + timedelta(days=7),
        )
    path = invitations.invite(by="organizer", team="Reds", now=now, uses=9, lifetime=timedelta(days=7))
    world.secret = path.strip("/").rpartition("/")[2]
    invitations.invite(by="organizer", role=Role.RATER, now=now)
    world.invitation = Invitation.objects.get(role=Role.RATER.value).pk


def copied(world: World, to: Path) -> World:
    """Returns a copy of a world for one test."""
    postgresql.copy_contest(world.folder, to)
    return World(to, world.ids, world.request)


def forms_of(data: bytes) -> list[str]:
    """Returns the texts as which a program may write bytes: hex and base64."""
    return [data.hex(), *(code(data).decode().rstrip("=") for code in (base64.b64encode, base64.urlsafe_b64encode))]


def hidden_digests(world: World) -> list[str]:
    """Returns the digests of the round's hidden pictures and labels, from which labels could be guessed."""
    ledger = ContestFolder(world.folder).round(ROUND, TASK).ledger()
    try:
        opened = next(each.event for each in ledger.read() if isinstance(each.event, events.RoundOpened))
    finally:
        ledger.close()
    return [getattr(opened.task, part).removeprefix("sha256:") for part in ("digest", "labels", "pixels")]
