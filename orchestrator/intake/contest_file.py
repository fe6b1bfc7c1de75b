"""Reads `contest.yaml`, the file that sets every rule of a contest.

The models here define the file's format; its JSON schema is schemas/contest.schema.json. docs/contest-file.md explains
each key and its default. Plug-ins check the dataset's options and the format's rules, so that a new plug-in brings its
own keys.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from orchestrator import plugins
from orchestrator.datasets.base import Dataset
from orchestrator.domain.access import MAX_TRANSCRIPT_BYTES, Access, AccessKind, Transcript
from orchestrator.domain.contest_format import Format
from orchestrator.domain.field_errors import KeyPath
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import MAX_VALUE_DIFFERENCE, Budget, Isolation, Limits, Norm, Task, require_whole_step
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.intake import contest_entries
from orchestrator.intake.contest_entries import EntrySection
from orchestrator.intake.manifest import Slug
from orchestrator.intake.yaml_file import YamlFile
from orchestrator.integrity.detection_power import SamplingDesign

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _more_than_nothing(size: ByteSize) -> ByteSize:
    if size <= 0:
        raise ValueError(f"{size} bytes would set no limit; write more than 0, such as 512MiB")
    return size


ByteCount = Annotated[ByteSize, AfterValidator(_more_than_nothing)]
"""A number of bytes, with a unit such as `1GiB` or without."""
_DEFAULT_LIMITS = Limits()
_DEFAULT_REPLAY = SamplingDesign()
_DEFAULT_ACCESS = Access()
_ENTRY_KEYS = ("baselines", "submissions")
"""The keys under which entries are listed."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BudgetSection(_Section):
    """How far an adversarial example may be from its picture (rule A14)."""

    norm: Norm = Norm.LINF
    epsilon: Annotated[Decimal, Field(ge=1, max_digits=12, decimal_places=3)]
    """In steps of 1/255."""

    @field_validator("epsilon", mode="before")
    @classmethod
    def _in_steps(cls, epsilon: object) -> object:
        """Refuses `8/255`, and a share of the range such as 0.03, each with the number to write instead."""
        if isinstance(epsilon, str) and (found := re.fullmatch(r"\s*([0-9.]+)\s*/\s*255\s*", epsilon, re.ASCII)):
            raise ValueError(f"{epsilon.strip()!r} is a fraction; write {found[1]}, in steps of 1/255")
        with suppress(InvalidOperation):  # not a number: the field's type reports it
            require_whole_step(Decimal(str(epsilon)))
        return epsilon

    def to_budget(self) -> Budget:
        """Returns the budget."""
        return Budget(self.norm, Fraction(self.epsilon))


class TaskSection(_Section):
    """The pictures and the budget."""

    name: Slug
    dataset: dict[str, Any]
    """`kind` names the dataset plug-in; the other keys are its options."""
    sample: dict[str, Any] | None = None
    """Public pictures of the same kind, for trial matches, which use noise without them."""
    budget: BudgetSection | None = None
    """Required if the format has programs that perturb pictures."""


class LimitsSection(_Section):
    """The limits of one sandbox; docs/contest-file.md says what happens at each limit."""

    memory: ByteCount = ByteSize(_DEFAULT_LIMITS.memory)
    cpus: PositiveFloat = _DEFAULT_LIMITS.cpus
    threads: Annotated[int, Field(ge=1, le=256)] = _DEFAULT_LIMITS.threads
    pids: Annotated[int, Field(ge=8, le=100_000)] = _DEFAULT_LIMITS.pids
    files: Annotated[int, Field(ge=32, le=20_000)] = _DEFAULT_LIMITS.files
    tmp: ByteCount = ByteSize(_DEFAULT_LIMITS.tmp)
    shm: ByteCount = ByteSize(_DEFAULT_LIMITS.shm)
    gpus: Literal[0, 1] = 0
    ready_seconds: PositiveFloat = _DEFAULT_LIMITS.ready_seconds
    perturb_seconds: PositiveFloat = _DEFAULT_LIMITS.perturb_seconds
    perturb_batch: Annotated[int, Field(ge=1, le=4096)] = _DEFAULT_LIMITS.perturb_batch
    classify_seconds: PositiveFloat = _DEFAULT_LIMITS.classify_seconds
    classify_batch: Annotated[int, Field(ge=1, le=4096)] = _DEFAULT_LIMITS.classify_batch
    restarts: Annotated[int, Field(ge=0, le=1000)] = _DEFAULT_LIMITS.restarts
    fault_seconds: Annotated[float, Field(ge=0, le=1_000_000)] = _DEFAULT_LIMITS.fault_seconds


Price = Annotated[int, Field(ge=1, le=1_000_000)]


class AccessSection(_Section):
    """What an attack may ask a defence (rule X6); see docs/access.md."""

    kind: AccessKind = AccessKind.NONE
    queries: Annotated[int, Field(ge=1, le=10_000_000)] = _DEFAULT_ACCESS.queries
    """The most that all queries about one picture of the task may cost together."""
    batch: Annotated[int, Field(ge=1, le=4096)] = _DEFAULT_ACCESS.batch
    """The most pictures in one query."""
    decision_price: Price = _DEFAULT_ACCESS.decision_price
    """The number of queries that a picture counts as if its label is asked."""
    scores_price: Price = _DEFAULT_ACCESS.scores_price
    """The number of queries that a picture counts as if its scores are asked."""
    gradient_price: Price = _DEFAULT_ACCESS.gradient_price
    """The number of queries that a picture counts as if its gradient is asked."""
    decimals: Annotated[int, Field(ge=0, le=9)] | None = None
    """The number of decimals to which scores are rounded."""
    top_score_only: bool = False
    """Whether all scores but the largest are withheld."""
    reply_seconds: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Replies are sent at multiples of this number of seconds, so that their timing tells less; 0: at once."""
    transcript: Transcript = _DEFAULT_ACCESS.transcript
    """What is kept of the queries."""

    @model_validator(mode="after")
    def _options_apply(self) -> "AccessSection":
        access = self.to_access()
        if not access.shows_scores and (self.decimals is not None or self.top_score_only):
            raise ValueError("decimals and top_score_only are for `kind: scores` and `kind: gradient`; leave them out")
        if not access.allows_queries and access.transcript is Transcript.FULL:
            raise ValueError(
                "`transcript: full` is for contests in which attacks query, and `kind` is none; leave it out"
            )
        for kind, price in (
            (AccessKind.DECISION, self.decision_price),
            (AccessKind.SCORES, self.scores_price),
            (AccessKind.GRADIENT, self.gradient_price),
        ):
            if price != 1 and kind not in access.prices:
                raise ValueError(
                    f"{kind}_price has no effect: with `kind: {self.kind}` nobody may ask for it; leave it out"
                )
            if price > self.queries:
                raise ValueError(
                    f"{kind}_price is more than `queries`, and nobody could ask for it; write at most {self.queries}"
                )
        return self

    def to_access(self) -> Access:
        """Returns the access model."""
        return Access(**dict(self))


class ReplaySection(_Section):
    """How probably replays catch cheating defences (rules A9, A10, X3); see docs/replay.md."""

    power: Annotated[float, Field(ge=0, lt=1)] = _DEFAULT_REPLAY.power
    """The probability of a mismatch for a defence that changes a share `cheat` of its answers; 0 turns replays off."""
    cheat: Annotated[float, Field(gt=0, le=1)] = _DEFAULT_REPLAY.cheat
    noise: Annotated[float, Field(ge=0, le=0.1)] = _DEFAULT_REPLAY.noise
    """The share of answers in which two sandboxes of an honest defence may disagree because of their devices."""
    attacks: Annotated[float, Field(ge=0, le=1)] = _DEFAULT_REPLAY.attacks
    """The share of an attack's questions that is asked again: above 0 if attacks have to be reproducible."""

    @model_validator(mode="after")
    def _detectable(self) -> "ReplaySection":
        """Refuses a cheat that disagrees no more often than devices may: no number of questions detects it."""
        disagreement = self.design().disagreement_rate
        if self.power and disagreement <= self.noise:
            raise ValueError(
                f"a defence that cheats by chance, with a cheat of {self.cheat:g}, disagrees on {disagreement:.2g} of "
                f"its answers; a noise of {self.noise:g} allows that, and nothing tells them apart; "
                "raise cheat or lower noise"
            )
        return self

    def design(self) -> SamplingDesign:
        """Returns the design of the replays."""
        return SamplingDesign(**self.model_dump())


class ContestFile(_Section):
    """A contest file, contest.yaml."""

    sparring: Literal[1]
    """The version of this file format."""
    contest: Slug
    title: Annotated[str, Field(min_length=1, max_length=200)]
    format: Slug
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0
    """The number from which attacks draw their random numbers; it is public."""
    task: TaskSection | None = None
    tasks: list[TaskSection] = []
    """Several tasks, for a contest in a folder; `task` is short for one."""
    opens: AwareDatetime | None = None
    """The time from which submissions are received, with a time zone; for a contest in a folder."""
    closes: AwareDatetime | None = None
    """The time until which submissions are received, with a time zone."""
    prizes: Annotated[list[Annotated[str, Field(min_length=1, max_length=500)]], Field(max_length=50)] = []
    """The prizes, a sentence each, for people to read: nothing is computed from them."""
    labels: Literal[True, "none"] = True
    """Whether attacks get the true labels (rule A2)."""
    access: AccessSection = AccessSection()
    """What attacks may ask defences while they make adversarial examples."""
    isolation: Isolation = Isolation.ATTACK
    runtime: Runtime = Runtime.RUNC
    """The runtime of the containers; `sparring doctor` says which ones are installed."""
    limits: LimitsSection = LimitsSection()
    replay: ReplaySection = ReplaySection()
    rules: dict[str, Any] = {}
    """The format's rules."""
    trial_pictures: Annotated[int, Field(ge=0, le=100)] = 10
    """The number of pictures of the trial match before a submission is received; 0: no trial match."""
    cluster: ClusterSettings = ClusterSettings()
    """How rounds are played on a Kubernetes cluster; it has no effect on what is played."""
    baselines: list[EntrySection] = []
    submissions: list[EntrySection] = []

    @model_validator(mode="after")
    def _tasks_named_once(self) -> "ContestFile":
        if self.task is not None and self.tasks:
            raise ValueError("both `task` and `tasks`; give `task`, or several under `tasks`")
        names = [task.name for task in self.all_tasks]
        if len(set(names)) != len(names):
            raise ValueError("two tasks have the same name; give each its own")
        if self.opens and self.closes and self.opens >= self.closes:
            raise ValueError("`closes` is not after `opens`; give a later time")
        return self

    @property
    def all_tasks(self) -> list[TaskSection]:
        """The tasks, at least one."""
        return self.tasks if self.task is None else [self.task]

    def sandbox_policy(self) -> SandboxPolicy:
        """Returns the policy of the contest's sandboxes: their limits and their runtime."""
        limits = Limits(**{key: int(value) if isinstance(value, ByteSize) else value for key, value in self.limits})
        return SandboxPolicy(limits, runtime=self.runtime)


class Contest:
    """A contest file that was read and checked, with its plug-ins."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises Rejected with all problems at once, each with its line."""
        self.folder = path.resolve().parent
        self._yaml = YamlFile(path)
        self.format, format_problems = self._find_format()
        self._datasets, dataset_problems = self._find_datasets()
        problems = format_problems + dataset_problems + self._unbounded_budgets()
        try:
            self.file = self._yaml.parse_model(ContestFile)
        except Rejected as error:
            named = {problem.place for problem in error.problems}
            problems = [*error.problems, *(problem for problem in problems if problem.place not in named)]
        if problems:
            raise self.rejection(*dict.fromkeys(problems + self._problems_in_other_files()))

    @property
    def path(self) -> Path:
        """The path of the contest file."""
        return self._yaml.path

    def with_access(self, kind: AccessKind) -> "Contest":
        """Returns the contest with another kind of access, for checks and debug sessions."""
        other = copy.copy(self)
        scores_only = {} if kind is AccessKind.SCORES else {"decimals": None, "top_score_only": False}
        access = self.file.access.model_copy(update={"kind": kind, **scores_only})
        other.file = self.file.model_copy(update={"access": access})
        return other

    def problem_at(self, place: KeyPath, what: str, remedy: str = "") -> Problem:
        """Returns a problem at a key of the file, with its line."""
        return self._yaml.problem_at(place, what, remedy)

    def rejection(self, *problems: Problem) -> Rejected:
        """Returns the error that refuses the file for these problems."""
        return self._yaml.rejection(*problems)

    @property
    def only_task(self) -> str:
        """The name of the contest's only task. Raises UsageError if there are several."""
        names = [task.name for task in self.file.all_tasks]
        if len(names) > 1:
            raise UsageError(f"{self.path} has several tasks ({', '.join(names)}): name one, or play it as a folder")
        return names[0]

    def load_samples(self, task: str | None = None) -> Samples:
        """Returns a task's pictures, of the only task by default. Raises Rejected if they cannot be read."""
        return self._load_dataset((*self._task_key(task or self.only_task), "dataset"))

    def load_original_files(self, task: str | None = None) -> tuple[bytes, ...] | None:
        """Returns the JPEG or PNG file of each of a task's pictures, None if they do not come from such files (C1).

        Raises:
            Rejected: the pictures cannot be read.
        """
        dataset, options = self._datasets[(*self._task_key(task or self.only_task), "dataset")]
        files: tuple[bytes, ...] | None = dataset.original_files(options, self.folder)
        return files

    def load_public_samples(self, task: str) -> Samples | None:
        """Returns a task's public pictures, None if it has none. Raises Rejected if they cannot be read."""
        place = (*self._task_key(task), "sample")
        if self._yaml.value_at(*place) is None:
            return None
        return self._load_dataset(place)

    def _load_dataset(self, place: KeyPath) -> Samples:
        dataset, options = self._datasets[place]
        try:
            samples: Samples = dataset.load_samples(options, self.folder)
        except Rejected as error:
            raise self.rejection(*(self.problem_at(place, str(found)) for found in error.problems)) from error
        return samples

    def _task_key(self, task: str) -> KeyPath:
        names = [section.name for section in self.file.all_tasks]
        if task not in names:
            raise UsageError(f"{self.path} has no task {task!r}; it has {', '.join(names)}")
        return ("task",) if self.file.task else ("tasks", names.index(task))

    def make_task(self, samples: Samples, name: str | None = None) -> Task:
        """Returns a task, the only one by default, made of these pictures and of the file's budget.

        Raises:
            Rejected: the budget allows any change of such pictures, a full transcript would be too large, or the format
                cannot be played on them.
        """
        task_name = name or self.only_task
        section = next(section for section in self.file.all_tasks if section.name == task_name)
        if vast := self._budget_problems((*self._task_key(task_name), "budget"), samples.shape):
            raise self.rejection(*vast)
        task = Task(
            name=section.name,
            classes=samples.classes,
            shape=samples.shape,
            count=len(samples),
            digest=samples.digest,
            budget=section.budget.to_budget() if section.budget else None,
        )
        if large := self._transcript_problems(task):
            raise self.rejection(*large)
        unfit: list[Problem] = self.format.task_problems(task)
        if unfit:
            at = (*self._task_key(task_name), "dataset")
            raise self.rejection(*(self.problem_at(at, f"{p.place} {p.what}", p.remedy) for p in unfit))
        return task

    def _transcript_problems(self, task: Task) -> list[Problem]:
        """Returns a problem if the full transcript of an attack and a defence on a task could be too large."""
        access = self.file.access.to_access()
        size = access.largest_transcript(task.count, task.shape, len(task.classes))
        if access.transcript is not Transcript.FULL or size <= MAX_TRANSCRIPT_BYTES:
            return []
        what = (
            f"the transcript of one attack on one defence may take {MAX_TRANSCRIPT_BYTES // 1024**2} MiB, "
            f"and on the task {task.name} it could take {size / 1024**2:,.0f}"
        )
        remedy = "write `transcript: digest`, or lower `access.queries` or the number of pictures"
        return [self.problem_at(("access", "transcript"), what, remedy)]

    def _unbounded_budgets(self) -> list[Problem]:
        """Returns problems with budgets that are missing, or that no picture of any shape can exceed."""
        places = (place[:-1] for place in self._datasets if place[-1] == "dataset")
        return [problem for task in places for problem in self._budget_problems((*task, "budget"), None)]

    def _budget_problems(self, place: KeyPath, shape: tuple[int, ...] | None) -> list[Problem]:
        """Returns a problem if a budget is missing or allows any change, which for `l2` depends on the shape."""
        if self._yaml.value_at(*place) is None:
            return self._missing_budget(place)
        try:
            section = BudgetSection.model_validate(self._yaml.value_at(*place))
        except ValidationError:
            return []  # the file's own model reports it
        budget = section.to_budget()
        if budget.norm is Norm.L2 and shape is None:
            return []
        values = prod(shape or (1,))
        if budget.is_attainable(values):
            return []
        largest = MAX_VALUE_DIFFERENCE if budget.norm is Norm.LINF else MAX_VALUE_DIFFERENCE * values**0.5
        problem = f"{section.epsilon} bounds nothing: two pictures differ by at most {largest:g} in {budget.norm}"
        return [self.problem_at((*place, "epsilon"), problem, "give a smaller one, in steps of 1/255: 8 means 8/255")]

    def _missing_budget(self, place: KeyPath) -> list[Problem]:
        """Returns the problem of a missing budget if the format has programs that perturb pictures."""
        if self.format is None or Side.ATTACK not in self.format.programs or self._yaml.value_at(*place[:-1]) is None:
            return []
        remedy = "add it, such as `budget: {norm: linf, epsilon: 8}`"
        return [self.problem_at(place, "missing", remedy)]

    def _problems_in_other_files(self) -> list[Problem]:
        """Returns the problems with pictures and entries, as far as their sections in the file are valid."""
        problems: list[Problem] = []
        for place, dataset in self._datasets.items():
            if dataset is None or place[-1] != "dataset":
                continue
            try:
                samples = self._load_dataset(place)
            except Rejected as error:
                problems += error.problems
            else:
                problems += self._budget_problems((*place[:-1], "budget"), samples.shape)
        return problems + contest_entries.entry_problems(self._readable_entries(), self._yaml)

    def _readable_entries(self) -> Iterator[tuple[KeyPath, EntrySection]]:
        """Yields the entries whose own section is valid; the file's model reports the others."""
        for place in _ENTRY_KEYS:
            listed = self._yaml.value_at(place)
            for number, section in enumerate(listed if isinstance(listed, list) else ()):
                with suppress(ValidationError):
                    yield (place, number), EntrySection.model_validate(section)

    def _find_format(self) -> tuple[Any, list[Problem]]:
        name, rules = self._yaml.value_at("format"), self._yaml.value_at("rules")
        if not isinstance(name, str) or not isinstance(rules, Mapping | None):
            return None, []  # the file's own model reports it
        try:
            kind: type[Format[Any]] = plugins.load_plugin("formats", name)
        except UsageError as error:
            return None, [self.problem_at(("format",), str(error))]
        try:
            return kind(kind.rules_type.model_validate(rules or {})), []
        except ValidationError as error:
            return None, self._yaml.validation_problems(kind.rules_type, error, ("rules",))

    def _find_datasets(self) -> tuple[dict[KeyPath, Any], list[Problem]]:
        tasks = self._yaml.value_at("tasks")
        if not tasks and self._yaml.value_at("task") is None:
            return {}, [self.problem_at(("task",), "missing", "give `task`, or several under `tasks`")]
        places: list[KeyPath] = [("task",)]
        places += [("tasks", number) for number in range(len(tasks) if isinstance(tasks, list) else 0)]
        datasets: dict[KeyPath, Any] = {}
        problems: list[Problem] = []
        for place in (place for task in places for place in ((*task, "dataset"), (*task, "sample"))):
            datasets[place], new = self._find_dataset(place)
            problems += new
        return datasets, problems

    def _find_dataset(self, place: KeyPath) -> tuple[Any, list[Problem]]:
        section = self._yaml.value_at(*place)
        if not isinstance(section, Mapping):
            return None, []  # the file's own model reports it
        options = dict(section)
        name = options.pop("kind", None)
        if not isinstance(name, str):
            known = ", ".join(plugins.plugin_names("datasets"))
            return None, [self.problem_at(place, "`kind` is missing", f"add it: one of {known}")]
        try:
            kind: type[Dataset[Any]] = plugins.load_plugin("datasets", name)
        except UsageError as error:
            return None, [self.problem_at((*place, "kind"), str(error))]
        try:
            return (kind(), kind.options_type.model_validate(options)), []
        except ValidationError as error:
            return None, self._yaml.validation_problems(kind.options_type, error, place)
