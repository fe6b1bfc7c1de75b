"""An unrestricted contest in its folder: commands, what is due, and several processes at once."""

import json
from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest
from typer.testing import CliRunner

from orchestrator.application.contests import seasons
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.contests.worker import CompletedWork, Worker, WorkerSettings
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.cli.app import app
from orchestrator.errors import Busy, Rejected, StoreFault, UsageError
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.stores.base import format_time

from ..formats.unrestricted.simulated_contest import RULES, START, handle, small_contest
from ..web.week_world import FILE

CLOSE = START.replace(day=22, hour=23)
"""When the first week closes."""


@pytest.fixture
def folder(tmp_path) -> ContestFolder:
    """Returns a contest's folder with a board, two attackers, a published defence, and an open week."""
    found = ContestFolder(tmp_path)
    ledger = found.ledger()
    for event, at in small_contest().ledger:
        ledger.append(event, time=format_time(at))
    ledger.close()
    return found


def opened(folder: ContestFolder) -> UnrestrictedContest:
    """Returns the contest in a folder, as another process would open it."""
    return UnrestrictedContest(folder, UnrestrictedRules.model_validate(RULES))


def entries(folder: ContestFolder) -> list[tuple[str, str]]:
    """Returns the kind and time of every entry of a contest's ledger."""
    ledger = folder.ledger()
    found = [(each.event.kind.removeprefix("unrestricted."), each.time) for each in ledger.read()]
    ledger.close()
    return found


def upload(contest: UnrestrictedContest, number: int, now, team: str = "foxes") -> tuple:
    """Submits a picture."""
    digest = f"sha256:{number:064x}"
    asked = commands.Upload(handle(number), team, digest, digest, 224, 224)
    return contest.act(partial(commands.receive_picture, actor=team, upload=asked), now)


def test_what_is_due_is_run_before_a_command(folder) -> None:
    """A picture at the instant of the close is of the next week, whose opening is noted in front of it."""
    contest = opened(folder)
    upload(contest, 1, CLOSE - timedelta(milliseconds=1))
    upload(contest, 2, CLOSE)
    assert [kind for kind, at in entries(folder) if at == "2027-01-22T23:00:00.000+00:00"] == [
        "week_closed",
        "week_opened",
        "picture_received",
    ]
    assert contest.read(lambda state: [each.week for each in state.pictures.values()]) == ["2027-W03", "2027-W04"]


def test_time_counts_in_whole_milliseconds(folder) -> None:
    """A moment that the ledger writes as before the close is before it, and an appended entry is at that moment."""
    contest = opened(folder)
    upload(contest, 1, CLOSE - timedelta(microseconds=1))
    assert entries(folder)[-1] == ("picture_received", "2027-01-22T22:59:59.999+00:00")


def test_a_tick_that_is_late_or_comes_twice_notes_nothing_twice(folder) -> None:
    """Five weeks late it closes each week once, in their order; another process then finds nothing due."""
    one, other = opened(folder), opened(folder)
    late = CLOSE + timedelta(weeks=4)
    closed = [each.id for each in one.tick(late) if each.id.startswith("close:")]
    assert closed == [f"close:2027-W{number:02}" for number in range(3, 8)]
    before = entries(folder)
    assert (other.tick(late), one.tick(late), one.tick(CLOSE)) == ([], [], [])
    assert entries(folder) == before


def test_a_refused_command_notes_what_was_due_and_nothing_else(folder) -> None:
    """Whoever is refused still had the week closed, and what they asked for is in no ledger."""
    contest = opened(folder)
    with pytest.raises(Rejected, match="cats is not admitted"):
        upload(contest, 1, CLOSE, team="cats")
    assert [kind for kind, _ in entries(folder)[-2:]] == ["week_closed", "week_opened"]


def test_two_processes_decide_by_one_ledger(folder) -> None:
    """What one process noted counts for the other at once: ten pictures a day are ten in both together."""
    one, other = opened(folder), opened(folder)
    for number in range(10):
        upload((one, other)[number % 2], number, START)
    with pytest.raises(Rejected, match="foxes submitted 10 pictures"):
        upload(other, 10, START)
    assert upload(one, 3, START) == ()


def test_an_append_that_fails_leaves_the_state_of_the_ledger(folder, monkeypatch) -> None:
    """Where the store fails, neither the command nor what was due before it has happened."""
    contest = opened(folder)

    def fail(*_, **__) -> None:
        raise StoreFault("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(contest._ledger, "append", fail)
        with pytest.raises(StoreFault):
            upload(contest, 1, CLOSE)
    assert contest.read(lambda state: (len(state.pictures), len(state.closed_weeks))) == (0, 0)
    upload(contest, 1, CLOSE)
    assert opened(folder).read(lambda state: list(state.pictures)) == [handle(1)]


def test_a_forged_entry_is_found_where_the_contest_is_opened(folder) -> None:
    """An event that nobody could have asked for does not fold."""
    ledger = folder.ledger()
    ledger.append(events.PictureSettled(actor="rules", picture=handle(7)), time=format_time(START))
    ledger.close()
    with pytest.raises(Rejected, match="there is no"):
        opened(folder)


def test_tick_by_command(folder, monkeypatch) -> None:
    """`sparring tick` says what it ran, then that nothing is due."""
    folder.file.write_text(json.dumps(FILE))
    monkeypatch.setattr(seasons, "now", lambda: CLOSE)
    first = CliRunner().invoke(app, ["tick", str(folder.path), "--json"])
    assert json.loads(first.output)["actions"] == [{"id": "close:2027-W03", "events": 2}]
    assert CliRunner().invoke(app, ["tick", str(folder.path)]).output == "nothing is due\n"


def test_the_boards_of_a_day_are_those_of_its_end(folder) -> None:
    """A day that is over keeps its boards whatever follows; today's are as they are now, and other days have none."""
    contest = opened(folder)
    upload(contest, 1, START)
    close_day = CLOSE.date()
    contest.tick(CLOSE + timedelta(hours=30))  # late: the picture is public, and on the board, on the third day

    def pictures_on(day) -> list[int]:
        _, attackers = contest.boards_of_day(day, CLOSE + timedelta(days=3))
        return [row.values["pictures"].number for row in attackers.rows]

    assert [pictures_on(close_day + timedelta(days=days)) for days in (0, 1, 2, 3)] == [[], [], [1], [1]]
    upload(contest, 2, CLOSE + timedelta(days=3))
    contest.tick(CLOSE + timedelta(days=7))
    assert contest.read(lambda state: len(state.closed_weeks)) == 2
    assert pictures_on(close_day + timedelta(days=2)) == [1]
    for day in (START.date() - timedelta(days=1), close_day + timedelta(days=5)):
        with pytest.raises(UsageError, match="when the contest was opened"):
            contest.boards_of_day(day, CLOSE + timedelta(days=3))
    contest.close()


def test_one_past_day_is_folded_at_a_time(folder, monkeypatch) -> None:
    """Whoever asks for another day meanwhile is put off, and a day that is kept is told at once."""
    asked = []
    with closing(opened(folder)) as contest:
        fold = contest._boards_before

        def meanwhile(end):
            asked.append(end)
            if len(asked) == 1:
                with pytest.raises(Busy, match="ask again"):
                    contest.boards_of_day(START.date() + timedelta(days=1), CLOSE)
            return fold(end)

        monkeypatch.setattr(contest, "_boards_before", meanwhile)
        first = contest.boards_of_day(START.date(), CLOSE)
        assert contest.boards_of_day(START.date(), CLOSE) is first
        contest.boards_of_day(START.date() + timedelta(days=1), CLOSE)
    assert len(asked) == 2


def test_board_as_of_by_command(folder, monkeypatch) -> None:
    """`sparring board DIR --as-of DAY` prints both boards, and a day that is none of the contest's is exit code 2."""
    folder.file.write_text(json.dumps(FILE))
    monkeypatch.setattr(seasons, "now", lambda: CLOSE + timedelta(days=1))
    done = CliRunner().invoke(app, ["board", str(folder.path), "--as-of", "2027-01-18", "--json"])
    boards = json.loads(done.stdout)
    assert [(each["title"], [row["submission"] for row in each["rows"]]) for each in boards[:1]] == [
        ("Defences", ["d1"])
    ]
    assert "published" in CliRunner().invoke(app, ["board", str(folder.path), "--as-of", "2027-01-18"]).stdout
    for wrong in (("--as-of", "2027-01-17"), ("--as-of", "yesterday"), ("--as-of", "2027-01-18", "--round", "w")):
        assert CliRunner().invoke(app, ["board", str(folder.path), *wrong]).exit_code == 2


def test_board_shows_how_the_contest_stands(folder) -> None:
    """`sparring board DIR` prints the boards of the contest, not the answers of its latest week, and the head."""
    folder.file.write_text(json.dumps(FILE))
    done = CliRunner().invoke(app, ["board", str(folder.path), "--json"])
    assert [each["title"] for each in json.loads(done.stdout)] == ["Defences", "Attackers"]
    told = CliRunner().invoke(app, ["board", str(folder.path)]).stdout
    assert "published" in told
    assert "head     sha256:" in told


def test_tick_needs_a_contest_with_weeks(tmp_path) -> None:
    """A contest of another format is a usage error, and so is a folder without a contest."""
    seasons.create_contest(tmp_path / "cup", "tournament", "desk")
    done = CliRunner().invoke(app, ["tick", str(tmp_path / "cup")])
    assert done.exit_code == 2
    assert "for the format unrestricted" in " ".join(done.output.split())
    assert CliRunner().invoke(app, ["tick", str(tmp_path)]).exit_code == 2


def test_a_worker_runs_what_is_due(tmp_path) -> None:
    """A worker that comes three weeks late opens the first week and closes all that are over, and says each."""
    found = ContestFolder(tmp_path / "weeks")
    found.create()
    found.file.write_text(json.dumps(FILE))
    seasons.open_contest(found.path, clock=lambda: START)
    done: list[CompletedWork] = []
    options = RunOptions(backend="process", allow_unisolated=True)
    late = CLOSE + timedelta(weeks=2)
    Worker(WorkerSettings(found.path, options, once=True, clock=lambda: late, on_done=done.append)).run()
    closed = [f"close:2027-W{number:02}" for number in (3, 4, 5)]
    assert [(each.what, each.id) for each in done if each.id in closed] == [("time", each) for each in closed]
    assert [kind for kind, _ in entries(found)].count("week_closed") == 3
