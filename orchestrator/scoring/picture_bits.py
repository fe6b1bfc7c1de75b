"""Sets of pictures, one a cell, in a bit a picture: a round of 300 x 300 has 90 million pictures to note."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.plan import Cell


class PictureBits(Mapping[Cell, NDArray[np.bool_]]):
    """Which pictures are in a set [n], by cell; each set is of the same n pictures. Nobody may write to the arrays."""

    def __init__(self) -> None:
        self._bits: dict[Cell, bytes] = {}
        self._clean: dict[Cell, NDArray[np.bool_]] = {}  # asked for with every attack, and few
        self._count = 0

    def add(self, cells: Iterable[Cell], pictures: NDArray[np.bool_]) -> None:
        """Notes the sets [m, n] of m cells."""
        self._count = pictures.shape[1]
        for cell, bits, pictures_of_cell in zip(cells, np.packbits(pictures, axis=1), pictures, strict=True):
            self._bits[cell] = bits.tobytes()
            if cell.attack is None:
                self._clean[cell] = pictures_of_cell.copy()

    def __getitem__(self, cell: Cell) -> NDArray[np.bool_]:
        if (known := self._clean.get(cell)) is not None:
            return known
        bits = np.frombuffer(self._bits[cell], np.uint8)
        return np.unpackbits(bits, count=self._count).view(np.bool_)

    def __contains__(self, cell: object) -> bool:
        return cell in self._bits

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._bits)

    def __len__(self) -> int:
        return len(self._bits)
