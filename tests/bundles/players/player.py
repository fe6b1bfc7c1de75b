"""A player for tests of rounds and bundles: `player.py SIDE BEHAVIOUR`. The task is to find the brightest quarter.

It needs only protocol.py, from images/templates/bare/, because tests start hundreds of it, and importing NumPy would
take most of their time.
"""

import os
import struct
import sys
import time

import protocol
from protocol import read, write  # imported first: from here on print() writes to the log

side, behaviour = sys.argv[1:3]


def quarters(shape):
    """Returns the indices of the values of each quarter in a picture of this shape, which has one channel."""
    _, height, width = shape
    places = [[], [], [], []]
    for row in range(height):
        for column in range(width):
            places[2 * (2 * row // height) + 2 * column // width].append(row * width + column)
    return places


def brightest(picture, shape):
    """Returns the index of the brightest quarter, the first of equal ones."""
    sums = [sum(picture[place] for place in places) for places in quarters(shape)]
    return sums.index(max(sums))


def drawn():
    """Returns a random label that no seed decides."""
    return os.urandom(1)[0] % 4


class Attacker:
    """Moves as much brightness as the budget allows from the brightest quarter to the next.

    With the behaviour `tells`, it writes the labels to its log and into a fault. With `far`, it exceeds the budget in
    its first batch, and sends a wrong shape and a wrong type in later ones. With `crashes`, it ends at its second
    batch; with `own_chance`, it takes random labels for the true ones; with `slow`, it waits at each batch.
    """

    batches = 0

    def answer(self, question, pictures):
        """Sends candidates for all pictures in one message."""
        self.batches += 1
        labels, shape, kind = question["labels"], question["shape"], "u8"
        if behaviour == "crashes" and self.batches == 2:
            os._exit(3)
        if behaviour == "slow":
            time.sleep(0.3)
        if behaviour == "own_chance":
            labels = [drawn() for _ in labels]
        told = ",".join(str(label) for label in labels)
        if behaviour == "tells":
            print(f"LABELS {told}", file=sys.stderr, flush=True)
            if self.batches == 2:
                write({"type": "fault", "id": question["id"], "code": "exception", "text": f"LABELS {told}"})
                return
        if behaviour == "far" and self.batches == 2:
            made, shape = [picture[shape[3] :] for picture in pictures], [*shape[:2], shape[2] - 1, shape[3]]
        elif behaviour == "far" and self.batches == 3:
            made, kind = [self.floats(*pair) for pair in zip(pictures, labels)], "f32"  # noqa: B905  Python 3.8
        elif behaviour == "noop":
            made = pictures
        else:
            made = [self.moved(*pair, shape[1:]) for pair in zip(pictures, labels)]  # noqa: B905  Python 3.8
        index = list(range(len(pictures)))
        reply = {"type": "candidates", "id": question["id"], "index": index, "dtype": kind, "shape": shape}
        write(reply, b"".join(made))

    def moved(self, picture, label, shape):
        """Returns the picture with brightness moved from its own quarter to the next."""
        much = int(self.task["budget"]["epsilon"]) + (behaviour == "far")
        out, places = bytearray(picture), quarters(shape)
        for quarter, change in ((label, -much), ((label + 1) % 4, much)):
            for place in places[quarter]:
                out[place] = min(255, max(0, out[place] + change))
        return out

    def floats(self, picture, label):
        """Returns the picture in a wrong type; for odd labels, all values are NaN."""
        return struct.pack(f"<{len(picture)}f", *([float("nan")] * len(picture) if label % 2 else picture))


class Defender:
    """Answers with the brightest quarter, or as its behaviour says.

    With `crashes`, it ends where a picture's first value is 255. With `counter`, its answers change after every eighth
    question; with `moody`, they depend on what it drew at its start; with `slow`, it waits at each question.
    """

    asked = 0
    mood = os.urandom(64)

    def answer(self, question, pictures):
        """Sends a label for each picture."""
        self.asked += 1
        if behaviour == "dies" and pictures[0][0] % 7 == 0:
            os._exit(3)
        if behaviour == "crashes" and any(picture[0] == 255 for picture in pictures):
            os._exit(3)
        if behaviour == "slow":
            time.sleep(0.02)
        labels = [self.label(brightest(picture, question["shape"][1:]), picture) for picture in pictures]
        write({"type": "answers", "id": question["id"], "labels": labels})

    def label(self, found, picture):
        """Returns the answer for a picture and the brightest quarter that was found in it."""
        if behaviour == "abstains" and found == 1:
            return None
        answers = {
            "constant": lambda: 0,
            "chance": drawn,
            "counter": lambda: (found + self.asked // 8) % 4,
            "moody": lambda: self.mood[sum(picture) % 64] % 4,
            "raw_label": lambda: 99,
        }
        return answers.get(behaviour, lambda: found)()


player = Attacker() if side == "attack" else Defender()
while True:
    asked, payload = read()
    if asked["type"] == "hello":
        player.task = asked["task"]
        ready = {"type": "ready", "id": asked["id"], "name": type(player).__name__}
        write(ready if side == "attack" else dict(ready, gives=["label"]))
    elif asked["type"] == "bye":
        break
    else:
        size = len(payload) // asked["shape"][0]
        player.answer(asked, [payload[at : at + size] for at in range(0, len(payload), size)])
        if behaviour == "talks_behind":  # a line behind each reply
            protocol._answers.write(b"processed a batch\n")
            protocol._answers.flush()
