"""The transcript of the queries of one step: its hash chain, and its arrays if it is kept (rule X6)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import Answers
from orchestrator.domain.samples import Pixels


class TranscriptChain:
    """A hash chain over queries. Each link hashes the link before, the pictures shown, the answers and the values."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The chain's hash so far."""
        return "sha256:" + self._hash.hexdigest()

    def link(self, pixels: Pixels, answers: Answers, values: NDArray[np.float32]) -> None:
        """Adds a query: pictures u8 [k, c, h, w], answers [k], and scores [k, classes] or gradients [k, c * h * w]."""
        link = hashlib.sha256(self._hash.digest())
        for part in (pixels, answers.astype("<i4"), values.astype("<f4")):
            link.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self._hash = link


@dataclass(frozen=True, slots=True, eq=False)
class ReplyRecord:
    """One query: the pictures shown, u8 [k, c, h, w], and its scores [k, classes] or gradients [k, c * h * w]."""

    pixels: Pixels
    values: NDArray[np.float32]
    gradients: bool


@dataclass(frozen=True, slots=True, eq=False)
class FullTranscript:
    """A full transcript of the q pictures that a defence was shown.

    Attributes:
        shown: the pictures, u8 [q, c, h, w], in the order of the queries.
        shown_queries: i32 [q, 2], the number of each picture's query, from 0, and whether it was for gradients.
        shown_scores: f32 [s, classes], of the queries that were not for gradients, NaN where the defence gave none.
        shown_gradients: f32 [q - s, c * h * w], of the queries for gradients.
    """

    shown: Pixels
    shown_queries: NDArray[np.int32]
    shown_scores: NDArray[np.float32]
    shown_gradients: NDArray[np.float32]

    @classmethod
    def of(cls, queries: Sequence[ReplyRecord], shape: tuple[int, ...], classes: int) -> "FullTranscript":
        """Returns the transcript of queries about pictures of a shape (c, h, w)."""
        values = int(np.prod(shape))
        rows = [
            np.column_stack([np.full(len(query.pixels), number), np.full(len(query.pixels), query.gradients)])
            for number, query in enumerate(queries)
        ]
        scores = [query.values for query in queries if not query.gradients]
        gradients = [query.values for query in queries if query.gradients]
        return cls(
            shown=np.concatenate([np.empty((0, *shape), np.uint8), *(query.pixels for query in queries)]),
            shown_queries=np.concatenate([np.empty((0, 2), np.int32), *rows]).astype(np.int32),
            shown_scores=np.concatenate([np.empty((0, classes), np.float32), *scores]),
            shown_gradients=np.concatenate([np.empty((0, values), np.float32), *gradients]),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...], classes: int) -> "FullTranscript":
        """Returns the transcript with these `arrays`. Raises ValueError, with the reason, if they do not fit."""
        found = cls(**{name: arrays[name] for name in TRANSCRIPT_ARRAYS})
        asked = len(found.shown)
        graded = int((found.shown_queries[:, 1] == 1).sum()) if found.shown_queries.shape == (asked, 2) else 0
        expected = {
            "shown": (np.uint8, (asked, *shape)),
            "shown_queries": (np.int32, (asked, 2)),
            "shown_scores": (np.float32, (asked - graded, classes)),
            "shown_gradients": (np.float32, (graded, int(np.prod(shape)))),
        }
        for name, (dtype, wanted) in expected.items():
            array = getattr(found, name)
            if array.dtype != dtype or array.shape != wanted:
                raise ValueError(f"its {name} are {array.dtype} {array.shape}, not {np.dtype(dtype)} {wanted}")
        if len(found.shown_queries) and (
            found.shown_queries[0, 0] != 0 or not np.isin(np.diff(found.shown_queries[:, 0]), (0, 1)).all()
        ):
            raise ValueError("its queries are not numbered in order")
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays by their names."""
        return {name: getattr(self, name) for name in TRANSCRIPT_ARRAYS}

    def digest(self, answers: Answers) -> str:
        """Returns the chain's hash over these queries with their answers [q]."""
        chain, numbers, graded = TranscriptChain(), self.shown_queries[:, 0], self.shown_queries[:, 1] == 1
        scores = _split(self.shown_scores, numbers[~graded])
        gradients = _split(self.shown_gradients, numbers[graded])
        for rows in _split(np.arange(len(numbers)), numbers):
            values = next(gradients if graded[rows[0]] else scores)
            chain.link(self.shown[rows], answers[rows], values)
        return chain.digest


TRANSCRIPT_ARRAYS = ("shown", "shown_queries", "shown_scores", "shown_gradients")
"""The names of the arrays of a full transcript."""


def _split(array: NDArray[Any], numbers: NDArray[np.int32]) -> Iterator[NDArray[Any]]:
    """Yields the rows of an array that belong to one query each, by the queries' numbers."""
    if len(numbers):
        yield from np.split(array, np.flatnonzero(np.diff(numbers)) + 1)
