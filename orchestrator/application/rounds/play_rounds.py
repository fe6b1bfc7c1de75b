"""Plays rounds: chooses where, makes the context, and runs each task or previews it."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Any

from orchestrator import composition, plugins
from orchestrator.application.rounds import entry_images, execution_target, replay_cost, round_record
from orchestrator.application.rounds.assemble_context import assemble_context
from orchestrator.application.rounds.execution_target import ExecutionTarget, TargetSession
from orchestrator.application.rounds.replay_cost import ReplayForecast
from orchestrator.domain import events
from orchestrator.domain.access import MAX_TRANSCRIPT_BYTES, AccessKind
from orchestrator.domain.contest_format import Format, RoundOfSeason
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import Samples
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster
from orchestrator.errors import InfrastructureFault, JobsParked, UsageError
from orchestrator.execution.estimate import RunEstimate, estimate_run
from orchestrator.execution.query_steps import PICTURES_PER_STEP
from orchestrator.execution.reusable_jobs import ReusableRound
from orchestrator.execution.round_context import RoundContext
from orchestrator.execution.round_runner import EventCallback, RoundRunner
from orchestrator.intake.admission import AdmittedRoster, admit_entries
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.stores.base import GENESIS, format_time, put_array
from orchestrator.sandboxes.base import Backend, Image, ImageSource

ROUND_NAME = "round-1"
"""The name of the single round of a contest file that is played without a season."""
PROCESS = "process"
"""The default backend."""
Identify = Callable[[ImageSource], Image]
"""A function that admits a source and returns its image, such as `entry_images.admitter_with_builds` makes it."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The operator's options for playing a round."""

    backend: str | None = None
    """None: `process`; on the engine `kubernetes` it has to be None, since pods take the place of a backend."""
    slots: int | None = None
    allow_unisolated: bool = False
    executor: str = execution_target.LOCAL
    cluster: execution_target.ClusterAccess = field(default_factory=execution_target.ClusterAccess)
    """Used with the engine `kubernetes` only."""
    announce_replays: Callable[[ReplayForecast], None] = lambda _: None
    """Called with the forecast of the replays' cost before each task of a round is played."""

    @property
    def refuses_strangers(self) -> bool:
        """Whether admission refuses every stranger's program, which nothing would isolate and nobody allowed."""
        is_process = (self.backend or PROCESS) == PROCESS and self.executor != execution_target.KUBERNETES
        return is_process and not self.allow_unisolated


@dataclass(frozen=True)
class TaskRound:
    """One task of one round: its roster, the round of a season that it is, and earlier rounds to reuse."""

    contest: Contest
    task: str
    admitted: AdmittedRoster
    round: str = ROUND_NAME
    phase: str = ""
    season: Season | None = None
    reusable_rounds: tuple[ReusableRound, ...] = ()
    samples: Samples | None = None
    """The pictures that replace the task's own; None: the task's own."""

    def cells(self, roster: Roster) -> tuple[Cell, ...]:
        """Returns the cells that the format schedules for a roster."""
        where = None if self.season is None else RoundOfSeason(self.round, self.task, self.season)
        cells: tuple[Cell, ...] = self.contest.format.schedule(roster, where)
        return cells


def play_round(contest: Contest, out: Path, options: RunOptions, watch: EventCallback) -> round_record.ReportPaths:
    """Plays what is left of the single round of a contest file, and writes its results.

    Raises:
        Rejected: the contest file or a submission cannot play.
        UsageError: `out` holds something else.
        JobsParked: submissions wait for another run; all others were played, and the results were written.
        InfrastructureFault: something that every job needs failed; run again to continue.
        Cancelled: the operator ended the run; run again to continue.
    """

    def everybody(identify: Identify) -> TaskRound:
        return TaskRound(contest, contest.only_task, admit_entries(contest, identify))

    return play_single_round(contest, out, options, watch, everybody)


def play_single_round(
    contest: Contest, out: Path, options: RunOptions, watch: EventCallback, admit: Callable[[Identify], TaskRound]
) -> round_record.ReportPaths:
    """Plays what is left of a round outside a season, with the roster from `admit`. Raises like `play_round`."""
    folder = RoundFolder(out)
    with folder.create_or_undo():  # before the backend is made, since it works in this folder
        target = choose_target(contest, out, options)
        with target.acquire(folder) as session, folder.lock():
            target.backend.clean_up()
            task_round = admit(entry_images.admitter_with_builds(target.backend, folder.path))
            try:
                play_task(task_round, folder, session, options, watch)
            except JobsParked:
                round_record.write_results(folder)
                raise
            return round_record.write_results(folder)


def preview_round(contest: Contest, out: Path, options: RunOptions) -> RunEstimate:
    """Returns an estimate of what `play_round` would play; plays and writes nothing. Raises like `play_round`."""
    with tempfile.TemporaryDirectory(prefix="sparring-preview-") as workspace:
        target = choose_target(contest, Path(workspace), for_preview(options))
        task_round = TaskRound(
            contest, contest.only_task, admit_entries(contest, entry_images.admitter_without_builds(target.backend))
        )
        return preview_task(task_round, RoundFolder(out), target, Path(workspace))


def for_preview(options: RunOptions) -> RunOptions:
    """Returns options that allow backends without isolation: a preview starts no submission."""
    return options if options.executor == execution_target.KUBERNETES else replace(options, allow_unisolated=True)


def preview_task(task_round: TaskRound, folder: RoundFolder, target: ExecutionTarget, workspace: Path) -> RunEstimate:
    """Returns an estimate of what would be played of one task of one round.

    A round that is not begun yet gets a temporary folder in `workspace`.
    """
    exists = folder.exists
    round_folder = folder if exists else RoundFolder(workspace / task_round.task)
    round_folder.create()
    context = _round_context(task_round, round_folder, target.backend)
    record, head = round_record.read_round(round_folder.path) if exists else (RoundView(context.blobs), GENESIS)
    if exists:
        _require_same_round(record, task_round, context, folder.path)
    now = ReusableRound.from_view(task_round.round, head, record, context.blobs)
    slots = target.capacity(context.limits, context.access)
    return estimate_run(context, task_round.cells(context.roster), now, task_round.reusable_rounds, slots=slots)


def choose_target(contest: Contest, workspace: Path, options: RunOptions) -> ExecutionTarget:
    """Returns the place where a contest is played, after checking that it works.

    Raises:
        UsageError: there is no such engine or backend, or an option is impossible or belongs to another engine.
        InfrastructureFault: the place does not work.
    """
    plugins.load_plugin("executors", options.executor)
    _refuse_ignored_options(options)
    if options.executor == execution_target.KUBERNETES:
        from orchestrator.application.rounds.kubernetes_target import KubernetesTarget  # noqa: PLC0415  see there

        _refuse_large_gradients(contest)
        cluster = KubernetesTarget(contest, options.cluster, options.slots)
        cluster.backend.require_available(contest.file.runtime)
        return cluster
    local_target = execution_target.LocalTarget(ready_backend(contest, workspace, options), options.slots)
    local_target.capacity(contest.file.sandbox_policy().limits, contest.file.access.to_access())
    return local_target


def _refuse_large_gradients(contest: Contest) -> None:
    """Raises UsageError if the gradients of one step could be too large to pass to the next attempt's pod."""
    access, batch = contest.file.access.to_access(), contest.file.limits.perturb_batch
    if access.kind is not AccessKind.GRADIENT and not contest.format.play_rules().needs_gradients:
        return
    for name in (section.name for section in contest.file.all_tasks):
        task = contest.make_task(contest.load_samples(name), name)
        gradient = 4 * prod(task.shape)
        asked = 0
        if access.kind is AccessKind.GRADIENT:
            asked = min(batch, task.count) * (access.queries // access.gradient_price)
        if contest.format.play_rules().needs_gradients:
            most = max(attack.queries_per_picture for attack in contest.format.organizer_attacks())
            asked = max(asked, min(PICTURES_PER_STEP, task.count) * most)
        if gradient * asked > MAX_TRANSCRIPT_BYTES:
            raise UsageError(
                f"--engine kubernetes takes {MAX_TRANSCRIPT_BYTES // 1024**2} MiB of gradients from pod to pod, "
                f"and on the task {name} a step could have {gradient * asked / 1024**2:,.0f} MiB; lower "
                "`limits.perturb_batch` or `access.queries`, take `crafted_on: surrogate`, or play on this machine"
            )


def _refuse_ignored_options(options: RunOptions) -> None:
    """Raises UsageError for options that the executor would ignore: an operator who gives one relies on it."""
    if options.executor == execution_target.KUBERNETES:
        given: dict[str, object] = {
            "--backend": options.backend is not None,
            "--allow-unisolated": options.allow_unisolated,
        }
        why = "plays every submission in a pod"
    else:
        on = options.cluster
        given = {"--kubeconfig": on.kubeconfig, "--context": on.context, "--unproved-network": on.override_reason}
        why = "plays on this machine"
    if unheeded := [option for option, value in given.items() if value]:
        raise UsageError(
            f"{' and '.join(unheeded)} cannot be used: --engine {options.executor} {why}; "
            "leave that out, or give another --engine"
        )


def ready_backend(contest: Contest, workspace: Path, options: RunOptions) -> Backend:
    """Returns the backend, after checking that it works with the contest's runtime. Raises BackendUnavailable."""
    backend = composition.make_backend(
        options.backend or PROCESS,
        workspace,
        allow_unisolated=options.allow_unisolated,
        runtime=contest.file.runtime,
        gpus=contest.file.limits.gpus,
    )
    backend.require_available(contest.file.runtime, contest.file.limits.gpus)
    return backend


def play_task(
    task_round: TaskRound, folder: RoundFolder, session: TargetSession, options: RunOptions, watch: EventCallback
) -> None:
    """Plays what is left of one task of one round into a locked folder, at a place that holds the round."""
    context = session.with_devices(_round_context(task_round, folder, session.backend))
    executor = session.executor(context)
    ledger = folder.ledger()
    try:
        record = RoundView(context.blobs, (entry.event for entry in ledger.read()))
        runner = RoundRunner(context, ledger, record, _timestamp, watch)
        if record.round.opening is None:
            runner.open_round(task_round.contest.file.model_dump(mode="json"), task_round.phase)
        else:
            _require_same_round(record, task_round, context, folder.path)
            for array in (context.samples.pixels, context.samples.labels):
                put_array(context.blobs, array)  # written again in case a power cut damaged them
        runner.invalidate_damaged()
        _announce_record(record, watch)
        runner.admit_new()
        cells = task_round.cells(context.roster)
        options.announce_replays(replay_cost.forecast_replays(context, cells))
        runner.run(executor, cells, task_round.reusable_rounds, session.probe_event)
    finally:
        ledger.close()
        with suppress(InfrastructureFault):  # the engine does not answer: the next sweep ends what is left
            session.backend.clean_up(ended_run=context.run)


def _announce_record(record: RoundView, watch: EventCallback) -> None:
    """Passes the plan and the finished jobs of a continued round to `watch`, so that its progress counts them."""
    if record.round.planned_jobs:
        watch(events.PlanMade(jobs=list(record.round.planned_jobs)))
        for finished in record.round.finished_jobs.values():
            watch(finished)


def _round_context(task_round: TaskRound, folder: RoundFolder, backend: Backend) -> RoundContext:
    contest = task_round.contest
    samples = contest.load_samples(task_round.task) if task_round.samples is None else task_round.samples
    return assemble_context(
        contest.file,
        contest.format,
        round=task_round.round,
        task=contest.make_task(samples, task_round.task),
        samples=samples,
        secret=folder.secret(),
        roster=task_round.admitted.roster,
        images=task_round.admitted.images,
        picture_sets=task_round.admitted.pictures,
        backend=backend,
        # Pods list the volume's folders through caches, and may not see a pack that is new.
        blobs=folder.blobs(pack=backend.name != composition.KUBERNETES),
    )


def _require_same_round(record: RoundView, task_round: TaskRound, context: RoundContext, out: Path) -> None:
    """Raises UsageError, naming the differences, if the folder holds a round that was opened differently.

    In a season the roster may grow, and rules that only judge may change: `sparring rescore` judges again by them.
    """
    opening = record.round.opening
    if opening is None:
        return
    then = {s.id: s.digest for s in record.round.roster}
    present = {s.id: s.digest for s in context.roster}
    if task_round.phase:  # submissions that came later or left are no difference
        both = then.keys() & present.keys()
        then, present = ({name: digests[name] for name in both} for digests in (then, present))
    changes = {
        "the contest file": (
            _keys_of_play(task_round.contest.file.model_dump(mode="json"), task_round),
            _keys_of_play(opening.contest, task_round),
        ),
        f"the backend ({opening.backend} then, {context.backend.name} now)": (context.backend.name, opening.backend),
        "the pictures": (context.task.digest, opening.task.digest),
        "the submissions": (present, then),
        "the secret": (digest(context.secret), opening.commitment),
    }
    changed = [name for name, (now, before) in changes.items() if now != before]
    if changed:
        raise UsageError(
            f"the round in {out} was opened differently: changed since then: {', '.join(changed)}; "
            "put it back to go on, or give a new folder as --out"
        )


_KEYS_WITHOUT_EFFECT = frozenset({"opens", "closes", "prizes", "trial_pictures", "submissions", "title"})
"""Keys of a contest file that have no effect on what is played in a season."""


def changed_rules_of_play(contest_format: Format[Any], before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Returns the names of the rules that differ and decide what is played; both arguments include every default."""
    names = contest_format.rules_of_play
    return [f"rules.{name}" for name in names if _rule_at(before, name) != _rule_at(now, name)]


def _rule_at(rules: dict[str, Any], name: str) -> Any:
    """Returns the value of a rule of play, whose name may be a dotted path; see `Format.rules_of_play`."""
    value: Any = rules
    for key in name.split("."):
        value = value[key]
    return value


def _keys_of_play(file: dict[str, Any], task_round: TaskRound) -> dict[str, Any]:
    """Returns the keys of a contest file that decide what is played: all but `cluster`.

    In a season, also without times, submissions, other tasks, and rules that only judge.
    """
    file = {key: value for key, value in file.items() if key != "cluster"}
    if not task_round.phase or file["format"] != task_round.contest.file.format:
        return file
    left = {key: value for key, value in file.items() if key not in _KEYS_WITHOUT_EFFECT}
    contest_format = task_round.contest.format
    rules = type(contest_format.rules).model_validate(file["rules"]).model_dump(mode="json")
    tasks = [task | {"sample": None} for task in file["tasks"] if task["name"] == task_round.task]
    return left | {
        "tasks": tasks,
        "rules": {key: _rule_at(rules, key) for key in task_round.contest.format.rules_of_play},
    }


def _timestamp() -> str:
    return format_time(datetime.now(UTC))
