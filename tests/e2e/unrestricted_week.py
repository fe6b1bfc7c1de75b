"""One week of an unrestricted contest, played with programs: two defences, three pictures, raters and a break."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from orchestrator import resources
from orchestrator.application.contests import roles, season_rounds, seasons, submission_admission
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.application.rounds.play_rounds import RunOptions, ready_backend
from orchestrator.domain.contest_events import FormatEvent, PersonRecord, Role
from orchestrator.domain.ids import digest
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.bounding_boxes import Box
from orchestrator.formats.unrestricted.questionnaire import Answers, Certainty, Statements
from orchestrator.formats.unrestricted.state import State
from orchestrator.ledger.stores.base import put_array

START = datetime(2027, 1, 18, 9, tzinfo=UTC)
"""A Monday morning; its week closes on Friday 22 January, when Friday is over in Berlin."""
SIDE = 4
CONTEST = """sparring: 1
contest: weeks
title: Dark or bright
format: unrestricted
trial_pictures: 4
task:
  name: squares
  dataset: {kind: npz, path: squares.npz, classes: [dark, bright]}
rules:
  time_zone: Europe/Berlin
  appeal_days: 3
  last_day: 2027-01-31
  classes:
    - {name: dark, depictions: a grey square, real: dark square}
    - {name: bright, depictions: a grey square, real: bright square}
  prizes: {pool: 1000.01 EUR, per_break: 100.00 EUR}
"""
PLAYER = """
from protocol import read, write

while True:
    question, pixels = read()
    if question["type"] == "hello":
        write({"type": "ready", "id": question["id"], "name": "NAME", "gives": ["label"]})
    elif question["type"] == "classify":
        size = len(pixels) // question["shape"][0]
        means = [sum(pixels[at : at + size]) / size for at in range(0, len(pixels), size)]
        labels = [LABEL for mean, seed in zip(means, question["seeds"])]
        write({"type": "answers", "id": question["id"], "labels": labels})
    elif question["type"] == "bye":
        break
"""
DEFENCES = {
    "plain": "int(mean >= 100)",
    "dice": "seed % 2 if 120 <= mean < 136 else int(mean >= 128)",
}
"""The two defences' expressions for answers. The second one draws the answer for grey squares from its seed (U13)."""
HOW = RunOptions(backend="process", slots=1, allow_unisolated=True)
GREY, DARK, UNSURE = ("0" * 15 + number for number in "123")
"""The pictures that the foxes submit: one that raters find dark, a dark one, and one of which they are not sure."""


def square(value: int) -> np.ndarray:
    """Returns a square of one value, u8 [1, 4, 4]."""
    return np.full((1, SIDE, SIDE), value, np.uint8)


class PlayedContest:
    """A contest's folder with a clock of its own."""

    def __init__(self, root: Path, how: RunOptions = HOW) -> None:
        self.path, self.now, self.how = root / "contest", START, how
        self.path.mkdir(parents=True)
        values = [20, 40, 60, 80, 10, 180, 200, 220, 240, 250]
        np.savez(
            self.path / "squares.npz",
            images=np.stack([square(value) for value in values]),
            labels=np.array([0] * 5 + [1] * 5),
        )
        (self.path / "contest.yaml").write_text(CONTEST, "utf-8")
        seasons.open_contest(self.path, "desk", self.clock)
        self.tick()

    def clock(self) -> datetime:
        """Returns the time."""
        return self.now

    def wait(self, **time: float) -> None:
        """Moves the clock forward, and then runs the due actions."""
        self.now += timedelta(**time)
        self.tick()

    def tick(self) -> None:
        """Runs the due actions."""
        with open_unrestricted(self.path) as contest:
            contest.tick(self.now)

    def act(self, command: commands.Result | Callable[..., commands.Result], **arguments: object) -> None:
        """Runs a command of the format."""
        with open_unrestricted(self.path) as contest:
            contest.act(lambda state, now: command(state, now, **arguments), self.now)

    def propose(self, event: FormatEvent) -> None:
        """Appends an event, which has to be allowed."""
        self.act(commands.propose, event=event)

    def state(self) -> State:
        """Returns the state."""
        with open_unrestricted(self.path) as contest:
            return contest.read(lambda state: state)

    def work(self, change: Callable[[ContestAdmin], object]) -> None:
        """Calls `change` with the opened contest, as the organizers."""
        with seasons.administer(self.path, "desk", self.clock) as admin:
            change(admin)

    def seat(self, **people: str) -> None:
        """Seats members of the board, by their name and their address."""
        for member, person in people.items():
            record = PersonRecord(id=person, name=member)
            self.work(partial(roles.grant_role, person=record, role=Role.BOARD))
            self.propose(events.BoardMemberSeated(actor="desk", member=member, person=person))

    def add_team(self, team: str) -> None:
        """Adds a team of one person."""
        people = [PersonRecord(id=f"{team}@{team}.example", name=team)]
        self.work(partial(ContestAdmin.add_team, team=team, people=people))
        self.tick()

    def vote(self, question: str, *members: str) -> None:
        """Makes members vote in favour of a question."""
        for member in members:
            self.propose(events.VoteCast(actor=member, question=question, member=member, in_favour=True))

    def submit(self, name: str, label: str, team: str) -> None:
        """Submits a defence that answers with an expression, and makes the board find it readable."""
        folder = self.path.parent / name
        folder.mkdir()
        shutil.copy(resources.resource_path("images", "templates", "bare", "protocol.py"), folder)
        (folder / "player.py").write_text(PLAYER.replace("NAME", name).replace("LABEL", label), "utf-8")
        (folder / "submission.yaml").write_text(
            f"sparring: 1\nname: {name}\nside: defence\ncommand: [python3, player.py]\nlicence: Apache-2.0\n"
            "source: https://code.example/1\n",
            "utf-8",
        )
        self.submit_folder(folder, team)
        self.find_readable(name)

    def submit_folder(self, folder: Path, team: str) -> None:
        """Submits a folder."""
        with seasons.administer(self.path, "desk", self.clock) as admin:
            backend = ready_backend(admin.contest, self.path.resolve(), self.how)
            submission_admission.submit(admin, SubmissionRequest(team=team, task="squares", folder=folder), backend)

    def find_readable(self, name: str) -> None:
        """Makes the board find a defence readable."""
        self.vote(f"readable:{name}", "b1", "b2")
        self.act(commands.decide_readability, actor="desk", defence=name, readable=True, reason="It is plain.")

    def play(self, name: str) -> None:
        """Plays a round."""
        with seasons.administer(self.path, "desk", self.clock) as admin:
            season_rounds.play_round(admin, name, self.how, lambda _: None)

    def upload(self, picture: str, pixels: np.ndarray, team: str = "foxes") -> None:
        """Submits a picture."""
        with open_unrestricted(self.path) as contest:
            kept = put_array(contest.folder.blobs(), pixels)
        given = commands.Upload(picture, team, digest(pixels.tobytes() + team.encode()), kept, SIDE, SIDE)
        self.act(commands.receive_picture, actor=team, upload=given)

    def rate(self, picture: str, seen: str = "dark", *, sure: bool = True) -> None:
        """Adds the same rating by three raters to a picture."""
        other = "bright" if seen == "dark" else "dark"
        presence = {
            seen: Certainty.DEFINITELY_YES if sure else Certainty.PROBABLY_YES,
            other: Certainty.DEFINITELY_NO,
        }
        box, statements = Box(left=0, top=0, right=3, bottom=3), Statements(complete=True, unoccluded=True, real=True)
        answers = Answers(presence=presence, box=box, statements=statements)
        for rater in ("r1", "r2", "r3"):
            self.propose(events.PictureRated(actor=rater, picture=picture, rater=rater, answers=answers))


def play_week(contest: PlayedContest) -> None:
    """Plays a contest from its first defence to a break, and to the end of its last week."""
    contest.seat(b1="one@uni.example", b2="two@lab.example", b3="three@firm.example", b4="four@owls.example")
    for team in ("owls", "foxes"):
        contest.add_team(team)
    for name, label in DEFENCES.items():
        contest.submit(name, label, "owls")
        contest.play(f"eligibility-{name}")
    contest.wait(days=6)  # the week closes, and both are published
    contest.vote("stake:dice+plain", "b1", "b2")
    criteria = dict.fromkeys(DEFENCES, "It is easy to run and was never broken.")
    contest.act(commands.stake_by_board, actor="desk", batch="one", criteria=criteria)
    contest.act(commands.admit_attacker, actor="desk", team="foxes", preprint="https://arxiv.example/1")
    for picture, value in {GREY: 128, DARK: 30, UNSURE: 90}.items():
        contest.upload(picture, square(value))
    contest.wait(days=7)
    contest.play("week-2027-w04")
    contest.rate(GREY)
    contest.rate(DARK)
    contest.rate(UNSURE, sure=False)
    contest.wait(days=4)
