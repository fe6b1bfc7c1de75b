"""What may be said next, and what follows when something else is said."""

import json

import numpy as np
import pytest

from orchestrator.errors import OutputFlood, PlayerReported, ProtocolFault, SubmissionFault
from orchestrator.protocol import frames
from orchestrator.protocol.messages import Capability, Refusal, Role, Want
from orchestrator.protocol.session import (
    AnswersReply,
    AttackQuery,
    GradientsReply,
    PlayerReply,
    QueryReply,
    ReadyReply,
    Session,
)

from .conftest import QUERIES


def said(data: bytes) -> tuple[dict, bytes]:
    """Returns header and payload of the one frame in `data`."""
    decoder = frames.FrameDecoder(1 << 20)
    decoder.feed(data)
    frame = decoder.next_frame()
    assert decoder.pending_bytes == 0
    return frame.header, bytes(frame.payload)


def candidates(*index: int, identity: int = 2) -> bytes:
    """Returns a message with one 2 x 2 picture for each position, all of the position's value."""
    header = {"type": "candidates", "id": identity, "dtype": "u8", "shape": [len(index), 1, 2, 2], "index": list(index)}
    return frames.encode_frame(header, bytes(position for position in index for _ in range(4)))


def answers(identity: int, *labels: int | None) -> bytes:
    """Returns a defence's labels."""
    return frames.encode_frame({"type": "answers", "id": identity, "labels": list(labels)})


def query(*positions: int, payload: bytes = b"", **changes) -> bytes:
    """Returns an attack's query for the decision on a picture for each of these positions, 0 if none is given."""
    places = list(positions) or [0]
    header = {"type": "query", "id": 2, "dtype": "u8", "shape": [len(places), 1, 2, 2], "want": "decision"}
    return frames.encode_frame(header | {"for": places} | changes, payload or b"\1\2\3\4" * len(places))


def heard(session: Session, pieces: list[bytes]) -> tuple[list[PlayerReply], SubmissionFault | None]:
    """Returns the replies that the pieces complete, and the fault they end in."""
    replies = []
    try:
        for piece in pieces:
            for reply in session.feed(piece):
                replies.append(reply)  # noqa: PERF402  one by one: a fault may follow
    except SubmissionFault as fault:
        return replies, fault
    return replies, None


def test_hello_says_everything_a_player_needs(hello):
    """The opening message holds role, task, limits, seed and version, and the payload limit of the session."""
    header, payload = said(Session(Role.ATTACK, 10, 4096).ask_hello(**hello))
    assert header == {
        "type": "hello",
        "id": 1,
        "protocol": 1,
        "role": "attack",
        "task": {
            "name": "tiny",
            "classes": list("0123456789"),
            "shape": [1, 2, 2],
            "budget": {"norm": "linf", "epsilon": 8.0},
        },
        "limits": {
            "ready_seconds": 120.0,
            "step_seconds": 10.0,
            "batch": 64,
            "payload_bytes": 4096,
            "memory_bytes": 2147483648,
            "threads": 1,
        },
        "seed": 7,
    }
    assert payload == b""


@pytest.mark.parametrize("number", [float("inf"), float("nan")], ids=["infinity", "NaN"])
@pytest.mark.parametrize(
    ("part", "name"), [("limits", "ready_seconds"), ("limits", "step_seconds"), ("budget", "epsilon")]
)
def test_hello_has_no_number_that_json_lacks(hello, part, name, number):
    """JSON has neither infinities nor NaN: nothing is sent in their place."""
    headers = {"limits": hello["limits"], "budget": hello["task"].budget}
    with pytest.raises(ValueError, match="finite"):
        type(headers[part]).model_validate(headers[part].model_dump() | {name: number})


def test_ready_greets(hello):
    """The player's name is made printable, its capabilities are kept."""
    session = Session(Role.DEFENCE, 10, 4096)
    session.ask_hello(**hello)
    assert session.has_open_question
    [reply] = session.feed(
        frames.encode_frame({"type": "ready", "id": 1, "name": "a\x1b[m", "gives": ["label", "label"]})
    )
    assert reply == ReadyReply("a\\x1b[m", frozenset({Capability.LABEL}))
    assert not session.has_open_question


def test_questions_carry_pixels_in_c_order(greeted, pixels):
    """A transposed batch is sent in the order of its axes, and labels travel in the header."""
    turned = pixels.transpose(0, 1, 3, 2)
    header, payload = said(greeted(Role.ATTACK).ask_perturb(turned, [3, 9]))
    assert header == {"type": "perturb", "id": 2, "dtype": "u8", "shape": [2, 1, 2, 2], "labels": [3, 9]}
    assert payload == bytes([0, 2, 1, 3, 4, 6, 5, 7])
    header, payload = said(greeted(Role.DEFENCE).ask_classify(turned))
    assert header == {"type": "classify", "id": 2, "dtype": "u8", "shape": [2, 1, 2, 2]}
    assert payload == bytes([0, 2, 1, 3, 4, 6, 5, 7])


def test_hidden_labels_are_not_in_the_question(greeted, pixels):
    """Without labels the key itself is absent (rule A2)."""
    header, _ = said(greeted(Role.ATTACK).ask_perturb(pixels, None))
    assert "labels" not in header


def test_an_attack_may_deliver_in_several_messages(greeted, pixels):
    """Each message delivers its positions; the question closes with the last one (rule A15)."""
    session = greeted(Role.ATTACK)
    session.ask_perturb(pixels, [1, 2])
    [first] = session.feed(candidates(1))
    assert (first.index, first.pixels.tolist()) == ((1,), [[[[1, 1], [1, 1]]]])
    assert session.undelivered == {0}
    assert session.has_open_question
    [second] = session.feed(candidates(0))
    assert second.index == (0,)
    assert session.undelivered == frozenset()
    assert not session.has_open_question


def test_candidates_of_another_kind_are_left_to_the_gate(greeted, pixels):
    """Floats, or pictures of another size, are delivered as they are."""
    session = greeted(Role.ATTACK)
    session.ask_perturb(pixels, None)
    header = {"type": "candidates", "id": 2, "dtype": "f32", "shape": [1, 3], "index": [0]}
    [reply] = session.feed(frames.encode_frame(header, bytes(12)))
    assert (reply.pixels.dtype, reply.pixels.shape) == (np.dtype("<f4"), (1, 3))


def test_a_defence_answers_with_labels_and_abstains_with_null(greeted, pixels):
    """Null is an abstention (rule A7)."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    assert list(session.feed(answers(2, 9, None))) == [AnswersReply((9, None), None)]


def test_a_defence_may_add_scores(greeted, pixels):
    """Scores are f32 [n, classes]; infinity is allowed."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    scores = np.full((2, 10), -np.inf, "<f4")
    header = {"type": "answers", "id": 2, "labels": [0, 1], "dtype": "f32", "shape": [2, 10]}
    [reply] = session.feed(frames.encode_frame(header, scores.tobytes()))
    assert np.array_equal(reply.scores, scores)


def test_a_defence_gives_gradients(greeted, pixels):
    """Gradients have the shape of the pictures."""
    session = greeted(Role.DEFENCE)
    header, payload = said(session.ask_gradient(pixels, [1, 2]))
    assert (header["labels"], payload) == ([1, 2], bytes(range(8)))
    slopes = np.linspace(-1, 1, 8, dtype="<f4").reshape(2, 1, 2, 2)
    header = {"type": "gradients", "id": 2, "dtype": "f32", "shape": [2, 1, 2, 2]}
    [reply] = session.feed(frames.encode_frame(header, slopes.tobytes()))
    assert isinstance(reply, GradientsReply)
    assert np.array_equal(reply.gradients, slopes)


def test_a_query_is_answered_within_the_question(greeted, pixels):
    """The reply repeats the question's id, and the attack goes on afterwards."""
    session = greeted(Role.ATTACK, queries=True)
    session.ask_perturb(pixels, None)
    [asked] = session.feed(query())
    assert (asked.want, asked.positions, asked.pixels.tolist()) == (Want.DECISION, (0,), [[[[1, 2], [3, 4]]]])
    answer = {"type": "reply", "id": 2, "left": [4], "labels": [None]}
    assert said(session.answer_query(QueryReply([4], labels=[None]))) == (answer, b"")
    [again] = session.feed(query(1, 1, want="scores"))
    assert isinstance(again, AttackQuery)
    assert (again.want, again.positions) == (Want.SCORES, (1, 1))
    header, payload = said(session.answer_query(QueryReply([1, 1], values=np.array([[0.5, 1.5], [np.nan, 2]]))))
    assert (header["dtype"], header["shape"], header["left"]) == ("f32", [2, 2], [1, 1])
    assert payload == np.array([0.5, 1.5, np.nan, 2], "<f4").tobytes()
    list(session.feed(query()))
    refused = said(session.answer_query(QueryReply([0], refused=Refusal.BUDGET)))
    assert refused == ({"type": "reply", "id": 2, "left": [0], "refused": "budget"}, b"")
    assert [reply.index for reply in session.feed(candidates(0, 1))] == [(0, 1)]


def test_an_attack_is_told_what_it_may_ask(hello):
    """In `hello`; where the contest allows nothing, nothing is said of queries."""
    for queries in (QUERIES, None):
        limits = said(Session(Role.ATTACK, 10, 4096, queries=queries).ask_hello(**hello))[0]["limits"]
        told = {"per_picture": 5, "batch": 2, "prices": {"decision": 1, "scores": 2}} if queries else None
        assert limits.get("queries") == told


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (query(0, want="gradient"), "unexpected"),
        (query(0, shape=[1, 2, 2, 1]), "shape"),
        (query(0, shape=[4]), "shape"),
        (query(0, dtype="f32", payload=bytes(16)), "shape"),
        (query(0, 0, 0), "count"),
        (query(0, **{"for": [0, 1]}), "index"),
        (query(2), "index"),
        (query(0, **{"for": []}), "header"),
        (query(0, **{"for": None}), "header"),
        (query(0, **{"for": [-1]}), "header"),
        (query(0, payload=bytes(5)), "payload-size"),
        (candidates(0) + query(0), "index"),
    ],
)
def test_a_query_that_cannot_be_put_is_a_fault(greeted, pixels, message, reason):
    """Something without a price, other pictures, too many, positions that are not there or were delivered."""
    session = greeted(Role.ATTACK, queries=True)
    session.ask_perturb(pixels, None)
    replies, fault = heard(session, [message])
    assert fault.reason == reason
    assert not any(isinstance(reply, AttackQuery) for reply in replies)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_came_before_a_fault_counts(greeted, pixels, size):
    """However the pipe cuts the bytes, a delivered candidate is seen before the fault that follows it."""
    session = greeted(Role.ATTACK)
    session.ask_perturb(pixels, None)
    data = candidates(1) + b"Traceback (most recent call last):\n"
    replies, fault = heard(session, [data[at : at + size] for at in range(0, len(data), size)])
    assert fault.reason == "magic"
    assert [reply.index for reply in replies] == [(1,)]
    assert session.undelivered == {0}
    with pytest.raises(OutputFlood, match="1 bytes"):
        session.feed(b".")


def test_a_late_reply_is_not_the_next_ones(greeted, pixels):
    """A reply with an earlier id ends the session."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    list(session.feed(answers(2, 1, 1)))
    session.ask_classify(pixels)
    with pytest.raises(ProtocolFault, match="reply to question 2, question 3 is open") as caught:
        list(session.feed(answers(2, 1, 1)))
    assert caught.value.reason == "id"


def test_a_session_is_over_after_a_fault(greeted, pixels):
    """Nothing can be asked, and bytes that come later are a flood."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    with pytest.raises(ProtocolFault):
        list(session.feed(answers(2, 1) + answers(2, 1, 1)))
    assert not session.has_open_question
    with pytest.raises(ValueError, match="cannot be asked now"):
        session.ask_classify(pixels)
    with pytest.raises(OutputFlood):
        session.feed(answers(2, 1, 1))


def test_a_player_never_speaks_first(hello):
    """A byte before hello is a flood."""
    with pytest.raises(OutputFlood, match="1 bytes although nothing was asked"):
        Session(Role.ATTACK, 10, 4096).feed(b"S")


def test_a_second_answer_in_the_same_read_is_noticed_at_the_next_question(greeted, pixels):
    """The first answer counts; the next question finds the bytes beyond it."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    assert len(list(session.feed(answers(2, 1, 1) + answers(3, 2, 2)))) == 1
    with pytest.raises(OutputFlood):
        session.ask_classify(pixels)
    with pytest.raises(ValueError, match="cannot be asked now"):
        session.ask_classify(pixels)


def test_an_answer_sent_again_is_a_flood(greeted, pixels):
    """A question that is answered takes no second answer."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    list(session.feed(answers(2, 1, 1)))
    with pytest.raises(OutputFlood):
        session.feed(answers(2, 1, 1))


def test_an_attack_waits_for_its_reply(greeted, pixels):
    """Bytes after a query, before its reply, are a flood: in the same read and in the next."""
    session = greeted(Role.ATTACK, queries=True)
    session.ask_perturb(pixels, None)
    assert len(list(session.feed(query() + candidates(0)))) == 1
    with pytest.raises(OutputFlood):
        session.answer_query(QueryReply([1], labels=[1]))
    session = greeted(Role.ATTACK, queries=True)
    session.ask_perturb(pixels, None)
    list(session.feed(query()))
    with pytest.raises(OutputFlood):
        session.feed(candidates(0))
    assert not session.has_open_question


def test_a_player_may_report_a_fault(greeted, pixels):
    """A player's `fault` ends the session; its text is escaped."""
    session = greeted(Role.DEFENCE)
    session.ask_classify(pixels)
    with pytest.raises(PlayerReported, match="'no-gpu': out of\\\\nmemory"):
        list(session.feed(frames.encode_frame({"type": "fault", "id": 2, "code": "no-gpu", "text": "out of\nmemory"})))
    assert not session.has_open_question


@pytest.mark.parametrize(
    ("role", "ask", "complaint"),
    [
        (Role.ATTACK, lambda session, pixels: session.ask_classify(pixels), "for the defence"),
        (Role.ATTACK, lambda session, pixels: session.ask_gradient(pixels, [1, 2]), "for the defence"),
        (Role.DEFENCE, lambda session, pixels: session.ask_perturb(pixels, None), "for the attack"),
        (Role.ATTACK, lambda session, pixels: session.ask_perturb(pixels.astype(np.float32), None), "float32"),
        (Role.ATTACK, lambda session, pixels: session.ask_perturb(pixels[:0], None), "none of them 0"),
        (Role.ATTACK, lambda session, pixels: session.ask_perturb(pixels[0], None), "n, c, h, w"),
        (Role.ATTACK, lambda session, pixels: session.ask_perturb(pixels, [1]), "1 labels for 2 pictures"),
        (Role.ATTACK, lambda session, pixels: session.ask_perturb(pixels, ["x", "y"]), "valid integer"),
        (Role.ATTACK, lambda session, pixels: session.answer_query(QueryReply([1], labels=[1])), "no query"),
    ],
)
def test_our_own_mistakes_leave_the_session_as_it_was(greeted, pixels, role, ask, complaint):
    """A question that cannot be asked is a ValueError, and the right question can still be asked."""
    session = greeted(role)
    with pytest.raises(ValueError, match=complaint):
        ask(session, pixels)
    question = session.ask_perturb(pixels, None) if role is Role.ATTACK else session.ask_classify(pixels)
    assert said(question)[0]["id"] == 2


def test_hello_comes_first_and_once(hello, pixels):
    """Nothing is asked before hello, nothing while it is open, and hello is not said again."""
    session = Session(Role.DEFENCE, 10, 4096)
    with pytest.raises(ValueError, match="hello comes first"):
        session.ask_classify(pixels)
    session.ask_hello(**hello)
    with pytest.raises(ValueError, match="cannot be asked now"):
        session.ask_classify(pixels)
    with pytest.raises(ValueError, match="hello comes first, and once"):
        session.ask_hello(**hello)


def test_gradients_are_asked_only_of_who_gives_them(hello, pixels):
    """An absent capability is unsupported."""
    session = Session(Role.DEFENCE, 10, 4096)
    session.ask_hello(**hello)
    list(session.feed(frames.encode_frame({"type": "ready", "id": 1})))
    with pytest.raises(ValueError, match="does not give gradients"):
        session.ask_gradient(pixels, [1, 2])


def test_bye_ends_the_session(greeted, pixels):
    """After bye nothing is asked."""
    session = greeted(Role.DEFENCE)
    assert said(session.close_conversation()) == ({"type": "bye", "id": 2}, b"")
    with pytest.raises(ValueError, match="cannot be asked now"):
        session.ask_classify(pixels)


def test_headers_never_name_what_a_player_need_not_know(hello, pixels):
    """Questions hold the keys of the specification and nothing else (rule A2)."""
    session = Session(Role.ATTACK, 10, 4096)
    header, _ = said(session.ask_hello(**hello))
    assert set(header) == {"type", "id", "protocol", "role", "task", "limits", "seed"}
    list(session.feed(frames.encode_frame({"type": "ready", "id": 1})))
    header, _ = said(session.ask_perturb(pixels, [1, 2]))
    assert set(header) == {"type", "id", "dtype", "shape", "labels"}
    assert json.dumps(header).isascii()
