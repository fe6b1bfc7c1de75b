"""`expect.yaml`: what a hostile program tries, which control stops it, and how that is seen.

A program lies in a folder of its own under tests/hostile/. A program that fails by itself proves nothing, so each names
the control that stops it and is run a second time with that control removed, where it must do its harm. The few that
cannot be run so say why (`exception`).
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestrator.backends.base import Ending
from orchestrator.domain.policy import Runtime
from orchestrator.intake.yaml_file import YamlFile

FILE_NAME = "expect.yaml"


class Family(StrEnum):
    """What a program is about."""

    NETWORK = "network"
    FILES = "files"
    MEMORY = "memory"
    PROCESSES = "processes"
    CPU = "cpu"
    ENDING = "ending"
    OUTPUT = "output"
    PROTOCOL = "protocol"
    TEXT = "text"
    PRIVILEGE = "privilege"
    TIME = "time"
    PERSISTENCE = "persistence"
    COVERT = "covert"
    IMAGE = "image"
    UPLOAD = "upload"


class Kind(StrEnum):
    """How a program is run.

    `sandbox`: `program.py` in one sandbox; it prints a report. `pair`: `program.py first TOKEN` and `program.py second
    TOKEN` in two sandboxes. `protocol`: `player.py` is greeted and asked like any player. `image`: the Dockerfile's
    image is offered for admission. `upload`: `make.py FOLDER` writes files that our readers then read.
    """

    SANDBOX = "sandbox"
    PAIR = "pair"
    PROTOCOL = "protocol"
    IMAGE = "image"
    UPLOAD = "upload"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Seen(_Part):
    """What has to be seen of a run. Only what is given is compared."""

    harm: bool | None = None
    """What the program itself reports."""
    ending: Ending | None = None
    fault: str | None = None
    """The code of the submission fault, `protocol` kind only; with its reason after a slash: protocol/magic."""
    refused: list[str] | None = None
    """The places of the problems for which an image or an upload is refused."""
    most_seconds: float | None = None
    most_peak: int | None = None
    """Bytes."""
    most_cpu: float | None = None
    """Processor seconds per second of wall clock."""
    least_cpu: float | None = None


class Removed(_Part):
    """The run with the control removed."""

    policy: dict[str, Any] = {}
    """Fields of SandboxPolicy, weakened."""
    limits: dict[str, Any] = {}
    """Fields of Limits, raised."""
    bypass: bool = False
    """`image` and `upload`: what our check refuses is used as a careless program would use it."""
    seen: Seen


class Expectation(_Part):
    """One program's expect.yaml."""

    family: Family
    kind: Kind
    attempts: Annotated[str, Field(min_length=10, max_length=300)]
    gains: Annotated[str, Field(min_length=5, max_length=300)]
    """What it would gain."""
    control: Annotated[str, Field(min_length=2, max_length=100)]
    """What stops it: a field of SandboxPolicy or Limits, or one of the words in docs/threat-model.md."""
    contained: Seen
    removed: Removed | None = None
    exception: str = ""
    """Why it is not run without its control."""
    limits: dict[str, Any] = {}
    """Fields of Limits that differ for this program."""
    seconds: Annotated[float, Field(gt=0, le=120)] = 20.0
    """How long it is given."""
    concurrent: bool = False
    """`pair`: both sandboxes live at once."""
    known_failures: dict[Runtime, str] = {}
    """Runtimes under which it is not contained as expected, each with the reason."""

    @model_validator(mode="after")
    def _proved(self) -> "Expectation":
        if (self.removed is None) == (not self.exception):
            raise ValueError("give `removed`, or the reason for its absence as `exception`")
        return self


class Program(_Part):
    """One program of the zoo."""

    name: str
    folder: Path
    expectation: Expectation


def catalogue(folder: Path) -> list[Program]:
    """Returns every program below a folder, by name. Raises Rejected when an expect.yaml is not one."""
    found = sorted(path.parent for path in folder.glob(f"*/{FILE_NAME}"))
    return [Program(name=f.name, folder=f, expectation=YamlFile(f / FILE_NAME).model(Expectation)) for f in found]
