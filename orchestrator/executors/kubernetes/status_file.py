"""The status of the attempts on a cluster in words: `status.json` beside their folders, for `sparring round status`.

It is only for people: nothing is decided by it, and the ledger does not have it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.domain.field_errors import field_errors
from orchestrator.errors import StoreFault
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.files import write_whole
from orchestrator.logs import get_logger

FILE_NAME = "status.json"

_log = get_logger()


class AttemptRow(BaseModel):
    """One active attempt, and what it does or waits for; `since` is when that began, ISO 8601 in UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: str
    stage: str
    submission: str
    attempt: int
    name: str
    state: AttemptState
    description: str
    since: str


class ControllerStatus(BaseModel):
    """All active attempts, in the order in which they began. `note` says what the controller itself waits for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    note: str = ""
    jobs: list[AttemptRow] = []


@dataclass(frozen=True, slots=True)
class ActiveAttempt:
    """An active attempt and its status."""

    attempt: Attempt
    status: AttemptStatus


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class StatusFile:
    """Writes the status file, only when its content changes."""

    def __init__(self, folder: Path, now: Callable[[], str] = _now) -> None:
        self._path, self._now = folder / FILE_NAME, now
        self._written: ControllerStatus | None = None

    def write_attempts(self, rows: Iterable[ActiveAttempt]) -> None:
        """Writes the status of the attempts. Raises StoreFault."""
        before = {row.name: row for row in self._written.jobs} if self._written else {}
        attempt_rows = [self._attempt_row(each, before.get(each.attempt.name)) for each in rows]
        for row in attempt_rows:
            if row.state is not AttemptState.RUNNING and row != before.get(row.name):
                _log.info(
                    "attempt_waits", job=row.job, attempt=row.attempt, state=row.state.value, words=row.description
                )
        self._write(ControllerStatus(jobs=attempt_rows))

    def write_note(self, text: str) -> None:
        """Writes what the controller itself waits for. Raises StoreFault."""
        jobs = self._written.jobs if self._written else []
        if self._write(ControllerStatus(note=text, jobs=jobs)):
            _log.info("controller_waits", words=text)

    def _write(self, status: ControllerStatus) -> bool:
        if status == self._written:
            return False
        write_whole(self._path, status.model_dump_json(indent=1).encode())
        self._written = status
        return True

    def _attempt_row(self, seen: ActiveAttempt, before: AttemptRow | None) -> AttemptRow:
        attempt, standing = seen.attempt, seen.status
        same = before is not None and (before.state, before.description) == (standing.state, standing.description)
        return AttemptRow(
            job=attempt.job.id,
            stage=attempt.job.stage.value,
            submission=attempt.job.submission,
            attempt=attempt.number,
            name=attempt.name,
            state=standing.state,
            description=standing.description,
            since=before.since if same and before else self._now(),
        )


def read_status(folder: Path) -> ControllerStatus | None:
    """Returns the content of the status file in a round's `cluster` folder, or None if there is no such file.

    Raises:
        StoreFault: the file cannot be read.
    """
    try:
        return ControllerStatus.model_validate_json((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = field_errors(error)[0].what if isinstance(error, ValidationError) else error.strerror
        raise StoreFault(f"{folder / FILE_NAME} cannot be read: {why}; the next run writes it again") from error
