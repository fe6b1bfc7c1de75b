"""One conversation with one player, as a state machine without I/O.

Theory of operation. The orchestrator starts every exchange: each `ask_*` method returns the bytes to send and opens one
question; `feed` takes bytes as they arrive and yields the replies that are complete. A question is open until its last
reply. The session knows which messages may come next, so every other message ends in one `ProtocolFault`,
`OutputFlood` or `PlayerReported`. After a fault the session is over: the sandbox is replaced, because a late reply must
never be read as the reply to the next question.

Bytes that arrive while no question is open, or while the player's own query waits for its reply, are a flood, which is
detected at the next call of `feed` or of a method that returns a message; before `bye`, `unread_bytes` counts them.
Replies before them count. So do candidates before a fault, however the pipe cut the bytes: `feed` yields them first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from orchestrator.domain.text import printable
from orchestrator.errors import OutputFlood, PlayerReported, ProtocolFault, SubmissionFault
from orchestrator.protocol import frames, messages
from orchestrator.protocol.messages import Capability, Dtype, Refusal, Role, Want

Pixels = NDArray[np.uint8]
PICTURE_AXES = 4


@dataclass(frozen=True, slots=True)
class ReadyReply:
    """The player is ready; `name` is the name that it gives itself, made printable."""

    name: str
    capabilities: frozenset[Capability]


@dataclass(frozen=True, slots=True)
class CandidatesReply:
    """Some of an attack's candidates: positions in the batch and their arrays; the gate judges type and shape."""

    index: tuple[int, ...]
    pixels: NDArray[Any]


@dataclass(frozen=True, slots=True)
class AnswersReply:
    """A defence's labels (None: abstained), and its scores f32 [n, classes] if it gave them."""

    labels: tuple[int | None, ...]
    scores: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class GradientsReply:
    """A defence's gradients, f32 [n, c, h, w]."""

    gradients: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AttackQuery:
    """An attack's query about pictures u8 [n, c, h, w] that it made; `Session.answer_query` answers it.

    `positions` say for which picture of the question each of them is asked.
    """

    want: Want
    pixels: Pixels
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueryReply:
    """The reply to an attack's query.

    Attributes:
        left: the query budget that each position of the query has left.
        labels: the labels of its pictures, None where the defence gave none.
        values: scores or gradients f32, NaN where the defence gave none.
        refused: why the defence was not asked; then there are neither labels nor values.
    """

    left: list[int]
    labels: list[int | None] | None = None
    values: NDArray[np.float32] | None = None
    refused: Refusal | None = None


PlayerReply = ReadyReply | CandidatesReply | AnswersReply | GradientsReply | AttackQuery


class Session:
    """The protocol's state on one stream.

    Args:
        role: the side that the player plays.
        classes: the number of classes of the task; a label that is not below it is malformed.
        payload_limit: the longest payload that is accepted, in bytes; `hello` tells the player.
        queries: the queries that an attack may make, or None if it may make none; `hello` tells the attack.
    """

    def __init__(
        self, role: Role, classes: int, payload_limit: int, *, queries: messages.QueriesHeader | None = None
    ) -> None:
        self.role = role
        self._classes = classes
        self._payload_limit = payload_limit
        self._queries = queries
        self._decoder = frames.FrameDecoder(payload_limit)
        self._id = 0
        self._open_question: str | None = None
        self._capabilities: frozenset[Capability] | None = None
        self._ended = False
        self._shape: tuple[int, ...] = ()
        self._undelivered: set[int] = set()
        self._query: int | None = None

    @property
    def has_open_question(self) -> bool:
        """Whether a question is open."""
        return self._open_question is not None

    @property
    def gives_gradients(self) -> bool:
        """Whether the player said in `ready` that it gives gradients."""
        return self._capabilities is not None and Capability.GRADIENT in self._capabilities

    @property
    def unread_bytes(self) -> int:
        """The number of bytes that arrived and were not read as a reply: part of a frame, or unsolicited."""
        return self._decoder.pending_bytes

    @property
    def undelivered(self) -> frozenset[int]:
        """The positions of the last `perturb` that did not arrive."""
        return frozenset(self._undelivered)

    def ask_hello(self, task: messages.TaskHeader, limits: messages.LimitsHeader, seed: int) -> bytes:
        """Returns the opening message, which has to be the first, and is sent once."""
        if self._id:
            raise ValueError("hello comes first, and once")
        limits = limits.model_copy(update={"payload_bytes": self._payload_limit, "queries": self._queries})
        return self._send_question(
            messages.Hello(id=self._next_id("hello"), role=self.role, task=task, limits=limits, seed=seed)
        )

    def ask_perturb(self, pixels: Pixels, labels: list[int] | None) -> bytes:
        """Returns a question for candidates for `pixels` [n, c, h, w]."""
        self._check_question(Role.ATTACK, pixels, labels)
        message = messages.Perturb(id=self._next_id("perturb"), dtype=Dtype.U8, shape=list(pixels.shape), labels=labels)
        question = self._send_question(message, pixels)
        self._undelivered = set(range(len(pixels)))
        return question

    def ask_classify(self, pixels: Pixels, seeds: list[int] | None = None) -> bytes:
        """Returns a question for the labels of `pixels` [n, c, h, w], with a seed for each if randomness is allowed."""
        self._check_question(Role.DEFENCE, pixels, seeds, "seeds")
        identity = self._next_id("classify")
        message = messages.Classify(id=identity, dtype=Dtype.U8, shape=list(pixels.shape), seeds=seeds)
        return self._send_question(message, pixels)

    def ask_gradient(self, pixels: Pixels, labels: list[int]) -> bytes:
        """Returns a question for the loss gradient at `pixels` [n, c, h, w], for a player that gives gradients."""
        self._check_question(Role.DEFENCE, pixels, labels)
        identity = self._next_id("gradient")
        if not self.gives_gradients:
            raise ValueError("this player does not give gradients")
        message = messages.Gradient(id=identity, dtype=Dtype.U8, shape=list(pixels.shape), labels=labels)
        return self._send_question(message, pixels)

    def answer_query(self, reply: QueryReply) -> bytes:
        """Returns the answer to the attack's open query.

        Raises:
            OutputFlood: the player continued to write without waiting for this reply.
        """
        if self._query is None:
            raise ValueError("there is no query to reply to")
        self._raise_if_unsolicited()
        values = reply.values
        header = messages.Reply(
            id=self._query,
            left=reply.left,
            refused=reply.refused,
            labels=reply.labels,
            dtype=None if values is None else Dtype.F32,
            shape=None if values is None else list(values.shape),
        )
        message = _encode_message(header, None if values is None else np.asarray(values, "<f4"))
        self._query = None
        return message

    def close_conversation(self) -> bytes:
        """Returns the closing message; afterwards the session asks and reads nothing."""
        self._end_session()
        return _encode_message(messages.Bye(id=self._id + 1))

    def feed(self, data: bytes) -> Iterator[PlayerReply]:
        """Adds the player's bytes; yields the replies that they complete, in order, and then raises a fault, if any.

        The bytes are added at once, even if the iterator is never used.

        Raises:
            ProtocolFault: a message is malformed, unexpected or for another question.
            OutputFlood: bytes arrived although nothing was asked.
            PlayerReported: the player sent `fault`.
        """
        self._decoder.feed(data)
        if self._open_question is None or self._query is not None:
            self._raise_if_unsolicited()
        return self._replies()

    def _replies(self) -> Iterator[PlayerReply]:
        while self._open_question is not None and self._query is None:
            try:
                frame = self._decoder.next_frame()
                reply = None if frame is None else self._reply_from(frame)
            except SubmissionFault:
                self._end_session()
                raise
            if reply is None:
                return
            yield reply

    def _raise_if_unsolicited(self) -> None:
        if pending := self._decoder.pending_bytes:
            self._end_session()
            raise OutputFlood(f"{pending} bytes although nothing was asked; a player never speaks first")

    def _end_session(self) -> None:
        """Ends the session; `undelivered` keeps its value."""
        self._ended, self._open_question, self._query = True, None, None
        self._decoder = frames.FrameDecoder(self._payload_limit)

    def _next_id(self, kind: str) -> int:
        if self._ended or self._open_question is not None:
            raise ValueError(f"{kind} cannot be asked now")
        if kind != "hello" and self._capabilities is None:
            raise ValueError("hello comes first")
        self._raise_if_unsolicited()
        return self._id + 1

    def _check_question(self, role: Role, pixels: Pixels, numbers: list[int] | None, what: str = "labels") -> None:
        if self.role is not role:
            raise ValueError(f"this question is for the {role}, the player is the {self.role}")
        if pixels.dtype != np.uint8 or pixels.ndim != PICTURE_AXES or not pixels.size:
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}, expected u8 [n, c, h, w] and none of them 0")
        if numbers is not None and len(numbers) != len(pixels):
            raise ValueError(f"{len(numbers)} {what} for {len(pixels)} pictures")

    def _send_question(self, message: messages.Question, pixels: Pixels | None = None) -> bytes:
        frame = _encode_message(message, pixels)
        self._id, self._open_question = message.id, message.type
        self._shape = () if pixels is None else pixels.shape
        return frame

    def _reply_from(self, frame: frames.Frame) -> PlayerReply:
        message = messages.parse_message(frame)
        if message.id != self._id:
            raise ProtocolFault("id", f"reply to question {message.id}, question {self._id} is open")
        match self._open_question, message:
            case _, messages.Fault():
                raise PlayerReported(f"the player reported {printable(message.code)!r}: {printable(message.text)}")
            case "hello", messages.Ready():
                self._require_no_payload(frame)
                self._open_question, self._capabilities = None, frozenset(message.gives)
                return ReadyReply(printable(message.name, 80), self._capabilities)
            case "perturb", messages.Candidates():
                return self._candidates(frame, message)
            case "perturb", messages.Query() if self._queries is not None:
                return self._attack_query(frame, message, self._queries)
            case "classify", messages.Answers():
                return self._answers(frame, message)
            case "gradient", messages.Gradients():
                gradients = _float_array(frame, message.dtype, message.shape, self._shape)
                self._open_question = None
                return GradientsReply(gradients)
            case _:
                raise ProtocolFault("unexpected", f"{message.type!r} does not answer {self._open_question!r}")

    def _candidates(self, frame: frames.Frame, message: messages.Candidates) -> CandidatesReply:
        pixels = messages.payload_array(frame, message.dtype, message.shape)
        if len(pixels) != len(message.index):
            raise ProtocolFault("index", f"{len(message.index)} positions for {len(pixels)} pictures")
        fresh = set(message.index)
        if len(fresh) != len(message.index) or not fresh <= self._undelivered:
            raise ProtocolFault("index", "a position twice, or one that was not asked for")
        self._undelivered -= fresh
        if not self._undelivered:
            self._open_question = None
        return CandidatesReply(tuple(message.index), pixels)

    def _attack_query(
        self, frame: frames.Frame, message: messages.Query, allowed: messages.QueriesHeader
    ) -> AttackQuery:
        pixels = messages.payload_array(frame, message.dtype, message.shape)
        if message.want not in allowed.prices:
            raise ProtocolFault("unexpected", f"a query for {message.want}, which this contest does not allow")
        if message.dtype is not Dtype.U8 or pixels.shape[1:] != self._shape[1:]:
            raise ProtocolFault("shape", f"a query of {message.dtype} {message.shape} about {list(self._shape)}")
        if len(pixels) > allowed.batch:
            raise ProtocolFault("count", f"a query of {len(pixels)} pictures, at most {allowed.batch}")
        if len(message.asked_for) != len(pixels):
            raise ProtocolFault("index", f"{len(message.asked_for)} positions for {len(pixels)} pictures")
        if not self._undelivered.issuperset(message.asked_for):
            raise ProtocolFault("index", "a query for a position that was not asked for, or was delivered")
        self._query = message.id
        return AttackQuery(message.want, pixels, tuple(message.asked_for))

    def _answers(self, frame: frames.Frame, message: messages.Answers) -> AnswersReply:
        count = self._shape[0]
        if len(message.labels) != count:
            raise ProtocolFault("count", f"{len(message.labels)} labels for {count} pictures")
        if any(label is not None and label >= self._classes for label in message.labels):
            raise ProtocolFault("label", f"a label beyond the {self._classes} classes")
        scores = None
        if message.dtype is None and message.shape is None:
            self._require_no_payload(frame)
        elif message.dtype is None or message.shape is None:
            raise ProtocolFault("header", "scores need both dtype and shape")
        else:
            scores = _float_array(frame, message.dtype, message.shape, (count, self._classes))
        self._open_question = None
        return AnswersReply(tuple(message.labels), scores)

    def _require_no_payload(self, frame: frames.Frame) -> None:
        if frame.payload:
            raise ProtocolFault("payload-size", f"payload of {len(frame.payload)} bytes where none belongs")


def _encode_message(message: BaseModel, values: NDArray[Any] | None = None) -> bytes:
    payload: bytes | memoryview = b""
    if values is not None:
        payload = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    return frames.encode_text_frame(message.model_dump_json(exclude_none=True).encode(), payload)


def _float_array(frame: frames.Frame, dtype: Dtype, shape: list[int], expected: tuple[int, ...]) -> NDArray[np.float32]:
    if dtype is not Dtype.F32 or tuple(shape) != expected:
        raise ProtocolFault("shape", f"{dtype} {shape}, expected f32 {list(expected)}")
    values = messages.payload_array(frame, dtype, shape)
    if np.isnan(values.min()):  # the minimum is NaN if any value is
        raise ProtocolFault("nan", "a value is NaN")
    return values
