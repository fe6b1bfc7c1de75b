"""A player for tests of what is published: `player.py SIDE BEHAVIOUR`. The task is to find the brightest quarter."""

import os
import sys

import numpy as np
import sparring_player
from sparring_player import Attack, Defence, serve

side, behaviour = sys.argv[1:3]


def sent(speaker, question, index, pixels):
    """Sends candidates as they are, whatever their type."""
    kind = "u8" if pixels.dtype == np.uint8 else "f32"
    header = {"type": "candidates", "id": question, "index": index, "dtype": kind, "shape": list(pixels.shape)}
    sparring_player._write(header, pixels.tobytes())


if behaviour == "far":
    # The helper would say that its own player is wrong; here everything is sent, and the orchestrator has to see it.
    sparring_player._pixels = lambda value, shape: np.ascontiguousarray(value)
    sparring_player._Speaker._send_candidates = sent


class Attacker(Attack):
    """Takes all it may from the brightest quarter and gives it to the next; one tells everybody what it was told.

    One goes too far in its first batch, and sends no pictures in the others.
    """

    batches = 0

    def load(self, task):
        self.epsilon = int(task.epsilon)

    def perturb(self, pixels, labels):
        self.batches += 1
        if behaviour == "noop":
            return pixels
        told = ",".join(str(int(label)) for label in labels)
        if behaviour == "tells":
            print(f"LABELS {told}", file=sys.stderr, flush=True)
            if self.batches == 2:
                raise RuntimeError(f"LABELS {told}")
        if behaviour == "far" and self.batches == 2:
            return pixels[:, :, 1:]
        if behaviour == "far" and self.batches == 3:
            return np.where(labels[:, None, None, None] % 2, np.nan, pixels).astype(np.float32)
        return self.moved(pixels, labels, self.epsilon + (behaviour == "far"))

    def moved(self, pixels, labels, much):
        out = pixels.astype(np.int64)
        half = pixels.shape[-1] // 2
        for picture, label in zip(out, labels):  # noqa: B905  Python 3.8 has no strict
            for place, sign in ((label, -1), ((label + 1) % 4, 1)):
                row, column = divmod(int(place), 2)
                picture[:, row * half : (row + 1) * half, column * half : (column + 1) * half] += sign * much
        return np.clip(out, 0, 255).astype(np.uint8)


class Defender(Defence):
    """Answers the brightest quarter, or something else."""

    def classify(self, pixels):
        n, _, h, w = pixels.shape
        quarters = pixels.reshape(n, 2, h // 2, 2, w // 2).astype(np.float64).mean(axis=(2, 4)).reshape(n, 4)
        labels = quarters.argmax(axis=1)
        if behaviour == "constant":
            return [0] * len(labels)
        if behaviour == "abstains":
            return [None if label == 1 else int(label) for label in labels]
        if behaviour == "dies" and int(pixels[0, 0, 0, 0]) % 7 == 0:
            os._exit(3)
        if behaviour == "chance":
            return [int.from_bytes(os.urandom(1), "big") % 4 for _ in labels]
        return labels


serve(Attacker() if side == "attack" else Defender())
