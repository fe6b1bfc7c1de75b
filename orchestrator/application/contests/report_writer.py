"""Writes the report of one round, or of every round of a contest, with a site that may be put on the web."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import plugins, redaction, reports
from orchestrator.application.rounds import round_record
from orchestrator.application.rounds.round_record import ReportPaths
from orchestrator.domain import contest_events
from orchestrator.domain.season import Season
from orchestrator.domain.text import shell_word
from orchestrator.errors import StoreFault, UsageError
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.reports import markdown, parquet, tables
from orchestrator.reports.examples import Example
from orchestrator.reports.site import Site, SiteAddresses, build_site
from orchestrator.reports.team import ContestHistory
from orchestrator.scoring.results_file import Results

if TYPE_CHECKING:
    from orchestrator.application.contests.administration import ContestAdmin
    from orchestrator.intake.contest_file import Contest

SITE = "site"
"""The folder with the public pages, in the folder of a contest or of a single round."""
TEAMS = "teams"
"""The folder with a private page for each team: these pages name people."""
MARKDOWN = "report.md"


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The paths of a written report: every round in the contest's order, the public site, and the teams' pages."""

    rounds: tuple[ReportPaths, ...]
    site: Path
    teams: Path


@dataclass(frozen=True, slots=True)
class PublicSite:
    """The public site: its pages, and the Markdown report and tables by file name."""

    site: Site
    files: Mapping[str, bytes]


def write_contest_report(admin: "ContestAdmin", *, with_parquet: bool = False) -> ReportFiles:
    """Writes the report of every round that was begun, and the contest's site.

    Raises:
        UsageError: nothing was played, or Parquet is asked for and its library is missing.
        StoreFault: the site cannot be written.
    """
    if with_parquet:
        parquet.require_pyarrow()
    with admin.folder.writing():
        every = tuple(round_record.write_results_locked(folder) for folder in admin.begun_rounds())
        if not every:
            raise nothing_played(admin)
        return _write_site(admin.folder.path, every, read_history(admin.folder), with_parquet=with_parquet)


def nothing_played(admin: "ContestAdmin") -> UsageError:
    """Returns the error for a contest without results; it names the first round to play, if there is one."""
    folder, contest = admin.folder.path, admin.contest
    rounds = contest.format.rounds(admin.season, contest.file.all_tasks[0].name)
    remedy = f"run `sparring round run {shell_word(folder)} {rounds[0].name}`" if rounds else "it has no round yet"
    return UsageError(f"no round was played in {folder}; {remedy}")


def update_reports(admin: "ContestAdmin") -> None:
    """Writes results of rounds that an event removed or a killed command left out, and then also an existing site.

    Raises:
        StoreFault: a file cannot be written, or a record is damaged.
    """
    missing = admin.rounds_without_results()
    site_folder = admin.folder.path / SITE
    if missing and site_folder.is_dir():
        write_contest_report(admin, with_parquet=any(site_folder.glob("*.parquet")))
    else:
        for folder in missing:
            round_record.write_results(folder)


def write_round_report(folder: RoundFolder, *, with_parquet: bool = False) -> ReportFiles:
    """Writes the report of a single round, and a site for it. Raises like `write_contest_report`."""
    folder.require()
    if with_parquet:
        parquet.require_pyarrow()
    return _write_site(folder.path, (round_record.write_results(folder),), ContestHistory(), with_parquet=with_parquet)


def _write_site(
    path: Path, every: tuple[ReportPaths, ...], history: ContestHistory, *, with_parquet: bool
) -> ReportFiles:
    public = make_public_site(
        [reported.results for reported in every], history, own_pictures=_own_pictures(every), with_parquet=with_parquet
    )
    pages = {name: page.encode() for name, page in reports.render_site(public.site, list(public.files)).items()}
    private = {name: page.encode() for name, page in reports.render_private(public.site).items()}
    site_folder = _replace_folder(path / SITE, pages | dict(public.files))
    return ReportFiles(every, site_folder, _replace_folder(path / TEAMS, private))


def make_public_site(
    results: Sequence[Results],
    history: ContestHistory,
    addresses: SiteAddresses | None = None,
    own_pictures: Mapping[str, Sequence[Example]] | None = None,
    *,
    with_parquet: bool = False,
) -> PublicSite:
    """Returns the public site of one or more rounds; redacts their results (A2). Arguments as `build_site`'s."""
    public_results = [redaction.redact_results(each) for each in results]
    site = build_site(public_results, history, own_pictures, addresses)
    return PublicSite(site, _table_files(public_results, with_parquet=with_parquet))


def rounds_with_results(folder: ContestFolder, contest: "Contest", season: Season) -> list[RoundFolder]:
    """Returns the rounds that have results, in the order of the contest file's tasks and rounds.

    A round that is being played for the first time is not included.
    """
    every = [
        (each.name, task.name) for task in contest.file.all_tasks for each in contest.format.rounds(season, task.name)
    ]
    found = {key: folder.round(*key) for key in every}
    return [
        own for key, own in found.items() if own.exists and (own.results_path.exists() or key in season.played_rounds)
    ]


def _own_pictures(every: Sequence[ReportPaths]) -> dict[str, list[Example]]:
    """Returns, by team, the pictures that it may see with the answers on them once answers are released (C9)."""
    found: dict[str, list[Example]] = {}
    for reported in every:
        results = reported.results
        if results.coarse or not plugins.load_plugin("formats", results.format).withholds_outcomes:
            continue
        teams = {part.id: part.team for part in results.submissions}
        for example in reported.examples:
            found.setdefault(teams[example.attack], []).append(example)
    return found


def _table_files(results: Sequence[Results], *, with_parquet: bool) -> dict[str, bytes]:
    """Returns the site's Markdown report and tables by file name."""
    report_tables = tables.contest_tables(results)
    files = {MARKDOWN: markdown.render_markdown(results).encode()}
    files |= {f"{table.name}.csv": tables.table_csv(table).encode() for table in report_tables}
    return files | (
        {f"{table.name}.parquet": parquet.table_parquet(table) for table in report_tables} if with_parquet else {}
    )


def read_history(folder: ContestFolder) -> ContestHistory:
    """Returns the events of a contest's ledger, and its receipts. Raises StoreFault if the ledger cannot be read."""
    with closing(folder.ledger()) as ledger:
        every = list(ledger.read())
    receipts = {path.stem: path.read_bytes() for path in (folder.path / "receipts").glob("*.json")}
    events = tuple((entry.time, entry.event) for entry in every if isinstance(entry.event, contest_events.ContestEvent))
    return ContestHistory(events, receipts, every[-1].hash, every[-1].seq)


def _replace_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Replaces a folder's contents by these files, completely or not at all. Returns its path."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is a link or a file where a folder is written; move it away")
    fresh, old = (folder.with_name(f".{folder.name}.{kind}") for kind in ("new", "old"))
    try:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        fresh.mkdir(exist_ok=True)
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise StoreFault(f"{folder} cannot be written: {error}; make room, or close what holds it") from error
    return folder
