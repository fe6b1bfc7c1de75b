"""A contest with a clock that the test sets. It runs due actions, calls commands, and keeps the ledger in memory."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import ContestEvent, PersonRecord, Role
from orchestrator.domain.ids import digest
from orchestrator.domain.submissions import Side
from orchestrator.formats.unrestricted import commands, due_events, events
from orchestrator.formats.unrestricted.bounding_boxes import Box
from orchestrator.formats.unrestricted.commands import Refusal, Upload
from orchestrator.formats.unrestricted.fold import apply
from orchestrator.formats.unrestricted.questionnaire import Answers, Certainty, Statements
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.formats.unrestricted.state import State

START = datetime(2027, 1, 18, 9, tzinfo=UTC)
"""A Monday morning; its week closes on Friday 22 January, at 23:00 UTC, when Friday is over in Berlin."""
RULES = {
    "time_zone": "Europe/Berlin",
    "prizes": {"pool": "1000.01 EUR", "per_break": "100.00 EUR"},
    "appeal_days": 3,
}
BIRD, BICYCLE = "bird", "bicycle"


def answers(seen: str = BIRD, *, sure: bool = True, side: int = 150, real: bool = True) -> Answers:
    """Returns the answers of a rater who sees one class, in a square box with sides of `side` pixels."""
    other = BICYCLE if seen == BIRD else BIRD
    presence = {seen: Certainty.DEFINITELY_YES if sure else Certainty.PROBABLY_YES, other: Certainty.DEFINITELY_NO}
    statements = Statements(complete=True, unoccluded=True, real=real)
    return Answers(presence=presence, box=Box(left=0, top=0, right=side, bottom=side), statements=statements)


class SimulatedContest:
    """A contest with a ledger; every change goes through the commands and the fold."""

    def __init__(self, rules: dict | None = None, start: datetime = START) -> None:
        self.state = State(UnrestrictedRules.model_validate(RULES if rules is None else rules))
        self.now = start
        self.ledger: list[tuple[ContestEvent, datetime]] = []
        self.actions: list[str] = []
        self.append(
            contest_events.ContestOpened(actor="desk", contest={}, key_fingerprint="k", software="0"),
        )
        self.tick()

    def append(self, event: ContestEvent) -> None:
        """Appends one event."""
        apply(self.state, event, self.now)
        self.ledger.append((event, self.now))

    def tick(self) -> list[str]:
        """Runs the due actions and returns their ids."""
        found = []
        for action in due_events.catch_up(self.state, self.now):
            self.ledger += [(event, self.now) for event in action.events]
            found.append(action.id)
        self.actions += found
        return found

    def go_to(self, instant: datetime) -> None:
        """Moves the clock to `instant`, and runs due actions at every instant on the way at which any are due."""
        while (following := due_events.next_due(self.state)) is not None and following <= instant:
            self.now = max(self.now, following)
            if not self.tick():
                break
        self.now = max(self.now, instant)
        self.tick()

    def wait(self, **time: float) -> None:
        """Moves the clock forward."""
        self.go_to(self.now + timedelta(**time))

    def close_week(self) -> None:
        """Moves the clock to the close of the open week."""
        self.go_to(self.state.week.closes)

    def done(self, result: commands.Result) -> list[str]:
        """Appends the events that a command returns; returns the reasons of a refusal, none if there is none."""
        if isinstance(result, Refusal):
            return [problem.what for problem in result.problems]
        for event in result:
            self.append(event)
        return []

    def propose(self, event: ContestEvent) -> list[str]:
        """Proposes one event; returns the reasons of a refusal."""
        return self.done(commands.propose(self.state, self.now, event))

    def must(self, refused: list[str]) -> None:
        """Fails if a command was refused."""
        assert not refused, refused

    # People

    def add_team(self, team: str, *people: str, organizer: bool = False) -> None:
        """Adds a team; if no people are given, with one person whose address has a domain of its own."""
        people = people or (f"{team}@{team}.example",)
        records = [PersonRecord(id=each, name=each, organizer=organizer) for each in people]
        self.append(contest_events.TeamAdded(actor="desk", team=team, people=records))
        self.tick()

    def add_attackers(self, *teams: str) -> None:
        """Adds teams that may submit pictures."""
        for team in teams:
            self.add_team(team)
            self.must(self.done(commands.admit_attacker(self.state, self.now, "desk", team, "https://arxiv.example/1")))

    def add_board(self, **people: str) -> None:
        """Seats members of the board, by their name and their address."""
        for member, person in people.items():
            self.grant_board(person)
            self.must(self.seat(member, person))
        self.tick()

    def grant_board(self, person: str) -> None:
        """Gives a person the role of the board, without a seat."""
        self.append(
            contest_events.RoleGranted(actor="desk", person=PersonRecord(id=person, name=person), role=Role.BOARD)
        )

    def revoke_board(self, person: str) -> None:
        """Takes the role of the board from a person."""
        self.append(contest_events.RoleRevoked(actor="desk", person=person, role=Role.BOARD, reason="They resigned."))
        self.tick()

    def seat(self, member: str, person: str, case: str = "") -> list[str]:
        """Seats a person; returns the reasons of a refusal."""
        return self.propose(events.BoardMemberSeated(actor="desk", member=member, person=person, case=case))

    def vote(self, question: str, *members: str, in_favour: bool = True) -> list[str]:
        """Makes members vote on a question; returns the refusals."""
        return [
            why
            for member in members
            for why in self.propose(
                events.VoteCast(actor=member, question=question, member=member, in_favour=in_favour)
            )
        ]

    # Defences

    def receive_defence(self, name: str, team: str, source: str = "https://code.example/1") -> None:
        """Receives a defence of a team."""
        body = {"name": name, "task": "t", "digest": digest(name), "image": "", "attempt": 1, "attempts_left": 0}
        self.append(
            contest_events.SubmissionReceived(
                actor="desk", id=name, team=team, side=Side.DEFENCE, source=source, **body
            )
        )

    def find_readable(self, name: str, *members: str) -> None:
        """Makes the board find a defence readable."""
        self.must(self.vote(f"readable:{name}", *members))
        result = commands.decide_readability(self.state, self.now, "desk", name, readable=True, reason="It is plain.")
        self.must(self.done(result))

    def test(self, name: str, **numbers: object) -> list[str]:
        """Records a defence's results on an eligibility set of ten pictures."""
        body = {"right": 9, "wrong": 0, "abstained": 1, "faults": 0, "broken_by": [], "timed_pictures": 10}
        body |= {"seconds": 60.0, "accepted": len(self.state.defences[name].tested_on)} | numbers
        return self.propose(events.DefenceTested(actor="desk", defence=name, **body))

    def publish_defence(self, name: str, team: str, members: Iterable[str] = ("b1", "b2")) -> None:
        """Brings a defence to publication."""
        self.receive_defence(name, team)
        self.find_readable(name, *members)
        self.must(self.test(name))
        defence = self.state.defences[name]
        body = {"digest": defence.digest, "source": defence.source}
        self.must(self.propose(events.DefencePublished(actor="desk", defence=name, **body)))

    def stake(self, batch: str, *names: str, members: Iterable[str] = ("b1", "b2")) -> list[str]:
        """Makes the board stake defences together."""
        self.must(self.vote(f"stake:{'+'.join(sorted(names))}", *members))
        criteria = dict.fromkeys(names, "It is easy to run and was never broken.")
        return self.done(commands.stake_by_board(self.state, self.now, "desk", batch, criteria))

    def record_answers(self, defence: str, given: dict[str, str | None], **more: object) -> list[str]:
        """Records a defence's answers to pictures of one week."""
        week = self.state.pictures[next(iter(given))].week
        return self.propose(events.AnswersRecorded(actor="desk", defence=defence, week=week, answers=given, **more))

    # Pictures

    def upload(self, picture: int, team: str, content: str = "") -> list[str]:
        """Submits a picture, whose id follows from its number."""
        content = content or f"picture {picture}"
        upload = Upload(handle(picture), team, digest(content), digest(f"pixels of {content}"), 224, 224)
        return self.done(commands.receive_picture(self.state, self.now, team, upload))

    def rate(self, picture: int, given: Answers | None = None, raters: Iterable[str] = ("r1", "r2", "r3")) -> list[str]:
        """Adds the same rating by several raters to a picture; returns the refusals."""
        return [
            why
            for rater in raters
            for why in self.propose(
                events.PictureRated(actor=rater, picture=handle(picture), rater=rater, answers=given or answers())
            )
        ]

    def appeal(self, number: int, picture: int, team: str) -> list[str]:
        """Makes a team appeal."""
        body = {"appeal": handle(number), "picture": handle(picture), "team": team, "text": "It is a drawing."}
        return self.propose(events.PictureAppealed(actor=team, **body))

    def status(self, picture: int) -> str:
        """Returns the stage of a picture."""
        return self.state.pictures[handle(picture)].status


def handle(number: int) -> str:
    """Returns the id of a picture or an appeal by its number."""
    return f"{number:016x}"


def small_contest(rules: dict | None = None) -> SimulatedContest:
    """Returns a contest with a board, two attackers and one published defence of a third team."""
    contest = SimulatedContest(rules)
    contest.add_board(b1="one@uni.example", b2="two@lab.example", b3="three@firm.example")
    contest.add_team("owls")
    contest.add_attackers("foxes", "wolves")
    contest.publish_defence("d1", "owls")
    return contest


def broken_contest() -> SimulatedContest:
    """Returns a contest in which picture 1, a bird of the foxes, is rated, and staked d1 labels it as a bicycle."""
    contest = small_contest()
    contest.must(contest.stake("b-1", "d1"))
    contest.must(contest.upload(1, "foxes"))
    contest.close_week()
    contest.must(contest.record_answers("d1", {handle(1): BICYCLE}))
    contest.must(contest.rate(1))
    return contest
