"""Records the conversation between a player and the orchestrator while it happens."""

from collections.abc import Callable

from orchestrator.execution.round_context import Clock
from orchestrator.protocol.transcript import Sender, TranscriptEntry, TranscriptRecorder
from orchestrator.sandboxes.base import Exit, Sandbox, never_cancelled


class ConversationRecorder:
    """Records the conversations with the sandboxes of a match, one after another.

    Args:
        payload_limit: the longest payload that a player may send, in bytes.
        clock: a monotonic clock in seconds.
        keep: whether payloads are recorded as well, so that the conversation can be replayed.
    """

    def __init__(self, payload_limit: int, clock: Clock, *, keep: bool = False) -> None:
        self._payload_limit, self._clock, self._keep_payloads = payload_limit, clock, keep
        self.conversations: list[list[TranscriptEntry]] = []
        """The conversation with each sandbox."""
        self.exits: list[Exit] = []
        """The exit of each sandbox that has ended."""

    @property
    def stderr(self) -> bytes:
        """The end of the standard error of the sandbox that ended last: hostile text."""
        return self.exits[-1].stderr if self.exits else b""

    def wrap_sandbox(self, sandbox: Sandbox) -> Sandbox:
        """Returns a sandbox that records its conversation and passes everything on to `sandbox`."""
        entries: list[TranscriptEntry] = []
        self.conversations.append(entries)
        return _RecordedSandbox(
            sandbox,
            self,
            entries,
            self._clock,
            TranscriptRecorder(self._payload_limit, keep_payloads=self._keep_payloads),
        )


class _RecordedSandbox:
    """A sandbox whose conversation is recorded."""

    def __init__(
        self,
        sandbox: Sandbox,
        listener: ConversationRecorder,
        entries: list[TranscriptEntry],
        clock: Clock,
        recorder: TranscriptRecorder,
    ) -> None:
        self._sandbox, self._listener, self._entries = sandbox, listener, entries
        self._clock, self._start_time, self._recorder = clock, clock(), recorder
        self._exit: Exit | None = None

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        self._entries += self._recorder.add(Sender.ORCHESTRATOR, self._elapsed_ms(), data)
        return self._sandbox.send(data, deadline, cancelled)

    def receive(self, deadline: float) -> bytes | None:
        data = self._sandbox.receive(deadline)
        if data:
            self._entries += self._recorder.add(Sender.PLAYER, self._elapsed_ms(), data)
        return data

    def stop(self) -> Exit:
        if self._exit is None:
            self._exit = self._sandbox.stop()
            self._entries += self._recorder.end(self._elapsed_ms())
            self._listener.exits.append(self._exit)
        return self._exit

    def _elapsed_ms(self) -> int:
        return int(1000 * (self._clock() - self._start_time))
