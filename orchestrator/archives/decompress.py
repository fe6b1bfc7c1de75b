"""Compressed bytes from strangers become bytes, in pieces: never more than is asked for, and bombs end early."""

import zlib
from collections.abc import Callable, Iterator

from orchestrator.archives.members import PIECE_BYTES, MalformedArchive

_GZIP = zlib.MAX_WBITS | 16


def decompressed(
    pieces: Iterator[bytes], wbits: int = _GZIP, remedy: str = "it is damaged: send it again"
) -> Iterator[bytes]:
    """Yields what the pieces inflate to, at most `PIECE_BYTES` bytes at a time. One stream, and nothing after it.

    Raises:
        MalformedArchive: it is damaged, has no end, or something follows its end.
    """
    inflate = zlib.decompressobj(wbits)
    for piece in pieces:
        data = piece
        if inflate.eof:
            raise MalformedArchive("bytes after the end of what is compressed", remedy)
        while data:
            yield from _decompress(inflate, data, remedy)
            data = inflate.unconsumed_tail
        if inflate.unused_data:
            raise MalformedArchive("bytes after the end of what is compressed", remedy)
    while not inflate.eof:
        rest = list(_decompress(inflate, b"", remedy))
        if not rest:
            raise MalformedArchive("compressed bytes without an end", "it was cut short: send it again")
        yield from rest


def _decompress(inflate: "zlib._Decompress", data: bytes, remedy: str) -> Iterator[bytes]:
    try:
        output = inflate.decompress(data, PIECE_BYTES)
    except zlib.error as error:
        raise MalformedArchive(f"it cannot be inflated: {error}", remedy) from None
    if output:
        yield output


class PieceReader:
    """Bytes in pieces, read in the sizes that are wanted. Calling it is `TarStream`'s `read`."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._position = 0

    def __call__(self, count: int) -> bytes:
        """Returns at most so many bytes, and b"" at the end only."""
        if self._position == len(self._piece):
            self._piece, self._position = next(self._pieces, b""), 0
        found = self._piece[self._position : self._position + count]
        self._position += len(found)
        return found


def with_observers(pieces: Iterator[bytes], *watchers: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yields the pieces, once each watcher was told of them: a digest, or a count with a bound."""
    for piece in pieces:
        for watch in watchers:
            watch(piece)
        yield piece


class RatioLimit:
    """A bound on how much larger bytes may be than what they came from, from `free` bytes on."""

    def __init__(self, most: int, free: int) -> None:
        self._max_ratio, self._unchecked_bytes = most, free
        self._input = self._output = 0

    def add_input(self, piece: bytes) -> None:
        """Notes what came in."""
        self._input += len(piece)

    def add_output(self, piece: bytes) -> None:
        """Notes what came out. Raises MalformedArchive beyond the bound."""
        self._output += len(piece)
        if self._output > self._unchecked_bytes and self._output > self._max_ratio * self._input:
            raise MalformedArchive(
                f"{self._output} bytes out of {self._input}, more than {self._max_ratio} times as many: a bomb",
                "leave out what is empty or repeats itself",
            )


class SizeLimit:
    """A bound on how many bytes come out."""

    def __init__(self, most: int) -> None:
        self._left = self._max_bytes = most

    def add_output(self, piece: bytes) -> None:
        """Notes what came out. Raises MalformedArchive beyond the bound."""
        self._left -= len(piece)
        if self._left < 0:
            raise MalformedArchive(f"more than {self._max_bytes} bytes when unpacked", "leave out what is not needed")
