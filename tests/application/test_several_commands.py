"""Several commands at one contest: nothing holds it longer than an entry takes, and its chain stays whole."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from orchestrator.application.contests import (
    package_submission,
    report_writer,
    season_rounds,
    seasons,
    submission_admission,
)
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.domain import contest_events
from orchestrator.domain.season import Season
from orchestrator.errors import Rejected, StoreFault, UsageError
from orchestrator.files import UNFINISHED_PREFIX
from orchestrator.ledger import round_folder
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.sandboxes.base import ImageSource
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner
from orchestrator.sandboxes.process import folder_snapshot
from tests import postgresql

from . import command_process
from .conftest import HOW

MANY = 4


def add_teams_at_once(cup) -> None:
    """Adds a team in each of four processes that start together, and waits for their ends, which are with 0."""
    logs = [cup.path / f"log-{n}" for n in range(MANY)]
    words = ["team", "add", str(cup.folder.path)]
    started = [
        command_process.start([*words, f"T{n}", "--member", f"t{n}@example.org:T{n}"], log)
        for n, log in enumerate(logs)
    ]
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * MANY, [log.read_text() for log in logs]


@pytest.mark.slow
def test_four_commands_at_once(cup) -> None:
    """Four processes add a team each, at once: all are there, in one whole chain."""
    before = len(cup.entries())
    add_teams_at_once(cup)
    added = cup.acts(contest_events.TeamAdded)[-MANY:]
    assert {act.team for act in added} == {f"T{n}" for n in range(MANY)}
    assert len(cup.entries()) == before + MANY


def test_two_desks_know_of_each_other(cup) -> None:
    """What one decides, another that was opened before it knows when it decides itself."""
    with cup.desk() as first, cup.desk() as second:
        first.add_team("Four", [contest_events.PersonRecord(id="four", name="Four")])
        with pytest.raises(UsageError, match="there is a team 'Four' already"):
            second.add_team("FOUR", [contest_events.PersonRecord(id="other", name="Other")])
        second.add_team("Five", [contest_events.PersonRecord(id="five", name="Five")])
        assert "Five" not in first.season.teams
        first.refresh()
        assert first.season.teams == second.season.teams


@pytest.mark.slow
def test_a_team_has_its_submissions_and_no_more(empty) -> None:
    """Of one team's four submissions at once, two are received where the rules allow two (A4)."""
    empty.rules |= {"submissions_per_team": 2}
    cup = empty.open()
    made = [cup.player("attack_honest", f"attack_{n}") for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda folder: attempt(cup, folder), made))
    assert sorted(ends) == ["received", "received", "refused", "refused"]
    received = cup.acts(contest_events.SubmissionReceived)
    assert sorted((act.attempt, act.attempts_left) for act in received) == [(1, 1), (2, 0)]
    assert len({act.id for act in received}) == 2


def attempt(cup, folder) -> str:
    """Hands a folder in for team One; returns what became of it."""
    try:
        cup.submit("One", folder)
    except Rejected as refused:
        return "refused" if "A4" in str(refused) else str(refused)
    return "received"


@pytest.mark.slow
def test_the_same_twice_at_once_is_one(cup) -> None:
    """Two commands that submit the same at once get the same receipt."""
    folder = cup.player("attack_honest")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: cup.submit("One", folder), range(2))
    assert first.document() == second.document()
    assert len(cup.acts(contest_events.SubmissionReceived)) == 1


@pytest.mark.slow
def test_a_contest_goes_on_while_a_round_is_played(cup) -> None:
    """Meanwhile teams come, submit, withdraw, are disqualified, and boards are looked at; the round is as it began."""
    for team, kind in (("One", "attack_honest"), ("Two", "defence_honest"), ("Three", "defence_constant")):
        cup.submit(team, cup.player(kind))
    path, meanwhile = cup.folder.path, []

    def happens(_: object) -> None:
        if meanwhile:
            return
        meanwhile.append(True)
        with cup.desk() as desk:
            desk.add_team("Late", [contest_events.PersonRecord(id="late", name="Late")])
            desk.disqualify("defence_constant", "it was copied")
        cup.submit("Late", cup.player("attack_noop"))
        with cup.desk() as desk:
            (seen,) = season_rounds.latest_results(desk, "initial", "quarters")
            assert not seen.complete
            assert report_writer.write_contest_report(desk).rounds[0].results.ledger == seen.ledger

    with cup.desk() as desk:
        (played,) = season_rounds.play_round(desk, "initial", HOW, happens, "quarters")
    assert meanwhile
    assert played.complete
    assert {part.id for part in played.submissions if not part.baseline} == {
        "attack_honest",
        "defence_honest",
        "defence_constant",
    }
    status = {part.id: part.status for part in played.submissions}
    assert status["defence_constant"] == "disqualified"
    written = (path / "rounds" / "initial" / "quarters" / "results.json").read_text()
    assert written == played.model_dump_json(indent=2) + "\n"
    kinds = [type(entry.event) for entry in cup.entries()]
    late = kinds.index(contest_events.SubmissionDisqualified)
    assert kinds[late - 1 :] == [
        contest_events.TeamAdded,
        contest_events.SubmissionDisqualified,
        contest_events.SubmissionReceived,
        contest_events.RoundPlayed,
    ]


@pytest.mark.slow
def test_a_round_is_played_by_one(cup) -> None:
    """Only the round's own folder is held: a second command for it is refused, one for another task is not."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_honest"))
    refused = []

    def happens(_: object) -> None:
        if not refused:
            with cup.desk() as desk, pytest.raises(UsageError, match="another orchestrator plays the round") as error:
                season_rounds.play_round(desk, "initial", HOW, lambda _: None, "quarters")
            refused.append(error)

    with cup.desk() as desk:
        season_rounds.play_round(desk, "initial", HOW, happens, "quarters")
    assert len(refused) == 1


def test_a_writer_that_never_ends_is_named(cup, monkeypatch) -> None:
    """Who waits for another command's writing in vain says which contest it waited for, and notes nothing."""
    monkeypatch.setattr(round_folder, "LOCK_WAIT_SECONDS", 0.0)
    before = cup.entries()
    with cup.desk() as desk, ContestFolder(cup.folder.path).writing():
        with pytest.raises(UsageError, match="another command has been writing to the contest in"):
            desk.add_team("Four", [contest_events.PersonRecord(id="four", name="Four")])
        assert isinstance(desk.season, Season)
    assert cup.entries() == before


@pytest.mark.slow
def test_a_refusal_takes_away_no_one_elses_files(cup, monkeypatch) -> None:
    """Two teams submit the same files; one is refused after the other was received, which still plays."""
    folder = cup.player("attack_honest")
    with cup.desk() as desk:
        backend = play_rounds.ready_backend(desk.contest, cup.folder.path.resolve(), HOW)
        admit = backend.admit

        def admitted(source):
            image = admit(source)
            if not cup.acts(
                contest_events.SubmissionReceived
            ):  # this one comes first, the other is received before it ends
                cup.submit("Two", folder)
            return image

        monkeypatch.setattr(backend, "admit", admitted)
        with pytest.raises(Rejected, match="no team"):
            submission_admission.submit(desk, SubmissionRequest(team="Nobody", task="quarters", folder=folder), backend)
    (received,) = cup.acts(contest_events.SubmissionReceived)
    assert (cup.folder.path / received.folder).is_dir()


@pytest.mark.slow
def test_four_commands_at_once_in_a_database(empty, database_url) -> None:
    """The same in PostgreSQL: each command finds the ledger by the contest's folder."""
    empty.write()
    seasons.open_contest(empty.folder.path, "desk", empty.clock, database=database_url)
    add_teams_at_once(empty)
    assert {act.team for act in empty.acts(contest_events.TeamAdded)} == {f"T{n}" for n in range(MANY)}
    assert not (empty.folder.path / "contest.sqlite").exists()
    assert (empty.folder.path / "database.json").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_season_in_a_database(empty, database_url) -> None:
    """Entries, a round, its board and a withdrawal are as in a folder; a second contest of the name is refused."""
    empty.more = {"contest": "cup-2"}
    empty.write()
    seasons.open_contest(empty.folder.path, "desk", empty.clock, database=database_url)
    with empty.desk() as desk:
        for team in ("One", "Two"):
            desk.add_team(team, [contest_events.PersonRecord(id=team.lower(), name=f"P. {team}")])
    empty.submit("One", empty.player("attack_honest"))
    empty.submit("Two", empty.player("defence_honest"))
    (played,) = empty.play("initial")
    assert played.complete
    with empty.desk() as desk:
        desk.withdraw("attack_honest", "we found a mistake")
        (seen,) = season_rounds.latest_results(desk, "initial", "quarters")
    reasons = {row.submission: row.reason for board in seen.boards for row in board.rows}
    assert reasons["attack_honest"] == "withdrawn: we found a mistake"
    twin = type(empty)(empty.path / "twin", more={"contest": "cup-2"})
    twin.path.mkdir()
    twin.write()
    with pytest.raises(UsageError, match="the database holds a contest 'cup-2' already"):
        seasons.open_contest(twin.folder.path, "desk", twin.clock, database=database_url)
    assert not twin.folder.exists


@pytest.mark.slow
def test_a_contest_that_cannot_be_written_can_be_looked_at(cup, small_disk) -> None:
    """On a disk that is read-only, boards are shown, and what would change the contest says why it cannot."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_honest"))
    (played,) = cup.play("initial")
    copied = small_disk / "cup"
    postgresql.copy_contest(cup.folder.path, copied)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with seasons.administer(copied, "desk", cup.clock) as desk:
        (seen,) = season_rounds.latest_results(desk)
        assert seen == played
        with pytest.raises(StoreFault, match="Read-only file system"):
            desk.withdraw("attack_honest", "we found a mistake")
        assert desk.season.entries["attack_honest"].is_active


def test_what_another_command_writes_is_no_leftover(cup) -> None:
    """A round that begins and a sweep remove what killed commands left, and nothing of those that are at work."""
    with cup.desk() as desk:
        backend = play_rounds.ready_backend(desk.contest, cup.folder.path.resolve(), HOW)
        backend.admit(ImageSource(folder=cup.player("attack_honest"), command=("python", "player.py")))
    images = cup.folder.path / "images"
    here = Owner.current_process()
    names = {
        owner: f"{folder_snapshot.UNFINISHED_PREFIX}{ProcessTag.create(owner, '').text}"
        for owner in (here, replace(here, start_time=here.start_time + 1))
    }
    for name in names.values():
        (images / name).mkdir()
    backend.clean_up()
    assert [name for name in names.values() if (images / name).exists()] == [names[here]]


def test_a_package_is_read_where_no_other_command_looks(cup, monkeypatch) -> None:
    """Its folder is made and locked while the contest is held: in between, another would take it for a killed one's."""
    monkeypatch.setattr(round_folder, "LOCK_WAIT_SECONDS", 0.0)
    lock = round_folder.lock_folder
    tried: list[UsageError] = []

    def locked(folder, busy, **more):
        with pytest.raises(UsageError, match="another command has been writing") as refused, cup.folder.writing():
            pass
        tried.append(refused.value)
        return lock(folder, busy, **more)

    monkeypatch.setattr(package_submission, "lock_folder", locked)
    with package_submission._package_folder(cup.folder):
        assert len(tried) == 1
        with cup.folder.writing():  # while it is read, nobody waits
            pass
    assert not list(cup.folder.path.glob(f"{package_submission.PACKAGE_FOLDER_PREFIX}*"))


def test_a_round_that_begins_waits_for_who_writes_its_results(cup, monkeypatch) -> None:
    """What another command is writing beside a round's ledger is not removed under its hands."""
    monkeypatch.setattr(round_folder, "LOCK_WAIT_SECONDS", 0.0)
    folder = cup.folder.round("initial", "quarters")
    folder.path.mkdir(parents=True)
    half = folder.path / f"{UNFINISHED_PREFIX}results.json"
    half.write_text("half")
    with cup.folder.writing(), pytest.raises(UsageError, match="another command has been writing"), folder.lock():
        pass
    assert half.exists()
    with folder.lock():
        assert not half.exists()


def test_a_database_that_does_not_answer_leaves_no_contest(tmp_path) -> None:
    """The folder can be made again, once the database answers."""
    with pytest.raises(StoreFault, match="see that the database answers"):
        seasons.create_contest(tmp_path / "cup", "tournament", database=f"postgresql://ada@/cup?host={tmp_path}")
    assert not (tmp_path / "cup").exists()
    with pytest.raises(UsageError, match="is not a database for a ledger"):
        seasons.create_contest(tmp_path / "cup", "tournament", database="mysql://host/cup")
    assert not (tmp_path / "cup").exists()
