"""Reports of a contest: a site for the web, pages for teams, and not one label that a submission told (A2)."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from typer.testing import CliRunner

from orchestrator.application.contests import report_writer
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds import round_record
from orchestrator.cli.app import app
from orchestrator.domain import contest_events
from orchestrator.errors import Rejected, UsageError
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.scoring import fault_texts, round_scoring
from orchestrator.scoring import results_file as doc
from orchestrator.scoring.results_file import Results
from tests import plain_player

from .conftest import Cup

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("told")]  # its season is played once
TELLTALE = Path(__file__).parent / "players" / "telltale.py"
MARK = b"QZLABELZQ"
"""What tests/application/players/telltale.py writes before each label that it tells."""
TELLERS = {
    "One": ("attack_raises", "raises"),
    "Two": ("attack_types", "types"),
    "Three": ("defence_raises", "sure"),
    "<script>Four": ("attack_delivers", "delivers"),
}
CODES = {"raises": "reported", "types": "protocol", "sure": "reported"}


def teller(cup: Cup, kind: str, name: str) -> Path:
    """Returns the folder of a player that tells labels."""
    folder = cup.player(kind, name)
    shutil.copy(TELLTALE, folder / "player.py")
    shutil.copy(plain_player.PROTOCOL, folder)
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Cup:
    """A season in which everybody tells labels, played to its end, with everything that may be written of it."""
    cup = Cup(tmp_path_factory.mktemp("told")).open()
    with cup.desk() as desk:
        desk.add_team(
            "<script>Four", [contest_events.PersonRecord(id="four@example.org", name="Fou R.", organizer=True)]
        )
    for team, (kind, name) in TELLERS.items():
        cup.submit(team, teller(cup, kind, name))
    with pytest.raises(Rejected):
        cup.submit("Three", teller(cup, "attack_raises", "turned"))  # it defends already (A1)
    cup.submit("One", cup.player("attack_honest", "second", licence="", source=""))
    cup.play("initial")
    cup.promote()
    cup.play("final")
    with cup.desk() as desk:
        desk.correct_release("second", "published late", licence="MIT", source=None)
        desk.withdraw("second", "a bug")
        desk.disqualify("types", "two people, one team")
    write(cup)
    for kind in ("sealed", "full"):
        with cup.desk() as desk:
            bundles.publish_bundle(desk, cup.path / kind, kind, unfinished=True)
    return cup


def write(cup: Cup) -> report_writer.ReportFiles:
    """Writes the contest's reports, with Parquet where its library is there."""
    with cup.desk() as desk:
        return report_writer.write_contest_report(desk, with_parquet=have_parquet())


def have_parquet() -> bool:
    """Returns whether Parquet can be written here."""
    try:
        report_writer.parquet.require_pyarrow()
    except UsageError:
        return False
    return True


def leaks(folder: Path) -> set[str]:
    """Returns the files below a folder in which the mark stands; what is compressed is read."""
    found = set()
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            parquet = pytest.importorskip("pyarrow.parquet")
            data += str(parquet.read_table(path).to_pylist()).encode()
        if MARK in data:
            found.add(str(path.relative_to(folder)))
    return found


def derived(cup: Cup) -> set[str]:
    """Returns the files of a contest's folder with the mark in them, but those of the record and of submissions."""
    record = ("blobs/", "images/", "contest.sqlite")
    return {name for name in leaks(cup.folder.path) if not name.startswith(record) and "ledger.sqlite" not in name}


def test_the_labels_were_told(told: Cup):
    """The mark is on record, in the ledger and in standard error: it was said, and the search finds it."""
    found = leaks(told.folder.path)
    assert any(name.startswith("rounds/initial/quarters/ledger.sqlite") for name in found)
    assert any(name.startswith("blobs/") for name in found)
    record, _ = round_record.read_round(told.folder.round("initial", "quarters").path)
    said = fault_texts.first_messages(record.round)
    for name, code in CODES.items():
        assert any(MARK.decode() in text for (who, kind, _), text in said.items() if (who, kind) == (name, code)), name
    blobs = [
        box.stderr
        for job in record.round.finished_jobs
        for step in record.round.steps[job].values()
        for box in step.sandboxes
    ]
    assert any(MARK in told.folder.blobs().get(blob) for blob in blobs if blob)


def test_no_label_is_in_anything_that_is_written(told: Cup):
    """Neither results.json nor a report, a page, a text or a table holds a mark, in the whole folder of the contest."""
    assert derived(told) == set()
    names = {path.relative_to(told.folder.path).as_posix() for path in told.folder.path.rglob("*") if path.is_file()}
    assert {
        *("rounds/initial/quarters/results.json", "rounds/initial/quarters/report/index.html"),
        *("rounds/initial/quarters/cells.csv", "site/report.md", "site/cells.csv", "site/submissions.csv"),
        *("site/index.html", "site/rounds/initial-quarters.html", "site/teams/one.html", "teams/one.html"),
    } <= names


def test_no_label_is_in_a_sealed_bundle(told: Cup):
    """No file of a sealed bundle holds a mark; of a full one only the ledger does, since labels are public then."""
    assert leaks(told.path / "sealed") == set()
    assert leaks(told.path / "full") == {f"rounds/{phase}/quarters/ledger.jsonl" for phase in ("initial", "final")}


def test_the_search_finds_a_leak(told: Cup, monkeypatch: pytest.MonkeyPatch):
    """Were faults told in the submissions' own words, every kind of page and file that has them would be found out."""

    def own(self: round_scoring.RoundScoring, submission: str) -> list[doc.FaultPart]:
        said = fault_texts.first_messages(self._round)
        return [
            doc.FaultPart(code=code, reason=reason, times=1, pictures=1, message=text)
            for (who, code, reason), text in said.items()
            if who == submission
        ]

    with monkeypatch.context() as patched:
        patched.setattr(round_scoring.RoundScoring, "_fault_parts", own)
        write(told)
        found = derived(told)
    write(told)
    assert {
        *("rounds/initial/quarters/results.json", "rounds/initial/quarters/report/index.html"),
        *("site/rounds/initial-quarters.html", "site/teams/one.html", "teams/one.html", "site/teams/two.html"),
    } <= found
    assert derived(told) == set()


def test_no_picture_leaves_the_house(told: Cup):
    """The organizers' report has hidden pictures; no page of the site and none for a team has one."""
    inside = told.folder.round("initial", "quarters").path / "report" / "index.html"
    assert "data:image/png" in inside.read_text("utf-8")
    outside = [*(told.folder.path / "site").rglob("*"), *(told.folder.path / "teams").rglob("*")]
    pages = [path for path in outside if path.suffix == ".html"]
    assert len(pages) >= 2 + 1 + 4 + 4
    assert [path.name for path in pages if "data:image" in path.read_text("utf-8")] == []


def test_hidden_data_has_no_digest_outside(told: Cup):
    """The digests of pictures and labels, and of jobs, which follow from them, are on no page and in no table."""
    record, _ = round_record.read_round(told.folder.round("initial", "quarters").path)
    task = record.round.opening.task
    secret = [task.digest, task.pixels, task.labels, *(job.id for job in record.round.planned_jobs)]
    for folder in ("site", "teams"):
        for path in (path for path in (told.folder.path / folder).rglob("*") if path.is_file()):
            data = path.read_bytes()
            assert [word for word in secret if word.encode() in data] == [], path


def test_a_team_finds_what_became_of_it(told: Cup):
    """Withdrawn, disqualified, corrected and refused are on the page, with reasons; the receipt is the one it got."""
    pages = {path.stem: path.read_text("utf-8") for path in (told.folder.path / "site" / "teams").iterdir()}
    assert set(pages) == {"one", "two", "three", "script-four"}
    for text in ("Withdrawn", "a bug", "licence is now MIT", "published late", "attempt", "reported", "warning"):
        assert text.lower() in pages["one"].lower(), text
    assert "two people, one team" in pages["two"]
    assert "For 1 reason." in pages["three"]
    assert "&lt;script&gt;Four" in pages["script-four"]
    assert "<script" not in pages["script-four"]
    assert "no prizes (A5)" in pages["script-four"]


def test_a_receipt_from_a_page_verifies(told: Cup, tmp_path: Path):
    """Every receipt is on its team's two pages; saved from either it is a file that `sparring verify` takes."""
    saved = {}
    for folder in ("site/teams", "teams"):
        for page in (told.folder.path / folder).iterdir():
            for name, data in re.findall(
                r'download="([\w.]+)" href="data:application/json,([^"]+)"', page.read_text("utf-8")
            ):
                saved[folder, name] = tmp_path / f"{folder.replace('/', '-')}-{name}"
                saved[folder, name].write_bytes(unquote_to_bytes(data))
    kept = {path.name for path in (told.folder.path / "receipts").iterdir()}
    assert len(kept) == 5
    assert saved.keys() == {(folder, name) for folder in ("site/teams", "teams") for name in kept}
    key = told.folder.key().fingerprint
    for path in saved.values():
        done = CliRunner().invoke(app, ["verify", str(path), "--key", key])
        assert done.exit_code == 0, done.output


def test_people_are_named_to_their_own_team_alone(told: Cup):
    """The web sees nobody's name; each team sees its own people and why it was refused."""
    for path in (told.folder.path / "site").rglob("*.html"):
        assert not [
            name for name in ("P. One", "P. Three", "Fou R.", "@example.org") if name in path.read_text("utf-8")
        ]
    own = {path.stem: path.read_text("utf-8") for path in (told.folder.path / "teams").iterdir()}
    assert "P. One" in own["one"]
    assert "P. Three already plays defence on quarters" in own["three"]
    assert "P. Three" not in own["one"]


def test_reports_are_made_anew(told: Cup):
    """What lay in the two folders is gone, what is written twice is the same, and nothing is left beside them."""

    def files() -> Iterator[tuple[str, bytes]]:
        for path in sorted((told.folder.path / "site").rglob("*")):
            if path.is_file():
                yield str(path), path.read_bytes()

    write(told)  # the first page has the ledger's head, and another test may have added to it
    before = dict(files())
    (told.folder.path / "site" / "teams" / "gone.html").write_text("old")
    write(told)
    assert dict(files()) == before
    assert [path.name for path in told.folder.path.iterdir() if path.name.startswith((".site", ".teams"))] == []


def test_a_link_in_the_place_of_the_site_is_left_alone(told: Cup, tmp_path: Path):
    """Where `site` is not a folder of ours, nothing is removed, and the message says what to do."""
    site = told.folder.path / "site"
    kept = site.rename(tmp_path / "kept")
    site.symlink_to(tmp_path)
    try:
        with pytest.raises(UsageError, match="is a link or a file"):
            write(told)
        assert kept.exists()
    finally:
        site.unlink()
        write(told)


def test_the_command_says_where_things_are(told: Cup):
    """`sparring report` names each file, the site and the teams' folder; --json is the results of every round."""
    done = CliRunner().invoke(app, ["report", str(told.folder.path)])
    assert done.exit_code == 0, done.output
    assert f"site     {told.folder.path}/site/index.html" in done.output
    assert f"teams    {told.folder.path}/teams" in done.output
    spoken = CliRunner().invoke(app, ["report", str(told.folder.path), "--json"])
    assert [Results.model_validate(one).round for one in json.loads(spoken.output)] == ["initial", "final"]


def test_a_round_by_itself_has_a_site_too(told: Cup, tmp_path: Path):
    """Without a season the teams are those that played; there is nothing to tell but the round."""
    alone = tmp_path / "alone"
    shutil.copytree(told.folder.round("initial", "quarters").path, alone)
    shutil.copytree(told.folder.path / "blobs", alone / "blobs")
    done = CliRunner().invoke(app, ["report", str(alone)])
    assert done.exit_code == 0, done.output
    written = report_writer.write_round_report(RoundFolder(alone))
    assert {path.stem for path in (written.site / "teams").iterdir()} == {"one", "two", "three", "script-four"}
    assert leaks(written.site) == leaks(written.teams) == set()


def test_status_shows_organizers_what_was_said(told: Cup):
    """The words that reports leave out are there for whoever runs the contest."""
    done = CliRunner().invoke(app, ["round", "status", str(told.folder.round("initial", "quarters").path)])
    assert done.exit_code == 0, done.output
    assert MARK.decode() in done.output


def test_parquet_without_its_library_is_refused_before_anything_is_written(told: Cup, monkeypatch: pytest.MonkeyPatch):
    """The remedy is named, exit code 2, and the site is as it was."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    index = told.folder.path / "site" / "index.html"
    before = index.stat().st_mtime_ns
    done = CliRunner().invoke(app, ["report", str(told.folder.path), "--parquet"])
    assert done.exit_code == 2
    assert "sparring[parquet]" in done.output
    assert index.stat().st_mtime_ns == before
