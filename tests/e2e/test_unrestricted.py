"""An unrestricted contest, played with programs from the first defence to a verified bundle (U1 to U13)."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.application.contests import seasons
from orchestrator.application.contests.worker import CompletedWork, Worker, WorkerSettings
from orchestrator.application.publishing import bundles
from orchestrator.bundles import outcome_check
from orchestrator.domain.contest_events import ContestEvent
from orchestrator.domain.contest_format import Observations
from orchestrator.domain.ids import picture_seeds
from orchestrator.errors import NotGenuine, UsageError
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.scoring.round_scoring import RoundScoring

from .unrestricted_week import DARK, DEFENCES, GREY, UNSURE, PlayedContest, play_week, square

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("unrestricted")]


@pytest.fixture(scope="module")
def contest(tmp_path_factory) -> PlayedContest:
    """Returns a contest in which a week was played, and a defence broken."""
    made = PlayedContest(tmp_path_factory.mktemp("unrestricted"))
    play_week(made)
    return made


def recorded(contest: PlayedContest, kind: type) -> list:
    """Returns the events of a kind in a contest's ledger."""
    _, season = seasons.read_contest(contest.path)
    return [event for event, _ in season.format_events if isinstance(event, kind)]


def test_a_defence_is_tested_on_the_eligibility_set(contest) -> None:
    """Its round counts what it is right on, and has nothing to do with what teams submitted (U1, U2)."""
    for event in recorded(contest, events.DefenceTested):
        assert (event.right, event.wrong, event.abstained, event.faults, event.accepted) == (10, 0, 0, 0, 0)
        assert event.timed_pictures == 10
        assert event.seconds > 0


def test_every_defence_answers_every_picture_of_a_week(contest) -> None:
    """What the programs answered is in the ledger, and breaks the one that calls a dark square bright (U7)."""
    answers = {event.defence: event.answers for event in recorded(contest, events.AnswersRecorded)}
    assert answers["plain"] == {GREY: "bright", DARK: "dark", UNSURE: "dark"}
    assert set(answers["dice"]) == {GREY, DARK, UNSURE}
    assert contest.state().defences["plain"].broken_by == [GREY]


def test_a_defence_that_throws_dice_is_told_the_seeds_of_the_secret(contest) -> None:
    """With the round's secret everybody computes what it answered, with each of five seeds (U13)."""
    secret = ContestFolder(contest.path).round("week-2027-w04", "squares").secret()
    grey = contest.state().pictures[GREY].digest
    seeds = picture_seeds(secret, "dice", [grey] * (1 + OTHER_SEEDS))
    thrown = [("dark", "bright")[seed % 2] for seed in seeds]
    [event] = [event for event in recorded(contest, events.AnswersRecorded) if event.defence == "dice"]
    assert [event.answers[GREY], *event.other_seeds[GREY]] == thrown
    assert event.other_seeds[DARK] == ["dark"] * OTHER_SEEDS


def test_a_round_that_is_played_again_records_nothing_twice(contest) -> None:
    """Everything is answered, so that nothing is asked and no event follows."""
    before = len(recorded(contest, ContestEvent))
    contest.play("week-2027-w04")
    assert len(recorded(contest, ContestEvent)) == before


def test_a_round_of_a_week_that_is_not_closed_is_none(contest) -> None:
    """There is no round before the close (U5)."""
    with pytest.raises(UsageError, match="has no round 'week-2027-w05'"):
        contest.play("week-2027-w05")


def published(path: Path, out: Path) -> bundles.PublishedBundle:
    """Publishes a contest in full, and checks the bundle as anybody would."""
    with seasons.administer(path, "desk") as admin:
        return bundles.publish_bundle(admin, out, "full", pictures=True, unfinished=True)


def forged(contest: PlayedContest, path: Path, kind: type, *, time: str = "", **changes: object) -> Path:
    """Returns a copy of the contest, by who has its key, with other fields or another time of the last event of a kind.

    Without either the event is there twice.
    """
    shutil.copytree(contest.path, path, ignore=shutil.ignore_patterns("contest.sqlite*"))
    ledger = ContestFolder(contest.path).ledger()
    entries = list(ledger.read())
    ledger.close()
    last = max(entry.seq for entry in entries if isinstance(entry.event, kind))
    copy = ContestFolder(path).ledger()
    for entry in entries:
        event = entry.event.model_copy(update=changes) if entry.seq == last else entry.event
        copy.append(event, time=time or entry.time if entry.seq == last else entry.time)
        if entry.seq == last and not (changes or time):
            copy.append(event, time=entry.time)  # once more
    copy.close()
    return path


def test_a_published_week_is_verified(contest, tmp_path, monkeypatch) -> None:
    """A stranger folds the ledger again, and finds the recorded answers in those of the rounds: each is scored once."""
    shutil.copytree(contest.path, tmp_path / "contest")
    scored = []

    class CountedScoring(RoundScoring):
        def observations(self) -> Observations:
            scored.append(self)
            return super().observations()

    monkeypatch.setattr(outcome_check, "RoundScoring", CountedScoring)
    found = published(tmp_path / "contest", tmp_path / "full").verification
    assert found.outcomes == 4  # two tests and the answers of two defences
    assert found.rounds == [
        "rounds/eligibility-plain/squares",
        "rounds/eligibility-dice/squares",
        "rounds/week-2027-w04/squares",
    ]
    assert len(scored) == len(found.rounds)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (events.DefencesStaked, {"transfers": []}, "not those that the rules require"),
        (events.VoteCast, {"member": "b4", "actor": "b4"}, "b4 is recused"),
        (events.MoneyMoved, {}, "may not have happened"),
        (events.PictureRated, {"picture": DARK}, "r3 already rated 0000000000000002"),
        (events.DefenceBroken, {"picture": UNSURE}, "has to be settled as valid"),
        (events.PictureReceived, {"time": "2027-01-30T09:00:00.000+00:00"}, "no week is open at this time"),
        (events.AnswersRecorded, {"answers": {GREY: "dark", DARK: "bright", UNSURE: "dark"}}, "is not what the round"),
        (events.DefenceTested, {"right": 9, "abstained": 1}, "is not what the round eligibility-dice came to"),
    ],
    ids=["decision", "recused vote", "payment", "rating", "break", "late picture", "answers", "test"],
)
def test_verify_finds_what_was_forged(contest, tmp_path, kind, changes, message) -> None:
    """Whoever holds the machine and the key may sign anything; it does not follow from what is in the bundle."""
    path = forged(contest, tmp_path / "contest", kind, **changes)
    with pytest.raises(NotGenuine, match=message):
        published(path, tmp_path / "full")


def test_a_worker_plays_what_follows_from_a_decision_and_a_close(tmp_path) -> None:
    """Nobody requests a round: a readable defence is tested, and a closed week is played, again for who came later."""
    made = PlayedContest(tmp_path)
    made.seat(b1="one@uni.example", b2="two@lab.example", b3="three@firm.example")
    for team in ("owls", "foxes"):
        made.add_team(team)
    made.submit("plain", DEFENCES["plain"], "owls")

    def work() -> list[str]:
        done: list[CompletedWork] = []
        Worker(WorkerSettings(made.path, made.how, once=True, clock=made.clock, on_done=done.append)).run()
        return [f"{each.outcome} {each.text}" for each in done if each.what == "round"]

    assert work() == ["played eligibility-plain"]
    made.wait(days=6)
    made.act(commands.admit_attacker, actor="desk", team="foxes", preprint="https://arxiv.example/1")
    made.upload(GREY, square(128))
    assert work() == []
    made.now += timedelta(days=7)  # the worker closes the week
    assert work() == ["played week-2027-w04"]
    assert [event.week for event in recorded(made, events.AnswersRecorded)] == ["2027-W04"]
    assert work() == []

    # A defence that comes later is asked about that week's picture, which nobody was asked to play again.
    made.submit("late", "int(mean >= 150)", "owls")
    assert work() == ["played eligibility-late", "played week-2027-w04"]
    answers = [(event.defence, event.week, event.answers) for event in recorded(made, events.AnswersRecorded)]
    assert answers == [("plain", "2027-W04", {GREY: "bright"}), ("late", "2027-W04", {GREY: "dark"})]
    assert work() == []
