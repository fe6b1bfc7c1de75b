"""What a player wrote and nobody has asked for yet."""

from collections import deque

CHUNK = 1024 * 1024
"""The most bytes that `Sandbox.receive` returns at a time."""
HELD = 16 * 1024 * 1024
"""The most bytes of stdout held while a player is being written to. More is left in its pipe, where it blocks."""


class Held:
    """Chunks in the order they came. `size` is their sum in bytes."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether no more should be read for now."""
        return self.size >= HELD

    def add(self, data: bytes) -> None:
        """Takes bytes as they were read."""
        if data:
            self._chunks.append(data)
            self.size += len(data)

    def take(self) -> bytes:
        """Returns the oldest bytes, at most `CHUNK`; b"" when nothing is held."""
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        if len(data) > CHUNK:
            self._chunks.appendleft(data[CHUNK:])
            data = data[:CHUNK]
        self.size -= len(data)
        return data
