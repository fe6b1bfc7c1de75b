"""The transcript of a conversation: each message, with its sender and time.

The text is JSON lines (schemas/protocol.md, "Transcripts"). The first line is `{"transcript":1}`. Each line after it is
one entry: `sender` (orchestrator or player), `ms` (whole milliseconds since the start) and one of

- `header`, `size`, `sha256` and, if payloads are kept, `payload` (base64): one frame;
- `broken` and `text`: the stream ended here, because it is malformed (a reason word of `ProtocolFault`) or because it
  stopped in the middle of a frame (`unfinished`).

This module reads no clock and no file: the time is an argument, and transcripts are text.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.text import printable
from orchestrator.errors import ProtocolFault, UsageError
from orchestrator.protocol import frames
from orchestrator.protocol.frames import SAFE_INTEGER, Frame

VERSION = 1
UNFINISHED = "unfinished"


class Sender(StrEnum):
    """The side that sent the bytes."""

    ORCHESTRATOR = "orchestrator"
    PLAYER = "player"


class TranscriptEntry(BaseModel):
    """One frame, or the place where a stream broke.

    `ms` is milliseconds since the start of the conversation, `size` the payload's length in bytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    sender: Annotated[Sender, Field(strict=False)]
    ms: Annotated[int, Field(ge=0, le=SAFE_INTEGER)]
    header: dict[str, Any] | None = None
    size: Annotated[int, Field(ge=0, le=frames.PAYLOAD_LIMIT)] | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    payload: str | None = Field(default=None, description="base64")
    broken: str | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        frame = (self.header, self.size, self.sha256)
        broken = (self.broken, self.text)
        if self.header is not None:
            fits = None not in frame and broken == (None, None)
        else:
            fits = None not in broken and frame == (None, None, None) and self.payload is None
        if not fits:
            raise ValueError("an entry is either a frame or a break")
        if self.payload is not None:
            payload = b64decode(self.payload, validate=True)
            if len(payload) != self.size or sha256(payload).hexdigest() != self.sha256:
                raise ValueError("the payload is not the one that size and sha256 say")
        return self

    def frame(self) -> Frame | None:
        """Returns the frame, or None if the stream broke there or the payload was not kept."""
        if self.header is None or (self.payload is None and self.size):
            return None
        return Frame(self.header, b64decode(self.payload or ""))


class TranscriptRecorder:
    """Makes transcript entries from the bytes of a conversation.

    Args:
        payload_limit: the longest payload a player may send, in bytes.
        keep_payloads: whether payloads are kept, or only their size and digest.
    """

    def __init__(self, payload_limit: int, *, keep_payloads: bool = False) -> None:
        self._keep = keep_payloads
        self._decoders = {
            Sender.ORCHESTRATOR: frames.FrameDecoder(frames.PAYLOAD_LIMIT),
            Sender.PLAYER: frames.FrameDecoder(payload_limit),
        }
        self._broken: set[Sender] = set()

    def add(self, sender: Sender, ms: int, data: bytes) -> list[TranscriptEntry]:
        """Returns the entries that `data` completes: frames, or a break, after which the sender's bytes are ignored."""
        entries: list[TranscriptEntry] = []
        if sender in self._broken:
            return entries
        decoder = self._decoders[sender]
        decoder.feed(data)
        try:
            while frame := decoder.next_frame():
                entries.append(self._entry(sender, ms, frame))
        except ProtocolFault as fault:
            self._broken.add(sender)
            entries.append(TranscriptEntry(sender=sender, ms=ms, broken=fault.reason, text=printable(str(fault))))
        return entries

    def end(self, ms: int) -> list[TranscriptEntry]:
        """Returns a break for each stream that ended in the middle of a frame."""
        return [
            TranscriptEntry(
                sender=sender, ms=ms, broken=UNFINISHED, text=f"{decoder.pending_bytes} bytes of a frame, then the end"
            )
            for sender, decoder in self._decoders.items()
            if decoder.pending_bytes
        ]

    def _entry(self, sender: Sender, ms: int, frame: Frame) -> TranscriptEntry:
        return TranscriptEntry(
            sender=sender,
            ms=ms,
            header=dict(frame.header),
            size=len(frame.payload),
            sha256=sha256(frame.payload).hexdigest(),
            payload=b64encode(frame.payload).decode("ascii") if self._keep else None,
        )


def write_transcript(entries: Iterable[TranscriptEntry]) -> str:
    """Returns the transcript's text: one line for each entry, with its line feed."""
    lines = [{"transcript": VERSION}, *map(_json_line, entries)]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def read_transcript(text: str) -> list[TranscriptEntry]:
    """Returns the entries of a transcript.

    Raises:
        UsageError: the text is not a transcript, has another version, or is damaged; the message names the line.
    """
    lines = text.removesuffix("\n").split("\n")
    if _parse_line(1, lines[0]) != {"transcript": VERSION}:
        raise UsageError(f"line 1: expected {{\"transcript\":{VERSION}}}, got '{printable(lines[0])}'")
    entries = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            entries.append(TranscriptEntry.model_validate(_parse_line(number, line)))
        except ValidationError as error:
            problem = field_errors(error, TranscriptEntry)[0].problem("entry")
            raise UsageError(f"line {number}: {problem}") from None
    return entries


def render_transcript(entries: Iterable[TranscriptEntry], width: int = 200) -> str:
    """Returns the conversation in readable form, one line for each entry: `>` to the player, `<` from it.

    Headers are hostile text: control characters are written as escapes, and each header is cut to `width` characters.
    """
    return "".join(f"{_time_and_direction(entry)}  {printable(_describe_entry(entry), width)}\n" for entry in entries)


def _time_and_direction(entry: TranscriptEntry) -> str:
    return f"{entry.ms / 1000:10.3f} s {'>' if entry.sender is Sender.ORCHESTRATOR else '<'}"


def _describe_entry(entry: TranscriptEntry) -> str:
    if entry.header is None:
        return f"broken ({entry.broken}): {entry.text}"
    rest = {key: value for key, value in entry.header.items() if key not in {"type", "id"}}
    name = f"{entry.header.get('type')} #{entry.header.get('id')}"
    return f"{name:<14} {entry.size or 0:>10,} B  {json.dumps(rest, ensure_ascii=False)}"


def _json_line(entry: TranscriptEntry) -> dict[str, Any]:
    line = entry.model_dump(mode="json", exclude_none=True, exclude={"header"})
    if entry.header is not None:
        # Added separately: exclude_none would also remove a null in it, which has a meaning.
        line["header"] = entry.header
    return line


def _parse_line(number: int, line: str) -> Any:
    try:
        return frames.strict_json(line)
    except ValueError as error:
        raise UsageError(f"line {number}: not JSON: {printable(str(error))}") from None
