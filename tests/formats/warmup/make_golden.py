"""Writes golden.npz: what TensorFlow's and torchvision's own functions make of small pictures.

Run it where TensorFlow 2, PyTorch and torchvision 0.2.1 (whose wheel needs no other version of them) can be imported:

    python tests/formats/warmup/make_golden.py

Nothing of ours is used. The warm-up of 2018 called these functions, through TensorFlow 1 and tf.contrib.image.
"""

import collections
import collections.abc
from pathlib import Path

import numpy as np
import PIL
import tensorflow as tf
from PIL import Image

# Names that torchvision 0.2.1 reads, and that Pillow and Python have no more.
PIL.PILLOW_VERSION = "5.0.0"
collections.Iterable, collections.Sequence = collections.abc.Iterable, collections.abc.Sequence

from torchvision.transforms import functional  # noqa: E402  needs these names

MARGIN = 50
MOVEMENTS = [(0, 0, 0), (10, 0, 0), (-10, 5, -10), (0, 2.6, -3.7), (7.3, -4.2, 9.9), (180, 0, 0), (-33.3, 10, 10)]
"""Angle in degrees, then pixels right and down."""
SHAPES = {"digit": (28, 28, 1, 4), "colour": (57, 57, 3, 20)}
"""Height, width, channels, and the border."""


def resized(picture, border):
    """Returns a picture [h, w, c] resized with TensorFlow 1's bilinear kernel to its size less the border."""
    height, width, _ = picture.shape
    small = tf.compat.v1.image.resize_images(picture[None], (width - border, height - border))
    return small.numpy()[0]


def transformed(pictures, rows):
    """Returns pictures [n, h, w, c] through TensorFlow's projective transform, bilinear, black outside."""
    return tf.raw_ops.ImageProjectiveTransformV2(
        images=pictures,
        transforms=tf.constant(rows, tf.float32),
        output_shape=pictures.shape[1:3],
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )


def moved(picture, border, angle, dx, dy):
    """Returns a picture with its border, turned about its middle, then moved, and cut to its size again."""
    height, width, _ = picture.shape
    pad = border + MARGIN
    canvas = tf.pad(resized(picture, border)[None], [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    turn = tf.constant(angle * np.pi / 180, tf.float32)
    high, wide = (np.float32(size) for size in canvas.shape[1:3])
    cosine, sine = tf.cos(turn).numpy(), tf.sin(turn).numpy()
    across = ((wide - 1) - (cosine * (wide - 1) - sine * (high - 1))) / 2
    down = ((high - 1) - (sine * (wide - 1) + cosine * (high - 1))) / 2
    turned = transformed(canvas, [[cosine, -sine, across, sine, cosine, down, 0, 0]])
    shifted = transformed(turned, [[1, 0, -dx, 0, 1, -dy, 0, 0]])
    return tf.image.resize_with_crop_or_pad(shifted, height, width).numpy()[0]


def by_pillow(picture, share, angle, dx, dy):
    """Returns a picture with a black border, turned and moved by torchvision 0.2.1, as bytes."""
    pixels = (picture * 255).astype(np.uint8)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    width, height = image.size
    across, down = int(width * share), int(height * share)
    image = functional.resize(image, [height - 2 * down, width - 2 * across])
    image = functional.pad(image, (across, down))
    image = functional.affine(image, angle=angle, translate=[dx, dy], scale=1, shear=0, resample=Image.BILINEAR)
    return np.array(image).reshape(pixels.shape)


def main():
    """Writes the arrays, channels first."""
    arrays = {"movements": np.array(MOVEMENTS, np.float64)}
    for name, (height, width, channels, border) in SHAPES.items():
        rng = np.random.default_rng(len(name))
        picture = rng.integers(0, 256, (height, width, channels)).astype(np.float32) / np.float32(255)
        arrays[f"{name}_picture"] = (picture * 255).round().astype(np.uint8).transpose(2, 0, 1)
        arrays[f"{name}_resized"] = resized(picture, border).transpose(2, 0, 1)
        arrays[f"{name}_moved"] = np.stack([moved(picture, border, *each).transpose(2, 0, 1) for each in MOVEMENTS])
        arrays[f"{name}_pillow"] = np.stack([by_pillow(picture, 0.15, *each).transpose(2, 0, 1) for each in MOVEMENTS])
    np.savez_compressed(Path(__file__).with_name("golden.npz"), **arrays)


if __name__ == "__main__":
    main()
