"""A small player for whole-round tests: `player.py SIDE BEHAVIOUR`. Most behaviours break a rule on purpose.

Those for which no NumPy is needed are in tests/bundles/players/player.py. The task is to find the brightest quarter of
a picture; see the `quarters` fixture.
"""

import os
import sys
import time

side, behaviour = sys.argv[1:3]

if behaviour == "prints":
    print("Downloading weights ... 100%", flush=True)
if behaviour == "floods":
    os.read(0, 1)
    while True:
        os.write(1, b"\0" * 65536)
if behaviour == "dies_loading":
    sys.exit(7)
if behaviour == "never_ready":
    time.sleep(600)

import numpy as np  # noqa: E402  some behaviours act before this import
import sparring_player  # noqa: E402
from sparring_player import Attack, Defence, serve  # noqa: E402


def sent(speaker, question, index, pixels):
    """Sends candidates as they are, whatever their type."""
    kind = "u8" if pixels.dtype == np.uint8 else "f32"
    header = {"type": "candidates", "id": question, "index": index, "dtype": kind, "shape": list(pixels.shape)}
    sparring_player._write(header, pixels.tobytes())


if behaviour.startswith("raw_"):
    # The helper would refuse these itself. They are sent without it, so that the orchestrator has to detect them.
    sparring_player._pixels = lambda value, shape: np.ascontiguousarray(value)
    sparring_player._Speaker._send_candidates = sent


def quarters(pixels):
    """Returns the mean brightness [n, 4] of the four quarters."""
    n, _, h, w = pixels.shape
    parts = pixels.reshape(n, 2, h // 2, 2, w // 2).astype(np.float64)
    return parts.mean(axis=(2, 4)).reshape(n, 4)


class Attacker(Attack):
    """The honest behaviour moves as much brightness as the budget allows from the brightest quarter to the next."""

    batches = 0

    def load(self, task):
        self.epsilon = int(task.epsilon)

    def perturb(self, pixels, labels):
        self.batches += 1
        if behaviour == "noop":
            return pixels
        if behaviour == "crashes" and self.batches == 2:
            os._exit(3)
        if behaviour == "hangs" and self.batches == 2:
            time.sleep(600)
        if behaviour in ("wrong_shape", "raw_shape", "raw_type", "raw_nan"):
            return self.malformed(pixels)
        if behaviour == "half":
            return self.half(pixels, labels)
        if behaviour == "one_step_too_far":
            return self.honest(pixels, labels, self.epsilon + 1)
        return self.honest(pixels, labels, self.epsilon)

    def malformed(self, pixels):
        if behaviour == "raw_type":
            return pixels.astype(np.float32)
        return np.full(pixels.shape, np.nan, np.float32) if behaviour == "raw_nan" else pixels[:, :, :-1]

    def half(self, pixels, labels):
        count = len(pixels) // 2
        yield list(range(count)), self.honest(pixels, labels, self.epsilon)[:count]
        time.sleep(600)

    def honest(self, pixels, labels, much):
        out = pixels.astype(np.int64)
        half = pixels.shape[-1] // 2
        for picture, label in zip(out, labels):  # noqa: B905  Python 3.8 has no strict
            for place, sign in ((label, -1), ((label + 1) % 4, 1)):
                row, column = divmod(int(place), 2)
                picture[:, row * half : (row + 1) * half, column * half : (column + 1) * half] += sign * much
        return np.clip(out, 0, 255).astype(np.uint8)


class Defender(Defence):
    """The honest behaviour answers the brightest quarter."""

    asked = 0

    def load(self, task):
        self.chance = np.random.default_rng(task.seed)

    def classify(self, pixels):
        self.asked += 1
        labels = quarters(pixels).argmax(axis=1)
        if behaviour == "crashes" and (pixels[:, 0, 0, 0] == 255).any():
            os._exit(3)
        if behaviour == "hangs":
            time.sleep(600)
        if behaviour == "eats" and (pixels[:, 0, 0, 0] == 255).any():
            hoard = [np.ones(1 << 24) for _ in range(16)]
            labels = labels + int(hoard[0][0])
        if behaviour == "stderr":
            os.write(2, b"\x1b[31m<script>alert(1)</script>" * 10_000)
        return self.told(labels, pixels)

    def told(self, labels, pixels):
        answers = {
            "nonsense": lambda label, picture: 99,
            "abstains": lambda label, picture: None,
            "dice": lambda label, picture: int(self.chance.integers(4)),
            "counter": lambda label, picture: (int(label) + self.asked // 8) % 4,
        }
        return list(map(answers[behaviour], labels, pixels)) if behaviour in answers else labels


if behaviour == "child_eats":
    child = os.fork()
    if child == 0:  # the memory limit kills it: every page that it takes is written to
        hoard = [b"x" * (1 << 24) for _ in range(1 << 12)]
        os._exit(len(hoard) % 2)
    os.waitpid(child, 0)

serve(Attacker() if side == "attack" else Defender())

if behaviour == "talks_leaving":
    sparring_player._answers.write(b"goodbye\n")
    sparring_player._answers.flush()
