"""Plays the rounds of a contest that runs over weeks."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from orchestrator.application.contests import rescoring, seasons
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.rounds import entry_images, play_rounds, round_record
from orchestrator.application.rounds.play_rounds import RunOptions, TaskRound
from orchestrator.domain import contest_events
from orchestrator.domain.contest_format import RoundPlan, SeasonRound
from orchestrator.domain.samples import Samples
from orchestrator.domain.season import Entry
from orchestrator.domain.submissions import Roster, Submission
from orchestrator.domain.text import shell_word
from orchestrator.errors import JobsParked, Problem, Rejected, StoreFault, UsageError
from orchestrator.execution.estimate import RunEstimate
from orchestrator.execution.reusable_jobs import ReusableRound
from orchestrator.execution.round_runner import EventCallback
from orchestrator.intake import admission, manifest
from orchestrator.intake.admission import AdmittedRoster
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.stores.base import get_array
from orchestrator.logs import get_logger
from orchestrator.oci.image_names import received_image_name
from orchestrator.sandboxes.base import Backend, Image, ImageSource
from orchestrator.scoring.results_file import Results

_log = get_logger()


def play_round(
    admin: ContestAdmin, phase: str, options: RunOptions, watch: EventCallback, only: str | None = None
) -> list[Results]:
    """Plays what is left of a round on every task, or on the task `only`; writes results and records complete rounds.

    Raises:
        UsageError: contest.yaml has other rules than those in force, there is no such round yet, or nothing isolates
            the programs of strangers.
        JobsParked: submissions wait for another run; all others were played on every task, and results were written.
    """
    _check_rules(admin)
    tasks = seasons.task_names(admin.contest, only)
    for task in tasks:
        _require_round(admin, phase, task)
    _require_isolation(admin, options, tasks)
    target = play_rounds.choose_target(admin.contest, admin.folder.path.resolve(), options)
    target.backend.clean_up()
    results_by_task = []
    parked: list[str] = []
    for task in tasks:
        ready = task_round(admin, phase, task, target.backend)
        folder = admin.folder.round(phase, task)
        folder.create()
        with target.acquire(folder) as session, folder.lock():
            try:
                play_rounds.play_task(ready, folder, session, options, watch)
            except JobsParked as fault:
                parked.append(f"{task}: {fault}")
            results = round_record.write_results(folder).results
            with admin.alone():
                known = admin.season.played_rounds.get((phase, task))
                if results.complete and (known is None or known.head != results.ledger):
                    admin.append_event(
                        contest_events.RoundPlayed(actor=admin.actor, round=phase, task=task, head=results.ledger)
                    )
                if results.complete:
                    _record_outcome(admin, phase, folder)
            results_by_task.append(results)
    if parked:
        raise JobsParked("\n".join(parked))
    return results_by_task


def _check_rules(admin: ContestAdmin) -> None:
    """Raises UsageError if contest.yaml has other rules than those by which the played rounds were judged."""
    if changed := rescoring.changed_rules(admin):
        names = ", ".join(f"rules.{name}" for name in changed)
        raise UsageError(
            f"{names} in {admin.contest.path} changed since the contest was judged; "
            f"see `sparring rescore {shell_word(admin.folder.path)}`, then apply the change or put it back"
        )


def _require_isolation(admin: ContestAdmin, options: RunOptions, tasks: Sequence[str]) -> None:
    """Raises UsageError if received programs would all be refused, so that only the baselines would be played."""
    entries = [entry for task in tasks for entry in admin.season.entries_of_task(task)]
    strangers = [entry for entry in entries if entry.is_active and not entry.pixels]
    if strangers and options.refuses_strangers:
        many = len(strangers) > 1
        are = (
            f"{len(strangers)} submissions are strangers' programs" if many else "a submission is a stranger's program"
        )
        raise UsageError(
            f"{are}, and the process backend does not isolate players: give --backend container, or "
            f"--allow-unisolated if you trust {'their authors' if many else 'its author'}"
        )


def _record_outcome(admin: ContestAdmin, phase: str, folder: RoundFolder) -> None:
    """Appends the format's events about a complete round, except those already in the ledger. Raises Rejected."""
    if (fold := admin.ledger_fold()) is None:
        return
    record, _ = round_record.read_round(folder.path)
    observed = round_record.score_round(record, folder.path).observations()
    for event in fold.round_events(phase, observed, admin.actor):
        fold.apply(event, datetime.fromisoformat(admin.append_event(event)))


def preview_round(admin: ContestAdmin, phase: str, options: RunOptions, only: str | None = None) -> list[RunEstimate]:
    """Returns what `play_round` would play now, without playing or writing anything. Raises like `play_round`."""
    _check_rules(admin)
    with tempfile.TemporaryDirectory(prefix="sparring-preview-") as workspace:
        target = play_rounds.choose_target(admin.contest, Path(workspace), play_rounds.for_preview(options))
        estimates = []
        for task in seasons.task_names(admin.contest, only):
            ready = task_round(admin, phase, task, target.backend, dry_run=True)
            folder = admin.folder.round(phase, task)
            estimates.append(play_rounds.preview_task(ready, folder, target, Path(workspace)))
        return estimates


def latest_results(admin: ContestAdmin, phase: str | None = None, only: str | None = None) -> list[Results]:
    """Returns the results of the round `phase` of each task, or of each task's latest round without it.

    Raises UsageError if that round was not played.
    """
    results = []
    for task in seasons.task_names(admin.contest, only):
        names = seasons.round_names(admin.contest, admin.season)
        played_names = [name for name in names if admin.folder.round(name, task).exists]
        if phase is not None and phase not in played_names:
            known = ", ".join(played_names) or "none yet"
            raise UsageError(f"the round {phase!r} of {task} was not played; the rounds that were: {known}")
        results += [
            round_record.compute_results(admin.folder.round(phase or name, task).path) for name in played_names[-1:]
        ]
    return results


def task_round(admin: ContestAdmin, phase: str, task: str, backend: Backend, *, dry_run: bool = False) -> TaskRound:
    """Returns one task of a round, ready to be played. With `dry_run` no image is built for it.

    Raises:
        UsageError: the format has no such round, or it cannot be played yet, for example before the promotion.
        Rejected: a submission cannot play any more, or the format objects to the roster.
    """
    contest = admin.contest
    _require_round(admin, phase, task)
    identify = (
        entry_images.admitter_without_builds(backend)
        if dry_run
        else entry_images.admitter_with_builds(backend, admin.folder.path)
    )
    fold = admin.ledger_fold()
    plan = None if fold is None else fold.round_plan(phase)
    if plan is not None and not plan.players:
        raise UsageError(f"nobody plays the round {phase!r}; see `sparring board {shell_word(admin.folder.path)}`")
    admitted = _admit_players(admin, phase, task, backend, identify, None if plan is None else plan.players)
    return TaskRound(
        contest,
        task,
        admitted,
        round=phase,
        phase=phase,
        season=admin.season,
        reusable_rounds=tuple(_reusable_rounds(admin, phase, task)),
        samples=None if plan is None else _planned_samples(admin, task, plan),
    )


def _require_round(admin: ContestAdmin, phase: str, task: str) -> None:
    """Raises UsageError if the format has no such round, or it cannot be played yet."""
    contest = admin.contest
    rounds: dict[str, SeasonRound] = {each.name: each for each in contest.format.rounds(admin.season, task)}
    if phase not in rounds:
        raise UsageError(
            f"the format {contest.file.format} has no round {phase!r}; it has {', '.join(rounds) or 'none yet'}"
        )
    if blocked := rounds[phase].blocked:
        remedy = "run `sparring round promote` first" if contest.format.promotes_from else "see `sparring board`"
        raise UsageError(f"the round {phase!r} cannot be played: {blocked}; {remedy}")


def _planned_samples(admin: ContestAdmin, task: str, plan: RoundPlan) -> Samples:
    """Returns the pictures of a round for which the format's plan names the pictures.

    These are the task's pictures if the plan includes them, and then the plan's own pictures from the contest's blobs,
    with label 0. Raises StoreFault if a blob is missing or has another shape.
    """
    own = admin.contest.load_samples(task)
    first = own if plan.task_pictures else own.first(0)
    kept = {each: get_array(admin.folder.blobs(), each) for each in dict.fromkeys(plan.pictures)}
    if strange := [each for each, pixels in kept.items() if pixels.shape != own.shape or pixels.dtype != np.uint8]:
        raise StoreFault(
            f"the picture {strange[0]} has another shape than those of the task {task}; put its blob back from a copy, "
            "or the task's dataset as it was"
        )
    pixels = np.concatenate([first.pixels, *(kept[each][np.newaxis] for each in plan.pictures)])
    return Samples(pixels, np.concatenate([first.labels, np.zeros(len(plan.pictures), np.int64)]), own.classes)


def _reusable_rounds(admin: ContestAdmin, phase: str, task: str) -> Iterator[ReusableRound]:
    """Yields the played rounds before `phase`, the latest first."""
    names = seasons.round_names(admin.contest, admin.season)
    for name in reversed(names[: names.index(phase)]):
        folder = admin.folder.round(name, task)
        if folder.exists:
            record, head = round_record.read_round(folder.path)
            yield ReusableRound.from_view(name, head, record, folder.blobs())


def _admit_players(
    admin: ContestAdmin,
    phase: str,
    task: str,
    backend: Backend,
    identify: Callable[[ImageSource], Image],
    only: Sequence[str] | None = None,
) -> AdmittedRoster:
    """Returns the baselines and the task's active submissions, with the digests that were received.

    `only` are the ids of the submissions that the format's plan names; None: all. Raises Rejected with all problems.
    """
    contest = admin.contest
    baselines = admission.admit_entries(contest, identify, complete=False)
    images, pictures = dict(baselines.images), dict(baselines.pictures)
    problems, submissions = [], list(baselines.roster)
    for entry in admin.season.entries_of_task(task):
        if not entry.is_active or (only is not None and entry.id not in only):
            continue
        if entry.id in images.keys() | baselines.pictures.keys():
            problems.append(Problem(entry.id, "a baseline has this name now", "give the baseline another `name:`"))
        if entry.pixels:
            pictures[entry.id] = get_array(admin.folder.blobs(), entry.pixels)
            submissions.append(submission_of(entry))
            continue
        if entry.folder and backend.name != "process":
            mismatch = f"its folder was received, and {backend.name} starts images"
            problems.append(Problem(entry.id, mismatch, "have it submitted again with --backend docker"))
            continue
        image = _admit_received(admin, entry, backend)
        if image.digest != entry.digest:
            mismatch = f"what was received is {entry.digest}, what is here now is {image.digest}"
            problems.append(Problem(entry.id, mismatch, "play on the backend it was submitted for, or submit it again"))
        submissions.append(submission_of(entry))
        images[entry.id] = replace(image, digest=entry.digest, name=entry.name)
    if problems:
        raise Rejected(f"round of {task}", problems)
    roster = Roster(tuple(submissions))
    admission.require_playable(contest, roster, phase)
    return AdmittedRoster(roster, images, pictures)


def _admit_received(admin: ContestAdmin, entry: Entry, backend: Backend) -> Image:
    """Returns the image that is started for a received submission.

    If admission refuses it now, because its image is gone or a rule of admission is new, it is played nevertheless: a
    failure in play concerns only this submission, while a refusal here would stop the round for everybody.
    """
    try:
        return backend.admit(_source(admin, entry))
    except Rejected as error:
        _log.warning("received_and_refused", submission=entry.id, reason=str(error))
        return Image(entry.digest, entry.image)


def _source(admin: ContestAdmin, entry: Entry) -> ImageSource:
    if not entry.folder:
        return ImageSource(
            image=entry.digest, registry_name=received_image_name(admin.contest.file.contest, entry.id, entry.digest)
        )
    folder = admin.folder.path.resolve() / entry.folder
    return ImageSource(folder=folder, command=tuple(manifest.read_manifest(folder).command))


def submission_of(entry: Entry) -> Submission:
    """Returns an entry as a submission of a round's roster."""
    return Submission(
        id=entry.id,
        name=entry.name,
        team=entry.team,
        side=entry.side,
        digest=entry.digest,
        image=entry.image,
        submitted=entry.received_at,
        pixels=entry.pixels,
        decoder=entry.decoder,
    )
