"""Reports written: of a round by itself, or of every round of a contest, with a site that may be put on the web."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.domain import acts
from orchestrator.errors import StoreFault, UsageError
from orchestrator.results import markdown, parquet, public, report, tables
from orchestrator.results.document import Results
from orchestrator.results.report.site import site_of
from orchestrator.results.report.team import Story
from orchestrator.wiring import rounds
from orchestrator.wiring.contest_folder import ContestFolder
from orchestrator.wiring.desk import Desk
from orchestrator.wiring.folders import RoundFolder
from orchestrator.wiring.rounds import Reported

SITE = "site"
"""What everybody may see, in the folder of a contest or of a round by itself."""
TEAMS = "teams"
"""A page for each team alone: it names people."""
MARKDOWN = "report.md"


@dataclass(frozen=True, slots=True)
class Written:
    """Every round that was reported, in the order of the contest, and the two folders beside them."""

    rounds: tuple[Reported, ...]
    site: Path
    teams: Path


def of_contest(desk: Desk, *, with_parquet: bool = False) -> Written:
    """Writes the report of every round that was played, and the contest's site.

    Raises:
        UsageError: nothing was played, or Parquet is asked for and its library is missing.
        StoreFault: the site cannot be written.
    """
    if with_parquet:
        parquet.check()
    with desk.folder.writing():
        every = tuple(rounds.write_held(folder) for folder in desk.played())
        if not every:
            folder = desk.folder.path
            raise UsageError(f"no round was played in {folder}; run `sparring round run {folder} initial`")
        return _write(desk.folder.path, every, _story(desk.folder), with_parquet=with_parquet)


def renew(desk: Desk) -> None:
    """Writes again what an act changed, or a killed command left out: results of rounds, and with them the site.

    Raises:
        StoreFault: it cannot be written, or a record is damaged.
    """
    missing = desk.without_results()
    site = desk.folder.path / SITE
    if missing and site.is_dir():
        of_contest(desk, with_parquet=any(site.glob("*.parquet")))
    else:
        for folder in missing:
            rounds.write(folder)


def of_round(folder: RoundFolder, *, with_parquet: bool = False) -> Written:
    """Writes the report of a round, and a site of it alone. Raises like `of_contest`."""
    folder.require()
    if with_parquet:
        parquet.check()
    return _write(folder.path, (rounds.write(folder),), Story(), with_parquet=with_parquet)


def _write(path: Path, every: tuple[Reported, ...], story: Story, *, with_parquet: bool) -> Written:
    shown = [public.shown(reported.results) for reported in every]
    site = site_of(shown, story)
    beside = _beside(shown, with_parquet=with_parquet)
    pages = {name: page.encode() for name, page in report.render_site(site, list(beside)).items()}
    private = {name: page.encode() for name, page in report.render_private(site).items()}
    return Written(every, _put(path / SITE, pages | beside), _put(path / TEAMS, private))


def _beside(shown: Sequence[Results], *, with_parquet: bool) -> dict[str, bytes]:
    """Returns the site's text and tables by file name."""
    made = tables.of(shown)
    files = {MARKDOWN: markdown.render(shown).encode()}
    files |= {f"{table.name}.csv": tables.text(table).encode() for table in made}
    return files | ({f"{table.name}.parquet": parquet.data(table) for table in made} if with_parquet else {})


def _story(folder: ContestFolder) -> Story:
    ledger = folder.ledger()
    try:
        every = list(ledger.read())
    finally:
        ledger.close()
    receipts = {path.stem: path.read_bytes() for path in (folder.path / "receipts").glob("*.json")}
    told = tuple((entry.time, entry.event) for entry in every if isinstance(entry.event, acts.Act))
    return Story(told, receipts, every[-1].hash, every[-1].seq)


def _put(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Writes a folder anew, whole or not at all: what was in it is gone. Returns its path."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is no folder of ours; take it away")
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
