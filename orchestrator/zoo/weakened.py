"""Sessions of the image protocol with one check taken out each, to show what the check is for.

They are never played with: the runner of `protocol` programs uses them for the run with the control removed. Each
class overrides one step of `wire.session.Session` and nothing else.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import PlayerReported
from orchestrator.wire import messages
from orchestrator.wire.frames import PAYLOAD_LIMIT, Frame
from orchestrator.wire.session import Delivered, Greeted, Reply, Session
from orchestrator.zoo.expectation import Weaker

_REPLIES = {"hello": "ready", "perturb": "candidates", "classify": "answers"}


class Heard(Session):
    """The session as it is played; it remembers what it accepted."""

    def __init__(self, role: messages.Role, classes: int, payload_limit: int) -> None:
        super().__init__(role, classes, payload_limit)
        self.accepted: list[Reply] = []

    def feed(self, data: bytes) -> Iterator[Reply]:
        """See `Session.feed`."""
        return self._remembered(super().feed(data))

    def _remembered(self, replies: Iterator[Reply]) -> Iterator[Reply]:
        for reply in replies:
            self.accepted.append(reply)
            yield reply


class _AnyId(Heard):
    def _take(self, frame: Frame) -> Reply:
        return super()._take(Frame({**frame.header, "id": self._id}, frame.payload))


class _NeverQuiet(Heard):
    def _quiet(self) -> None:
        """Whatever is pending is read with the next reply."""


class _NeverOver(Heard):
    def _next(self, kind: str) -> int:
        self._open = None
        return super()._next(kind)


class _AnyType(Heard):
    def _take(self, frame: Frame) -> Reply:
        return super()._take(Frame({**frame.header, "type": _REPLIES.get(self._open or "", "")}, frame.payload))


class _AnySize(Heard):
    def _candidates(self, frame: Frame, message: messages.Candidates) -> Delivered:
        pixels: NDArray[Any] = np.full(message.shape, 1, message.dtype.numpy)
        there = np.frombuffer(frame.payload, np.uint8)
        pixels.reshape(-1).view(np.uint8)[: len(there)] = there
        self._waiting, self._open = set(), None
        return Delivered(tuple(message.index), pixels)


class _AnyPayload(Heard):
    def __init__(self, role: messages.Role, classes: int, payload_limit: int) -> None:  # noqa: ARG002  the limit is what is removed
        super().__init__(role, classes, PAYLOAD_LIMIT)


class _RawText(Heard):
    def _take(self, frame: Frame) -> Reply:
        message = messages.parse(frame)
        if isinstance(message, messages.Fault):
            raise PlayerReported(f"the player reported {message.code!s}: {message.text}")
        reply = super()._take(frame)
        return (
            Greeted(message.name, reply.gives)
            if isinstance(message, messages.Ready) and isinstance(reply, Greeted)
            else reply
        )


SESSIONS: Mapping[Weaker | None, type[Heard]] = {
    None: Heard,
    Weaker.IDS: _AnyId,
    Weaker.SILENCE: _NeverQuiet,
    Weaker.OVER: _NeverOver,
    Weaker.TYPES: _AnyType,
    Weaker.SIZES: _AnySize,
    Weaker.PAYLOAD: _AnyPayload,
    Weaker.READING: Heard,
    Weaker.TEXT: _RawText,
}
"""The session for each thing that a careless orchestrator does to a conversation."""
