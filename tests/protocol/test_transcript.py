"""A conversation written down, read back and shown."""

import base64

import pytest

from orchestrator.errors import UsageError
from orchestrator.protocol import frames
from orchestrator.protocol.transcript import (
    Sender,
    TranscriptEntry,
    TranscriptRecorder,
    read_transcript,
    render_transcript,
    write_transcript,
)

CLASSIFY = frames.encode_frame({"type": "classify", "id": 2, "dtype": "u8", "shape": [1, 1, 1, 3]}, b"abc")
ANSWERS = frames.encode_frame({"type": "answers", "id": 2, "labels": [None, 3]})


def conversation(*, keep: bool) -> list[TranscriptEntry]:
    """Returns a question, its answer in two pieces, and a stray print."""
    recorder = TranscriptRecorder(100, keep_payloads=keep)
    entries = recorder.add(Sender.ORCHESTRATOR, 0, CLASSIFY)
    entries += recorder.add(Sender.PLAYER, 5, ANSWERS[:20])
    entries += recorder.add(Sender.PLAYER, 1234, ANSWERS[20:] + b"done \x1b[2J\n")
    return entries + recorder.end(2000)


@pytest.mark.parametrize("keep", [True, False])
def test_a_transcript_is_read_back(keep):
    """What is written is read, nulls in headers included."""
    entries = conversation(keep=keep)
    assert read_transcript(write_transcript(entries)) == entries
    assert entries[1].header == {"type": "answers", "id": 2, "labels": [None, 3]}


def test_the_text_is_json_lines():
    """The format of version 1, letter for letter."""
    [entry, *_] = conversation(keep=True)
    assert write_transcript([entry]) == (
        '{"transcript":1}\n'
        '{"sender":"orchestrator","ms":0,"size":3,'
        '"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","payload":"YWJj",'
        '"header":{"type":"classify","id":2,"dtype":"u8","shape":[1,1,1,3]}}\n'
    )


def test_a_frame_is_dated_when_it_is_whole():
    """The moment is that of the last byte; the break that follows it has the same."""
    assert [(entry.ms, entry.broken) for entry in conversation(keep=False)] == [
        (0, None),
        (1234, None),
        (1234, "magic"),
    ]


def test_kept_payloads_make_the_frames_again():
    """With payloads kept, a recorded conversation can be played again; without, only what had none."""
    question, answer, broken = [entry.frame() for entry in conversation(keep=True)]
    assert frames.encode_frame(question.header, question.payload) == CLASSIFY
    assert frames.encode_frame(answer.header, answer.payload) == ANSWERS
    assert broken is None
    question, answer, _ = [entry.frame() for entry in conversation(keep=False)]
    assert question is None
    assert answer.header["labels"] == [None, 3]


def test_a_broken_stream_is_not_read_on():
    """After a break that sender's bytes are left out; the other's are not."""
    recorder = TranscriptRecorder(100)
    assert [entry.broken for entry in recorder.add(Sender.PLAYER, 1, b"print")] == ["magic"]
    assert recorder.add(Sender.PLAYER, 2, ANSWERS) == []
    assert len(recorder.add(Sender.ORCHESTRATOR, 3, CLASSIFY)) == 1
    assert recorder.end(4) == []


def test_an_end_within_a_frame_is_noted():
    """A stream that stops in the middle of a frame says how much of it there was."""
    recorder = TranscriptRecorder(100)
    recorder.add(Sender.PLAYER, 1, ANSWERS[:-1])
    [entry] = recorder.end(9)
    assert (entry.broken, entry.text) == ("unfinished", f"{len(ANSWERS) - 1} bytes of a frame, then the end")


def test_people_see_directions_sizes_and_no_control_characters():
    """The rendering has a line an entry, and hostile text cannot move the cursor."""
    recorder = TranscriptRecorder(1 << 20)
    hostile = frames.encode_frame(
        {"type": "ready\x1b[31m", "id": "\n> bye", "name": "\x07" + "x" * 60_000}, bytes(12345)
    )
    entries = conversation(keep=False) + recorder.add(Sender.PLAYER, 60_000, hostile)
    lines = render_transcript(entries, width=120).removesuffix("\n").split("\n")
    assert lines == [
        '     0.000 s >  classify #2             3 B  {"dtype": "u8", "shape": [1, 1, 1, 3]}',
        '     1.234 s <  answers #2              0 B  {"labels": [null, 3]}',
        "     1.234 s <  broken (magic): expected a frame, got 'done \\x1b[2J\\n'; did the player print to stdout?",
        lines[3],
    ]
    assert lines[3].startswith("    60.000 s <  ready\\x1b[31m #\\n> bye")
    assert "12,345 B" in lines[3]
    assert len(lines[3]) < 180
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda _: "", "line 1: not JSON"),
        (lambda text: text.replace('"transcript":1', '"transcript":2'), "line 1: expected"),
        (lambda text: text + "\n", "line 5: not JSON"),
        (lambda text: text.replace('"ms":0', '"ms":"0"'), "line 2: ms: "),
        (lambda text: text.replace('"ms":0', '"ms":-1'), "line 2: ms: "),
        (lambda text: text.replace('"ms":0', '"ms":0,"ms":0'), "line 2: not JSON: a key occurs twice"),
        (lambda text: text.replace('"sender":"player"', '"sender":"\\u001b[m"'), "line 3: sender: "),
        (lambda text: text.replace('"size":3', '"size":4'), "line 2: entry: .*size and sha256"),
        (lambda text: text.replace("YWJj", "YWJk"), "line 2: entry: .*size and sha256"),
        (lambda text: text.replace("YWJj", "Y W J j"), "line 2: entry: "),
        (lambda text: text.replace('"broken"', '"broke"'), "line 4: "),
        (lambda text: text.replace('"broken":"magic",', '"size":1,'), "line 4: entry: .*either a frame or a break"),
        (lambda text: text.replace('"header":{', '"text":"t","header":{', 1), "line 2: entry: .*either a frame or"),
    ],
)
def test_a_damaged_transcript_is_refused(damage, complaint):
    """Each way to be no transcript is a UsageError that names the line."""
    text = damage(write_transcript(conversation(keep=True)))
    with pytest.raises(UsageError, match=complaint) as caught:
        read_transcript(text)
    assert str(caught.value).isprintable()


def test_entries_hold_base64():
    """A kept payload is standard base64."""
    [entry, *_] = conversation(keep=True)
    assert base64.b64decode(entry.payload) == b"abc"
