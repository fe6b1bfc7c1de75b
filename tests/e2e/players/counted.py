"""A player that starts fast, is deterministic, and logs its questions: `player.py SIDE BEHAVIOUR`.

It needs only protocol.py, from images/templates/bare/. Pictures have four by four values, and the label is the
brightest quarter.

It logs to `asked.log` three folders above its own if a test has put that file there. A line has the player, the
process, the time, and a digest of each picture of a question. It answers slowly, so that a test can kill it during a
step.
"""

import hashlib
import os
import sys
import time
from pathlib import Path

from protocol import read, write

side, behaviour = sys.argv[1:3]
above = Path.cwd().parents
log = above[2] / "asked.log" if len(above) > 2 else Path("none")
VALUES = 16
QUARTERS = [2 * (place // 8) + place % 4 // 2 for place in range(VALUES)]
CORNERS = (0, 3, 12, 15)


def note(pictures, seconds):
    """Logs a question before it is answered, and waits for `seconds`."""
    if log.exists():
        digests = [hashlib.sha256(picture).hexdigest()[:16] for picture in pictures]
        with log.open("ab", buffering=0) as file:
            file.write(f"{side}_{behaviour} {os.getpid()} {time.time():.6f} {' '.join(digests)}\n".encode())
    time.sleep(seconds)


def first_largest(values):
    """Returns the index of the largest value, the first of equal ones."""
    return values.index(max(values))


def moved(picture, label, epsilon):
    """Darkens the true quarter, and brightens the next (`strong`), the next a little (`weak`), or none (`dark`)."""
    brighter = {"strong": epsilon, "weak": epsilon // 2, "dark": 0}[behaviour]
    changes = {label: -epsilon, (label + 1) % 4: brighter}
    pairs = zip(QUARTERS, picture)  # noqa: B905  Python 3.8 has no strict
    return bytes(max(0, min(255, value + changes.get(quarter, 0))) for quarter, value in pairs)


def label_of(picture):
    """Returns the brightest quarter (`plain`), or the brightest corner (`corners`).

    `fragile` exits at some pictures, `dies` at all; `stuck` never answers if the first pixel is white.
    """
    if behaviour == "dies" or (behaviour == "fragile" and sum(picture) % 37 == 0):
        os._exit(3)
    if behaviour == "stuck" and picture[0] == 255:
        time.sleep(600)
    if behaviour == "corners":
        return first_largest([picture[place] for place in CORNERS])
    sums = [0] * 4
    for quarter, value in zip(QUARTERS, picture):  # noqa: B905  Python 3.8 has no strict
        sums[quarter] += value
    return first_largest(sums)


def answer(asked, pictures):
    """Answers a question of the attack or the defence; an attack that `dies` exits at every one."""
    if side == "defence":
        note(pictures, 0.004)
        write({"type": "answers", "id": asked["id"], "labels": list(map(label_of, pictures))})
        return
    note(pictures, 0.02)
    if behaviour == "dies":
        os._exit(3)
    made = [moved(*pair, epsilon) for pair in zip(pictures, asked["labels"])]  # noqa: B905  Python 3.8 has no strict
    reply = {"type": "candidates", "id": asked["id"], "index": list(range(len(made))), "dtype": "u8"}
    write(dict(reply, shape=asked["shape"]), b"".join(made))


while True:
    question, payload = read()
    if question["type"] == "hello":
        epsilon = int(question["task"]["budget"]["epsilon"])
        ready = {"type": "ready", "id": question["id"], "name": behaviour}
        write(ready if side == "attack" else dict(ready, gives=["label"]))
    elif question["type"] == "bye":
        break
    else:
        answer(question, [payload[at : at + VALUES] for at in range(0, len(payload), VALUES)])
