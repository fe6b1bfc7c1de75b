"""A contest over weeks: opened, played round by round, promoted."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from orchestrator import __version__, resources
from orchestrator.application.contests import report_writer
from orchestrator.application.contests.administration import Clock, ContestAdmin
from orchestrator.application.rounds import entry_images, play_rounds
from orchestrator.application.rounds.play_rounds import RunOptions, TaskRound
from orchestrator.domain import contest_events, events
from orchestrator.domain.season import Entry
from orchestrator.domain.submissions import Roster, Submission
from orchestrator.errors import JobsParked, Problem, Rejected, StoreFault, UsageError
from orchestrator.execution.estimate import RunEstimate
from orchestrator.execution.reuse import ReusableRound
from orchestrator.execution.round_runner import EventCallback
from orchestrator.formats.base import Promotion
from orchestrator.intake import admission, manifest
from orchestrator.intake.admission import AdmittedRoster
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import CONTEST_LEDGER
from orchestrator.oci.image_names import received_image_name
from orchestrator.sandboxes.base import Backend, Image, ImageSource
from orchestrator.scoring.results_file import Results

TEMPLATES = ("tournament",)
_log = structlog.get_logger()
ORGANIZER = "organizer"
"""Who acts where nobody is named."""


def now() -> datetime:
    """Returns the time of day in UTC."""
    return datetime.now(UTC)


def actor_name(by: str | None) -> str:
    """Returns who acts, for the ledger: the organizer, unless somebody is named. Raises UsageError.

    A bundle shows it to everybody, so nobody's user name is taken unasked.
    """
    who = by or ORGANIZER
    if len(who) > contest_events.ACTOR_LIMIT:
        raise UsageError(
            f"{who[:80]!r} is too long a name: {len(who)} characters, at most {contest_events.ACTOR_LIMIT}"
        )
    return who


def create_contest(
    path: Path, template: str, by: str | None = None, clock: Clock = now, *, database: str | None = None
) -> ContestFolder:
    """Makes a contest folder with a commented contest file that runs as it is, and opens its ledger.

    Raises:
        UsageError: there is no such template, or the folder is not empty.
    """
    if template not in TEMPLATES:
        raise UsageError(f"there is no template {template!r}; there is {', '.join(TEMPLATES)}")
    folder = ContestFolder(path)
    folder.create()
    text = resources.resource_path("examples", "templates", f"{template}.yaml").read_text("utf-8")
    folder.file.write_text(text, "utf-8")
    open_contest(path, by, clock, database=database)
    return folder


def open_contest(
    path: Path, by: str | None = None, clock: Clock = now, *, database: str | None = None
) -> ContestFolder:
    """Opens the ledger and draws the key of the contest whose file lies in a folder.

    Args:
        path: the folder.
        by: who acts.
        clock: tells the time.
        database: where the ledger is kept, as a URL of PostgreSQL; None: in the folder.

    Raises:
        Rejected: the contest file cannot be read.
        UsageError: the folder or the database holds a contest already, or the format has no rounds of a season.
        StoreFault: the database cannot be reached.
    """
    folder, who = ContestFolder(path), actor_name(by)
    contest = Contest(folder.file)
    if not contest.format.phases:
        raise UsageError(f"the format {contest.file.format} has no rounds of a season; play it with --out")
    if database is not None:
        if folder.exists:
            raise UsageError(f"{path} holds a contest already; give another folder")
        folder.use_database(database, contest.file.contest)
    ledger = folder.ledger()
    try:
        if next(iter(ledger.read()), None) is not None:
            raise UsageError(f"{path} holds a contest already; give another folder")
        folder.keep_private()
        opened = contest_events.ContestOpened(
            by=who,
            contest=contest.file.model_dump(mode="json"),
            key=folder.draw_key().fingerprint,
            software=__version__,
        )
        ledger.append(opened, time=clock().astimezone(UTC).isoformat(timespec="milliseconds"))
    finally:
        ledger.close()
    return folder


def season_phases(contest: Contest) -> tuple[str, ...]:
    """Returns the rounds of the season that a contest file describes: none where no contest was opened with it."""
    folder = ContestFolder(contest.folder)
    found: tuple[str, ...] = contest.format.phases
    return found if folder.exists and contest.path.name == folder.file.name else ()


@contextmanager
def administer(path: Path, by: str | None = None, clock: Clock = now) -> Iterator[ContestAdmin]:
    """Gives the desk of a contest; afterwards what its acts changed is written again. Others may be at it meanwhile.

    Raises UsageError, Rejected, StoreFault.
    """
    folder = ContestFolder(path)
    folder.require()
    ledger = folder.ledger()
    try:
        desk = ContestAdmin(folder, ledger, Contest(folder.file), clock, actor_name(by))
        if desk.season.opened is None:
            raise StoreFault(
                f"{path}/{CONTEST_LEDGER} holds no contest: it is damaged, or its opening was killed; put it back "
                f"from a copy of the folder, or, where nothing was submitted yet, `sparring contest open {path}`"
            )
        with suppress(StoreFault):  # no key, or no space: the next command tries again
            desk.mend_receipts()
        _try_to_update_reports(desk)
        try:
            yield desk
        except BaseException:
            _try_to_update_reports(desk)
            raise
        report_writer.update_reports(desk)
    finally:
        ledger.close()


def _try_to_update_reports(desk: ContestAdmin) -> None:
    with suppress(StoreFault):  # the next command tries again, and `sparring report` says why
        report_writer.update_reports(desk)


def task_names(desk: ContestAdmin, only: str | None = None) -> list[str]:
    """Returns the names of the contest's tasks, or the one that was asked for. Raises UsageError."""
    names = [task.name for task in desk.contest.file.every_task]
    if only is not None and only not in names:
        raise UsageError(f"there is no task {only!r}; there is {', '.join(names)}")
    return names if only is None else [only]


def task_round(desk: ContestAdmin, phase: str, task: str, backend: Backend, *, foretold: bool = False) -> TaskRound:
    """Returns one task of a round, ready to be played; `foretold`: to look at only, so that nothing is built for it.

    Raises:
        UsageError: the format has no such round, or nobody was promoted to it yet.
        Rejected: a submission cannot play any more, or the format objects to who is there.
    """
    contest, season = desk.contest, desk.season
    phases = contest.format.phases
    if phase not in phases:
        raise UsageError(f"the format {contest.file.format} has no round {phase!r}; it has {', '.join(phases)}")
    finalists = season.finalists.get(task)
    if phase != phases[0] and finalists is None:
        raise UsageError(f"nobody was promoted on {task} yet; run `sparring round promote` first")
    identify = (
        entry_images.admitter_without_builds(backend)
        if foretold
        else entry_images.admitter_with_builds(backend, desk.folder.path)
    )
    admitted = _admit_players(desk, phase, task, backend, identify)
    return TaskRound(
        contest,
        task,
        admitted,
        round=phase,
        phase=phase,
        finalists=finalists.everybody if finalists else frozenset(),
        earlier=tuple(_reusable_rounds(desk, phase, task)),
    )


def play_round(
    desk: ContestAdmin, phase: str, how: RunOptions, watch: EventCallback, only: str | None = None
) -> list[Results]:
    """Plays a round of every task, or of one, or what is left of it; writes its results and notes its end.

    Raises:
        UsageError: contest.yaml has other rules than those in force, or there is no such round yet.
        Parked: submissions wait for another run; everybody else was played on every task, and results were written.
    """
    _check_rules(desk)
    host = play_rounds.choose_target(desk.contest, desk.folder.path.resolve(), how)
    host.backend.sweep()
    played = []
    parked: list[str] = []
    for task in task_names(desk, only):
        one = task_round(desk, phase, task, host.backend)
        folder = desk.folder.round(phase, task)
        folder.create()
        with host.alone(folder) as place, folder.locked():
            try:
                play_rounds.play_task(one, folder, place, how, watch)
            except JobsParked as fault:
                parked.append(f"{task}: {fault}")
            results = play_rounds.write_results(folder).results
            with desk.alone():
                known = desk.season.rounds.get((phase, task))
                if results.complete and (known is None or known.head != results.ledger):
                    desk.act(contest_events.RoundPlayed(by=desk.by, round=phase, task=task, head=results.ledger))
            played.append(results)
    if parked:
        raise JobsParked("\n".join(parked))
    return played


def preview_round(desk: ContestAdmin, phase: str, how: RunOptions, only: str | None = None) -> list[RunEstimate]:
    """Returns what `play` would play now, without playing or writing anything. Raises like `play`."""
    _check_rules(desk)
    with tempfile.TemporaryDirectory(prefix="sparring-preview-") as workspace:
        host = play_rounds.choose_target(desk.contest, Path(workspace), how)
        found = []
        for task in task_names(desk, only):
            one, folder = task_round(desk, phase, task, host.backend, foretold=True), desk.folder.round(phase, task)
            found.append(play_rounds.preview_task(one, folder, host, Path(workspace)))
        return found


def promote(desk: ContestAdmin, only: str | None = None, reason: str = "") -> dict[str, Promotion]:
    """Notes who goes on from the first round (rules A4, A11, A12, A16): on all tasks, or on none.

    Raises:
        UsageError: it is not complete, or the next one was begun with who went on then and no `reason` is given.
    """
    later = desk.contest.format.phases[1:]
    begun = [(name, task) for task in task_names(desk, only) for name in later if desk.folder.round(name, task).exists]
    if begun and not reason:
        raise UsageError(
            f"the {begun[0][0]} round of {begun[0][1]} was begun with those who went on; "
            "to promote again and then play what is new, give --reason"
        )
    with desk.alone():  # nobody withdraws, and no round goes on, between the boards and what is noted of them
        promoted = {task: _promotion(desk, task) for task in task_names(desk, only)}
        for task, promotion in promoted.items():
            desk.act(
                contest_events.FinalistsPromoted(
                    by=desk.by,
                    task=task,
                    attacks=list(promotion.attacks),
                    defences=list(promotion.defences),
                    not_standing=dict(promotion.not_standing),
                    reason=reason,
                )
            )
    return promoted


def _promotion(desk: ContestAdmin, task: str) -> Promotion:
    """Returns who goes on from the first round of a task.

    Raises:
        UsageError: it was not played, is not the one whose end was noted, or somebody came after it was played.
        Rejected: a baseline that promotion is measured with failed on every picture.
    """
    first = desk.contest.format.phases[0]
    path, known = _played_folder(desk, first, task), desk.season.rounds.get((first, task))
    record, head = play_rounds.read_round(path)
    again = f"run `sparring round run {desk.folder.path} {first}`"
    if not record.round.closed or known is None or known.head != head:
        raise UsageError(f"the round {first} of {task} is not finished; {again} to go on")
    there = {submission.id for submission in record.round.roster}
    late = [entry.id for entry in desk.season.of_task(task) if entry.plays and entry.id not in there]
    if late:
        raise UsageError(
            f"{', '.join(late)} came after the round {first} of {task} was played; {again}: only what is new is played"
        )
    judged = play_rounds.score_round(record, path)
    if alarms := judged.alarms():
        raise Rejected(f"round {first} of {task}", [Problem("baseline", alarm) for alarm in alarms])
    return judged.promoted()


def latest_results(desk: ContestAdmin, phase: str | None = None, only: str | None = None) -> list[Results]:
    """Returns the results of what was played, the latest round of each task unless one is named."""
    found = []
    for task in task_names(desk, only):
        played = [name for name in desk.contest.format.phases if desk.folder.round(name, task).exists]
        if phase is not None and phase not in played:
            raise UsageError(f"the round {phase!r} of {task} was not played")
        found += [play_rounds.round_results(desk.folder.round(phase or name, task).path) for name in played[-1:]]
    return found


def opened_rounds(desk: ContestAdmin) -> Iterator[tuple[events.RoundOpened, Roster]]:
    """Yields how each played round was opened, and who plays in it."""
    for folder in desk.played():
        record, _ = play_rounds.read_round(folder.path)
        if record.round.opened is not None:
            yield record.round.opened, record.round.roster


def complete_rules(desk: ContestAdmin, rules: dict[str, Any]) -> dict[str, Any]:
    """Returns rules with every default that their file left out."""
    kind = type(desk.contest.format.rules)
    whole: dict[str, Any] = kind.model_validate(rules).model_dump(mode="json")
    return whole


def _check_rules(desk: ContestAdmin) -> None:
    """Raises UsageError where contest.yaml has other rules than those that judged what was played."""
    judged = desk.season.rules or next((opened.contest["rules"] for opened, _ in opened_rounds(desk)), None)
    now = desk.contest.format.rules.model_dump(mode="json")
    before = now if judged is None else complete_rules(desk, judged)
    changed = [f"rules.{name}" for name in now if now[name] != before[name]]
    if changed:
        raise UsageError(
            f"{', '.join(changed)} in {desk.contest.path} changed since the contest was judged; "
            f"see `sparring rejudge {desk.folder.path}`, then apply the change or put it back"
        )


def _played_folder(desk: ContestAdmin, phase: str, task: str) -> Path:
    folder = desk.folder.round(phase, task)
    if not folder.exists:
        raise UsageError(
            f"the round {phase} of {task} was not played; run `sparring round run {desk.folder.path} {phase}`"
        )
    return folder.path


def _admit_players(
    desk: ContestAdmin, phase: str, task: str, backend: Backend, identify: Callable[[ImageSource], Image]
) -> AdmittedRoster:
    """Returns the baselines, and every submission of a task that still plays, as they were when they were received."""
    contest = desk.contest
    baselines = admission.admit_entries(contest, identify, complete=False)
    images = dict(baselines.images)
    problems, submissions = [], list(baselines.roster)
    for entry in desk.season.of_task(task):
        if not entry.plays:
            continue
        if entry.folder and backend.name != "process":
            what = f"its folder was received, and {backend.name} starts images"
            problems.append(Problem(entry.id, what, "have it submitted again with --backend docker"))
            continue
        image = _admit_received(desk, entry, backend)
        if entry.id in images:
            problems.append(Problem(entry.id, "a baseline has this name now", "give the baseline another `name:`"))
        if image.digest != entry.digest:
            what = f"what was received is {entry.digest}, what is here now is {image.digest}"
            problems.append(Problem(entry.id, what, "play on the backend it was submitted for, or submit it again"))
        submissions.append(_submission(entry))
        images[entry.id] = replace(image, digest=entry.digest, name=entry.name)
    if problems:
        raise Rejected(f"round of {task}", problems)
    roster = Roster(tuple(submissions))
    admission.require_playable(contest, roster, phase)
    return AdmittedRoster(roster, images)


def _admit_received(desk: ContestAdmin, entry: Entry, backend: Backend) -> Image:
    """Returns what is started for a submission that was received.

    One that is refused now, because its image is gone or rules of admission are new, is started all the same: whether
    it can be settled is found in play, where it ends no round for others.
    """
    try:
        return backend.admit(_source(desk, entry))
    except Rejected as error:
        _log.warning("received_and_refused", submission=entry.id, reason=str(error))
        return Image(entry.digest, entry.image)


def _submission(entry: Entry) -> Submission:
    return Submission(
        id=entry.id,
        name=entry.name,
        team=entry.team,
        side=entry.side,
        digest=entry.digest,
        image=entry.image,
        submitted=entry.time,
    )


def _source(desk: ContestAdmin, entry: Entry) -> ImageSource:
    if not entry.folder:
        return ImageSource(
            image=entry.digest, shelf=received_image_name(desk.contest.file.contest, entry.id, entry.digest)
        )
    kept = desk.folder.path.resolve() / entry.folder
    return ImageSource(folder=kept, command=tuple(manifest.read_manifest(kept).command))


def _reusable_rounds(desk: ContestAdmin, phase: str, task: str) -> Iterator[ReusableRound]:
    """Yields the rounds before this one, the latest first."""
    phases = desk.contest.format.phases
    for name in reversed(phases[: phases.index(phase)]):
        folder = desk.folder.round(name, task)
        if folder.exists:
            record, head = play_rounds.read_round(folder.path)
            yield ReusableRound.of(name, head, record, folder.blobs())
