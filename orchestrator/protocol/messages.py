"""The headers of the image protocol's messages, version 1.

The orchestrator's messages are built from these models. A player's messages are validated by them, strictly typed and
never coerced. Unknown keys from a player are ignored, so that the protocol can grow; unknown types are a fault. The
JSON schemas in schemas/messages.schema.json are generated from these models.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, TypeAdapter, ValidationError

from orchestrator.domain.field_errors import field_errors
from orchestrator.errors import ProtocolFault
from orchestrator.protocol.frames import SAFE_INTEGER, Frame

PROTOCOL_VERSION = 1


class Role(StrEnum):
    """Which side a player plays."""

    ATTACK = "attack"
    DEFENCE = "defence"


class Capability(StrEnum):
    """What a defence can give. An absent capability is unsupported."""

    LABEL = "label"
    SCORES = "scores"
    GRADIENT = "gradient"


class Want(StrEnum):
    """The kinds of queries of an attack: what the reply contains."""

    DECISION = "decision"
    SCORES = "scores"
    GRADIENT = "gradient"


class Refusal(StrEnum):
    """Why a query was not put to the defence."""

    BUDGET = "budget"
    """The query costs more than one of its positions has left."""


class Dtype(StrEnum):
    """Array element types: unsigned bytes (pixels) and little-endian 32-bit floats (scores, gradients)."""

    U8 = "u8"
    F32 = "f32"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type, with its byte order."""
        return np.dtype("u1") if self is Dtype.U8 else np.dtype("<f4")


Id = Annotated[StrictInt, Field(ge=0, le=SAFE_INTEGER)]
Size = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
Shape = Annotated[list[Annotated[Size, Field(ge=1)]], Field(min_length=1, max_length=4)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    id: Id


class _ArrayMessage(_Message):
    dtype: Dtype
    shape: Shape


class BudgetHeader(BaseModel):
    """How far a candidate may be from its picture."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)
    norm: Literal["linf", "l2"]
    epsilon: float = Field(gt=0, description="in steps of 1/255")


class TaskHeader(BaseModel):
    """The task: its classes, the shape of a picture, and the budget."""

    model_config = ConfigDict(frozen=True)
    name: str
    classes: list[str]
    shape: list[int] = Field(description="channels, height, width of one picture")
    budget: BudgetHeader | None = None
    """Absent if the contest's format has no attacks."""


class QueriesHeader(BaseModel):
    """The queries that an attack may make, with their prices."""

    model_config = ConfigDict(frozen=True)
    per_picture: int = Field(ge=1, description="what the queries for one picture of a question may cost together")
    batch: int = Field(ge=1, description="the most pictures in one query")
    prices: dict[Want, Annotated[int, Field(ge=1)]] = Field(
        description="what one picture of a query costs, for each kind that is allowed"
    )


class LimitsHeader(BaseModel):
    """The limits of the player."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)
    ready_seconds: float = Field(description="from hello to ready")
    step_seconds: float = Field(
        description="for one question of `batch` pictures; to an attack, fewer pictures get their share"
    )
    batch: int = Field(description="the most pictures in one question")
    payload_bytes: int = Field(description="the longest payload the orchestrator reads")
    memory_bytes: int
    threads: int
    queries: QueriesHeader | None = None
    """Absent if the contest allows no queries, and for a defence."""


class Hello(_Message):
    """Opens the conversation. The player loads what it needs and answers `ready`."""

    type: Literal["hello"] = "hello"
    protocol: Literal[1] = 1
    role: Role
    task: TaskHeader
    limits: LimitsHeader
    seed: int = Field(ge=0, le=SAFE_INTEGER)


class Perturb(_ArrayMessage):
    """Asks an attack for candidates. Payload: u8 pixels [n, c, h, w]."""

    type: Literal["perturb"] = "perturb"
    labels: list[int] | None = Field(default=None, description="true labels, where the contest gives them")


class Classify(_ArrayMessage):
    """Asks a defence for labels. Payload: u8 pixels [n, c, h, w]."""

    type: Literal["classify"] = "classify"
    seeds: list[Annotated[int, Field(ge=0, le=SAFE_INTEGER)]] | None = Field(
        default=None, description="one for each picture, in a contest that allows a defence chance"
    )


class Gradient(_ArrayMessage):
    """Asks a defence for the loss gradient at the pictures. Payload: u8 pixels [n, c, h, w]."""

    type: Literal["gradient"] = "gradient"
    labels: list[int]


class Reply(_Message):
    """Answers an attack's query: labels for `decision`; an f32 payload for `scores` and `gradient`; or a refusal."""

    type: Literal["reply"] = "reply"
    left: list[int] = Field(description="what each position that was named has left")
    refused: Refusal | None = None
    labels: list[int | None] | None = None
    dtype: Dtype | None = None
    shape: Shape | None = None


class Bye(_Message):
    """Ends the conversation. The player exits by itself."""

    type: Literal["bye"] = "bye"


class Ready(_Message):
    """The player has loaded. `name` is for people and is never trusted."""

    type: Literal["ready"] = "ready"
    name: Annotated[StrictStr, Field(max_length=200)] = ""
    gives: list[Capability] = Field(default_factory=list, max_length=8)


class Candidates(_ArrayMessage):
    """An attack's candidates for the positions in `index`; several messages may deliver them, each position once."""

    type: Literal["candidates"] = "candidates"
    index: list[Size] = Field(min_length=1)


class Answers(_Message):
    """A defence's labels, null for an abstention. Scores, if any, are the payload: f32 [n, classes]."""

    type: Literal["answers"] = "answers"
    labels: list[Size | None]
    dtype: Dtype | None = None
    shape: Shape | None = None


class Gradients(_ArrayMessage):
    """A defence's gradients. Payload: f32 [n, c, h, w]."""

    type: Literal["gradients"] = "gradients"


class Query(_ArrayMessage):
    """An attack's query to the defence, if the contest's access model allows it. Payload: u8 pixels."""

    type: Literal["query"] = "query"
    want: Want
    asked_for: list[Size] = Field(
        alias="for", min_length=1, description="the position in the question that each picture is asked for"
    )


class Fault(_Message):
    """The player gives up this question and says why."""

    type: Literal["fault"] = "fault"
    code: Annotated[StrictStr, Field(max_length=64)]
    text: Annotated[StrictStr, Field(max_length=4096)] = ""


FromOrchestrator = Annotated[Hello | Perturb | Classify | Gradient | Reply | Bye, Field(discriminator="type")]
FromPlayer = Annotated[Ready | Candidates | Answers | Gradients | Query | Fault, Field(discriminator="type")]
Question = Hello | Perturb | Classify | Gradient
PlayerMessage = Ready | Candidates | Answers | Gradients | Query | Fault

_player_message_adapter: TypeAdapter[PlayerMessage] = TypeAdapter(FromPlayer)


def parse_message(frame: Frame) -> PlayerMessage:
    """Returns the player's message in a frame.

    Raises:
        ProtocolFault: `type` for an unknown type, `header` for a missing or wrong field.
    """
    try:
        return _player_message_adapter.validate_python(frame.header)
    except ValidationError as error:
        problem = field_errors(error)[0].problem("type")
        # With an unknown type nothing is known about the other fields, so the error is at no other field.
        raise ProtocolFault("type" if problem.place == "type" else "header", f"header field {problem}") from None


def payload_array(frame: Frame, dtype: Dtype, shape: list[int]) -> NDArray[Any]:
    """Returns a frame's payload as an array that shares its memory.

    Raises:
        ProtocolFault: `payload-size` if the payload is not exactly prod(shape) x itemsize bytes.
    """
    expected = dtype.numpy.itemsize
    for size in shape:
        expected *= size
    if len(frame.payload) != expected:
        raise ProtocolFault("payload-size", f"payload of {len(frame.payload)} bytes, {dtype} {shape} is {expected}")
    return np.frombuffer(frame.payload, dtype.numpy).reshape(shape)
