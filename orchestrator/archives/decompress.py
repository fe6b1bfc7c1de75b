"""Decompresses bytes from strangers in pieces, with bounded memory, and stops early at bombs."""

import zlib
from collections.abc import Callable, Iterator

from orchestrator.archives.members import PIECE_BYTES, MalformedArchive

_GZIP = zlib.MAX_WBITS | 16
_DAMAGED = "it is damaged: send it again"


def decompressed(pieces: Iterator[bytes], wbits: int = _GZIP) -> Iterator[bytes]:
    """Yields the inflated bytes of one compressed stream, at most `PIECE_BYTES` at a time.

    Raises:
        MalformedArchive: the stream is damaged, has no end, or is followed by other bytes.
    """
    inflate = zlib.decompressobj(wbits)
    for piece in pieces:
        data = piece
        if inflate.eof:
            raise MalformedArchive("bytes after the end of what is compressed", _DAMAGED)
        while data:
            yield from _decompress(inflate, data)
            data = inflate.unconsumed_tail
        if inflate.unused_data:
            raise MalformedArchive("bytes after the end of what is compressed", _DAMAGED)
    while not inflate.eof:
        rest = list(_decompress(inflate, b""))
        if not rest:
            raise MalformedArchive("compressed bytes without an end", "it was cut short: send it again")
        yield from rest


def _decompress(inflate: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    try:
        output = inflate.decompress(data, PIECE_BYTES)
    except zlib.error as error:
        raise MalformedArchive(f"it cannot be inflated: {error}", _DAMAGED) from None
    if output:
        yield output


class PieceReader:
    """Reads pieces of bytes in requested sizes. `TarStream` calls it as its `read`."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._position = 0

    def __call__(self, count: int) -> bytes:
        """Returns at most `count` bytes, and b"" only at the end."""
        if self._position == len(self._piece):
            self._piece, self._position = next(self._pieces, b""), 0
        found = self._piece[self._position : self._position + count]
        self._position += len(found)
        return found


def with_observers(pieces: Iterator[bytes], *watchers: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yields the pieces. It first calls each watcher with the piece, such as a digest or a limit."""
    for piece in pieces:
        for watch in watchers:
            watch(piece)
        yield piece


class RatioLimit:
    """A limit on the ratio of output bytes to input bytes. It applies once there are more than `free` output bytes."""

    def __init__(self, most: int, free: int) -> None:
        self._max_ratio, self._unchecked_bytes = most, free
        self._input = self._output = 0

    def add_input(self, piece: bytes) -> None:
        """Counts a piece of input."""
        self._input += len(piece)

    def add_output(self, piece: bytes) -> None:
        """Counts a piece of output. Raises MalformedArchive beyond the limit."""
        self._output += len(piece)
        if self._output > self._unchecked_bytes and self._output > self._max_ratio * self._input:
            raise MalformedArchive(
                f"{self._output} bytes out of {self._input}, more than {self._max_ratio} times as many: a bomb",
                "leave out what is empty or repeats itself",
            )


class SizeLimit:
    """A limit on the number of output bytes."""

    def __init__(self, most: int) -> None:
        self._left = self._max_bytes = most

    def add_output(self, piece: bytes) -> None:
        """Counts a piece of output. Raises MalformedArchive beyond the limit."""
        self._left -= len(piece)
        if self._left < 0:
            raise MalformedArchive(f"more than {self._max_bytes} bytes when unpacked", "leave out what is not needed")
