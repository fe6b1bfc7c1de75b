"""`expect.yaml`: what a hostile program tries, which control stops it, and the expected results.

Each program has a folder under tests/hostile/. A program that fails by itself proves nothing. So each names the control
that stops it, and runs a second time with that control removed, when it must do its harm. For the few programs that
cannot run so, `exception` gives the reason.
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
    """The area that a program attacks."""

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

    `sandbox`: `program.py` runs in one sandbox and prints a report. `pair`: `program.py first TOKEN` and `program.py
    second TOKEN` run in two sandboxes. `protocol`: `player.py` is asked questions like any player. `image`: an image is
    built from the Dockerfile and offered for admission. `upload`: `make.py FOLDER` writes files, which our readers then
    read. `ending`: `program.py` is stopped while it runs, and surviving processes are counted.
    """

    SANDBOX = "sandbox"
    PAIR = "pair"
    PROTOCOL = "protocol"
    IMAGE = "image"
    UPLOAD = "upload"
    ENDING = "ending"


class QuestionKind(StrEnum):
    """The question to a `protocol` program after `hello`."""

    CLASSIFY = "classify"
    PERTURB = "perturb"


class Weakness(StrEnum):
    """What a careless orchestrator would do, for controls that are in our code.

    Those up to `TEXT` are for `protocol` (see `weakened_sessions.py`); `REUSE` is for `pair`, the others are for
    `ending` (see `endings.py`).
    """

    IDS = "ids"
    """Accepts a reply with the id of another question."""
    SILENCE = "silence"
    """Accepts bytes although no question is open."""
    DEADLINE = "over"
    """Continues with a player after a deadline has passed."""
    TYPES = "types"
    """Accepts a message of any type as the reply."""
    SIZES = "sizes"
    """Allocates the array that a header announces, whatever arrived."""
    PAYLOAD = "payload"
    """Reads payloads of any length."""
    READING = "reading"
    """Buffers all output of a player."""
    TEXT = "text"
    """Shows a player's text unescaped."""
    TERMINATE = "terminate"
    """Sends SIGTERM to the player."""
    PROCESS = "process"
    """Kills only the process that it started."""
    GROUP = "group"
    """Kills only the process group that it started."""
    REUSE = "reuse"
    """Runs the second player of a `pair` in the sandbox of the first."""
    UNREAD = "unread"
    """Has the engine kill a player whose output is not read."""


def _typed_fields(values: dict[str, Any], kind: type) -> dict[str, Any]:
    """Converts values to the types of a dataclass's fields. Raises ValueError for an unknown field or a wrong type."""
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
    """The expected result of a run. Only the given fields are compared."""

    harm: bool | None = None
    """Whether the program did harm."""
    ending: Ending | None = None
    fault: str | None = None
    """The code of the submission fault, with its reason after a slash: protocol/magic. Only for the kind `protocol`."""
    refused: list[str] | None = None
    """The places of the problems for which an image or an upload is refused."""
    max_seconds: float | None = None
    max_peak_bytes: int | None = None
    """Bytes."""
    max_cpu_share: float | None = None
    """Processor seconds per second of wall time."""
    min_cpu_share: float | None = None


class ControlRemoved(_FrozenModel):
    """The run with the control removed."""

    policy: PolicyFields = {}
    """Fields of SandboxPolicy, weakened."""
    limits: LimitFields = {}
    """Fields of Limits, raised."""
    weakness: Weakness | None = None
    """`protocol`, `ending` and `pair`: the one check of ours that is omitted."""
    bypass: bool = False
    """`image` and `upload`: whether to use what our check refuses, as a careless program would."""
    expected: ExpectedResult


class Expectation(_FrozenModel):
    """One program's expect.yaml."""

    family: Family
    kind: Kind
    attempt: Annotated[str, Field(min_length=10, max_length=300)]
    gain: Annotated[str, Field(min_length=5, max_length=300)]
    """What it would gain."""
    control: Annotated[str, Field(min_length=2, max_length=100)]
    """What stops it: names fields of SandboxPolicy or Limits, or keys of `sandbox_selftest.controls.CODE_CONTROLS`."""
    contained: ExpectedResult
    removed: ControlRemoved | None = None
    exception: str = ""
    """Why it does not run without its control."""
    not_removable: dict[str, str] = {}
    """The backends on which it does not run without its control, each with the reason: what else stops it there."""
    limits: LimitFields = {}
    """Fields of Limits that differ for this program."""
    seconds: Annotated[float, Field(gt=0, le=120)] = 20.0
    """Its time limit."""
    question: QuestionKind = QuestionKind.CLASSIFY
    """`protocol`: the question to it."""
    question_count: Annotated[int, Field(ge=1, le=8)] = 1
    """`protocol`: the number of questions."""
    largest_image: int | None = None
    """`image`: a limit on the image's size in bytes, if the real limit is too large to test."""
    concurrent: bool = False
    """`pair`: whether both sandboxes run at the same time."""
    known_failures: dict[Runtime, str] = {}
    """The runtimes under which it is not contained as expected, each with the reason."""

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
    """Returns every program below a folder, sorted by name. Raises Rejected if an expect.yaml is invalid."""
    folders = sorted(path.parent for path in folder.glob(f"*/{FILE_NAME}"))
    return [
        Program(name=each.name, folder=each, expectation=YamlFile(each / FILE_NAME).parse_model(Expectation))
        for each in folders
    ]
