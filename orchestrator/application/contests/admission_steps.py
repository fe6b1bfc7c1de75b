"""The steps of an admission, written to a file while they happen, so that another process can show them."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.files import write_fault
from orchestrator.intake.compliance.trial_match import CheckStep

STEPS_FILE = "steps.jsonl"
MAX_STEPS = 1000
"""The most steps and log lines of one admission that are written: a build's output has no bound of its own."""
TEXT_LIMIT, STEP_LIMIT = 500, 80
"""The most characters of a text, and of a step's name."""


@dataclass(frozen=True, slots=True)
class AdmissionStep:
    """One step of an admission, or one line of a builder's log.

    `passed` is None for a step in progress and for lines of a log. `detail` is the observation, `problem` what is wrong
    and `remedy` what to do. All texts are printable and bounded: a submission may have written them. `time` is in UTC.
    """

    time: str
    step: str
    passed: bool | None
    detail: str = ""
    problem: str = ""
    remedy: str = ""


_steps: TypeAdapter[AdmissionStep] = TypeAdapter(AdmissionStep)


class StepLog:
    """Passes the steps of one admission to `write`; without `write` they are dropped."""

    def __init__(
        self, now: Callable[[], str] = lambda: "", write: Callable[[AdmissionStep], object] = lambda _: None
    ) -> None:
        self._now, self._write = now, write
        self._count = 0

    def add(self, step: str, passed: bool | None, detail: str = "", problem: str = "", remedy: str = "") -> None:
        """Adds a step. After `MAX_STEPS` steps, only the outcome is still added."""
        self._count += 1
        if self._count > MAX_STEPS and step != "outcome":
            return
        texts = (printable(text, TEXT_LIMIT) for text in (detail, problem, remedy))
        self._write(AdmissionStep(self._now(), printable(step, STEP_LIMIT), passed, *texts))

    def line(self, text: str) -> None:
        """Adds a line of a build log."""
        self.add("build", None, text)

    def match_step(self, step: CheckStep) -> None:
        """Adds a step of a trial match."""
        self.add(f"match, {step.name}", step.passed, step.near_limit or step.detail, step.problem, step.remedy)

    def result(self, step: str, problems: Iterable[Problem]) -> None:
        """Adds a failed step for each problem, or one passed step if there is none."""
        found = list(problems)
        for problem in found:
            self.add(step, False, problem=f"{problem.place}: {problem.what}", remedy=problem.remedy)
        if not found:
            self.add(step, True)


UNWATCHED = StepLog()


@contextmanager
def open_step_log(folder: Path, now: Callable[[], str]) -> Iterator[StepLog]:
    """Opens a log that writes to an arrival's folder line by line, replacing an earlier try's. Raises StoreFault."""
    path = folder / STEPS_FILE
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise write_fault(path, error) from error

    def write(step: AdmissionStep) -> None:
        try:
            file.write(json.dumps(asdict(step)) + "\n")
            file.flush()
        except OSError as error:
            raise write_fault(path, error) from error

    with file:
        yield StepLog(now, write)


def read_steps_file(path: Path) -> list[AdmissionStep]:
    """Returns the steps so far, none before the admission began. Leaves out a line that is not completely written."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    steps = []
    for line in lines:
        try:
            steps.append(_steps.validate_json(line))
        except ValidationError:
            continue
    return steps
