"""A worker: admits the arrivals in a contest's ledger, and plays the rounds that were requested.

In an unrestricted contest it also takes the actions that are due at a time, such as closing a week, and requests the
rounds that follow.

A worker reads from the ledger alone what waits, and locks each arrival and each request while it works on it. The
kernel frees the locks of a killed process. So any number of workers may run on a contest, and be killed: nothing is
done twice, and nothing is lost.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.application.contests import arrivals, round_requests, season_rounds, seasons
from orchestrator.application.contests.administration import Clock, ContestAdmin
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest, unrestricted_rules
from orchestrator.application.rounds import play_rounds
from orchestrator.application.rounds.execution_target import KUBERNETES
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.domain.season import Season
from orchestrator.errors import Busy, InfrastructureFault, Rejected, SparringError, UsageError
from orchestrator.execution.round_runner import EventCallback
from orchestrator.files import write_fault
from orchestrator.formats.unrestricted.round_names import week_round
from orchestrator.formats.unrestricted.state import State
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import lock_folder
from orchestrator.logs import get_logger
from orchestrator.sandboxes.base import Backend

REQUESTS = "requests"
"""The folder in a contest's folder that holds one folder for each request; a worker locks it while it plays."""
POLL_SECONDS = 1.0
"""Seconds between two reads of a ledger in which nothing waits."""
FIRST_DELAY, LONGEST_DELAY = 2.0, 300.0
"""Seconds before work that failed by a fault of ours is tried again: doubled after each failure, up to the second."""
_log = get_logger()


@dataclass(frozen=True, slots=True)
class CompletedWork:
    """A piece of work done. `what` is `arrival`, `round` or `time`, `outcome` one word, and `text` has the details."""

    what: str
    id: str
    outcome: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The contest, how to play, the actor's name, and with `once`, to end when nothing waits."""

    contest: Path
    options: RunOptions
    by: str = "worker"
    once: bool = False
    clock: Clock = seasons.now
    on_done: Callable[[CompletedWork], object] = lambda _: None
    watch: EventCallback = lambda _: None


@dataclass
class _Delays:
    """The arrivals or requests that failed by a fault of ours, and when they are tried again: with `once`, never."""

    once: bool
    last_fault: SparringError | None = None
    _failures: dict[str, int] = field(default_factory=dict)
    _until: dict[str, float] = field(default_factory=dict)

    def due(self, ids: Iterable[str]) -> list[str]:
        """Returns those of `ids` that may be tried now."""
        now = time.monotonic()
        return [each for each in ids if each not in self._until or (not self.once and now >= self._until[each])]

    def put_off(self, id_: str, fault: SparringError) -> None:
        """Counts a failure, and sets the time of the next try."""
        self.last_fault = fault
        count = self._failures[id_] = self._failures.get(id_, 0) + 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (count - 1))
        self._until[id_] = time.monotonic() + delay
        _log.warning("work_put_off", what=id_, failures=count, seconds=delay, reason=str(fault))

    def pass_over(self, id_: str) -> None:
        """Skips for `POLL_SECONDS` what another worker has locked."""
        self._until[id_] = time.monotonic() + POLL_SECONDS


def require_isolation(contest: Contest, options: RunOptions) -> None:
    """Raises UsageError if the backend isolates no players, so that every program would be refused.

    Otherwise its authors would be blamed for a mistake of the organizers.
    """
    if options.refuses_strangers and not contest.format.picture_formats():
        raise UsageError(
            "teams are strangers, and the process backend does not isolate players: give --backend container, "
            "or --allow-unisolated if you trust everybody who may submit"
        )


class Worker:
    """Works until `stop` is set or, with `once`, until nothing waits.

    It has two threads, each with its own connection to the ledger, so that arrivals are admitted while a round is
    played.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self.stop = threading.Event()
        self._broken: Exception | None = None
        self._unrestricted: UnrestrictedContest | None = None
        """The contest's weekly actions; None before the first use, and in other formats."""
        self._unrestricted_lock = threading.Lock()
        self._requested: set[tuple[str, str, tuple[str, ...]]] = set()
        """Rounds that this worker requested: name, task, and the defences that waited in a played round. None is
        requested again: a failed round waits until somebody looks at it."""
        self._admissions, self._rounds = _Delays(settings.once), _Delays(settings.once)

    def run(self) -> None:
        """Works; KeyboardInterrupt ends it after the admission in progress.

        Raises:
            UsageError, StoreFault, Rejected: there is no such contest, or it cannot be read.
            SparringError: with `once`, if a fault of ours left work undone.
        """
        with seasons.administer(self._settings.contest, self._settings.by, self._settings.clock) as admin:
            require_isolation(admin.contest, self._settings.options)
            arrivals.sweep(admin)
        try:
            self._run()
        finally:
            if self._unrestricted is not None:
                self._unrestricted.close()

    def _run(self) -> None:
        admissions = threading.Thread(target=self._run_admissions, name="admissions")
        admissions.start()
        try:
            self._loop(self._play_next, self._rounds)
        except BaseException as error:
            self.stop.set()
            if not isinstance(error, KeyboardInterrupt):
                raise
        finally:
            self._await(admissions)
        if self._broken is not None:
            raise self._broken
        if self._settings.once:
            self._loop(self._play_next, self._rounds)  # rounds that the other thread's last actions made necessary
        for delays in (self._admissions, self._rounds):
            if self._settings.once and delays.last_fault is not None:
                raise delays.last_fault

    def _run_admissions(self) -> None:
        """Admits arrivals; an unexpected exception ends the worker, so that somebody sees it."""
        try:
            self._loop(self._tick_or_admit, self._admissions)
        except Exception as error:  # noqa: BLE001  # raised again by the thread that runs the worker
            self._broken = error
            self.stop.set()

    def _await(self, admissions: threading.Thread) -> None:
        """Waits until the admission in progress has ended."""
        while admissions.is_alive():
            try:
                admissions.join()
            except KeyboardInterrupt:
                self.stop.set()

    def _loop(self, do_next: Callable[[ContestAdmin], bool], delays: _Delays) -> None:
        """Calls `do_next` again and again; if the contest cannot be read, tries again later."""
        while not self.stop.is_set():
            try:
                with seasons.administer(self._settings.contest, self._settings.by, self._settings.clock) as admin:
                    while not self.stop.is_set():
                        admin.refresh()
                        if do_next(admin):
                            break  # read the contest file again: it may have changed meanwhile
                        if self._settings.once:
                            return
                        self.stop.wait(POLL_SECONDS)
            except SparringError as error:
                delays.put_off("contest", error)
                if self._settings.once:
                    return
                self.stop.wait(FIRST_DELAY)

    def _tick_or_admit(self, admin: ContestAdmin) -> bool:
        """Takes the actions that are due or, if there are none, admits an arrival. Returns whether it did any."""
        return self._tick(admin) or self._admit_next(admin)

    def _tick(self, admin: ContestAdmin) -> bool:
        """Takes the actions that are due now, in an unrestricted contest; returns whether there were any."""
        if (contest := self._open_unrestricted(admin)) is None:
            return False
        actions = contest.tick(admin.now())
        for action in actions:
            self._settings.on_done(CompletedWork("time", action.id, "done"))
        return bool(actions)

    def _open_unrestricted(self, admin: ContestAdmin) -> UnrestrictedContest | None:
        """Returns the contest as an unrestricted contest, None for other formats."""
        with self._unrestricted_lock:
            if self._unrestricted is None and (rules := unrestricted_rules(admin.contest)) is not None:
                self._unrestricted = UnrestrictedContest(admin.folder, rules)
            return self._unrestricted

    def _admit_next(self, admin: ContestAdmin) -> bool:
        """Admits the first arrival that is due; returns whether there was one."""
        for arrival in self._admissions.due(waiting.id for waiting in admin.season.admission_queue()):
            try:
                backend = self._admission_backend(admin)
                with arrivals.hold_arrival(admin, arrival):
                    if admin.season.arrivals[arrival].outcome:
                        continue  # another worker has admitted it
                    done = arrivals.admit_arrival(admin, arrival, backend)
            except Busy:
                self._admissions.pass_over(arrival)
                continue
            except SparringError as error:
                self._admissions.put_off(arrival, error)
                continue
            text = done.submission or "\n".join(done.problems)
            self._settings.on_done(CompletedWork("arrival", arrival, done.outcome, text))
            return True
        return False

    def _admission_backend(self, admin: ContestAdmin) -> Backend:
        """Returns the backend for trial matches. Raises UsageError if players could only run in pods."""
        options = self._settings.options
        if options.executor == KUBERNETES and not admin.contest.format.picture_formats():
            raise UsageError(
                "a worker with --engine kubernetes admits no programs: their trial match needs a container on the "
                "worker's own machine; run `sparring work` with --backend container on the same folder"
            )
        return play_rounds.ready_backend(admin.contest, admin.folder.path.resolve(), options)

    def _play_next(self, admin: ContestAdmin) -> bool:
        """Plays the first requested round that is due; returns whether there was one."""
        self._request_automatic(admin)
        for request in self._rounds.due(admin.season.round_requests):
            folder = admin.folder.path / REQUESTS / request
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with lock_folder(folder, f"another worker plays the request {request}; wait for it or end it"):
                    admin.refresh()
                    self._play(admin, request)
            except Busy:
                self._rounds.pass_over(request)
                continue
            except OSError as error:
                self._rounds.put_off(request, write_fault(folder, error))
                continue
            except InfrastructureFault as error:
                self._rounds.put_off(request, error)
                continue
            return True
        return False

    def _request_automatic(self, admin: ContestAdmin) -> None:
        """Requests the automatic rounds that were neither played nor requested yet.

        A week that was played is requested again if a defence that came later waits for its pictures (U7).
        """
        waiting: dict[str, list[str]] = {}
        if (contest := self._open_unrestricted(admin)) is not None:
            found = contest.read(State.weeks_to_ask)
            waiting = {week_round(week): defences for week, defences in found.items()}
        for task in admin.contest.file.all_tasks:
            for each in admin.contest.format.rounds(admin.season, task.name):
                is_played = (each.name, task.name) in admin.season.played_rounds
                who = tuple(waiting.get(each.name, ())) if is_played else ()
                key = (each.name, task.name, who)
                if key in self._requested or (is_played and not who) or not each.automatic or each.blocked:
                    continue
                with suppress(UsageError):  # the round is already requested: that request is played first
                    round_requests.request_round(admin, each.name, task.name)
                    self._requested.add(key)

    def _play(self, admin: ContestAdmin, request: str) -> None:
        """Plays a request that this worker has locked, and closes it.

        Raises Busy or InfrastructureFault, and then the request stays open.
        """
        season: Season = admin.season
        if (asked := season.round_requests.get(request)) is None:
            return
        try:
            season_rounds.play_round(
                admin, asked.round, self._settings.options, self._settings.watch, asked.task or None
            )
        except Busy:
            raise
        except (Rejected, UsageError) as error:
            round_requests.close_request(admin, request, "failed", str(error))
            self._settings.on_done(CompletedWork("round", request, "failed", str(error)))
            return
        round_requests.close_request(admin, request, "played")
        self._settings.on_done(CompletedWork("round", request, "played", asked.round))
