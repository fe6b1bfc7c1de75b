"""The contest that a process of the service serves: what is read of it, and acts on it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
"""How many open contests are kept for the next acts: as many as act at the same moment on a busy day."""


class _OpenContest:
    """A contest that was opened to act on, with what was read of its ledger.

    Attributes:
        admin: the contest.
        ledger_file: which file the ledger is in, see `ContestSite._ledger_file`.
        close: closes it.
    """

    def __init__(self, site: "ContestSite", ledger_file: tuple[int, int]) -> None:
        stack = ExitStack()
        self.ledger_file, self.close = ledger_file, stack.close
        self.admin = stack.enter_context(seasons.open_ledger(site.folder.path, clock=lambda: site.clock()))  # noqa: PLW0108  a site may be given another clock


class ContestSite:
    """One contest, read and changed by the threads of this process; others work on it at the same time.

    A season that was handed out does not change any more: a thread that saw it keeps what it saw.
    """

    def __init__(self, path: Path, clock: Clock = seasons.now) -> None:
        self.folder, self.clock = ContestFolder(path), clock
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._season = Season()
        self._contest: tuple[tuple[int, int, int], Contest] | None = None
        self.file_problem = ""
        """Why the contest file cannot be read as it is now; empty where it can."""
        self._desk: RatingDesk | None = None
        self._weeks: tuple[Contest, UnrestrictedContest | None] | None = None
        self._desk_lock = threading.Lock()
        self._idle: list[_OpenContest] = []

    def season(self) -> Season:
        """Returns what the contest's ledger says now. Raises StoreFault where it cannot be read."""
        with self._lock:
            if self._ledger is None:
                self.folder.require()
                ledger = self.folder.ledger()
                try:
                    new = list(ledger.read())
                except StoreFault:
                    ledger.close()  # and not kept: what is read of it next would be only what is new
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
        """The hash of the last entry that was read: what a page was made of."""
        with self._lock:
            return "" if self._ledger is None else self._ledger.head

    def contest(self) -> Contest:
        """Returns the contest file as it is now, read again where it changed; where it is wrong now, as it was before.

        Organizers edit it while people look at pages: `file_problem` then says what is wrong, and `administer` refuses.

        Raises Rejected where it was never right.
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
        """Returns whether submissions are received now, by what a season says and by the contest file."""
        return submission_window(self.contest().file, season.closing, self.clock())

    @contextmanager
    def administer(self, person: str) -> Iterator[ContestAdmin]:
        """Gives the contest to act on in the name of a person; see `seasons.administer`."""
        with seasons.administer(self.folder.path, person, self.clock) as admin:
            yield admin

    def rating_desk(self) -> RatingDesk:
        """Returns where this contest's raters work, made anew where the contest file changed.

        Raises:
            UsageError: nobody grades in this contest.
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
        """Returns the contest where it is an unrestricted one, opened anew where its file changed; None for others.

        Raises:
            StoreFault, Rejected: the contest cannot be read.
        """
        contest = self.contest()
        with self._desk_lock:
            if self._weeks is None or self._weeks[0] is not contest:
                rules = unrestricted_rules(contest)
                opened = None if rules is None else UnrestrictedContest(self.folder, rules)
                if self._weeks is not None and self._weeks[1] is not None:
                    self._weeks[1].close()
                self._weeks = contest, opened
            return self._weeks[1]

    @contextmanager
    def note_at_once(self, person: str) -> Iterator[ContestAdmin]:
        """Gives the contest like `administer`, for what changes no report and must not wait for one.

        A contest that was opened before is used again and reads only what is new in the ledger: to open one takes
        longer than the act, since the whole ledger is checked and the contest file is parsed.
        """
        contest = self.contest()
        if self.file_problem:
            contest = Contest(self.folder.file)  # raises Rejected, unless it was mended at this moment
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
        """Returns an open contest that no other thread has, opened now where there is none."""
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
        """Returns what tells the ledger's file, or that with its database's name, from one put in its place."""
        self.folder.require()
        database = self.folder.path / DATABASE
        status = (database if database.exists() else self.folder.path / CONTEST_LEDGER).stat()
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Closes what is kept open of the contest."""
        while self._idle:
            self._idle.pop().close()
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()
        with self._desk_lock:
            if self._desk is not None:
                self._desk.close()
            if self._weeks is not None and self._weeks[1] is not None:
                self._weeks[1].close()

    @cached_property
    def key_fingerprint(self) -> str:
        """The fingerprint of the organizers' key, which signs receipts and bundles."""
        return self.folder.key().fingerprint


_site: ContestSite | None = None


def web_settings() -> WebSettings:
    """Returns what this process was configured with."""
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
