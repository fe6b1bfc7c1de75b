"""Each weakened session lacks one check and no other, so that what it lets through is that check's doing."""

import json
import struct

import numpy as np
import pytest

from orchestrator.errors import OutputFlood, PlayerReported, ProtocolFault
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import AnswersReply
from orchestrator.sandbox_selftest.expectation import Weakness
from orchestrator.sandbox_selftest.weakened_sessions import SESSION_TYPES

TASK = TaskHeader(name="t", classes=["a", "b"], shape=[1, 2, 2], budget=BudgetHeader(norm="linf", epsilon=8.0))
LIMITS = LimitsHeader(ready_seconds=1, step_seconds=1, batch=1, payload_bytes=1, memory_bytes=1, threads=1)
PICTURE = np.zeros((1, 1, 2, 2), np.uint8)


def frame(payload=b"", length=None, **header):
    """Returns a frame; `length` is the payload's as announced."""
    text = json.dumps(header).encode()
    return struct.pack("<4sII", b"SPI1", len(text), len(payload) if length is None else length) + text + payload


def answers(identity=2, **more):
    """Returns an answer to the first question."""
    return frame(**{"type": "answers", "id": identity, "labels": [1], **more})


def asked(weaker, role=Role.DEFENCE, early=b""):
    """Returns a session that waits for the reply to its first question; `early` came together with `ready`."""
    session = SESSION_TYPES[weaker](role, 2, 1024)
    session.ask_hello(TASK, LIMITS, 1)
    list(session.feed(frame(type="ready", id=1, name="\x1b[31m") + early))
    if role is Role.DEFENCE:
        session.ask_classify(PICTURE)
    else:
        session.ask_perturb(PICTURE, [0])
    return session


CASES = {
    Weakness.IDS: ([answers(identity=7)], {}, "id"),
    Weakness.TYPES: ([answers(type="verdict")], {}, "type"),
    Weakness.SIZES: (
        [frame(b"1234", type="candidates", id=2, index=[0], dtype="u8", shape=[1, 1, 64, 64])],
        {"role": Role.ATTACK},
        "payload-size",
    ),
}


@pytest.mark.parametrize("weaker", CASES)
def test_what_it_lets_through_is_refused_by_the_session_that_is_played(weaker):
    """The same bytes are a fault of the named kind in play, and a reply without the check."""
    (reply,), how, reason = CASES[weaker]
    with pytest.raises(ProtocolFault) as caught:
        list(asked(None, **how).feed(reply))
    assert caught.value.reason == reason
    session = asked(weaker, **how)
    assert len(list(session.feed(reply))) == 1
    assert len(session.accepted_replies) == 2


@pytest.mark.parametrize("weaker", CASES)
def test_it_still_refuses_what_the_others_let_through(weaker):
    """One check is taken out, not two."""
    for other, ((reply,), how, reason) in CASES.items():
        if other is not weaker:
            with pytest.raises(ProtocolFault) as caught:
                list(asked(weaker, **how).feed(reply))
            assert caught.value.reason == reason


def test_an_early_reply_is_a_flood_unless_silence_is_not_asked_for():
    """What came with `ready` is noticed at the question; without the check it is taken for the reply."""
    with pytest.raises(OutputFlood):
        asked(None, early=answers())
    session = asked(Weakness.SILENCE, early=answers())
    assert isinstance(next(iter(session.feed(answers()))), AnswersReply)


def test_a_question_that_is_open_is_not_left_unless_the_end_is_ignored():
    """After a missed deadline a session cannot be asked again; without the check it can."""
    with pytest.raises(ValueError, match="cannot be asked"):
        asked(None).ask_classify(PICTURE)
    session = asked(Weakness.DEADLINE)
    session.ask_classify(PICTURE)
    assert len(list(session.feed(answers(identity=3)))) == 1


def test_a_long_payload_is_refused_at_its_announcement_unless_it_is_not_bounded():
    """In play the announcement is a fault; without the bound it is waited for."""
    with pytest.raises(ProtocolFault, match="limit is 1024"):
        list(asked(None).feed(answers()[:4] + frame(length=2**31)[4:]))
    assert list(asked(Weakness.PAYLOAD).feed(frame(length=2**31))) == []


def test_text_is_made_printable_unless_it_is_shown_as_it_is():
    """Names and faults carry their escapes only without the check."""
    assert asked(None).accepted_replies[0].name == "\\x1b[31m"
    assert asked(Weakness.TEXT).accepted_replies[0].name == "\x1b[31m"
    for weaker, clean in ((None, True), (Weakness.TEXT, False)):
        with pytest.raises(PlayerReported) as caught:
            list(asked(weaker).feed(frame(type="fault", id=2, code="x", text="\x1b[2J")))
        assert str(caught.value).isprintable() is clean


@pytest.mark.parametrize("weaker", SESSION_TYPES)
def test_an_honest_player_is_accepted_by_all(weaker):
    """No weakness is harm by itself."""
    session = asked(weaker)
    (reply,) = session.feed(answers())
    assert reply.labels == (1,)
