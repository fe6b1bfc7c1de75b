"""A format of another distribution goes all the way: contest file, season, play, results, reports, publish, verify.

Everything is done by the command line, as an organizer would, and nothing outside `tests/formats/echo/` knows of echo.
Some commands are processes of their own; for the others the distribution is installed in this one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("echo")]

HERE = Path(__file__).parent / "echo"
ROOT = Path(__file__).parents[2]
UNISOLATED = ("--backend", "process", "--allow-unisolated")
SUBMISSION = """sparring: 1
name: {name}
side: {side}
image: league/{name}
command: [python, player.py, "{argument}"]
"""


def install(into: Path) -> None:
    """Puts the distribution where `pip install` would: the package, and its metadata with the entry points."""
    shutil.copytree(HERE / "sparring_echo", into / "sparring_echo")
    info = into / "sparring_echo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sparring-echo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sparring.formats]\necho = sparring_echo.format:Echo\n")


class League(SimpleNamespace):
    """The contest's folder, and the environment that has the format installed."""

    def run(self, *words: object, status: int = 0) -> str:
        """Runs a command of sparring in this process and returns what it says."""
        done = CliRunner().invoke(app, list(map(str, words)))
        assert done.exit_code == status, (words, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def start(self, *words: object, status: int = 0) -> str:
        """Runs a command of sparring in a process of its own and returns what it says."""
        command = [sys.executable, "-m", "orchestrator", *map(str, words)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def player(self, name: str, argument: int, side: str = "defence") -> Path:
        """Returns the folder of a program."""
        folder = self.path.parent / name
        folder.mkdir()
        shutil.copy(HERE / "player.py", folder)
        (folder / "submission.yaml").write_text(SUBMISSION.format(name=name, side=side, argument=argument))
        return folder


@pytest.fixture(scope="module")
def league(tmp_path_factory) -> Iterator[League]:
    """A contest of two weeks that was played, ended, reported and published."""
    place = tmp_path_factory.mktemp("echo")
    install(place / "site")
    path = os.pathsep.join(map(str, (place / "site", ROOT)))
    found = League(path=place / "league", environment={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place / "site")
        patch.setenv("COLUMNS", "200")
        yield play(found)
    for name in [name for name in sys.modules if name.partition(".")[0] == "sparring_echo"]:
        del sys.modules[name]


def play(found: League) -> League:
    """Plays the season."""
    place = found.path.parent
    found.path.mkdir()
    shutil.copy(HERE / "contest.yaml", found.path)
    found.run("contest", "check", found.path / "contest.yaml")
    found.run("contest", "open", found.path)
    for team in ("Owls", "Larks"):
        found.run("team", "add", found.path, team, "--member", f"{team.lower()}@example.org:{team}")
    found.said = {}
    for week, (team, name, argument) in enumerate((("Owls", "bright", 0), ("Larks", "dark", 5000)), start=1):
        folder = found.player(name, argument)
        command = found.start if week == 1 else found.run
        command("submit", found.path, folder, "--team", team, "--task", "digits", *UNISOLATED)
        found.said[week] = command("round", "run", found.path, f"week-{week}", *UNISOLATED)
    found.early = found.run("publish", found.path, "--out", place / "early", "--full", status=2)
    found.said["end"] = found.run("contest", "record", found.path, "echo.season_ended", "--set", "thanks=all players")
    found.run("report", found.path)
    found.run("publish", found.path, "--out", place / "sealed", "--sealed")
    found.run("publish", found.path, "--out", place / "full", "--full")
    return found


def results(league: League, week: int) -> dict:
    """Returns the results of a week."""
    return json.loads((league.path / "rounds" / f"week-{week}" / "digits" / "results.json").read_text("utf-8"))


def test_each_week_is_a_round_with_its_board(league) -> None:
    """Accuracy and abstentions follow from the answers; who came later is in the second week only."""
    for week, names in ((1, {"bright"}), (2, {"bright", "dark"})):
        [board] = results(league, week)["boards"]
        assert ([column["name"] for column in board["columns"]], board["unit"]) == (["abstained"], "%")
        cells = {cell["defence"]: cell for cell in results(league, week)["cells"]}
        assert {row["submission"] for row in board["rows"]} == names == cells.keys()
        for row in board["rows"]:
            cell = cells[row["submission"]]
            assert row["score"] == pytest.approx(100 * cell["held"] / 12)
            assert row["values"]["abstained"]["value"] == cell["abstained"]
            assert row["interval"][0] <= row["score"] <= row["interval"][1]
    dark = {cell["defence"]: cell["abstained"] for cell in results(league, 2)["cells"]}["dark"]
    assert 0 < dark <= 12
    assert results(league, 2)["task"]["norm"] is None


def test_what_was_played_is_not_played_again(league) -> None:
    """The second week takes over the first week's answers (X4)."""
    entries = (league.path / "rounds" / "week-2" / "digits").glob("*")
    assert "results.json" in {entry.name for entry in entries}
    first, second = ({job["id"] for job in results(league, week)["jobs"]} for week in (1, 2))
    assert {job for job in first if any(job == one for one in second)}


def test_the_season_ends_by_its_own_event(league) -> None:
    """The event is on the contest's ledger, allowed once, and no week follows."""
    assert "all players" in league.said["end"]
    again = league.run("contest", "record", league.path, "echo.season_ended", status=1)
    assert "it has ended already" in again
    assert "the season has ended" in league.run("round", "run", league.path, "week-3", *UNISOLATED, status=2)
    assert "is not over" in league.early


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("contest", "record", "LEAGUE", "echo.unknown"), "the format echo has no event 'echo.unknown'"),
        (("contest", "record", "LEAGUE", "echo.season_ended", "--set", "thanks"), "write it as NAME=TEXT"),
        (("contest", "record", "LEAGUE", "echo.season_ended", "--set", "colour=red"), "colour"),
        (("round", "promote", "LEAGUE"), "the format echo promotes nobody"),
        (("round", "run", "LEAGUE", "final", *UNISOLATED), "has no round 'final'; it has week-1, week-2, week-3"),
    ],
)
def test_what_the_format_does_not_have_is_said(league, words, message) -> None:
    """Each mistake is one clear usage error."""
    said = league.run(*(league.path if word == "LEAGUE" else word for word in words), status=2)
    assert message in re.sub(r"\s+", " ", said)


def test_an_attack_cannot_be_handed_in(league) -> None:
    """The format has programs of one kind."""
    folder = league.player("pushy", 1, side="attack")
    said = league.run("submit", league.path, folder, "--team", "Owls", "--task", "digits", *UNISOLATED, status=1)
    assert "the format echo takes no attack programs" in said


def test_boards_reports_and_tables_show_the_declared_columns(league) -> None:
    """Terminal, page, Markdown and CSV have the format's columns and blocks, and nothing of the tournament's."""
    assert "abstained" in league.run("board", league.path)
    site = league.path / "site"
    page = (site / "index.html").read_text("utf-8")
    assert "Best of the week" in page
    assert "Abstained" in page
    assert ">Matrix<" not in page
    assert "Echo of 2 programs." in (site / "report.md").read_text("utf-8")
    head, *lines = (site / "boards.csv").read_text("utf-8").splitlines()
    assert head.endswith(",abstained")
    assert len(lines) == 3
    week = next((site / "rounds").glob("week-2*.html")).read_text("utf-8")
    assert "What comes back." in week
    assert ">Transfer<" not in week


@pytest.mark.parametrize("kind", ["sealed", "full"])
def test_bundles_verify_and_lies_are_found(league, kind, tmp_path) -> None:
    """Anybody who has the format recomputes a bundle; a changed board does not hold."""
    bundle = league.path.parent / kind
    assert league.run("verify", bundle).startswith(f"holds    {kind} bundle of league")
    copy = tmp_path / kind
    shutil.copytree(bundle, copy)
    [stated] = copy.rglob("week-2/digits/results.json")
    stated.write_text(stated.read_text("utf-8").replace('"abstained"', '"abstainer"', 1), "utf-8")
    league.run("verify", copy, status=1)


def test_a_bundle_is_verified_where_the_format_is(league) -> None:
    """In a process of its own a bundle holds with the distribution, and without it the format is missed."""
    bundle = league.path.parent / "sealed"
    assert league.start("verify", bundle).startswith("holds    sealed bundle of league")
    bare = League(path=league.path, environment={**os.environ, "PYTHONPATH": str(ROOT)})
    assert "no 'echo' among the formats" in bare.start("verify", bundle, status=1)
