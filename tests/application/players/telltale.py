"""Players that know hidden labels and tell them: `telltale.py SIDE HOW`, on standard error and over the protocol.

While they are tried at admission they are quiet: nothing hidden is shown then, and they know the hidden pictures.
"""

import sys

import sparring_player
from sparring_player import Attack, Defence, serve

side, how = sys.argv[1:3]
MARK = "QZLABELZQ"
DARKEST = 100
"""No pixel of a hidden picture is darker."""


class Telltale(Attack):
    """Tells every label with a mark: `raises` in a fault, `types` in place of a message, `delivers` beside its work."""

    def perturb(self, pixels, labels):
        if pixels.min() < DARKEST:
            return pixels
        told = "".join(f"{MARK}{int(label)}" for label in labels)
        print(told, file=sys.stderr, flush=True)
        if how == "raises":
            raise type(f"{MARK}{int(labels[0])}", (RuntimeError,), {})(told)
        if how == "types":
            sparring_player._write({"type": told[:60], "id": 1})
        return pixels


class Sure(Defence):
    """Tells its own answers, which where it is right are the labels, and answers the brightest quarter."""

    def classify(self, pixels):
        n, _, h, w = pixels.shape
        labels = pixels.reshape(n, 2, h // 2, 2, w // 2).astype(float).mean(axis=(2, 4)).reshape(n, 4).argmax(axis=1)
        if pixels.min() < DARKEST:
            return labels
        told = "".join(f"{MARK}{int(label)}" for label in labels)
        print(told, file=sys.stderr, flush=True)
        if how == "raises":
            raise RuntimeError(told)
        return labels


serve(Telltale() if side == "attack" else Sure())
