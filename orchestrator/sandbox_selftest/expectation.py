"""`expect.yaml`: what a hostile program tries, which control stops it, and how that is seen.

A program lies in a folder of its own under tests/hostile/. A program that fails by itself proves nothing, so each names
the control that stops it and is run a second time with that control removed, where it must do its harm. The few that
cannot be run so say why (`exception`).
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.intake.yaml_file import YamlFile
from orchestrator.sandboxes.base import Ending

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
    image is offered for admission. `upload`: `make.py FOLDER` writes files that our readers then read. `ending`:
    `program.py` is ended while it runs, and looked for afterwards.
    """

    SANDBOX = "sandbox"
    PAIR = "pair"
    PROTOCOL = "protocol"
    IMAGE = "image"
    UPLOAD = "upload"
    ENDING = "ending"


class QuestionKind(StrEnum):
    """What a `protocol` program is asked after `hello`."""

    CLASSIFY = "classify"
    PERTURB = "perturb"


class Weakness(StrEnum):
    """What a careless orchestrator would do, where the control is code of ours.

    Up to `TEXT` they are for `protocol` (orchestrator/sandbox_selftest/weakened.py); `REUSE` is for `pair`, the
    others for `ending` (orchestrator/sandbox_selftest/endings.py).
    """

    IDS = "ids"
    """Takes a reply whatever question it answers."""
    SILENCE = "silence"
    """Takes bytes although nothing was asked."""
    DEADLINE = "over"
    """Goes on with a player after a deadline has passed."""
    TYPES = "types"
    """Takes every message for the reply that is waited for."""
    SIZES = "sizes"
    """Makes room for the array that a header announces, whatever arrived."""
    PAYLOAD = "payload"
    """Reads payloads of any length."""
    READING = "reading"
    """Keeps all that a player writes, and looks at it at the end."""
    TEXT = "text"
    """Shows a player's text as it is."""
    TERMINATE = "terminate"
    """Ends a player with SIGTERM."""
    PROCESS = "process"
    """Ends the process that was started, and no other."""
    GROUP = "group"
    """Ends the process group that was started."""
    REUSE = "reuse"
    """Gives the second player of a `pair` the sandbox that the first one had."""
    UNREAD = "unread"
    """Has the engine kill a player whose output waits to be read."""


def _typed_fields(values: dict[str, Any], kind: type) -> dict[str, Any]:
    """Returns the values as a dataclass has them. Raises ValueError for what is no field of it, or not of its type."""
    types = get_type_hints(kind)
    unknown = sorted(set(values) - set(types))
    if unknown:
        raise ValueError(f"no field of {kind.__name__}: {', '.join(unknown)}")
    return {name: TypeAdapter(types[name]).validate_python(value) for name, value in values.items()}


PolicyFields = Annotated[dict[str, Any], AfterValidator(lambda values: _typed_fields(values, SandboxPolicy))]
LimitFields = Annotated[dict[str, Any], AfterValidator(lambda values: _typed_fields(values, Limits))]


class _FrozenModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectedResult(_FrozenModel):
    """What has to be seen of a run. Only what is given is compared."""

    harm: bool | None = None
    """What the program itself reports."""
    ending: Ending | None = None
    fault: str | None = None
    """The code of the submission fault, `protocol` kind only; with its reason after a slash: protocol/magic."""
    refused: list[str] | None = None
    """The places of the problems for which an image or an upload is refused."""
    max_seconds: float | None = None
    max_peak_bytes: int | None = None
    """Bytes."""
    max_cpu_share: float | None = None
    """Processor seconds per second of wall clock."""
    min_cpu_share: float | None = None


class ControlRemoved(_FrozenModel):
    """The run with the control removed."""

    policy: PolicyFields = {}
    """Fields of SandboxPolicy, weakened."""
    limits: LimitFields = {}
    """Fields of Limits, raised."""
    weakness: Weakness | None = None
    """`protocol`, `ending` and `pair`: the one check of ours that is left out."""
    bypass: bool = False
    """`image` and `upload`: what our check refuses is used as a careless program would use it."""
    expected: ExpectedResult


class Expectation(_FrozenModel):
    """One program's expect.yaml."""

    family: Family
    kind: Kind
    attempt: Annotated[str, Field(min_length=10, max_length=300)]
    gain: Annotated[str, Field(min_length=5, max_length=300)]
    """What it would gain."""
    control: Annotated[str, Field(min_length=2, max_length=100)]
    """What stops it: a field of SandboxPolicy or Limits, or one of the words in `sandbox_selftest.controls`."""
    contained: ExpectedResult
    removed: ControlRemoved | None = None
    exception: str = ""
    """Why it is not run without its control."""
    not_removable: dict[str, str] = {}
    """Backends on which it is not run without its control, each with the reason: what else stops it there."""
    limits: LimitFields = {}
    """Fields of Limits that differ for this program."""
    seconds: Annotated[float, Field(gt=0, le=120)] = 20.0
    """How long it is given."""
    question: QuestionKind = QuestionKind.CLASSIFY
    """`protocol`: what it is asked."""
    question_count: Annotated[int, Field(ge=1, le=8)] = 1
    """`protocol`: how often."""
    largest_image: int | None = None
    """`image`: bytes from which an image is too large, where the real limit is too large to be tried."""
    concurrent: bool = False
    """`pair`: both sandboxes live at once."""
    known_failures: dict[Runtime, str] = {}
    """Runtimes under which it is not contained as expected, each with the reason."""

    @model_validator(mode="after")
    def _has_proof(self) -> "Expectation":
        if (self.removed is None) == (not self.exception):
            raise ValueError("give `removed`, or the reason for its absence as `exception`")
        return self


class Program(_FrozenModel):
    """One hostile program."""

    name: str
    folder: Path
    expectation: Expectation


def read_catalogue(folder: Path) -> list[Program]:
    """Returns every program below a folder, by name. Raises Rejected when an expect.yaml is not one."""
    found = sorted(path.parent for path in folder.glob(f"*/{FILE_NAME}"))
    return [Program(name=f.name, folder=f, expectation=YamlFile(f / FILE_NAME).parse_model(Expectation)) for f in found]
