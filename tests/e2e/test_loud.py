"""What makes a round's boards unfit for use is said first: in the terminal, on the page, and by the exit code."""

import html
import json

from typer.testing import CliRunner

from orchestrator.application.rounds import round_record
from orchestrator.cli.app import app
from orchestrator.domain.events import JobParked
from orchestrator.domain.plan import Stage
from orchestrator.ledger.round_folder import RoundFolder

PLAY = ["--backend", "process", "--allow-unisolated", "--slots", "2"]


def with_baseline(lab, baseline, *players):
    """Writes a contest whose clean floor is measured on a baseline; returns its file."""
    path = lab.contest(baseline, *players, replay={"power": 0})
    body = json.loads(path.read_text())
    body["baselines"] = [body["submissions"].pop(0)]
    body["rules"] = {"clean_floor": {"baseline": baseline, "points": 10}}
    path.write_text(json.dumps(body))
    return path


def test_a_baseline_that_fails_throughout_is_loud(process_lab) -> None:
    """It is said first and last in the terminal, first on the page, and in results.json, and the exit code is 1."""
    path = with_baseline(process_lab, "defence_dies_loading", "attack_noop", "defence_honest")
    out = process_lab.folder / "out"

    done = CliRunner().invoke(app, ["round", "run", str(path), "--out", str(out), *PLAY])

    assert done.exit_code == 1, done.output
    assert done.stdout.splitlines()[0].startswith("alarm: The baseline defence_dies_loading failed on every picture")
    assert done.stderr.splitlines()[-1].startswith("failed: the leaderboards mean nothing, since baselines failed")
    assert "sparring explain" in done.stderr.splitlines()[-1]
    results = round_record.compute_results(out)
    assert results.complete
    assert len(results.alarms) == 1
    page = html.unescape((out / "report" / "index.html").read_text())
    body = page[page.index("<h1") :]
    assert body.index("The baseline defence_dies_loading failed") < body.index('<dl class="facts">')
    again = CliRunner().invoke(app, ["round", "status", str(out), "--json"])
    assert json.loads(again.stdout)["alarms"] == results.alarms
    told = CliRunner().invoke(app, ["round", "run", str(path), "--out", str(out), *PLAY, "--json"])
    assert (told.exit_code, json.loads(told.stdout)["alarms"]) == (1, results.alarms)


def test_a_baseline_that_an_attack_breaks_is_not(process_lab) -> None:
    """What fails on attacked pictures only, or now and then, raises no alarm: a stranger's attack stops no contest."""
    path = with_baseline(process_lab, "defence_crashes", "attack_noop", "attack_honest", "defence_honest")
    out = process_lab.folder / "out"
    done = CliRunner().invoke(app, ["round", "run", str(path), "--out", str(out), *PLAY])
    assert done.exit_code == 0, done.output
    assert round_record.compute_results(out).alarms == []


def test_who_waits_is_named_everywhere(process_lab) -> None:
    """On the page, in the terminal and in results.json; on no board, and not in the files for everybody."""
    path = process_lab.contest("attack_noop", "defence_honest", "defence_crashes", replay={"power": 0})
    out = process_lab.folder / "out"
    CliRunner().invoke(app, ["round", "run", str(path), "--out", str(out), *PLAY])
    words = {"code": "sandbox-lost", "message": "no <b>space</b> on host-17"}
    record, _ = round_record.read_round(out)
    job = next(job for job in record.round.planned_jobs if job.submission == "defence_crashes")
    ledger = RoundFolder(out).ledger()
    list(ledger.read())
    ledger.append(
        JobParked(job=job.id, stage=Stage.CLASSIFY, submission="defence_crashes", **words),
        time="2026-03-01T08:00:00.000+00:00",
    )
    ledger.close()

    told = CliRunner().invoke(app, ["round", "status", str(out)])
    assert "waits: defence_crashes, classify sandbox-lost: no <b>space</b> on host-17" in told.stdout
    assert "not finished" in told.stdout
    written = CliRunner().invoke(app, ["report", str(out)])
    assert written.exit_code == 0, written.output
    results = round_record.compute_results(out)
    assert not results.complete
    rows = {row.submission: row for board in results.boards for row in board.rows if board.name == "defences"}
    assert rows["defence_crashes"].rank is None
    assert "waits for another run (sandbox-lost)" in rows["defence_crashes"].reason
    assert rows["defence_honest"].rank == 1
    page = (out / "report" / "index.html").read_text()
    assert "host-17" in page
    assert "<b>space</b>" not in page
    public = "".join(file.read_text() for file in (out / "site").rglob("*.*") if file.suffix in {".html", ".md"})
    assert "waits for another run" in public
    assert "host-17" not in public
