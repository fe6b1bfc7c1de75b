"""Encodes pictures as data URIs, enlarged so that people can see them."""

from base64 import b64encode
from io import BytesIO
from typing import Final

import numpy as np
from PIL import Image

from orchestrator.domain.samples import GREY_VALUE, Pixels

TARGET_SIZE: Final = 128
"""The longest side, in pixels, to which a whole factor enlarges a small picture; it gets more than half of that."""
_RGB: Final = 3


def data_uri(pixels: Pixels) -> str:
    """Returns a PNG data URI of a picture u8 [c, h, w].

    Small pictures are enlarged by a whole factor without smoothing, so that each pixel of an 8 x 8 digit is a visible
    square. One channel is shown in grey, three as RGB, and any other number as its mean.

    Raises:
        ValueError: the picture is not u8, has not three axes, or has an empty axis.
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or 0 in pixels.shape:  # noqa: PLR2004  c, h, w
        raise ValueError(f"expected u8 [c, h, w], got {pixels.dtype} {list(pixels.shape)}")
    channels, height, width = pixels.shape
    if channels == _RGB:
        image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    elif channels == 1:
        image = Image.fromarray(np.ascontiguousarray(pixels[0]))
    else:
        image = Image.fromarray(np.rint(pixels.mean(axis=0)).astype(np.uint8))
    factor = max(1, TARGET_SIZE // max(height, width))
    if factor > 1:
        image = image.resize((width * factor, height * factor), Image.Resampling.NEAREST)
    buffer = BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode("ascii")


def difference_picture(clean: Pixels, adversarial: Pixels) -> tuple[Pixels, int, int]:
    """Returns the signed difference picture, its amplification and the largest change in steps of 1/255.

    The picture is u8 of the same shape: 128 is no change, brighter is an increase, darker a decrease. The amplification
    is the largest whole factor that keeps every change within 1 to 255, and 1 if nothing changed.

    Raises:
        ValueError: the two pictures differ in shape.
    """
    if clean.shape != adversarial.shape:
        raise ValueError(f"pictures of shape {list(clean.shape)} and {list(adversarial.shape)}")
    change = adversarial.astype(np.int32) - clean.astype(np.int32)
    largest = int(np.abs(change).max(initial=0))
    factor = max(1, (255 - GREY_VALUE) // largest) if largest else 1
    return np.clip(GREY_VALUE + factor * change, 0, 255).astype(np.uint8), factor, largest
