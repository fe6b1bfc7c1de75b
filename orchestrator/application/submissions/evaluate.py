"""Computes a defence's row of a warm-up on its authors' machine with the code of the organizers' rounds (rule B7).

The contest is played as a round with this one defence, on the task's public pictures if it has any. Planner, query
jobs, sandboxes, replays and scoring are those of every round.
"""

from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.application.rounds.play_rounds import Identify, RunOptions, TaskRound
from orchestrator.domain import events
from orchestrator.domain.organizer_attacks import OrganizerAttack
from orchestrator.domain.plan import Stage
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.execution.query_steps import PICTURES_PER_STEP
from orchestrator.execution.round_runner import EventCallback
from orchestrator.formats.warmup.coverage import CoverageReading
from orchestrator.intake import admission, manifest
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.stores.base import Blobs, get_array
from orchestrator.scoring import fault_texts
from orchestrator.scoring.results_file import ColumnPart, FaultPart, LeaderboardPart, Results, RowPart

FORMAT = "warmup"
"""The only format that has such a row."""
MANY_PICTURES = 20
"""On fewer pictures, the number of distinct scores says little."""
ACCURACY_UNIT = "percent"
"""The unit of the columns that depend on the reading of rule B3."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation to play: a defence's folder, by the rules of a contest, on pictures of one of its tasks.

    Attributes:
        contest: the contest without its baselines and submissions.
        task: the name of the task.
        folder: the folder with the defence's submission.yaml.
        name: the defence's name.
        samples: the pictures that are played, the first ones of those available.
        available: the number of available pictures.
        is_public: whether the pictures are the task's `sample`, and not its `dataset`.
    """

    contest: Contest
    task: str
    folder: Path
    name: str
    samples: Samples
    available: int
    is_public: bool

    @property
    def attacks(self) -> tuple[OrganizerAttack, ...]:
        """The attacks that are played."""
        found: tuple[OrganizerAttack, ...] = self.contest.format.organizer_attacks()
        return found

    @property
    def notes(self) -> list[str]:
        """The reasons why the row differs from the organizers' row, one sentence each."""
        kind = "public pictures" if self.is_public else "pictures"
        notes = []
        if len(self.samples) < self.available:
            notes.append(f"Played on the first {len(self.samples)} of {self.available} {kind} of the task.")
        if len(self.samples) < MANY_PICTURES:
            count = len(self.samples)
            notes.append(f"A defence cannot have more than {count} distinct scores on {count} pictures.")
        if self.is_public:
            notes.append("The organizers play on other pictures, which are hidden.")
        notes.append(
            "The random numbers of the attacks follow from the secret of this round; the organizers' round has another."
        )
        notes.append("Throughput depends on the machine.")
        return notes


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The results of an evaluation.

    Attributes:
        results: the complete results, as `results.json` has them.
        row: the defence's row, by the contest's own reading of rule B3.
        columns: the columns of the row's values.
        reading: the contest's own reading.
        by_reading: the row by each of the readings.
        faults: the defence's faults; `message` may hold its own words.
        paths: the files with the results.
    """

    results: Results
    row: RowPart
    columns: list[ColumnPart]
    reading: CoverageReading
    by_reading: dict[CoverageReading, RowPart]
    faults: list[FaultPart]
    paths: round_record.ReportPaths

    @property
    def readings_differ(self) -> bool:
        """Whether an accuracy, or its interval, depends on the reading of rule B3."""
        names = [column.name for column in self.columns if column.unit == ACCURACY_UNIT]
        values = [[row.values[name] for name in names] for row in self.by_reading.values()]
        return any(each != values[0] for each in values)


def prepare_evaluation(folder: Path, contest: Contest, task: str | None = None, count: int | None = None) -> Evaluation:
    """Returns the evaluation of a folder on `count` pictures of a task; by default on all, and of the only task.

    Raises:
        UsageError: there is no such folder or task, the contest is no warm-up, or its pictures are not on this machine.
        Rejected: the submission's manifest is wrong, or it is an attack.
    """
    if contest.file.format != FORMAT:
        raise UsageError(
            f"{contest.path} is a contest of the format {contest.file.format!r}, and only {FORMAT!r} has such a row; "
            "use `sparring submission check` or `sparring submission try` with it"
        )
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "is not there"
        raise UsageError(f"{folder} {what}; give the folder of a defence, with its {manifest.FILE_NAME}")
    if not (folder / manifest.FILE_NAME).exists():
        remedy = "`sparring submission init defence NAME` makes a folder with one"
        raise UsageError(f"{folder} holds no {manifest.FILE_NAME}; {remedy}")
    described = manifest.read_manifest(folder)
    if described.side is not Side.DEFENCE:
        remedy = "give the folder of a defence; `sparring submission try` tries attacks on other contests"
        problem = Problem("side", "it is an attack, and the warm-up has its own (B2)", remedy)
        raise Rejected(str(folder / manifest.FILE_NAME), [problem])
    name = _task_name(contest, task)
    samples, is_public = _load_pictures(contest, name)
    alone = copy(contest)
    alone.file = contest.file.model_copy(update={"baselines": [], "submissions": []})
    played = samples if count is None else samples.first(min(count, len(samples)))
    return Evaluation(alone, name, folder, described.name, played, len(samples), is_public)


def evaluate(evaluation: Evaluation, out: Path, options: RunOptions, watch: EventCallback) -> EvaluationReport:
    """Plays an evaluation into the folder `out`, or what is left of it there, and returns its results.

    Raises:
        Rejected: the submission cannot be built or started, or has the name of an attack.
        UsageError: `out` holds something else.
        InfrastructureFault: something of ours failed; run again with the same folder to continue.
        Cancelled: the operator ended the run; run again with the same folder to continue.
    """

    def only_it(identify: Identify) -> TaskRound:
        admitted = admission.admit_alone(evaluation.contest, identify, evaluation.folder)
        return TaskRound(evaluation.contest, evaluation.task, admitted, samples=evaluation.samples)

    paths = play_rounds.play_single_round(evaluation.contest, out, options, watch, only_it)
    record, head = round_record.read_round(out)
    rules = evaluation.contest.format.rules
    by_reading = {
        reading: _row(
            round_record.score_round(record, out, {**rules.model_dump(mode="json"), "coverage": reading}).results(head),
            evaluation.name,
        )
        for reading in CoverageReading
    }
    return EvaluationReport(
        results=paths.results,
        row=_row(paths.results, evaluation.name),
        columns=_board(paths.results).columns,
        reading=CoverageReading(rules.coverage),
        by_reading=by_reading,
        faults=_faults(record, paths.results, evaluation.name),
        paths=paths,
    )


class EvaluationProgress:
    """Counts the progress of an evaluation from the events of its round, including those of an earlier, killed run.

    Args:
        evaluation: the evaluation that is played.
        out: the folder of its round, which need not exist yet.
    """

    def __init__(self, evaluation: Evaluation, out: Path) -> None:
        self._attacks = {attack.name: attack for attack in evaluation.attacks}
        self._wanted = {name: attack.pictures(len(evaluation.samples)) for name, attack in self._attacks.items()}
        self._folder = RoundFolder(out)
        self._attacked: dict[tuple[str, int], tuple[str, int, int]] = {}
        """By job and step of the query jobs: the attack's name, the number of pictures, and of queries."""
        self._finished: set[str] = set()
        self._jobs: list[events.JobRecord] = []
        self.steps_played = 0
        """The number of steps that were played since this object was made."""
        if self._folder.exists:
            record, _ = round_record.read_round(out)
            self._jobs = list(record.round.planned_jobs)
            self._finished = set(record.round.finished_jobs)
            for steps in record.round.steps.values():
                for step in steps.values():
                    with suppress(StoreFault):  # a damaged blob: the step is played again
                        self._count_step(step)

    def __call__(self, event: events.Event) -> None:
        """Counts an event of the round."""
        if isinstance(event, events.PlanMade):
            self._jobs = event.jobs
        elif isinstance(event, events.JobFinished):
            self._finished.add(event.job)
        elif isinstance(event, events.StepsLost):
            self._finished -= set(event.jobs)
            self._attacked = {key: value for key, value in self._attacked.items() if key[0] not in event.jobs}
        elif isinstance(event, events.StepFinished):
            self.steps_played += 1
            self._count_step(event)

    @property
    def steps(self) -> tuple[int, int | None]:
        """The number of finished steps, and the number of all, which is None before they are planned.

        A step of an attack is `PICTURES_PER_STEP` pictures; the end of every job counts as one more step.
        """
        done = len(self._attacked) + sum(1 for job in self._jobs if job.id in self._finished)
        total = sum(ceil(count / PICTURES_PER_STEP) for count in self._wanted.values()) + len(self._jobs)
        return done, total if self._jobs else None

    @property
    def queries(self) -> tuple[int, int]:
        """The approximate number of attacks' queries to the defence so far, and the most that may follow."""
        pictures: Counter[str] = Counter()
        for attack, count, _ in self._attacked.values():
            pictures[attack] += count
        left = sum(
            (count - pictures[name]) * self._attacks[name].queries_per_picture for name, count in self._wanted.items()
        )
        return sum(queries for _, _, queries in self._attacked.values()), left

    @cached_property
    def _blobs(self) -> Blobs:
        """The round's blobs, opened once, so that each is located only once."""
        return self._folder.blobs()

    def _count_step(self, step: events.StepFinished) -> None:
        if step.stage is Stage.QUERY and "queries" in step.blobs:  # a job's last step may only ask questions again
            queries = get_array(self._blobs, step.blobs["queries"])
            self._attacked[step.job, step.step] = (step.cells[0].attack or "", len(queries), int(queries.sum()))


def _task_name(contest: Contest, wanted: str | None) -> str:
    names = [section.name for section in contest.file.all_tasks]
    if wanted is None and len(names) > 1:
        raise UsageError(f"{contest.path} has several tasks; give one of them as --task: {', '.join(names)}")
    if wanted is not None and wanted not in names:
        raise UsageError(f"{contest.path} has no task {wanted!r}; --task may be {', '.join(names)}")
    return wanted or names[0]


def _load_pictures(contest: Contest, task: str) -> tuple[Samples, bool]:
    """Returns a task's public pictures, or its own if it has none, and whether they are public.

    Raises:
        UsageError: they are not on this machine, or cannot be read, which is not the submission's fault.
    """
    try:
        public = contest.load_public_samples(task)
        return (public, True) if public is not None else (contest.load_samples(task), False)
    except Rejected as error:
        hint = "get the pictures that the contest file names, or ask the organizers for public ones (`sample`)"
        raise UsageError(f"{error}\n{hint}") from error


def _board(results: Results) -> LeaderboardPart:
    (board,) = results.boards
    return board


def _row(results: Results, name: str) -> RowPart:
    return next(row for row in _board(results).rows if row.submission == name)


def _faults(record: RoundView, results: Results, name: str) -> list[FaultPart]:
    """Returns a submission's faults, each kind with its first recorded message, which its authors may read."""
    said = fault_texts.first_messages(record.round)
    submission = next(part for part in results.submissions if part.id == name)
    return [
        fault.model_copy(update={"message": said.get((name, fault.code, fault.reason), fault.message)})
        for fault in submission.faults
    ]
