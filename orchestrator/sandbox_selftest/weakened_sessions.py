"""Sessions of the image protocol with one check removed each, to show what the check is for.

Only the runner of `protocol` programs uses them, for the run with the control removed. Each class overrides one step of
`protocol.session.Session` and nothing else.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import PlayerReported
from orchestrator.protocol import messages
from orchestrator.protocol.frames import PAYLOAD_LIMIT, Frame
from orchestrator.protocol.session import CandidatesReply, PlayerReply, ReadyReply, Session
from orchestrator.sandbox_selftest.expectation import Weakness

_REPLY_TYPES = {"hello": "ready", "perturb": "candidates", "classify": "answers"}


class RecordingSession(Session):
    """The unchanged session, which also records the replies that it accepted."""

    def __init__(self, role: messages.Role, classes: int, payload_limit: int) -> None:
        super().__init__(role, classes, payload_limit)
        self.accepted_replies: list[PlayerReply] = []

    def feed(self, data: bytes) -> Iterator[PlayerReply]:
        """See `Session.feed`."""
        return self._record_replies(super().feed(data))

    def _record_replies(self, replies: Iterator[PlayerReply]) -> Iterator[PlayerReply]:
        for reply in replies:
            self.accepted_replies.append(reply)
            yield reply


class _AnyId(RecordingSession):
    def _reply_from(self, frame: Frame) -> PlayerReply:
        return super()._reply_from(Frame({**frame.header, "id": self._id}, frame.payload))


class _NeverQuiet(RecordingSession):
    def _raise_if_unsolicited(self) -> None:
        """Does nothing: pending bytes are read with the next reply."""


class _NeverOver(RecordingSession):
    def _next_id(self, kind: str) -> int:
        self._open_question = None
        return super()._next_id(kind)


class _AnyType(RecordingSession):
    def _reply_from(self, frame: Frame) -> PlayerReply:
        return super()._reply_from(
            Frame({**frame.header, "type": _REPLY_TYPES.get(self._open_question or "", "")}, frame.payload)
        )


class _AnySize(RecordingSession):
    def _candidates(self, frame: Frame, message: messages.Candidates) -> CandidatesReply:
        pixels: NDArray[Any] = np.full(message.shape, 1, message.dtype.numpy)
        delivered_bytes = np.frombuffer(frame.payload, np.uint8)
        pixels.reshape(-1).view(np.uint8)[: len(delivered_bytes)] = delivered_bytes
        self._undelivered, self._open_question = set(), None
        return CandidatesReply(tuple(message.index), pixels)


class _AnyPayload(RecordingSession):
    def __init__(self, role: messages.Role, classes: int, payload_limit: int) -> None:  # noqa: ARG002  the limit is what is removed
        super().__init__(role, classes, PAYLOAD_LIMIT)


class _RawText(RecordingSession):
    def _reply_from(self, frame: Frame) -> PlayerReply:
        message = messages.parse_message(frame)
        if isinstance(message, messages.Fault):
            raise PlayerReported(f"the player reported {message.code!s}: {message.text}")
        reply = super()._reply_from(frame)
        return (
            ReadyReply(message.name, reply.capabilities)
            if isinstance(message, messages.Ready) and isinstance(reply, ReadyReply)
            else reply
        )


SESSION_TYPES: Mapping[Weakness | None, type[RecordingSession]] = {
    None: RecordingSession,
    Weakness.IDS: _AnyId,
    Weakness.SILENCE: _NeverQuiet,
    Weakness.DEADLINE: _NeverOver,
    Weakness.TYPES: _AnyType,
    Weakness.SIZES: _AnySize,
    Weakness.PAYLOAD: _AnyPayload,
    Weakness.READING: RecordingSession,
    Weakness.TEXT: _RawText,
}
"""The session for each weakness of a careless orchestrator."""
