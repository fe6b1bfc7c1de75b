"""A set of pictures for each cell, one bit per picture: a round of 300 x 300 has 90 million pictures."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.plan import Cell


class PictureBits(Mapping[Cell, NDArray[np.bool_]]):
    """Which of n pictures are in a cell's set, bool [n], by cell. The arrays are read-only."""

    def __init__(self) -> None:
        self._bits: dict[Cell, bytes] = {}
        self._count = 0

    def add(self, cells: Iterable[Cell], pictures: NDArray[np.bool_]) -> None:
        """Adds the sets [m, n] of m cells."""
        self._count = pictures.shape[1]
        self._bits |= {cell: bits.tobytes() for cell, bits in zip(cells, np.packbits(pictures, axis=1), strict=True)}

    def stack(self, cells: Collection[Cell]) -> NDArray[np.bool_]:
        """Returns the sets of m >= 1 cells in their order [m, n]. One cell at a time would take four times as long."""
        bits = np.frombuffer(b"".join([self._bits[cell] for cell in cells]), np.uint8)
        return np.unpackbits(bits.reshape(len(cells), -1), axis=1, count=self._count).view(np.bool_)

    def __getitem__(self, cell: Cell) -> NDArray[np.bool_]:
        pictures: NDArray[np.bool_] = self.stack([cell])[0]
        return pictures

    def __contains__(self, cell: object) -> bool:
        return cell in self._bits

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._bits)

    def __len__(self) -> int:
        return len(self._bits)
