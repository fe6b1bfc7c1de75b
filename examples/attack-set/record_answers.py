"""Makes `recorded_answers.npz`: what 32 raters who do not exist say of everything that they might be shown.

    python examples/attack-set/record_answers.py

Each rater has a level of their own and noise. An honest grade is what the source of a picture deserves, plus the level,
plus noise, rounded and cut to 1..5. The 16th and the 17th do not look: they press 3 or 4 at random. So their grades of
originals are never 1.5 above those of anchors, whichever pictures a plan shows them.
"""

from pathlib import Path

import numpy as np

QUALITY = {"untouched": 4.8, "original": 4.8, "fgsm": 3.4, "pgd": 3.9, "anchor": 1.5}
VALID = {"untouched": 0.98, "original": 0.98, "fgsm": 0.9, "pgd": 0.95, "anchor": 0.5}
RATERS, PICTURES = 32, 500
CLICKERS, CLICKED = slice(15, 17), (3, 4)


def main() -> None:
    """Draws and writes the answers."""
    rng = np.random.default_rng(4)
    shape = (RATERS, len(QUALITY), PICTURES)
    level = rng.normal(0, 0.4, (RATERS, 1, 1))
    deserved = np.array(list(QUALITY.values()))[None, :, None]
    grades = np.clip(np.rint(deserved + level + rng.normal(0, 0.6, shape)), 1, 5).astype(np.uint8)
    valid = rng.random(shape) < np.array(list(VALID.values()))[None, :, None]
    grades[CLICKERS] = rng.choice(CLICKED, grades[CLICKERS].shape)
    valid[CLICKERS] = rng.random(valid[CLICKERS].shape) < 0.5  # noqa: PLR2004  a coin
    np.savez_compressed(
        Path(__file__).with_name("recorded_answers.npz"), sources=np.array(list(QUALITY)), grades=grades, valid=valid
    )


if __name__ == "__main__":
    main()
