"""The contest that a process of the service serves: reads it and changes it."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import Clock, ContestAdmin
from orchestrator.application.contests.submission_window import SubmissionWindow, submission_window
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest, unrestricted_rules
from orchestrator.application.grading.rating_desk import RatingDesk
from orchestrator.domain.contest_events import ContestEvent
from orchestrator.domain.season import Season
from orchestrator.errors import Rejected, StoreFault
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import CONTEST_LEDGER, DATABASE
from orchestrator.ledger.stores.base import Ledger
from orchestrator.web.settings import WebSettings

_MOST_IDLE = 4
"""How many open contests are kept for later acts: as many as are in use at once on a busy day."""


class _OpenContest:
    """A contest that was opened for changes, with the part of its ledger that was read.

    Attributes:
        admin: the contest.
        ledger_file: identifies the ledger's file, see `ContestSite._ledger_file`.
        close: closes the contest.
    """

    def __init__(self, site: "ContestSite", ledger_file: tuple[int, int]) -> None:
        stack = ExitStack()
        self.ledger_file, self.close = ledger_file, stack.close
        self.admin = stack.enter_context(seasons.open_ledger(site.folder.path, clock=lambda: site.clock()))  # noqa: PLW0108  a site may be given another clock


class ContestSite:
    """One contest, read and changed by the threads of this process while other processes work on it, too.

    A season that `season` returned does not change any more, so a thread can go on using it.
    """

    def __init__(self, path: Path, clock: Clock = seasons.now) -> None:
        self.folder, self.clock = ContestFolder(path), clock
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._season = Season()
        self._contest: tuple[tuple[int, int, int], Contest] | None = None
        self.file_problem = ""
        """Why the contest file in its current state cannot be read; empty if it can."""
        self._desk: RatingDesk | None = None
        self._unrestricted: tuple[Contest, UnrestrictedContest | None] | None = None
        self._desk_lock = threading.Lock()
        self._idle: list[_OpenContest] = []

    def season(self) -> Season:
        """Returns the season as the contest's ledger has it now. Raises StoreFault if the ledger cannot be read."""
        with self._lock:
            if self._ledger is None:
                self.folder.require()
                ledger = self.folder.ledger()
                try:
                    new = list(ledger.read())
                except StoreFault:
                    ledger.close()  # and not kept: the next call would read only its new entries
                    raise
                self._ledger = ledger
            else:
                new = list(self._ledger.read_new())
            if new:
                season = self._season.copy()
                for entry in new:
                    if isinstance(entry.event, ContestEvent):
                        season.apply(entry.event, entry.time)
                self._season = season
            return self._season

    @property
    def head(self) -> str:
        """The hash of the last ledger entry that was read, which identifies the state that a page shows."""
        with self._lock:
            return "" if self._ledger is None else self._ledger.head

    def contest(self) -> Contest:
        """Returns the contest file, read again if it changed. If it is invalid now, returns its last valid version.

        Organizers edit it while people look at pages: `file_problem` then says what is wrong, and `administer` refuses.

        Raises Rejected if it has been invalid since this object was made.
        """
        status = self.folder.file.stat()
        changed = (status.st_mtime_ns, status.st_size, status.st_ino)
        if self._contest is None or self._contest[0] != changed:
            try:
                self._contest, self.file_problem = (changed, Contest(self.folder.file)), ""
            except Rejected as error:
                if self._contest is None:
                    raise
                self._contest, self.file_problem = (changed, self._contest[1]), str(error)
        return self._contest[1]

    def submission_window(self, season: Season) -> SubmissionWindow:
        """Returns whether submissions are received now, according to the season's closing and the contest file."""
        return submission_window(self.contest().file, season.closing, self.clock())

    def administer(self, person: str) -> AbstractContextManager[ContestAdmin]:
        """Opens the contest for changes in the name of a person; see `seasons.administer`."""
        return seasons.administer(self.folder.path, person, self.clock)

    def rating_desk(self) -> RatingDesk:
        """Returns this contest's rating desk, a new one if the contest file changed.

        Raises:
            UsageError: no people grade in this contest.
            StoreFault, Rejected: the contest cannot be read.
        """
        contest = self.contest()
        with self._desk_lock:
            if self._desk is None or self._desk.contest is not contest:
                if self._desk is not None:
                    self._desk.close()
                self._desk = RatingDesk(self.folder, contest, self.clock)
            return self._desk

    def unrestricted(self) -> UnrestrictedContest | None:
        """Returns the contest if it is an unrestricted one, opened again if its file changed; otherwise None.

        Raises:
            StoreFault, Rejected: the contest cannot be read.
        """
        contest = self.contest()
        with self._desk_lock:
            if self._unrestricted is None or self._unrestricted[0] is not contest:
                rules = unrestricted_rules(contest)
                opened = None if rules is None else UnrestrictedContest(self.folder, rules)
                if self._unrestricted is not None and self._unrestricted[1] is not None:
                    self._unrestricted[1].close()
                self._unrestricted = contest, opened
            return self._unrestricted[1]

    @contextmanager
    def administer_without_reports(self, person: str) -> Iterator[ContestAdmin]:
        """Opens the contest like `administer`, for a change that affects no report and must not wait for one.

        Reuses a contest that was opened before and reads only the new entries of the ledger. Opening a contest takes
        longer than the change itself, because it checks the whole ledger and parses the contest file.
        """
        contest = self.contest()
        if self.file_problem:
            contest = Contest(self.folder.file)  # raises Rejected, unless the file was corrected just now
        opened = self._take_idle()
        try:
            opened.admin.resume(contest, seasons.actor_name(person))
            yield opened.admin
        except BaseException:
            opened.close()
            raise
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(opened)
        else:
            opened.close()

    def _take_idle(self) -> _OpenContest:
        """Returns an open contest that no other thread uses; opens one if none is idle."""
        ledger_file = self._ledger_file()
        while self._idle:
            try:
                opened = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if opened.ledger_file == ledger_file:
                return opened
            opened.close()
        return _OpenContest(self, ledger_file)

    def _ledger_file(self) -> tuple[int, int]:
        """Returns the device and inode of the ledger's file, or of the file that names the ledger's database.

        They differ once another file has replaced it.
        """
        self.folder.require()
        database = self.folder.path / DATABASE
        status = (database if database.exists() else self.folder.path / CONTEST_LEDGER).stat()
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Closes the open contests, the ledger and the rating desk."""
        while self._idle:
            self._idle.pop().close()
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()
        with self._desk_lock:
            if self._desk is not None:
                self._desk.close()
            if self._unrestricted is not None and self._unrestricted[1] is not None:
                self._unrestricted[1].close()

    @cached_property
    def key_fingerprint(self) -> str:
        """The fingerprint of the organizers' key, which signs receipts and bundles."""
        return self.folder.key().fingerprint


_site: ContestSite | None = None


def web_settings() -> WebSettings:
    """Returns the settings that this process was configured with."""
    configured: Any = settings
    found: WebSettings = configured.SPARRING
    return found


def current_site() -> ContestSite:
    """Returns the contest that this process serves."""
    global _site  # noqa: PLW0603  one contest a process, opened at the first request
    path = web_settings().contest
    if _site is None or _site.folder.path != path:
        _site = ContestSite(path)
    return _site
