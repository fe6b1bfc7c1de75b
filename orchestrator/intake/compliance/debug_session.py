"""A conversation with one player for its authors: hello, then question by question, or one that was held before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.domain.samples import Pixels
from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import SubmissionFault, UsageError
from orchestrator.execution.player import Player
from orchestrator.execution.player_starter import PlayerStarter
from orchestrator.execution.round_context import RoundContext
from orchestrator.intake.compliance.recording import ConversationRecorder
from orchestrator.protocol import frames
from orchestrator.protocol.transcript import Sender, TranscriptEntry
from orchestrator.sandboxes.base import Sandbox, SandboxSpec

_REPLY_SECONDS = 5.0
"""Seconds for a reply beyond what it took when it was recorded, twice over."""
_TIME_FACTOR = 3


@dataclass(frozen=True, slots=True)
class ReplyComparison:
    """One reply of the recorded player beside that of this one; `now` is None where none came in time."""

    then: TranscriptEntry
    now: TranscriptEntry | None

    @property
    def same(self) -> bool:
        """Whether header and payload are the same; the time is not compared."""
        if self.now is None:
            return False
        words = (self.then.header, self.then.sha256, self.then.broken)
        return words == (self.now.header, self.now.sha256, self.now.broken)


class DebugSession:
    """One player, one sandbox.

    Args:
        setting: as of a trial match.
        submission: who plays.
        device: the UUID of the GPU it may use.
    """

    def __init__(self, setting: RoundContext, submission: Submission, device: str | None = None) -> None:
        self.heard = ConversationRecorder(setting.payload_limit, setting.clock, keep=True)
        self._setting, self._submission, self._device = setting, submission, device
        self._player: Player | None = None
        self._asked = 0
        self._compared = 0

    @property
    def said(self) -> list[TranscriptEntry]:
        """What was said so far."""
        return [entry for conversation in self.heard.conversations for entry in conversation]

    def greet(self) -> None:
        """Starts the player and waits until it is ready. Raises SubmissionFault."""
        setting = self._setting
        entrance = PlayerStarter(
            setting, self._submission, "rehearsal", self._device, lambda: setting.seed, [], seat=self.heard.seat
        )
        self._player = entrance.open()

    def ask(self, count: int) -> None:
        """Asks about the next so many pictures in one question; after the last comes the first.

        The batch may be larger than the contest's: it is a rehearsal. Raises SubmissionFault, UsageError.
        """
        if self._player is None:
            raise UsageError("the player is not there: it was not greeted, or ended after a fault")
        samples = self._setting.samples
        places = [(self._asked + number) % len(samples) for number in range(count)]
        self._asked += count
        pixels: Pixels = samples.pixels[places]
        try:
            if self._submission.side is Side.ATTACK:
                labels = [int(label) for label in samples.labels[places]] if self._setting.labels else None
                for _ in self._player.perturb(pixels, labels, self._setting.limits):
                    pass
            else:
                self._player.classify(pixels, self._setting.limits)
        except SubmissionFault:
            self.close()
            raise

    def repeat(self, recorded: Sequence[TranscriptEntry]) -> Iterator[ReplyComparison]:
        """Says again what the orchestrator said in a transcript, and yields each reply beside the recorded one.

        Raises:
            UsageError: the transcript was kept without its payloads.
        """
        setting, clock = self._setting, self._setting.clock
        image = setting.images[self._submission.id]
        order = SandboxSpec(image=image, policy=setting.policy, run=setting.run, job="rehearsal", device=self._device)
        sandbox = self.heard.seat(setting.backend.start(order))
        try:
            before = 0
            for entry in recorded:
                if entry.sender is Sender.ORCHESTRATOR:
                    frame = entry.frame()
                    if frame is None:
                        raise UsageError("this transcript holds no payloads: save one with `sparring submission debug`")
                    sandbox.send(frames.encode_frame(frame.header, frame.payload), clock() + _REPLY_SECONDS)
                else:
                    seconds = _REPLY_SECONDS + _TIME_FACTOR * (entry.ms - before) / 1000
                    yield ReplyComparison(entry, self._next(sandbox, clock() + seconds))
                before = entry.ms
        finally:
            sandbox.stop()

    def close(self) -> None:
        """Ends the player. Safe to call twice."""
        if self._player is not None:
            self._player.stop()
            self._player = None

    def _next(self, sandbox: Sandbox, deadline: float) -> TranscriptEntry | None:
        """Returns the next reply that was not compared yet, None where there is none before the deadline."""
        while len(replies := [entry for entry in self.said if entry.sender is Sender.PLAYER]) <= self._compared:
            if self._setting.clock() > deadline or sandbox.receive(deadline) in (b"", None):
                return None
        self._compared += 1
        return replies[self._compared - 1]
