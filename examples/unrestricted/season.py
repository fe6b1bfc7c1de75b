"""Plays an unrestricted contest of eight weeks under a clock of its own, up to the prize after 90 days.

    python examples/unrestricted/season.py OUT

OUT/contest becomes the contest's folder, OUT/full what is published. The raters do not exist: what each of them says is
in `recorded_ratings.json`. README.md tells what happens and why.
"""

import json
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from orchestrator.application.contests import roles, season_rounds, seasons, submission_admission
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.application.grading.attack_pictures import submit_picture
from orchestrator.application.grading.graded_pictures import encode_png
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds.play_rounds import RunOptions, ready_backend
from orchestrator.bundles.verifier import VerificationReport
from orchestrator.domain.contest_events import FormatEvent, PersonRecord, Role
from orchestrator.errors import Rejected
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.bounding_boxes import Box
from orchestrator.formats.unrestricted.questionnaire import Answers, Certainty, Statements
from orchestrator.formats.unrestricted.state import State

HERE = Path(__file__).resolve().parent
PROTOCOL = HERE.parents[1] / "images" / "templates" / "bare" / "protocol.py"
START = datetime(2027, 1, 18, 9, tzinfo=UTC)
"""A Monday morning in the week 2027-W03, which closes when Friday is over in Berlin."""
SIDE = 8
DEFENCES = {
    "steady": ("Owls", (150, 150)),
    "careful": ("Owls", (100, 150)),
    "brittle": ("Mice", (100, 100)),
    "own": ("Cats", (130, 130)),
}
"""Defence -> its team, and the values below which it calls a square dark, and from which it calls it bright."""
PICTURES = {
    "foxes-w04": ("Foxes", 120),
    "wolves-w04": ("Wolves", 115),
    "bears-w04": ("Bears", 210),
    "wolves-w05": ("Wolves", 140),
    **{f"bears-w{week:02}": ("Bears", value) for week, value in enumerate([70, 60, 230, 50, 220, 40], start=6)},
}
"""What teams submit: picture -> its team and its brightness."""
RATINGS = json.loads((HERE / "recorded_ratings.json").read_text("utf-8"))
"""Picture -> rater -> what they see, whether they are sure, and the side of the box that they draw."""
HOW = RunOptions(backend="process", slots=2, allow_unisolated=True)


class Play:
    """A contest and a clock that goes where the story sends it."""

    def __init__(self, out: Path) -> None:
        self.out, self.path, self.now = out, out / "contest", START
        self.ids: dict[str, str] = {}
        """Picture -> the id that it got with its receipt."""
        self.path.mkdir(parents=True)
        shutil.copy(HERE / "contest.yaml", self.path)
        values = np.array([20, 40, 60, 80, 90, 170, 180, 200, 220, 240], np.uint8)
        pictures = np.broadcast_to(values.reshape(-1, 1, 1, 1), (len(values), 1, SIDE, SIDE))
        np.savez(self.path / "squares.npz", images=pictures, labels=np.array([0] * 5 + [1] * 5))
        seasons.open_contest(self.path, "desk", lambda: self.now)
        self.wait()

    def say(self, text: str) -> None:
        """Prints what happens, with its day."""
        print(f"{self.now:%Y-%m-%d}  {text}", flush=True)

    def wait(self, **time: float) -> None:
        """Lets time pass, and runs what it has made necessary."""
        self.now += timedelta(**time)
        with open_unrestricted(self.path) as contest:
            for action in contest.tick(self.now):
                if not action.id.startswith(("open:", "conflict:")):
                    self.say(f"due: {action.id}")

    def act(self, command: Callable[..., commands.Result], **arguments: object) -> None:
        """Runs a command. Raises Rejected where it refuses."""
        with open_unrestricted(self.path) as contest:
            contest.act(lambda state, now: command(state, now, **arguments), self.now)

    def propose(self, *proposed: FormatEvent) -> None:
        """Notes events that people ask for. Raises Rejected for one that may not happen."""
        for event in proposed:
            self.act(commands.propose, event=event)

    def state(self) -> State:
        """Returns the contest as it is now."""
        with open_unrestricted(self.path) as contest:
            return contest.read(lambda state: state)

    def organize(self, change: Callable[[ContestAdmin], object]) -> None:
        """Lets the organizers do something."""
        with seasons.administer(self.path, "desk", lambda: self.now) as admin:
            change(admin)

    def vote(self, question: str, *members: str) -> None:
        """Lets members of the board vote in favour."""
        self.propose(*(events.VoteCast(actor=each, question=question, member=each, in_favour=True) for each in members))

    def add_team(self, team: str, *, attacks: bool = False) -> None:
        """Adds a team of one person; with a preprint it may submit pictures (U4)."""
        people = [PersonRecord(id=f"{team}@{team}.example".lower(), name=team)]
        self.organize(partial(ContestAdmin.add_team, team=team, people=people))
        if attacks:
            self.act(commands.admit_attacker, actor="desk", team=team, preprint=f"https://arxiv.example/{team}")

    def seat(self, member: str, address: str) -> None:
        """Seats a member of the board."""
        self.organize(partial(roles.grant_role, person=PersonRecord(id=address, name=member), role=Role.BOARD))
        self.propose(events.BoardMemberSeated(actor="desk", member=member, person=address))

    def submit(self, name: str) -> None:
        """Hands a defence in, has the board read its code (U2), and plays its round on the eligibility set."""
        team, values = DEFENCES[name]
        folder = self.out / "submissions" / name
        folder.mkdir(parents=True)
        shutil.copy(HERE / "player.py", folder)
        shutil.copy(PROTOCOL, folder)
        (folder / "values.json").write_text(json.dumps(values), "utf-8")
        (folder / "submission.yaml").write_text(
            f"sparring: 1\nname: {name}\nside: defence\ncommand: [python3, player.py]\nlicence: Apache-2.0\n"
            f"source: https://code.example/{name}\n",
            "utf-8",
        )
        with seasons.administer(self.path, "desk", lambda: self.now) as admin:
            backend = ready_backend(admin.contest, self.path.resolve(), HOW)
            submission_admission.submit(admin, SubmissionRequest(team, "squares", folder), backend)
        self.vote(f"readable:{name}", "b1", "b2", "b3")
        self.act(commands.decide_readability, actor="desk", defence=name, readable=True, reason="Ten plain lines.")
        self.play(f"eligibility-{name}")
        self.say(f"{team} submit {name}: {self.state().defences[name].status}")

    def play(self, name: str) -> None:
        """Plays a round."""
        with seasons.administer(self.path, "desk", lambda: self.now) as admin:
            season_rounds.play_round(admin, name, HOW, lambda _: None)

    def upload(self, *names: str) -> None:
        """Hands pictures in, as files of PNG, the way in which the site and its API take them."""
        for name in names:
            team, value = PICTURES[name]
            png = encode_png(np.full((1, SIDE, SIDE), value, np.uint8))
            with open_unrestricted(self.path) as contest:
                self.ids[name] = submit_picture(contest, (1, SIDE, SIDE), team, team, png, self.now)
            self.say(f"{team} submit {name}")

    def rate(self, name: str, recorded: str = "", appeal: str = "") -> None:
        """Lets raters say of a picture what is recorded of them (U6); with an appeal, those of its panel."""
        for rater, (seen, sure, side) in RATINGS[recorded or name].items():
            certain = Certainty.DEFINITELY_YES if sure else Certainty.PROBABLY_YES
            presence = {"dark": Certainty.DEFINITELY_NO, "bright": Certainty.DEFINITELY_NO} | {seen: certain}
            answers = Answers(
                presence=presence,
                box=Box(left=0, top=0, right=side, bottom=side),
                statements=Statements(complete=True, unoccluded=True, real=True),
            )
            body = {"picture": self.ids[name], "rater": rater, "answers": answers, "appeal": appeal}
            self.propose(events.PictureRated(actor=rater, **body))
        self.say(f"raters: {name} is {self.state().pictures[self.ids[name]].status}")

    def end_week(self, week: str, *names: str) -> None:
        """Lets a week end, plays its pictures, and has them rated."""
        self.wait(days=7)
        self.play(f"week-{week}")
        for name in names:
            self.rate(name)


def play_first_weeks(play: Play) -> None:
    """Plays the weeks in which defences come, and two of them are broken."""
    for member, address in {"b1": "1@uni.example", "b2": "2@lab.example", "b3": "3@firm.example"}.items():
        play.seat(member, address)
    play.seat("b4", "4@foxes.example")  # of the same organization as the Foxes
    for team in ("Owls", "Mice", "Cats"):
        play.add_team(team)
    for team in ("Foxes", "Wolves", "Bears"):
        play.add_team(team, attacks=True)
    for name in DEFENCES:
        play.submit(name)
    play.wait(days=7)  # the first week closes, and what is eligible is published
    batch = ("brittle", "careful", "steady")
    play.vote(f"stake:{'+'.join(batch)}", "b1", "b2", "b3")
    criteria = dict.fromkeys(batch, "Reproducible, easy to run, never broken.")
    play.act(commands.stake_by_board, actor="desk", batch="one", criteria=criteria)
    play.act(commands.record_stake_payment, actor="desk", defence="own", reference="transfer 1")
    play.upload("foxes-w04", "wolves-w04", "bears-w04")
    play.end_week("2027-w04", "foxes-w04", "wolves-w04", "bears-w04")
    lose_appeal(play)
    play.upload("wolves-w05")
    play.end_week("2027-w05", "wolves-w05")
    win_appeal(play)


def lose_appeal(play: Play) -> None:
    """The Mice object to the picture that breaks them; the board decides without b4, who is of the Foxes' firm (U8)."""
    appeal, picture = "a" * 16, play.ids["foxes-w04"]
    text = "It is rather bright."
    play.propose(events.PictureAppealed(actor="Mice", appeal=appeal, picture=picture, team="Mice", text=text))
    try:
        play.vote(f"appeal:{appeal}:dark", "b4")
    except Rejected as refusal:
        play.say(f"refused: {refusal.problems[0].what}")
    play.vote(f"appeal:{appeal}:dark", "b1", "b2", "b3")
    reason = "Three raters were sure, and so are we."
    play.act(commands.rule_on_appeal, actor="desk", appeal=appeal, class_name="dark", reason=reason)
    play.say("the board: the ruling stands")


def win_appeal(play: Play) -> None:
    """The Wolves object to a rejection; four of five new raters decide, and all five are sure (U8)."""
    appeal, picture = "b" * 16, play.ids["wolves-w05"]
    text = "One rater was not sure."
    play.propose(
        events.PictureAppealed(actor="Wolves", appeal=appeal, picture=picture, team="Wolves", text=text),
        events.PanelCalled(actor="b1", appeal=appeal, member="b1"),
    )
    play.rate("wolves-w05", "wolves-w05-appeal", appeal)
    play.wait()


def play_last_weeks(play: Play) -> None:
    """Plays six more weeks, in which nothing breaks what is left, and waits for the prize after 90 days."""
    for week in range(6, 12):
        name = f"bears-w{week:02}"
        play.upload(name)
        play.end_week(f"2027-w{week:02}", name)
    play.wait(days=50)
    for name in ("careful", "steady"):
        for picture in play.state().worklist(play.state().defences[name]):
            play.propose(events.RejectionConfirmed(actor="b2", defence=name, picture=picture, member="b2"))
            play.say(f"b2 confirms that {picture} is invalid, which {name} was asked about (U11)")
    play.wait(days=1)
    books = play.state().books
    for award in books.unpaid() if books else ():
        play.propose(events.PrizePaid(actor="desk", award=award.id, reference="transfer 2"))
        play.say(f"paid: {award.id}, {award.amount / 100:.2f} {books.currency}")


def main(out: Path) -> VerificationReport:
    """Plays the contest, publishes it, and returns what was verified of the bundle."""
    play = Play(out)
    play_first_weeks(play)
    play_last_weeks(play)
    for defence in play.state().defences.values():
        play.say(f"{defence.id}: {defence.status}, broken by {len(defence.broken_by)} pictures")
    with seasons.administer(play.path, "desk", lambda: play.now) as admin:
        found = bundles.publish_bundle(admin, out / "full", "full", pictures=True, unfinished=True).verification
    play.say(f"verified: {len(found.rounds)} rounds, {found.entries} entries, {found.outcomes} recorded outcomes")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
