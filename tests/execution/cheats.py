"""Players for the scripted backend, honest and not, and how they are examined."""

import numpy as np

from orchestrator.domain.plan import Stage
from orchestrator.domain.tasks import Limits
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.protocol import frames

from .conftest import first_value

EVERYTHING = SamplingDesign(power=0.9999, cheat=0.01)
"""A design that draws all questions if there are few."""
LENIENT = Limits(perturb_batch=4, classify_seconds=0.2, perturb_seconds=1, ready_seconds=1, restarts=10)


def sessions(played, submission):
    """Returns the steps of a submission's replay, in the order of the ledger."""
    steps = played.events("step_finished")
    return [step for step in steps if step.submission == submission and step.stage is Stage.REPLAY]


def labels(header, found):
    """Returns the frame that answers with these labels."""
    return frames.encode_frame({"type": "answers", "id": header["id"], "labels": found})


class Defence:
    """Answers the first value of a picture modulo 4. `turn` counts the questions of one sandbox.

    `number` is set by the scripted backend: see there.
    """

    number: int

    def __init__(self, seed: int) -> None:
        self.seed, self.turn, self.seen = seed, 0, set()

    def __call__(self, header, payload):
        """Answers one question."""
        self.turn += 1
        return self.reply(header, int(payload[0]))

    def reply(self, header, value):
        """Answers as an honest defence."""
        return labels(header, [value % 4])


class Counts(Defence):
    """Answers every fifth question otherwise: rule A10 is broken by what was asked before."""

    def reply(self, header, value):
        """Answers by the count."""
        return labels(header, [(value + (self.turn % 5 == 0)) % 4])


class Crowded(Defence):
    """Changes its answers after eight different values. It ends itself at one question of one sandbox: see `ends`."""

    ends = (0, 0)

    def reply(self, header, value):
        """Answers by how much it has seen, or ends."""
        self.seen.add(value)
        ends = (self.number, self.turn) == Crowded.ends
        return b"" if ends else labels(header, [(value + (len(self.seen) >= 8)) % 4])


class Seeded(Defence):
    """Answers by the seed of its sandbox."""

    def reply(self, header, value):
        """Answers by the seed and the picture."""
        return labels(header, [int(np.random.default_rng([self.seed, value]).integers(4))])


class Shy(Counts):
    """Cheats by a count, and ends itself if a picture equals the one before it, which play never shows it."""

    last = None

    def reply(self, header, value):
        """Answers by the count, or ends."""
        before, self.last = self.last, value
        return b"" if value == before else super().reply(header, value)


class Refuses(Defence):
    """Answers in its first two sandboxes, which are the play's, and ends itself in every later one."""

    answering_sandboxes = 2

    def reply(self, header, value):
        """Answers, or ends."""
        return super().reply(header, value) if self.number <= self.answering_sandboxes else b""


class Stalls(Defence):
    """Is late once it knows a replay: by a second version of one picture, which play never shows.

    `shift` adds one to the even values of `doubled`.
    """

    def reply(self, header, value):
        """Answers, or says nothing."""
        self.seen.add(value)
        return None if value ^ 1 in self.seen else labels(header, [value // 2 % 4])


def candidates(header, pixels):
    """Returns the frame that delivers all candidates."""
    index = list(range(header["shape"][0]))
    answer = {"type": "candidates", "id": header["id"], "index": index, "dtype": "u8", "shape": header["shape"]}
    return frames.encode_frame(answer, pixels.astype(np.uint8).tobytes())


def apart(header, payload):
    """An attack that adds twelve: no version of a picture is like another picture."""
    return candidates(header, np.frombuffer(payload, np.uint8) + 12)


class SeededAttack:
    """Draws random numbers from its seed, continuing through all questions of its sandbox (rule X3)."""

    number: int

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)

    def __call__(self, header, payload):
        """Adds 0 to 2 to each value."""
        pixels = np.frombuffer(payload, np.uint8)
        return candidates(header, pixels + self.chance.integers(0, 3, len(pixels)))


class OwnChance(SeededAttack):
    """Draws its own chance."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.chance = np.random.default_rng()


class SandboxChance(SeededAttack):
    """Has one chance in its first sandbox, which is the play's, and another one in every later sandbox."""

    sandboxes_of_play = 1

    def __init__(self, seed: int) -> None:
        del seed
        super().__init__(0)
        self.asked = 0

    def __call__(self, header, payload):
        """Adds 0 to 2 to each value."""
        self.asked += 1
        if self.asked == 1 and self.number > self.sandboxes_of_play:
            self.chance = np.random.default_rng(1)
        return super().__call__(header, payload)


class Flaky(Defence):
    """Ends itself at one picture, always."""

    def reply(self, header, value):
        """Answers all others."""
        return b"" if value == 7 else super().reply(header, value)


JUNK = b"processed a picture\n"
MARKED = 5
"""The first value of the picture at which the next three players write bytes that are no reply."""


def chatty(header, payload):
    """Answers as it should, and writes a line behind the answer to one picture."""
    return first_value(header, payload) + (JUNK if payload[0] == MARKED else b"")


def malformed(header, payload):
    """Writes a line in front of the answer to one picture."""
    return (JUNK if payload[0] == MARKED else b"") + first_value(header, payload)


class Late:
    """Answers as it should; the line behind the answer to one picture arrives when the next question is open."""

    def __init__(self, _seed: int) -> None:
        self.left = b""

    def __call__(self, header, payload):
        """Answers one question."""
        before, self.left = self.left, JUNK if payload[0] == MARKED else b""
        return before + first_value(header, payload)
