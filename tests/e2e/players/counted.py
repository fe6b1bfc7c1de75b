"""A player that starts fast, is deterministic, and logs its questions: `player.py SIDE BEHAVIOUR`.

It logs to `asked.log` three folders above its own if a test has put that file there. A line has the player, the
process, the time, and a digest of each picture of a question. It answers slowly, so that a test can kill it during a
step.
"""

import hashlib
import os
import sys
import time
from pathlib import Path

import numpy as np
from sparring_player import Attack, Defence, serve

side, behaviour = sys.argv[1:3]
above = Path.cwd().parents
log = above[2] / "asked.log" if len(above) > 2 else Path("none")


def note(pixels, seconds):
    """Logs a question before it is answered, and waits for `seconds`."""
    if log.exists():
        digests = [hashlib.sha256(picture.tobytes()).hexdigest()[:16] for picture in pixels]
        with log.open("ab", buffering=0) as file:
            file.write(f"{side}_{behaviour} {os.getpid()} {time.time():.6f} {' '.join(digests)}\n".encode())
    time.sleep(seconds)


def quarters(pixels):
    """Returns the mean brightness [n, 4] of the four quarters."""
    n, _, h, w = pixels.shape
    return pixels.reshape(n, 2, h // 2, 2, w // 2).astype(np.float64).mean(axis=(2, 4)).reshape(n, 4)


class Attacker(Attack):
    """Darkens the true quarter, and brightens the next (`strong`), the next a little (`weak`), or none (`dark`).

    `dies` exits at every question.
    """

    def load(self, task):
        self.epsilon = int(task.epsilon)

    def perturb(self, pixels, labels):
        note(pixels, 0.02)
        if behaviour == "dies":
            os._exit(3)
        brighter = {"strong": self.epsilon, "weak": self.epsilon // 2, "dark": 0}[behaviour]
        out, half = pixels.astype(np.int64), pixels.shape[-1] // 2
        for picture, label in zip(out, labels):  # noqa: B905  Python 3.8 has no strict
            for place, much in ((int(label), -self.epsilon), ((int(label) + 1) % 4, brighter)):
                row, column = divmod(place, 2)
                picture[:, row * half : (row + 1) * half, column * half : (column + 1) * half] += much
        return np.clip(out, 0, 255).astype(np.uint8)


class Defender(Defence):
    """Answers the brightest quarter (`plain`), or uses only the corners (`corners`).

    `fragile` exits at some pictures, `dies` at all; `stuck` never answers if the first pixel is white.
    """

    def classify(self, pixels):
        note(pixels, 0.004)
        if behaviour == "dies":
            os._exit(3)
        if behaviour == "stuck" and (pixels[:, 0, 0, 0] == 255).any():
            time.sleep(600)
        if behaviour == "fragile" and any(int(picture.sum()) % 37 == 0 for picture in pixels):
            os._exit(3)
        if behaviour == "corners":
            return pixels[:, 0][:, [0, 0, -1, -1], [0, -1, 0, -1]].argmax(axis=1)
        return quarters(pixels).argmax(axis=1)


serve(Attacker() if side == "attack" else Defender())
