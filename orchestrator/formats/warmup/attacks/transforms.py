"""Rotations and translations of pictures as in the warm-up of 2018: with TensorFlow's kernels, and with Pillow.

Both put a black border around a smaller copy of the picture, rotate it about its centre and move it. They differ in how
they resize, in the size of the border and in the centre. The tests compare them with arrays that the libraries made.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, floor, radians, sin

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from orchestrator.formats.warmup.attacks.base import Floats

_MARGIN = 50
"""Black pixels that are added on each side while a picture is rotated, so that no part of it is lost."""


@dataclass(frozen=True, slots=True)
class Movement:
    """A rotation in degrees and a translation in pixels."""

    angle: float = 0.0
    dx: float = 0.0
    dy: float = 0.0


class Transform(ABC):
    """A way to shrink, rotate and move a picture."""

    @abstractmethod
    def apply(self, picture: Floats, movements: Sequence[Movement]) -> Floats:
        """Returns the picture [c, h, w] shrunk, rotated and moved, once for each of k movements: [k, c, h, w]."""


@dataclass(frozen=True, slots=True)
class TensorflowTransform(Transform):
    """`tf.image.resize_images` and `tf.contrib.image.transform` of TensorFlow 1, bilinear.

    The picture is resized to its size less `border`, and `border` black pixels are added on every side. That is twice
    too much: half of it is cut off at the end, and the visible border is `border / 2`.
    """

    border: int

    def apply(self, picture: Floats, movements: Sequence[Movement]) -> Floats:
        """See `Transform.apply`."""
        _, height, width = picture.shape
        small = resize_bilinear(picture, height - self.border, width - self.border)
        pad = self.border + _MARGIN
        canvas = np.pad(small, ((0, 0), (pad, pad), (pad, pad)))
        top, left = ((have - want) // 2 for have, want in zip(canvas.shape[1:], (height, width), strict=True))
        return np.stack([_turn_and_move(canvas, each, (top, left), (height, width)) for each in movements])


def resize_bilinear(picture: Floats, height: int, width: int) -> Floats:
    """Returns a picture [c, h, w] resized as by TensorFlow 1: source = index x in / out, without half a pixel."""
    rows, row_share = _sources(picture.shape[1], height)
    columns, column_share = _sources(picture.shape[2], width)
    above, below = picture[:, rows[0]], picture[:, rows[1]]
    upper = above[..., columns[0]] + (above[..., columns[1]] - above[..., columns[0]]) * column_share
    lower = below[..., columns[0]] + (below[..., columns[1]] - below[..., columns[0]]) * column_share
    return upper + (lower - upper) * row_share[:, None]


def _sources(size: int, new_size: int) -> tuple[NDArray[np.int64], Floats]:
    """Returns for each new index the two old indices around it [2, new], and the weight of the second [new]."""
    position = np.arange(new_size, dtype=np.float32) * (np.float32(size) / np.float32(new_size))
    first = np.floor(position).astype(np.int64)
    return np.stack([first, np.minimum(first + 1, size - 1)]), position - first.astype(np.float32)


def _turn_and_move(canvas: Floats, movement: Movement, corner: tuple[int, int], size: tuple[int, int]) -> Floats:
    """Returns a window of a picture that is rotated about its centre, and then moved.

    Both steps are bilinear, one after the other. Only the pixels of the rotated picture that the window needs are
    computed.
    """
    turn = radians(movement.angle)
    _, height, width = canvas.shape
    (top, left), (rows, columns) = corner, size
    # The top left corner of the window in the rotated picture.
    first_row, first_column = top - movement.dy, left - movement.dx
    y = np.float32(floor(first_row)) + np.arange(rows + 1, dtype=np.float32)
    x = np.float32(floor(first_column)) + np.arange(columns + 1, dtype=np.float32)
    grid_x, grid_y = np.meshgrid(x, y)
    cosine, sine = np.float32(cos(turn)), np.float32(sin(turn))
    offset_x = np.float32(((width - 1) - (cos(turn) * (width - 1) - sin(turn) * (height - 1))) / 2)
    offset_y = np.float32(((height - 1) - (sin(turn) * (width - 1) + cos(turn) * (height - 1))) / 2)
    turned = _read_bilinear(
        canvas, cosine * grid_x - sine * grid_y + offset_x, sine * grid_x + cosine * grid_y + offset_y
    )
    turned *= (grid_x >= 0) & (grid_x < width) & (grid_y >= 0) & (grid_y < height)
    down, right = np.float32(first_row - floor(first_row)), np.float32(first_column - floor(first_column))
    across = (1 - right) * turned[:, :, :-1] + right * turned[:, :, 1:]
    return ((1 - down) * across[:, :-1] + down * across[:, 1:]).astype(np.float32, copy=False)


def _read_bilinear(canvas: Floats, x: Floats, y: Floats) -> Floats:
    """Returns the interpolated values of a picture [c, h, w] at points between its pixels; outside it is black."""
    left, top = np.floor(x), np.floor(y)
    upper = (left + 1 - x) * _read(canvas, left, top) + (x - left) * _read(canvas, left + 1, top)
    lower = (left + 1 - x) * _read(canvas, left, top + 1) + (x - left) * _read(canvas, left + 1, top + 1)
    values: Floats = (top + 1 - y) * upper + (y - top) * lower
    return values


def _read(canvas: Floats, x: Floats, y: Floats) -> Floats:
    _, height, width = canvas.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    column = np.clip(x, 0, width - 1).astype(np.int64)
    row = np.clip(y, 0, height - 1).astype(np.int64)
    values: Floats = canvas[:, row, column] * inside
    return values


@dataclass(frozen=True, slots=True)
class PillowTransform(Transform):
    """Pillow's `resize` and `transform`, bilinear on bytes, with the matrix of torchvision 0.2.1.

    `border_share` of the width is black at each side, and of the height above and below. The centre is half a pixel
    right of and below the true centre, and angles are clockwise.
    """

    border_share: float

    def apply(self, picture: Floats, movements: Sequence[Movement]) -> Floats:
        """See `Transform.apply`. The picture is first truncated to bytes, and the result is computed in bytes."""
        pixels = (picture * 255).astype(np.uint8)
        channels, height, width = pixels.shape
        image = Image.fromarray(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0))
        across, down = int(width * self.border_share), int(height * self.border_share)
        small = image.resize((width - 2 * across, height - 2 * down), Image.Resampling.BILINEAR)
        framed = Image.new(image.mode, (width, height))
        framed.paste(small, (across, down))
        moved = [_move(framed, each) for each in movements]
        values = np.stack(moved).reshape(len(moved), height, width, channels).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(values, np.float32) / np.float32(255)


def _move(framed: Image.Image, movement: Movement) -> NDArray[np.uint8]:
    matrix = _inverse_matrix(framed.size, movement)
    return np.asarray(framed.transform(framed.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR))


def _inverse_matrix(size: tuple[int, int], movement: Movement) -> tuple[float, ...]:
    """Returns the matrix that maps a pixel of the result to its source: x' = a x + b y + c, y' = d x + e y + f."""
    middle_x, middle_y = (0.5 * length + 0.5 for length in size)
    cosine, sine = cos(radians(movement.angle)), sin(radians(movement.angle))
    back_x, back_y = -middle_x - movement.dx, -middle_y - movement.dy
    return (
        cosine,
        sine,
        cosine * back_x + sine * back_y + middle_x,
        -sine,
        cosine,
        -sine * back_x + cosine * back_y + middle_y,
    )
