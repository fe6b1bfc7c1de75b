"""Attacks that query, and defences that they query: `asking.py SIDE BEHAVIOUR`.

They start fast, because they use neither NumPy nor the helper. Pictures have four by four values, and the label is the
brightest quarter. The honest attack queries the clean picture, moves 7, 14, 21 and 28 from the labelled quarter to the
next one, queries each time, and delivers the first picture that is misread, or else the last.

A misbehaving attack first delivers half of a question like the honest one. A misbehaving defence is honest about clean
pictures, and misbehaves at attacked pictures of one class.
"""

import itertools
import json
import os
import struct
import sys
import time

side, behaviour = sys.argv[1:3]
STEPS = (0, 7, 14, 21, 28)
VALUES = 16
QUARTERS = [2 * (place // 8) + place % 4 // 2 for place in range(VALUES)]
CORNERS = (5, 7, 13, 15)
"""The index of one value of each quarter, none of which is the speck of the first picture."""
FOREVER = 3600.0


def exactly(count):
    """Returns `count` bytes of stdin; exits at its end."""
    got = b""
    while len(got) < count:
        data = os.read(0, count - len(got))
        if not data:
            raise SystemExit
        got += data
    return got


def read():
    """Returns the header and the payload of the next message."""
    _, header, payload = struct.unpack("<4sII", exactly(12))
    return json.loads(exactly(header)), exactly(payload)


def frame(header, payload=b""):
    """Returns one frame."""
    text = json.dumps(header).encode()
    return struct.pack("<4sII", b"SPI1", len(text), len(payload)) + text + payload


def write(data):
    """Writes all of it."""
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


def brightest(picture):
    """Returns the brightest quarter, the first of equal ones."""
    sums = [0] * 4
    for quarter, value in zip(QUARTERS, picture):  # noqa: B905  Python 3.8 has no strict
        sums[quarter] += value
    return sums.index(max(sums))


def shifted(picture, label, step):
    """Returns a picture with `step` moved from the labelled quarter to the next one."""
    signs = {label: -step, (label + 1) % 4: step}
    pairs = zip(QUARTERS, picture)  # noqa: B905  Python 3.8 has no strict
    return bytes(max(0, min(255, value + signs.get(quarter, 0))) for quarter, value in pairs)


def attacked(picture):
    """Returns the label of an attacked picture, by the two quarters that are not grey; None for a clean one."""
    bright = [picture[place] != 100 for place in CORNERS]
    return next((label for label in range(4) if bright[label] and bright[(label + 1) % 4]), None)


class Question:
    """One `perturb`."""

    def __init__(self, header, payload):
        self.identity, self.labels = header["id"], header["labels"]
        self.pictures = [payload[start : start + VALUES] for start in range(0, len(payload), VALUES)]

    def array(self, kind, pictures, **fields):
        """Returns a message with pictures."""
        header = {"type": kind, "id": self.identity, "dtype": "u8", "shape": [len(pictures), 1, 4, 4]}
        return frame(dict(header, **fields), b"".join(pictures))

    def query(self, places=(0,), pictures=None, **fields):
        """Returns a query, about the clean pictures unless others are given."""
        pictures = [self.pictures[place] for place in places] if pictures is None else pictures
        return self.array("query", pictures, **dict({"want": "decision", "for": list(places)}, **fields))

    def ask(self, places, pictures):
        """Sends a query and returns the defence's answer."""
        write(self.query(places, pictures))
        return read()[0]

    def attack(self, place):
        """Returns the honest attack's candidate."""
        label, made = self.labels[place], self.pictures[place]
        for step in STEPS:
            made = shifted(self.pictures[place], label, step)
            if self.ask([place], [made]).get("labels") != [label]:
                break
        return made

    def candidates(self, places):
        """Returns the honest attack's candidates as a message."""
        return self.array("candidates", [self.attack(place) for place in places], index=list(places))

    def deliver_half(self):
        """Delivers the honest attack's candidates for the first half."""
        write(self.candidates(range(len(self.pictures) // 2)))


def honest(question):
    """Queries within the budget, and delivers all candidates."""
    write(question.candidates(range(len(question.pictures))))


def overdraws(question):
    """Exceeds the budget with one query, is honest, and continues when nothing is left; it is refused each time."""
    refused = [question.ask([0] * (len(STEPS) + 1), [question.pictures[0]] * (len(STEPS) + 1))]
    places = range(len(question.pictures))
    message = question.candidates(places)
    for place in places:
        while "refused" not in question.ask([place], [question.pictures[place]]):
            pass
        refused += [question.ask([place], [question.pictures[place]]) for _ in range(3)]
    if any(reply.get("refused") != "budget" or "labels" in reply for reply in refused):
        raise SystemExit("it was answered")
    write(message)


def asks_forever(question):
    """Continues to query when nothing is left: a thousand times at once, and then without using up a processor."""
    place = len(question.pictures) - 1
    for number in itertools.count():
        question.ask([place], [question.pictures[place]])
        if number >= 1000:
            time.sleep(0.01)


def asks_behind(question):
    """Sends another query together with its candidates."""
    write(question.candidates(range(len(question.pictures))) + question.query())


def asks_about_delivered(question):
    """Queries a picture whose candidate it has delivered."""
    write(question.query([0]))


def says(*made):
    """Returns an attack that sends, in one write, the messages that these functions make from the question."""

    def misbehave(question):
        write(b"".join(make(question) for make in made))

    return misbehave


def last_query(question):
    """Returns a query that is allowed."""
    return question.query([len(question.pictures) - 1])


def falls_silent(question):
    """Sends half a query."""
    write(last_query(question)[:-5])
    time.sleep(FOREVER)


def reads_no_reply(question):
    """Queries, and never reads the answer."""
    write(last_query(question))
    time.sleep(FOREVER)


def dies_asking(question):
    """Queries, and exits."""
    write(last_query(question))
    os._exit(3)


HALVES = {
    "asks_forever": asks_forever,
    "asks_about_delivered": asks_about_delivered,
    "asks_position": says(lambda q: q.query([40], [q.pictures[0]])),
    "asks_scores": says(lambda q: q.query([3], want="scores")),
    "asks_shape": says(lambda q: q.query([3], [bytes(25)], shape=[1, 1, 5, 5])),
    "asks_short": says(lambda q: q.query([3], [bytes(9)])),
    "asks_many": says(lambda q: q.query([3] * 9, [q.pictures[3]] * 9)),
    "asks_unnamed": says(lambda q: q.query([3, 3], [q.pictures[3]])),
    "asks_gibberish": says(lambda q: b"what is this picture?\n"),
    "asks_twice": says(last_query, last_query),
    "falls_silent": falls_silent,
    "reads_no_reply": reads_no_reply,
    "dies_asking": dies_asking,
}
"""The behaviours of attacks with the second half of a question."""


def climbs(question):
    """Follows two gradients of the defence for each picture, and delivers the results."""
    made = []
    for place, picture in enumerate(question.pictures):
        for _ in range(2):
            write(question.query([place], [picture], want="gradient"))
            values = struct.unpack(f"<{VALUES}f", read()[1])
            moves = [14 * ((value > 0) - (value < 0)) for value in values]  # of NaN, which is no gradient: 0
            pairs = zip(picture, moves)  # noqa: B905  Python 3.8 has no strict
            picture = bytes(max(0, min(255, value + move)) for value, move in pairs)  # noqa: PLW2901  step by step
        made.append(picture)
    write(question.array("candidates", made, index=list(range(len(made)))))


WHOLE = {"honest": honest, "overdraws": overdraws, "asks_behind": asks_behind, "climbs": climbs}
"""The behaviours of attacks with a whole question."""


def play_attack():
    """Plays an attack."""
    while True:
        header, payload = read()
        if header["type"] != "perturb":
            return
        question = Question(header, payload)
        if behaviour in HALVES:
            question.deliver_half()
            HALVES[behaviour](question)
            time.sleep(FOREVER)
        WHOLE[behaviour](question)


class Defender:
    """Answers one picture at a time."""

    def __init__(self):
        self.asked = 0
        self.seen = []

    def answer(self, identity, picture):
        """Returns the bytes of an answer."""
        self.asked += 1
        label = brightest(picture)
        if behaviour == "detects":
            label = self.remembered(picture, label)
        if behaviour == "lingers":
            time.sleep(1)
        if behaviour == "dies_counting" and self.asked % 3 == 0:
            os._exit(3)
        misbehaves = MISBEHAVES.get(behaviour)
        if misbehaves and attacked(picture) == misbehaves[0]:
            return misbehaves[1](identity)
        return frame({"type": "answers", "id": identity, "labels": [label]})

    def remembered(self, picture, label):
        """Returns the earlier answer to a near repeat, so that an attack never sees that a picture is misread."""
        for known, said in self.seen:
            if max(abs(a - b) for a, b in zip(known, picture)) <= STEPS[1]:  # noqa: B905  Python 3.8 has no strict
                label = said
                break
        self.seen.append((picture, label))
        return label


MISBEHAVES = {
    "hangs": (0, lambda identity: time.sleep(FOREVER)),
    "dies": (1, lambda identity: os._exit(3)),
    "nonsense": (2, lambda identity: frame({"type": "answers", "id": identity, "labels": [99]})),
    "babbles": (3, lambda identity: b"it is a cat\n"),
}
"""For each behaviour, the label at whose attacked pictures a defence misbehaves, and how."""


def play_defence():
    """Plays a defence."""
    defender = Defender()
    while True:
        header, payload = read()
        if header["type"] != "classify":
            return
        write(defender.answer(header["id"], payload))


def play_slope():
    """Plays a defence that gives gradients; `slope_dies` dies at moved pictures of one class."""
    defender = Defender()
    while True:
        header, payload = read()
        if header["type"] == "classify":
            write(defender.answer(header["id"], payload))
        elif header["type"] == "gradient":
            if behaviour == "slope_dies" and attacked(payload) == 1:
                os._exit(3)
            (label,) = header["labels"]
            signs = {label: -1.0, (label + 1) % 4: 1.0}
            values = [signs.get(quarter, 0.0) for quarter in QUARTERS]
            answer = {"type": "gradients", "id": header["id"], "dtype": "f32", "shape": header["shape"]}
            write(frame(answer, struct.pack(f"<{VALUES}f", *values)))
        else:
            return


hello, _ = read()
if behaviour.startswith("slope"):
    write(frame({"type": "ready", "id": hello["id"], "gives": ["label", "gradient"]}))
    play_slope()
elif behaviour != "dies_loading":
    write(frame({"type": "ready", "id": hello["id"]}))
    play_attack() if side == "attack" else play_defence()
