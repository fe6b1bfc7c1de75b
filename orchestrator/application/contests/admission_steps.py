"""The steps of an admission while it goes on, in a file, for those who watch it from elsewhere."""

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
"""Steps and lines of one admission that are written: a builder may talk for as long as it runs."""
TEXT_LIMIT, STEP_LIMIT = 500, 80
"""Characters of a text, and of a step's name."""


@dataclass(frozen=True, slots=True)
class AdmissionStep:
    """One step of an admission, or one line of a builder's log.

    `passed` is None for what is under way and for lines of a log. `detail` is what was seen, `problem` what is wrong
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
    """Takes the steps of one admission. Without `write` nobody watches."""

    def __init__(
        self, now: Callable[[], str] = lambda: "", write: Callable[[AdmissionStep], object] = lambda _: None
    ) -> None:
        self._now, self._write = now, write
        self._count = 0

    def add(self, step: str, passed: bool | None, detail: str = "", problem: str = "", remedy: str = "") -> None:
        """Takes a step. The last ones of very many are left out, but for the outcome."""
        self._count += 1
        if self._count > MAX_STEPS and step != "outcome":
            return
        texts = (printable(text, TEXT_LIMIT) for text in (detail, problem, remedy))
        self._write(AdmissionStep(self._now(), printable(step, STEP_LIMIT), passed, *texts))

    def line(self, text: str) -> None:
        """Takes a line of a builder's log."""
        self.add("build", None, text)

    def match_step(self, step: CheckStep) -> None:
        """Takes a step of a trial match."""
        self.add(f"match, {step.name}", step.passed, step.near_limit or step.detail, step.problem, step.remedy)

    def result(self, step: str, problems: Iterable[Problem]) -> None:
        """Takes a step that passed where there is no problem, else one for each problem."""
        found = list(problems)
        for problem in found:
            self.add(step, False, problem=f"{problem.place}: {problem.what}", remedy=problem.remedy)
        if not found:
            self.add(step, True)


UNWATCHED = StepLog()


@contextmanager
def open_step_log(folder: Path, now: Callable[[], str]) -> Iterator[StepLog]:
    """Gives a log that is written to an arrival's folder, line by line; an earlier try's goes. Raises StoreFault."""
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
    """Returns the steps so far: none before the admission began. A line that is being written is left out."""
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
