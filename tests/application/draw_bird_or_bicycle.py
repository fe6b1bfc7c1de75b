"""Draws pictures of birds and bicycles in the form of bird-or-bicycle, whose pictures are not shipped.

    python tests/application/draw_bird_or_bicycle.py FOLDER --count 125

Each class has a folder of its name with JPEG files of 299 x 299 in colour.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE = 299
_MIDDLE = SIDE // 2


def draw_bicycle(draw: ImageDraw.ImageDraw, rng: np.random.Generator, colour: tuple[int, ...]) -> None:
    """Draws two wheels, a frame between them, a saddle and a handlebar."""
    radius, line = int(rng.integers(48, 58)), int(rng.integers(5, 9))
    height = _MIDDLE + int(rng.integers(20, 50))
    left, right = _MIDDLE - 75, _MIDDLE + 75
    for centre in (left, right):
        draw.ellipse((centre - radius, height - radius, centre + radius, height + radius), outline=colour, width=line)
    saddle, pedals, bar = (left + 45, height - 75), (_MIDDLE - 10, height), (right - 25, height - 85)
    for start, end in ((left, pedals), (saddle, pedals), (saddle, bar), (pedals, bar), (right, bar), (left, saddle)):
        begin = (start, height) if isinstance(start, int) else start
        draw.line((*begin, *end), fill=colour, width=line)
    draw.line((saddle[0] - 18, saddle[1], saddle[0] + 18, saddle[1]), fill=colour, width=2 * line)
    draw.line((*bar, bar[0] + 18, bar[1] - 14), fill=colour, width=line)


def draw_bird(draw: ImageDraw.ImageDraw, rng: np.random.Generator, colour: tuple[int, ...]) -> None:
    """Draws a body, a head with a beak, a wing, a tail and two legs."""
    across, down = _MIDDLE + int(rng.integers(-10, 11)), _MIDDLE + int(rng.integers(-10, 11))
    wide, high = int(rng.integers(80, 95)), int(rng.integers(52, 62))
    draw.ellipse((across - wide, down - high, across + wide, down + high), fill=colour)
    draw.ellipse((across + wide - 40, down - high - 35, across + wide + 20, down - high + 25), fill=colour)
    beak = (across + wide + 18, down - high - 12)
    draw.polygon((*beak, beak[0] + 25, beak[1] + 9, beak[0], beak[1] + 16), fill=(230, 150, 40))
    draw.polygon((across - wide + 10, down, across - wide - 45, down - 30, across - wide - 40, down + 20), fill=colour)
    wing = tuple(value // 2 for value in colour)
    draw.polygon((across - 30, down - 25, across + 35, down - 10, across - 45, down + 35), fill=wing)
    for leg in (across - 12, across + 15):
        draw.line((leg, down + high - 4, leg, down + high + 35), fill=(90, 60, 30), width=4)


def draw_set(folder: Path, count: int, seed: int = 0) -> None:
    """Writes `count` pictures of each class below a folder."""
    rng = np.random.default_rng(seed)
    for name, draw_one in (("bicycle", draw_bicycle), ("bird", draw_bird)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            sky = rng.integers(170, 240, 3) + rng.integers(-12, 13, (SIDE, SIDE, 3))
            image = Image.fromarray(sky.clip(0, 255).astype(np.uint8))
            colour = tuple(int(value) for value in rng.integers(10, 110, 3))
            draw_one(ImageDraw.Draw(image), rng, colour)
            image.save(folder / name / f"{number:03d}.jpg", quality=92)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draws pictures of birds and bicycles.")
    parser.add_argument("folder", type=Path, help="where the folders bicycle/ and bird/ are made")
    parser.add_argument("--count", type=int, default=125, help="pictures of each class")
    words = parser.parse_args()
    draw_set(words.folder, words.count)
