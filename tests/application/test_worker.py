"""The worker: it answers every arrival once and plays what was asked for, also where it is killed, or not alone."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from orchestrator.application.contests import (
    announcements,
    appeals,
    arrivals,
    roles,
    round_requests,
    seasons,
    worker,
)
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.contests.worker import CompletedWork, Worker, WorkerSettings
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.application.submissions import trial_match_setup
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.errors import SandboxLost, UsageError
from orchestrator.files import UNFINISHED_PREFIX
from orchestrator.intake import package_writer

from . import command_process
from .conftest import HOW

KILLS = 40 if os.environ.get("SPARRING_SOAK") else 3
MANY = 10
SEED = 17
WORDS = ["--once", "--backend", "process", "--allow-unisolated", "--slots", "1"]


def arrive(cup, name: str, team: str = "One", kind: str = "attack_noop") -> str:
    """Has a package of its own arrive for a team; returns the arrival."""
    folder = cup.player(kind, name)
    (folder / "note.txt").write_text(name)
    path = package_writer.write_package(folder, cup.path / f"upload-{name}").path
    with seasons.administer(cup.folder.path, f"person-{team}", cup.clock) as admin:
        return arrivals.record_arrival(admin, SubmissionRequest(team, "quarters", file_name=path.name), path).id


def junk(cup, name: str, team: str) -> str:
    """Has a file arrive for a team that is no archive, which is refused; returns the arrival."""
    path = cup.path / f"{name}.zip"
    path.write_text(name)
    with seasons.administer(cup.folder.path, f"person-{team}", cup.clock) as admin:
        return arrivals.record_arrival(admin, SubmissionRequest(team, "quarters", file_name=path.name), path).id


def work(cup) -> list[CompletedWork]:
    """Does what waits, and returns what was done."""
    done: list[CompletedWork] = []
    Worker(WorkerSettings(cup.folder.path, HOW, once=True, clock=cup.clock, on_done=done.append)).run()
    return done


def request(cup, name: str = "initial", task: str = "quarters") -> str:
    """Asks for a round; returns the request."""
    with cup.desk() as desk:
        return round_requests.request_round(desk, name, task).id


def answers(cup) -> list[str]:
    """Returns the arrivals that events answer, in their order."""
    kinds = (contest_events.SubmissionReceived, contest_events.SubmissionRefused, contest_events.ArrivalMatched)
    return [entry.event.arrival for entry in cup.entries() if isinstance(entry.event, kinds)]


def test_no_team_waits_for_all_that_another_submits(cup) -> None:
    """The worker takes a team's second arrival when each other team had its turn."""
    ids = [junk(cup, name, team) for name, team in (("a", "One"), ("b", "One"), ("c", "One"), ("d", "Two"))]
    assert [each.id for each in work(cup)] == [ids[0], ids[3], ids[1], ids[2]]


@pytest.mark.slow
def test_what_waits_is_done_and_the_worker_ends(trial_cup) -> None:
    """Arrivals are admitted in their order, and a requested round is played and its request closed."""
    ids = [
        arrive(trial_cup, "first"),
        arrive(trial_cup, "second", "Two"),
        arrive(trial_cup, "third", "Three", "attack_dies_loading"),
    ]
    done = work(trial_cup)
    assert [(each.id, each.outcome) for each in done] == list(
        zip(ids, ["received", "received", "refused"], strict=True)
    )
    asked = request(trial_cup)
    assert [(each.what, each.id, each.outcome) for each in work(trial_cup)] == [("round", asked, "played")]
    assert [act.outcome for act in trial_cup.acts(contest_events.RoundRequestClosed)] == ["played"]
    assert [act.round for act in trial_cup.acts(contest_events.RoundPlayed)] == ["initial"]
    assert work(trial_cup) == []
    assert answers(trial_cup) == ids


def test_a_round_that_cannot_be_played_fails_with_its_reason(cup) -> None:
    """Its request is closed with the message; it is not tried for ever."""
    asked = request(cup)
    body = json.loads(cup.folder.file.read_text())
    cup.folder.file.write_text(json.dumps(body | {"baselines": []}))
    [done] = work(cup)
    assert (done.id, done.outcome) == (asked, "failed")
    [closed] = cup.acts(contest_events.RoundRequestClosed)
    assert (closed.outcome, closed.problem) == ("failed", done.text)
    assert "attack" in closed.problem


def test_a_fault_of_ours_leaves_everything_open(cup, monkeypatch) -> None:
    """Neither an arrival nor a round is answered by it; the worker says so at its end, and does it the next time."""
    arrival, asked = arrive(cup, "first"), request(cup)

    def lost(*_) -> None:
        raise SandboxLost("the engine went away")

    with monkeypatch.context() as patched:
        patched.setattr(trial_match_setup, "play_trial_match", lost)
        patched.setattr(worker.season_rounds, "play_round", lost)
        with pytest.raises(SandboxLost, match="went away"):
            work(cup)
    assert answers(cup) == []
    assert cup.acts(contest_events.RoundRequestClosed) == []
    assert {done.id for done in work(cup)} == {arrival, asked}


def test_a_worker_that_has_pods_alone_leaves_programs_to_others(cup) -> None:
    """The team is not refused for what the worker lacks: the arrival waits for one with a container."""
    arrival = arrive(cup, "first")
    with pytest.raises(UsageError, match="--backend container"):
        Worker(WorkerSettings(cup.folder.path, RunOptions(executor="kubernetes"), once=True, clock=cup.clock)).run()
    assert answers(cup) == []
    assert [done.id for done in work(cup)] == [arrival]


@pytest.mark.slow
def test_an_arrival_is_admitted_while_a_round_plays(cup, monkeypatch) -> None:
    """The round ends only after the arrival was answered, in one worker that goes on until it is stopped."""
    request(cup)
    answered, real, played = threading.Event(), worker.season_rounds.play_round, []

    def play(*words):
        arrive(cup, "late")
        assert answered.wait(60)
        return real(*words)

    def on_done(done: CompletedWork) -> None:
        played.append(done.what)
        if done.what == "arrival":
            answered.set()
        else:
            at_work.stop.set()

    monkeypatch.setattr(worker.season_rounds, "play_round", play)
    at_work = Worker(WorkerSettings(cup.folder.path, HOW, clock=cup.clock, on_done=on_done))
    at_work.run()
    assert played == ["arrival", "round"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_a_signal_ends_a_worker_that_waits(cup, number) -> None:
    """It ends by itself with 0, after it did what it had begun."""
    arrival = arrive(cup, "first")
    words = [sys.executable, "-m", "orchestrator", "work", str(cup.folder.path), *WORDS[1:], "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert (told["id"], told["outcome"]) == (arrival, "received")
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error


def spawn(cup, number: int = 0) -> int:
    """Works once in a process of its own, killed at the n-th change to files; returns how many there were."""
    log = cup.path / "log"
    status, moments = command_process.run_until_killed(["work", str(cup.folder.path), *WORDS], number, log)
    assert status == 0 or (number and status == -signal.SIGKILL), (number, log.read_text())
    return moments


@pytest.mark.slow
def test_a_worker_killed_at_any_moment_answers_every_arrival_once(cup) -> None:
    """After kills at random changes to files, one that is not killed answers the rest; no file of an upload is left."""
    arrive(cup, "measured")
    moments = spawn(cup)
    assert moments > 20
    ids = [arrive(cup, f"a{number}", team) for number, team in enumerate(("One", "Two", "Two", "Three"))]
    for point in sorted(random.Random(SEED).sample(range(1, moments + 1), KILLS)):
        spawn(cup, point)
        assert len(answers(cup)) == len(set(answers(cup))), point
    spawn(cup)
    assert sorted(answers(cup)[1:]) == sorted(ids)
    assert not list(cup.folder.path.glob("arrivals/*/package*"))
    written = (path for path in (cup.folder.path / "receipts").iterdir() if not path.name.startswith(UNFINISHED_PREFIX))
    receipts = {path.stem for path in written}  # of one that was being written at the kill, the beginning stays
    assert receipts == {act.id for act in cup.acts(contest_events.SubmissionReceived)}


@pytest.mark.slow
def test_a_round_goes_on_after_a_killed_worker(cup) -> None:
    """The next worker plays what was left, and closes the request."""
    asked = request(cup)
    process = command_process.start(["work", str(cup.folder.path), *WORDS], cup.path / "log")
    until = time.monotonic() + 60
    while not _has_finished_step(cup) and process.is_alive():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.join()
    before = len(cup.round_entries("initial"))
    work(cup)
    assert [act.request for act in cup.acts(contest_events.RoundRequestClosed)] == [asked]
    after = cup.round_entries("initial")
    assert len(after) >= before
    steps = [(entry.event.job, entry.event.step) for entry in after if entry.event.kind == "step_finished"]
    assert len(steps) == len(set(steps))


def _has_finished_step(cup) -> bool:
    """Looks into a ledger that another process may be making at this moment, without touching it."""
    path = cup.folder.round("initial", "quarters").path / "ledger.sqlite"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("SELECT 1 FROM ledger WHERE kind = 'step_finished'").fetchall())
    except sqlite3.OperationalError:
        return False


@pytest.fixture(params=["sqlite", "postgresql"])
def crowd(request, empty):
    """A contest without teams, whose ledger is a file or in PostgreSQL."""
    empty.write()
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else None
    seasons.open_contest(empty.folder.path, "desk", empty.clock, database=url)
    return empty


def arrive_in_pairs(crowd, number: int) -> str:
    """Has the number-th package arrive: two for each team, which is added first; returns the arrival."""
    team = f"T{number // 2}"
    if number % 2 == 0:
        with crowd.desk() as desk:
            desk.add_team(team, [PersonRecord(id=f"person-{number}", name="P.")])
    return arrive(crowd, f"a{number}", team)


@pytest.mark.slow
def test_two_workers_answer_many_arrivals_once_each(crowd) -> None:
    """Whichever of them does it: each is answered once, and the numbers are those of the arrivals."""
    ids = [arrive_in_pairs(crowd, number) for number in range(MANY)]
    logs = [crowd.path / f"log-{number}" for number in range(2)]
    workers = [command_process.start(["work", str(crowd.folder.path), *WORDS[1:]], log) for log in logs]
    until = time.monotonic() + 400
    while (waits := len(answers(crowd)) < len(ids)) or min(received(logs)) == 0:
        assert time.monotonic() < until
        if not waits:  # one of them was faster than the other one started
            ids.append(arrive_in_pairs(crowd, len(ids)))
        time.sleep(0.3)
    for process, log in zip(workers, logs, strict=True):
        process.terminate()
        process.join(60)
        assert process.exitcode == 0, log.read_text()
    assert sorted(answers(crowd)) == sorted(ids)
    assert sum(received(logs)) == len(ids)
    with crowd.desk() as desk:
        numbers = {entry.name: entry.receipt_number for entry in desk.season.entries.values()}
    assert numbers == {f"a{number}": number + 1 for number in range(len(ids))}


def received(logs: list[Path]) -> list[int]:
    """Returns how many arrivals each worker said to have received."""
    return [log.read_text().count("received") for log in logs]


def test_a_request_is_made_once_and_can_be_called_off(cup) -> None:
    """Unknown rounds and tasks, a round that is blocked, and the same again are refused; so is a second end."""
    asked = request(cup)
    for words, match in (
        (("initial", "quarters"), "asks for it already"),
        (("last", ""), "there is no round 'last'"),
        (("initial", "thirds"), "there is no task"),
        (("final", ""), "cannot be played"),
    ):
        with cup.desk() as desk, pytest.raises(UsageError, match=match):
            round_requests.request_round(desk, *words)
    with cup.desk() as desk:
        round_requests.cancel_request(desk, asked)
        with pytest.raises(UsageError, match="no open request"):
            round_requests.cancel_request(desk, asked)
    assert work(cup) == []


def test_roles_are_granted_once_and_revoked_once(cup) -> None:
    """Twice the same, an id that is none, and revoking what nobody has are refused."""
    person = PersonRecord(id="person-4f2a9c01d2e3b4a5", name="Rae")
    with cup.desk() as desk:
        roles.grant_role(desk, person, Role.RATER)
        assert person.id in desk.season.roles[Role.RATER]
        with pytest.raises(UsageError, match="is rater already"):
            roles.grant_role(desk, person, Role.RATER)
        with pytest.raises(UsageError, match="no plain word"):
            roles.grant_role(desk, PersonRecord(id="\u200b", name="Rae"), Role.RATER)
        with pytest.raises(UsageError, match="is no board of this contest"):
            roles.revoke_role(desk, person.id, Role.BOARD, "left")
        with pytest.raises(UsageError, match="reason"):
            roles.revoke_role(desk, person.id, Role.RATER, "")
        roles.revoke_role(desk, person.id, Role.RATER, "left")
        assert not desk.season.roles[Role.RATER]


def test_nobody_decides_an_appeal_with_a_stake_in_it(cup) -> None:
    """Whoever acts, on a page or on the command line: the team's own people do not decide."""
    cup.submit("One", cup.player("attack_honest"))
    with cup.desk() as desk:
        filed = appeals.file_appeal(desk, "One", "attack_honest", "why?")
    with seasons.administer(cup.folder.path, "ONE", cup.clock) as member:
        with pytest.raises(UsageError, match="you take no part in this appeal: you are in the team that appeals"):
            appeals.decide_appeal(member, filed.id, "we are right", upheld=True)
        assert member.season.appeals[filed.id].decision is None


def test_an_organizer_is_one_in_every_team(cup) -> None:
    """A5: who gets the role is marked in the teams that they are in, and in those that they join; others are not."""
    with cup.desk() as desk:
        roles.grant_role(desk, PersonRecord(id="one", name="P. One"), Role.ORGANIZER)
        assert [person.organizer for person in desk.season.teams["One"]] == [True]
        joined = [PersonRecord(id=each, name=each) for each in ("two", "ONE")]
        desk.add_team("Two", joined)
        assert {person.id: person.organizer for person in desk.season.teams["Two"]} == {"two": False, "ONE": True}
        assert [person.organizer for person in desk.season.teams["Three"]] == [False]
        roles.grant_role(desk, PersonRecord(id="three", name="P. Three"), Role.BOARD)
        assert [person.organizer for person in desk.season.teams["Three"]] == [False]


def test_a_team_appeals_about_its_own_submission_once_at_a_time(cup) -> None:
    """Others' submissions, unknown findings and open appeals are refused; a decision is made once."""
    cup.submit("One", cup.player("attack_honest"))
    with cup.desk() as desk:
        for words, match in (
            (("Two", "attack_honest", "why?"), "no submission of this team"),
            (("One", "attack_honest", "why?", "f1"), "no finding 'f1'"),
            (("One", "attack_honest", ""), "text"),
        ):
            with pytest.raises(UsageError, match=match):
                appeals.file_appeal(desk, *words)
        filed = appeals.file_appeal(desk, "One", "attack_honest", "why?")
        with pytest.raises(UsageError, match="is open"):
            appeals.file_appeal(desk, "One", "attack_honest", "why, again?")
        with pytest.raises(UsageError, match="no appeal"):
            appeals.decide_appeal(desk, "0" * 16, "so", upheld=True)
        decided = appeals.decide_appeal(desk, filed.id, "the rule is clear", upheld=False)
        assert decided.decision is not None
        assert (decided.decision.upheld, decided.decision.actor) == (False, "desk")
        with pytest.raises(UsageError, match="was decided already"):
            appeals.decide_appeal(desk, filed.id, "no, yes", upheld=True)
        assert appeals.file_appeal(desk, "One", "attack_honest", "new facts").id != filed.id


def test_an_announcement_has_words(cup) -> None:
    """It is noted with its time; without a text it is none."""
    with cup.desk() as desk:
        said = announcements.announce(desk, "Round one", "It begins on Monday.")
        assert (said.title, said.text, desk.season.announcements) == ("Round one", "It begins on Monday.", [said])
        with pytest.raises(UsageError, match="text"):
            announcements.announce(desk, "Round one", "")


@pytest.mark.parametrize("how", [RunOptions(), RunOptions("process")], ids=["default", "process"])
def test_a_worker_that_would_refuse_every_program_does_not_begin(cup, how) -> None:
    """Teams would be told of a fault of theirs; what arrived waits for another worker."""
    with pytest.raises(UsageError, match="--backend container"):
        Worker(WorkerSettings(cup.folder.path, how, once=True, clock=cup.clock)).run()
