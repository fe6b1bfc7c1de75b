"""Players that know hidden labels and tell them: `telltale.py SIDE HOW`, on standard error and over the protocol.

While they are tried at admission they are quiet: nothing hidden is shown then, and they know the hidden pictures. They
need only protocol.py, from images/templates/bare/.
"""

import sys

from protocol import read, write  # first: from here on print() writes to the log

side, how = sys.argv[1:3]
MARK = "QZLABELZQ"
DARKEST = 100
"""No pixel of a hidden picture is darker."""


def brightest(picture, shape):
    """Returns the brightest quarter of a picture with one channel, and of equals the first."""
    _, height, width = shape
    sums = [0, 0, 0, 0]
    for place, value in enumerate(picture):
        row, column = divmod(place, width)
        sums[2 * (2 * row // height) + 2 * column // width] += value
    return sums.index(max(sums))


def tell(question, labels):
    """Tells every label with a mark; who `raises` sends it as a fault, and then there is no other answer."""
    told = "".join(f"{MARK}{label}" for label in labels)
    print(told, file=sys.stderr, flush=True)
    if how == "raises":
        kind = f"{MARK}{labels[0]}" if side == "attack" else "RuntimeError"
        write({"type": "fault", "id": question["id"], "code": "exception", "text": f"{kind}: {told}"[:4000]})
    if how == "types" and side == "attack":
        write({"type": told[:60], "id": 1})
    return how == "raises"


def answer(question, payload):
    """Sends the pictures as they are, or as a defence the brightest quarters: where it is right these are the labels.

    An attack tells the labels that it is given: `raises` in a fault, `types` in place of a message, `delivers` beside
    its work. A defence tells its own answers.
    """
    shape = question["shape"]
    size = len(payload) // shape[0]
    pictures = [payload[at : at + size] for at in range(0, len(payload), size)]
    labels = question["labels"] if side == "attack" else [brightest(picture, shape[1:]) for picture in pictures]
    if min(payload) >= DARKEST and tell(question, labels):
        return
    if side == "attack":
        index = list(range(shape[0]))
        write({"type": "candidates", "id": question["id"], "index": index, "dtype": "u8", "shape": shape}, payload)
    else:
        write({"type": "answers", "id": question["id"], "labels": labels})


while True:
    asked, pixels = read()
    if asked["type"] == "hello":
        ready = {"type": "ready", "id": asked["id"], "name": "Telltale" if side == "attack" else "Sure"}
        write(ready if side == "attack" else dict(ready, gives=["label"]))
    elif asked["type"] == "bye":
        break
    else:
        answer(asked, pixels)
