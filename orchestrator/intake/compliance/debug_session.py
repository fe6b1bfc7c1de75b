"""A conversation with one player for its authors: hello and single questions, or the replay of a recorded one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.domain.samples import Pixels
from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import SubmissionFault, UsageError
from orchestrator.execution.player import Player
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.round_context import RoundContext
from orchestrator.intake.compliance.recording import ConversationRecorder
from orchestrator.intake.compliance.stand_in_defence import stand_in_broker
from orchestrator.protocol import frames
from orchestrator.protocol.transcript import Sender, TranscriptEntry
from orchestrator.sandboxes.base import Sandbox, SandboxSpec

_REPLY_SECONDS = 5.0
"""Seconds to wait for a reply, in addition to `_TIME_FACTOR` times the recorded time."""
_TIME_FACTOR = 3
_JOB = "debug"


@dataclass(frozen=True, slots=True)
class ReplyComparison:
    """A recorded reply, and the reply of this player; `received` is None if none came in time."""

    recorded: TranscriptEntry
    received: TranscriptEntry | None

    @property
    def is_same(self) -> bool:
        """Whether header and payload are the same; the time is not compared."""
        if self.received is None:
            return False
        recorded_reply = (self.recorded.header, self.recorded.sha256, self.recorded.broken)
        return recorded_reply == (self.received.header, self.received.sha256, self.received.broken)


class DebugSession:
    """A conversation with one player in one sandbox.

    Args:
        context: the context of a trial match.
        submission: the submission that plays.
        device: the UUID of the GPU that it may use.
    """

    def __init__(self, context: RoundContext, submission: Submission, device: str | None = None) -> None:
        self.recorder = ConversationRecorder(context.payload_limit, context.clock, keep=True)
        self._context, self._submission, self._device = context, submission, device
        self._player: Player | None = None
        self._asked_pictures = 0
        self._compared_replies = 0

    @property
    def transcript(self) -> list[TranscriptEntry]:
        """The conversation so far."""
        return [entry for conversation in self.recorder.conversations for entry in conversation]

    def start_player(self) -> None:
        """Starts the player and waits until it is ready. Raises SubmissionFault."""
        context = self._context
        pool = PlayerPool(
            context,
            self._submission,
            _JOB,
            lambda: context.seed,
            device=self._device,
            wrap_sandbox=self.recorder.wrap_sandbox,
        )
        self._player = pool.start_player()

    def ask(self, count: int) -> None:
        """Asks about the next `count` pictures in one question; after the last picture follows the first.

        The batch may be larger than the contest's. Raises SubmissionFault, UsageError.
        """
        if self._player is None:
            raise UsageError("no player is running: it was not greeted yet, or it ended after a fault")
        samples = self._context.samples
        places = [(self._asked_pictures + number) % len(samples) for number in range(count)]
        self._asked_pictures += count
        pixels: Pixels = samples.pixels[places]
        try:
            if self._submission.side is Side.ATTACK:
                labels = [int(label) for label in samples.labels[places]] if self._context.labels else None
                broker = stand_in_broker(self._context, pixels, samples.labels[places])
                for _ in self._player.perturb(
                    pixels, labels, self._context.limits, None if broker is None else broker.answer
                ):
                    pass
            else:
                seeds = self._context.seeds_for(self._submission.id, pixels)
                self._player.classify(pixels, self._context.limits, seeds)
        except SubmissionFault:
            self.close()
            raise

    def replay_transcript(self, recorded: Sequence[TranscriptEntry]) -> Iterator[ReplyComparison]:
        """Sends the orchestrator's messages of a transcript again, and yields each reply beside the recorded one.

        Raises:
            UsageError: the transcript has no payloads.
        """
        context, clock = self._context, self._context.clock
        image = context.images[self._submission.id]
        spec = SandboxSpec(image=image, policy=context.policy, run=context.run, job=_JOB, device=self._device)
        sandbox = self.recorder.wrap_sandbox(context.backend.start(spec))
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
                    yield ReplyComparison(entry, self._next_reply(sandbox, clock() + seconds))
                before = entry.ms
        finally:
            sandbox.stop()

    def close(self) -> None:
        """Ends the player. Safe to call twice."""
        if self._player is not None:
            self._player.stop()
            self._player = None

    def _next_reply(self, sandbox: Sandbox, deadline: float) -> TranscriptEntry | None:
        """Returns the next reply that was not compared yet, None if none comes before the deadline."""
        while (
            len(replies := [entry for entry in self.transcript if entry.sender is Sender.PLAYER])
            <= self._compared_replies
        ):
            if self._context.clock() > deadline or sandbox.receive(deadline) in (b"", None):
                return None
        self._compared_replies += 1
        return replies[self._compared_replies - 1]
