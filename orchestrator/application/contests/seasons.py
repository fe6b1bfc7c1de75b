"""Opens contests that run over weeks, and reads them."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from orchestrator import __version__, resources
from orchestrator.application.contests import administration, contest_receipts, report_writer
from orchestrator.application.contests.administration import Clock, ContestAdmin
from orchestrator.application.rounds.round_progress import ContestProgress, ProgressReader
from orchestrator.domain import contest_events
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster
from orchestrator.domain.text import shell_word
from orchestrator.errors import Problem, SparringError, StoreFault, UsageError
from orchestrator.files import write_whole
from orchestrator.intake import manifest
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import CONTEST_LEDGER, RoundFolder
from orchestrator.ledger.season_fold import fold_season
from orchestrator.ledger.stores.base import format_time

TEMPLATES = ("tournament", "warmup", "attack_set", "unrestricted")
ORGANIZER = "organizer"
"""The actor of an event if no name is given."""


def now() -> datetime:
    """Returns the current time in UTC."""
    return datetime.now(UTC)


def actor_name(by: str | None) -> str:
    """Returns the actor of events in the ledger: `by`, or "organizer" without it. Raises UsageError.

    Bundles show the actor to everybody, so the operating system's user name is never taken by default.
    """
    actor = by or ORGANIZER
    if len(actor) > contest_events.ACTOR_LIMIT:
        raise UsageError(
            f"{actor[:80]!r} is too long a name: {len(actor)} characters, at most {contest_events.ACTOR_LIMIT}"
        )
    return actor


def create_contest(
    path: Path, template: str, by: str | None = None, clock: Clock = now, *, database: str | None = None
) -> ContestFolder:
    """Creates a contest folder with a commented contest file that can be played unchanged, and opens its ledger.

    The contest's id is the folder's name if that is a valid id, since two contests of one template need two ids.

    Raises:
        UsageError: there is no such template, or the folder is not empty; also as `open_contest` raises it. The new
            folder is removed then.
        StoreFault: the database cannot be reached, or the disk is full; the new folder is removed then.
    """
    if template not in TEMPLATES:
        raise UsageError(f"there is no template {template!r}; the templates are {', '.join(TEMPLATES)}")
    folder = ContestFolder(path)
    folder.create()
    text = resources.resource_path("examples", "templates", f"{template}.yaml").read_text("utf-8")
    if manifest.is_slug(name := path.resolve().name):
        # In quotes, since YAML takes a folder's name such as 2027 for a number.
        text = re.sub(r"^contest: \S+", f'contest: "{name}"', text, count=1, flags=re.MULTILINE)
    try:
        write_whole(folder.file, text.encode())
        open_contest(path, by, clock, database=database)
    except SparringError as error:
        folder.discard(begun=isinstance(error, StoreFault))
        raise
    return folder


def open_contest(
    path: Path, by: str | None = None, clock: Clock = now, *, database: str | None = None
) -> ContestFolder:
    """Creates the ledger and the key of the contest whose contest file is in a folder.

    Args:
        path: the folder.
        by: the actor of the first event.
        clock: returns the time of that event.
        database: the PostgreSQL URL of the database for the ledger; None: a file in the folder.

    Raises:
        Rejected: the contest file cannot be read.
        UsageError: the folder has no contest file, the folder or the database already holds a contest, or the format
            has no rounds of a season.
        StoreFault: the database cannot be reached.
    """
    folder, actor = ContestFolder(path), actor_name(by)
    if not folder.file.exists():
        raise UsageError(f"there is no {folder.file}; write it, or let `sparring contest init` make one")
    contest = Contest(folder.file)
    if not contest.format.has_season:
        raise UsageError(f"the format {contest.file.format} has no rounds of a season; play it with --out")
    if database is not None:
        if folder.exists:
            raise UsageError(f"{path} holds a contest already; give another folder")
        folder.use_database(database, contest.file.contest)
    with closing(folder.ledger()) as ledger:
        if next(iter(ledger.read()), None) is not None:
            raise UsageError(f"{path} holds a contest already; give another folder")
        folder.write_gitignore()
        opening = contest_events.ContestOpened(
            actor=actor,
            contest=contest.file.model_dump(mode="json"),
            key_fingerprint=folder.create_key().fingerprint,
            software=__version__,
        )
        ledger.append(opening, time=format_time(clock()))
    return folder


def rounds_to_check(contest: Contest) -> tuple[str, ...]:
    """Returns the names of the rounds that a contest file has to be able to play, "" for a round outside a season.

    If a contest was opened with the file, they include the rounds of its season. If not, and the file lists no entries,
    there are none: such a file only describes a contest, like the participants' copy of an attack-set contest, which
    leaves out the hidden model.
    """
    folder = ContestFolder(contest.folder)
    if folder.exists and contest.path.name == folder.file.name:
        return "", *round_names(contest, Season())
    return ("",) if contest.file.baselines or contest.file.submissions else ()


def season_problems(contest: Contest, roster: Roster) -> dict[str, list[Problem]]:
    """Returns, by round, the problems of a contest file's baselines that keep a season from being played.

    Problems with the submissions are left out, since they may still arrive. Empty if every round could be played, or
    if the format has no season.
    """
    found = {
        name: [each for each in contest.format.roster_problems(roster, name) if each.place != "submissions"]
        for name in round_names(contest, Season())
    }
    return {name: problems for name, problems in found.items() if problems}


def round_names(contest: Contest, season: Season) -> tuple[str, ...]:
    """Returns the names of a season's rounds on all tasks, each once."""
    rounds = (contest.format.rounds(season, task.name) for task in contest.file.all_tasks)
    return tuple(dict.fromkeys(each.name for some in rounds for each in some))


@contextmanager
def administer(path: Path, by: str | None = None, clock: Clock = now) -> Iterator[ContestAdmin]:
    """Opens a contest, and updates its reports on entry and on exit. Other processes may change it meanwhile.

    On entry it also restores receipts that a killed command left out. Raises UsageError, Rejected, StoreFault.
    """
    with open_ledger(path, by, clock) as admin:
        with suppress(StoreFault):  # no key, or no space: the next command tries again
            contest_receipts.restore_receipts(admin)
        _try_to_update_reports(admin)
        try:
            yield admin
        except BaseException:
            _try_to_update_reports(admin)
            raise
        report_writer.update_reports(admin)


@contextmanager
def open_ledger(path: Path, by: str | None = None, clock: Clock = now) -> Iterator[ContestAdmin]:
    """Opens a contest for events that change no report: writes no receipts and no reports. Raises like `administer`."""
    folder = ContestFolder(path)
    folder.require()
    with closing(folder.ledger()) as ledger:
        admin = ContestAdmin(folder, ledger, Contest(folder.file), clock, actor_name(by))
        if admin.season.opening is None:
            raise StoreFault(
                f"{path}/{CONTEST_LEDGER} holds no contest: it is damaged, or its opening was killed; put it back "
                f"from a copy of the folder, or, where nothing was submitted yet, "
                f"`sparring contest open {shell_word(path)}`"
            )
        yield admin


def _try_to_update_reports(admin: ContestAdmin) -> None:
    with suppress(StoreFault):  # the next command tries again, and `sparring report` says why
        report_writer.update_reports(admin)


def task_names(contest: Contest, only: str | None = None) -> list[str]:
    """Returns the names of the contest's tasks, or only the name `only`. Raises UsageError if there is no such task."""
    names = [task.name for task in contest.file.all_tasks]
    if only is not None and only not in names:
        raise UsageError(f"there is no task {only!r}; the tasks are {', '.join(names)}")
    return names if only is None else [only]


def read_progress(path: Path) -> ContestProgress:
    """Returns the jobs that run and the work that waits; changes nothing. Raises UsageError, Rejected, StoreFault."""
    folder = ContestFolder(path)
    folder.require()
    ledger, reader = folder.ledger(), ProgressReader(folder)
    try:
        return reader.read(Contest(folder.file), fold_season(ledger.read()))
    finally:
        reader.close()
        ledger.close()


def read_contest(path: Path) -> tuple[Contest, Season]:
    """Returns a contest's file and the season that its ledger folds to; changes nothing.

    Raises UsageError, Rejected, StoreFault.
    """
    folder = ContestFolder(path)
    folder.require()
    with closing(folder.ledger()) as ledger:
        return Contest(folder.file), fold_season(ledger.read())


def begun_rounds(path: Path, phase: str | None = None, task: str | None = None) -> list[RoundFolder]:
    """Returns the folders of a contest's rounds that were begun, restricted to `phase` and `task` if given.

    Raises UsageError, Rejected, StoreFault.
    """
    return administration.begun_rounds(ContestFolder(path), *read_contest(path), phase, task)
