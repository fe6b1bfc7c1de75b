"""What waits on a cluster, and for what, in words: `status.json` beside the attempts, for `sparring round status`.

Only words for people: nothing is decided by it, and the ledger does not have it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.errors import StoreFault
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.files import write_whole

FILE_NAME = "status.json"

_log = structlog.get_logger()


class AttemptRow(BaseModel):
    """One attempt under way, and what it waits for or does; `since` is when that began, ISO 8601 in UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: str
    stage: str
    submission: str
    attempt: int
    name: str
    state: AttemptState
    words: str
    since: str


class ControllerStatus(BaseModel):
    """Everything under way, as it was begun. `note` is about the controller itself: that it waits for another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    note: str = ""
    jobs: list[AttemptRow] = []


@dataclass(frozen=True, slots=True)
class ActiveAttempt:
    """Where one attempt stands."""

    attempt: Attempt
    standing: AttemptStatus


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class StatusFile:
    """Writes the words down whenever they change, and not otherwise."""

    def __init__(self, folder: Path, now: Callable[[], str] = _now) -> None:
        self._path, self._now = folder / FILE_NAME, now
        self._shown: ControllerStatus | None = None

    def show(self, rows: Iterable[ActiveAttempt]) -> None:
        """Shows where the attempts stand. Raises StoreFault."""
        before = {row.name: row for row in self._shown.jobs} if self._shown else {}
        shown = [self._row(each, before.get(each.attempt.name)) for each in rows]
        for row in shown:
            if row.state is not AttemptState.RUNNING and row != before.get(row.name):
                _log.info("attempt_waits", job=row.job, attempt=row.attempt, state=row.state.value, words=row.words)
        self._put(ControllerStatus(jobs=shown))

    def note(self, text: str) -> None:
        """Shows what the controller itself waits for. Raises StoreFault."""
        jobs = self._shown.jobs if self._shown else []
        if self._put(ControllerStatus(note=text, jobs=jobs)):
            _log.info("controller_waits", words=text)

    def _put(self, words: ControllerStatus) -> bool:
        if words == self._shown:
            return False
        write_whole(self._path, words.model_dump_json(indent=1).encode())
        self._shown = words
        return True

    def _row(self, seen: ActiveAttempt, before: AttemptRow | None) -> AttemptRow:
        attempt, standing = seen.attempt, seen.standing
        same = before is not None and (before.state, before.words) == (standing.state, standing.words)
        return AttemptRow(
            job=attempt.job.id,
            stage=attempt.job.stage.value,
            submission=attempt.job.submission,
            attempt=attempt.number,
            name=attempt.name,
            state=standing.state,
            words=standing.words,
            since=before.since if same and before else self._now(),
        )


def read_status(folder: Path) -> ControllerStatus | None:
    """Returns what the board in a round's `cluster` folder shows, None where none was ever written.

    Raises:
        StoreFault: it cannot be read.
    """
    try:
        return ControllerStatus.model_validate_json((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StoreFault(f"{folder / FILE_NAME} cannot be read: {error}; the next run writes it anew") from error
