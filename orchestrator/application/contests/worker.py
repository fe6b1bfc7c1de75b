"""A worker: does what a contest's ledger asks for. It admits what arrived, and plays the rounds that were requested.

In an unrestricted contest it also runs what time has made necessary, such as closing a week, and requests the rounds
that follow from it.

What waits is known from the ledger alone, and each arrival and each request is held by a lock that the kernel takes
back from a killed process. So any number of workers may run on a contest, and be killed: nothing is done twice, and
nothing is lost.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from orchestrator.application.contests import arrivals, round_requests, seasons
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
from orchestrator.sandboxes.base import Backend

REQUESTS = "requests"
"""The folder of a contest with a folder for each request, which a worker holds while it plays."""
PROCESS = "process"
"""The backend of a worker that is told of none."""
POLL_SECONDS = 1.0
"""Seconds between two looks at a ledger in which nothing waits."""
FIRST_DELAY, LONGEST_DELAY = 2.0, 300.0
"""Seconds before what failed by a fault of ours is tried again: twice as many after each failure."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Done:
    """What a worker did. `what` is `arrival`, `round` or `time`, `outcome` one word, and `text` says more."""

    what: str
    id: str
    outcome: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker is told: which contest, how to play, who it is, and whether it ends where nothing waits."""

    contest: Path
    how: RunOptions
    by: str = "worker"
    once: bool = False
    clock: Clock = seasons.now
    tell: Callable[[Done], object] = lambda _: None
    watch: EventCallback = lambda _: None


@dataclass
class _Delays:
    """What failed by a fault of ours, how often, and when it is tried again. With `once` it is not."""

    once: bool
    last_fault: SparringError | None = None
    _failures: dict[str, int] = field(default_factory=dict)
    _until: dict[str, float] = field(default_factory=dict)

    def due(self, ids: Iterable[str]) -> list[str]:
        """Returns what may be tried now."""
        now = time.monotonic()
        return [each for each in ids if each not in self._until or (not self.once and now >= self._until[each])]

    def put_off(self, id_: str, fault: SparringError) -> None:
        """Notes a failure."""
        self.last_fault = fault
        count = self._failures[id_] = self._failures.get(id_, 0) + 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (count - 1))
        self._until[id_] = time.monotonic() + delay
        _log.warning("work_put_off", what=id_, failures=count, seconds=delay, reason=str(fault))

    def pass_over(self, id_: str) -> None:
        """Leaves to another worker what that one is at."""
        self._until[id_] = time.monotonic() + POLL_SECONDS


def require_isolation(contest: Contest, how: RunOptions) -> None:
    """Raises UsageError where every program would be refused, because nothing here isolates it.

    Its authors would be told of a fault that is the organizers'.
    """
    is_process = (how.backend or PROCESS) == PROCESS and how.executor != KUBERNETES
    if is_process and not how.allow_unisolated and not contest.format.picture_formats():
        raise UsageError(
            "teams are strangers, and the process backend does not isolate players: give --backend container, "
            "or --allow-unisolated if you trust everybody who may hand in"
        )


class Worker:
    """Works until `stop` is set, or, once, until nothing waits.

    Two threads have a ledger each, so that what arrives is admitted while a round is played.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.stop = threading.Event()
        self._broken: Exception | None = None
        self._weeks: UnrestrictedContest | None = None
        """What becomes due by time, None until it is asked for, and in other formats."""
        self._weeks_lock = threading.Lock()
        self._requested: set[tuple[str, str, tuple[str, ...]]] = set()
        """Rounds, by name, task and who waits in one that was played, that it requested: one that failed waits for
        somebody who looks at it."""
        self._admissions, self._rounds = _Delays(work.once), _Delays(work.once)

    def run(self) -> None:
        """Works; KeyboardInterrupt ends it after the step in hand.

        Raises:
            UsageError, StoreFault, Rejected: there is no such contest, or it cannot be read.
            SparringError: once, and something was left for a fault of ours.
        """
        with seasons.administer(self._work.contest, self._work.by, self._work.clock) as admin:
            require_isolation(admin.contest, self._work.how)
            arrivals.sweep(admin)
        try:
            self._run()
        finally:
            if self._weeks is not None:
                self._weeks.close()

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
        if self._work.once:
            self._loop(self._play_next, self._rounds)  # what the other thread made necessary at last
        for delays in (self._admissions, self._rounds):
            if self._work.once and delays.last_fault is not None:
                raise delays.last_fault

    def _run_admissions(self) -> None:
        """Admits; what nobody expected ends the worker, so that somebody sees it."""
        try:
            self._loop(self._tick_or_admit, self._admissions)
        except Exception as error:  # noqa: BLE001  # raised again by the thread that runs the worker
            self._broken = error
            self.stop.set()

    def _await(self, admissions: threading.Thread) -> None:
        """Waits until the admission in hand has ended."""
        while admissions.is_alive():
            try:
                admissions.join()
            except KeyboardInterrupt:
                self.stop.set()

    def _loop(self, do_next: Callable[[ContestAdmin], bool], delays: _Delays) -> None:
        """Does one thing after the other; a contest that cannot be read for the moment is read again later."""
        while not self.stop.is_set():
            try:
                with seasons.administer(self._work.contest, self._work.by, self._work.clock) as admin:
                    while not self.stop.is_set():
                        admin.refresh()
                        if do_next(admin):
                            break  # the contest file may be another meanwhile
                        if self._work.once:
                            return
                        self.stop.wait(POLL_SECONDS)
            except SparringError as error:
                delays.put_off("contest", error)
                if self._work.once:
                    return
                self.stop.wait(FIRST_DELAY)

    def _tick_or_admit(self, admin: ContestAdmin) -> bool:
        """Runs what is due, and then admits the first of what arrived; returns whether there was something."""
        return self._tick(admin) or self._admit_next(admin)

    def _tick(self, admin: ContestAdmin) -> bool:
        """Runs what time has made necessary, in formats that have such; returns whether there was something."""
        if (weeks := self._open_weeks(admin)) is None:
            return False
        actions = weeks.tick(admin.now())
        for action in actions:
            self._work.tell(Done("time", action.id, "done"))
        return bool(actions)

    def _open_weeks(self, admin: ContestAdmin) -> UnrestrictedContest | None:
        """Returns the contest where it is one of weeks, None in other formats."""
        with self._weeks_lock:
            if self._weeks is None and (rules := unrestricted_rules(admin.contest)) is not None:
                self._weeks = UnrestrictedContest(admin.folder, rules)
            return self._weeks

    def _admit_next(self, admin: ContestAdmin) -> bool:
        """Admits the first of what arrived; returns whether there was something."""
        for arrival in self._admissions.due(admin.season.pending_arrivals):
            try:
                backend = self._admission_backend(admin)
                with arrivals.hold_arrival(admin, arrival):
                    if admin.season.arrivals[arrival].outcome:
                        continue  # another worker was there
                    done = arrivals.admit_held_arrival(admin, arrival, backend)
            except Busy:
                self._admissions.pass_over(arrival)
                continue
            except SparringError as error:
                self._admissions.put_off(arrival, error)
                continue
            text = done.submission or "\n".join(done.problems)
            self._work.tell(Done("arrival", arrival, done.outcome, text))
            return True
        return False

    def _admission_backend(self, admin: ContestAdmin) -> Backend:
        """Returns what trial matches are played with. Raises UsageError where pods are all that is here for players."""
        how = self._work.how
        if how.executor == KUBERNETES and not admin.contest.format.picture_formats():
            raise UsageError(
                "a worker with --engine kubernetes admits no programs: their trial match needs a container on the "
                "worker's own machine; run `sparring work` with --backend container on the same folder"
            )
        return play_rounds.ready_backend(admin.contest, admin.folder.path.resolve(), how)

    def _play_next(self, admin: ContestAdmin) -> bool:
        """Plays the first round that was requested; returns whether there was one."""
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
        """Requests every round that is played without being asked for, and that nobody played or requested.

        A week that was played is played again where a defence waits for its pictures: one that came later (U7).
        """
        waiting: dict[str, list[str]] = {}
        if (weeks := self._open_weeks(admin)) is not None:
            found = weeks.read(State.weeks_to_ask)
            waiting = {week_round(week): defences for week, defences in found.items()}
        for task in admin.contest.file.all_tasks:
            for each in admin.contest.format.rounds(admin.season, task.name):
                is_played = (each.name, task.name) in admin.season.played_rounds
                who = tuple(waiting.get(each.name, ())) if is_played else ()
                key = (each.name, task.name, who)
                if key in self._requested or (is_played and not who) or not each.automatic or each.blocked:
                    continue
                with suppress(UsageError):  # somebody requested it: that one is played first
                    round_requests.request_round(admin, each.name, task.name)
                    self._requested.add(key)

    def _play(self, admin: ContestAdmin, request: str) -> None:
        """Plays a request that this worker holds, and closes it. Raises Busy, InfrastructureFault: it stays open."""
        season: Season = admin.season
        if (asked := season.round_requests.get(request)) is None:
            return
        try:
            seasons.play_round(admin, asked.round, self._work.how, self._work.watch, asked.task or None)
        except Busy:
            raise
        except (Rejected, UsageError) as error:
            round_requests.close_request(admin, request, "failed", str(error))
            self._work.tell(Done("round", request, "failed", str(error)))
            return
        round_requests.close_request(admin, request, "played")
        self._work.tell(Done("round", request, "played", asked.round))
