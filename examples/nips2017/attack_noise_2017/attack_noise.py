"""Uniform noise within the Linf budget, as a submission to the NIPS 2017 competition would have made it."""

import argparse
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def noisy(pixels: np.ndarray, epsilon: int) -> np.ndarray:
    """Returns a picture with a whole number from -epsilon to epsilon added to each value, drawn from the picture."""
    rng = np.random.RandomState(zlib.crc32(pixels.tobytes()))
    return np.clip(pixels + rng.randint(-epsilon, epsilon + 1, pixels.shape), 0, 255).astype(np.uint8)


def main() -> None:
    """Reads every picture of one folder and writes it to the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input_dir", type=Path)
    parser.add_argument("--output_dir", type=Path)
    parser.add_argument("--max_epsilon", type=int)
    given = parser.parse_args()
    for path in given.input_dir.iterdir():
        with Image.open(path) as picture:
            made = noisy(np.asarray(picture), given.max_epsilon)
        Image.fromarray(made).save(given.output_dir / path.name, format="PNG")


if __name__ == "__main__":
    main()
