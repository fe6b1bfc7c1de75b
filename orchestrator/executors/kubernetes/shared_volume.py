"""The folder through which a controller and the drivers of its pods communicate, without the API server.

    cluster/
      status.json               what each attempt does or waits for: for `sparring round status`
      <attempt>/                one folder for each attempt at a job; its pod sees only this one
        assignment.json         what the driver is to play: written by the controller
        begun                   a driver has taken the attempt, and no other may
        0001.json, 0002.json    batches of events to be stored together, in order: written by the driver
        partial_step.json       the partial step, if the job needs another player
        end.json                how the attempt ended, and how many numbered files there are

Every file is written whole or not at all and flushed to the disk, so every file is valid whichever side was killed.
Network file systems show a new file late: `end.json` says how many others to wait for.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import CoreEvent, Event
from orchestrator.domain.field_errors import field_errors
from orchestrator.errors import PodUsedUp, StoreFault
from orchestrator.files import write_whole

NO_ASSIGNMENT = "there is no assignment"
"""The message, also in the pod's status, of a driver that has another folder than its controller."""
_PRIVATE_MODE = 0o600
_EVENT_LIST: TypeAdapter[Any] = TypeAdapter(list[Annotated[CoreEvent, Field(discriminator="kind")]])
_Model = TypeVar("_Model", bound=BaseModel)


class DriverOutcome(StrEnum):
    """How a driver ended its attempt."""

    FINISHED = "finished"
    """Every step was played."""
    NEEDS_PLAYER = "needs-player"
    """The job needs another player, and the pod has none left."""
    FAULT = "fault"
    """An infrastructure fault ended every attempt of the driver."""


class AttemptEnd(BaseModel):
    """The end of an attempt, by its driver. `batches` counts the numbered files; `code` and `message` are a fault's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outcome: DriverOutcome
    batches: int = Field(ge=0)
    code: str = ""
    message: str = ""


_FORGOTTEN = ".forgotten-"
"""The beginning of the name of a folder that is being removed."""


@dataclass(frozen=True, slots=True)
class SharedVolume:
    """The controller's side of the folder. `folder` is made when the first file is written."""

    folder: Path

    def write_assignment(self, attempt: str, assignment: Assignment) -> None:
        """Writes the assignment of an attempt. Raises StoreFault."""
        write_whole(self.folder / attempt / "assignment.json", assignment.model_dump_json().encode(), _PRIVATE_MODE)

    def list_attempts(self) -> list[tuple[str, int]]:
        """Returns the key and the number of every attempt that has a folder, whatever its round. Raises StoreFault."""
        try:
            names = [entry.name for entry in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _volume_fault(self.folder, error) from error
        found = (re.fullmatch(r".+-([0-9a-f]{12})-([0-9]{1,9})", name) for name in names)
        return [(each[1], int(each[2])) for each in found if each]

    def read_assignment(self, attempt: str) -> Assignment | None:
        """Returns the assignment of an attempt, or None if it has none. Raises StoreFault."""
        return _read_model(self.folder / attempt / "assignment.json", Assignment)

    def is_taken(self, attempt: str) -> bool:
        """Returns whether a driver has taken the attempt."""
        return (self.folder / attempt / "begun").exists()

    def read_batches(self, attempt: str, after: int) -> Iterator[tuple[Event, ...]]:
        """Yields a driver's batches of events after the first `after`, in order. Raises StoreFault."""
        for number in range(after + 1, 10**6):
            try:
                text = _batch_path(self.folder / attempt, number).read_bytes()
            except FileNotFoundError:
                return
            except OSError as error:
                raise _volume_fault(_batch_path(self.folder / attempt, number), error) from error
            try:
                yield tuple(_EVENT_LIST.validate_json(text))
            except ValidationError as error:
                raise _format_fault(_batch_path(self.folder / attempt, number), error) from error

    def read_partial_step(self, attempt: str) -> PartialStep | None:
        """Returns the partial step that an attempt left, or None. Raises StoreFault."""
        return _read_model(self.folder / attempt / "partial_step.json", PartialStep)

    def read_end(self, attempt: str) -> AttemptEnd | None:
        """Returns the end of an attempt, or None until its driver has written it. Raises StoreFault."""
        return _read_model(self.folder / attempt / "end.json", AttemptEnd)

    def has_ended(self, attempt: str) -> bool:
        """Returns whether the attempt's driver has written its end."""
        return (self.folder / attempt / "end.json").exists()

    def remove_attempt(self, attempt: str) -> None:
        """Removes an attempt's folder, of which nothing is needed any more.

        The folder is renamed first: a driver that is still writing then finds no folder and cannot delay the removal.
        """
        with suppress(OSError):  # it was removed before
            (self.folder / attempt).rename(self.folder / f"{_FORGOTTEN}{secrets.token_hex(8)}")
        for folder in self.folder.glob(f"{_FORGOTTEN}*"):  # also what a killed controller left
            shutil.rmtree(folder, ignore_errors=True)


class AttemptFolder:
    """The driver's side: the folder of one attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches = 0

    def take_assignment(self, driver: str) -> Assignment:
        """Marks the attempt as taken by the driver named `driver`, and returns its assignment.

        Raises:
            PodUsedUp: another driver has taken it, or this one did before it was killed.
            StoreFault: there is no assignment, or it cannot be read.
        """
        assignment = _read_model(self._folder / "assignment.json", Assignment)
        if assignment is None:
            raise StoreFault(f"{NO_ASSIGNMENT} in {self._folder}")
        try:
            with open(self._folder / "begun", "x", opener=_open_private) as file:
                file.write(driver)
        except FileExistsError as error:
            raise PodUsedUp(f"the attempt in {self._folder} was taken before; the controller makes another") from error
        except OSError as error:
            raise _volume_fault(self._folder / "begun", error) from error
        return assignment

    def write_events(self, *events: Event) -> None:
        """Writes a batch of events; it is on the volume when this returns. Raises StoreFault."""
        self._write(_batch_path(self._folder, self._batches + 1), _EVENT_LIST.dump_json(list(events)))
        self._batches += 1

    def write_end(
        self, outcome: DriverOutcome, partial_step: PartialStep | None = None, code: str = "", message: str = ""
    ) -> None:
        """Writes the partial step, if any, and then the attempt's end, the last file. Raises StoreFault."""
        if partial_step is not None:
            self._write(self._folder / "partial_step.json", partial_step.model_dump_json().encode())
        end = AttemptEnd(outcome=outcome, batches=self._batches, code=code, message=message)
        self._write(self._folder / "end.json", end.model_dump_json().encode())

    def _write(self, path: Path, data: bytes) -> None:
        """Writes a file, but does not make the folder: if it is gone, the controller gave the attempt up."""
        try:
            write_whole(path, data, _PRIVATE_MODE, make_folder=False)
        except StoreFault:
            if self._folder.is_dir():
                raise
            raise StoreFault(f"{self._folder} is gone: the controller gave this attempt up") from None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE_MODE)


def _batch_path(folder: Path, number: int) -> Path:
    return folder / f"{number:04d}.json"


def _read_model(path: Path, kind: type[_Model]) -> _Model | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _volume_fault(path, error) from error
    except ValidationError as error:
        raise _format_fault(path, error) from error


def _volume_fault(path: Path, error: OSError) -> StoreFault:
    return StoreFault(f"{path} cannot be used: {error.strerror or error}; repair the volume, and run again")


def _format_fault(path: Path, error: ValidationError) -> StoreFault:
    problem = field_errors(error)[0].problem()
    return StoreFault(
        f"{path} is not what this version writes: {problem.place}: {problem.what}; use one version of the runner"
    )
