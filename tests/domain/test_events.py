"""What the events of a round are as text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain import events
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.ids import LARGEST_EXACT, canonical_json, parse_json
from orchestrator.domain.plan import Stage

TEXTS = st.text(max_size=6)
INTEGERS = st.integers(-LARGEST_EXACT, LARGEST_EXACT)
COUNTS = st.integers(0, LARGEST_EXACT)
SECONDS = st.one_of(
    st.floats(0, allow_infinity=False), st.sampled_from([1.0, 1e-4, 0.00009, 1e-7, 1e16, 2.0**53, 1e21])
)
DIGESTS = st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}")
CELLS = st.builds(events.CellRecord, defence=TEXTS, attack=st.none() | TEXTS)
FAULTS = st.builds(
    events.FaultRecord,
    code=TEXTS,
    reason=TEXTS,
    message=TEXTS,
    pictures=COUNTS,
    question_pictures=COUNTS,
    times=st.integers(1, LARGEST_EXACT),
    submission=TEXTS,
)
SANDBOXES = st.builds(
    events.SandboxRecord,
    ending=TEXTS,
    reason=st.none() | st.sampled_from(ExitReason),
    code=st.none() | INTEGERS,
    wall_seconds=SECONDS,
    cpu_seconds=st.none() | SECONDS,
    peak_bytes=st.none() | INTEGERS,
    peak_pids=st.none() | INTEGERS,
    kills=COUNTS,
    sampled=st.booleans(),
    stdin_bytes=st.none() | COUNTS,
    stdout_bytes=st.none() | COUNTS,
    stderr_bytes=st.none() | COUNTS,
    stderr=st.none() | DIGESTS,
    submission=TEXTS,
)
SESSIONS = st.builds(
    events.SessionRecord,
    purpose=TEXTS,
    batch=INTEGERS,
    pauses=st.dictionaries(st.integers(0, 200), SECONDS, max_size=4),
    seed=st.none() | INTEGERS,
)
STEPS = st.builds(
    events.StepFinished,
    job=TEXTS,
    stage=st.sampled_from(Stage),
    submission=TEXTS,
    step=INTEGERS,
    cells=st.lists(CELLS, max_size=2),
    blobs=st.dictionaries(TEXTS, DIGESTS, max_size=4),
    faults=st.lists(FAULTS, max_size=2),
    seconds=SECONDS,
    fault_seconds=SECONDS,
    node=TEXTS,
    sandboxes=st.lists(SANDBOXES, max_size=2),
    fresh=st.booleans(),
    fresh_copy=TEXTS,
    transcript=TEXTS,
    attack_seconds=SECONDS,
    session=st.none() | SESSIONS,
)
ENDS = st.builds(
    events.JobFinished,
    job=TEXTS,
    stage=st.sampled_from(Stage),
    submission=TEXTS,
    device=st.none() | TEXTS,
    seconds=SECONDS,
    sandboxes=st.lists(SANDBOXES, max_size=2),
)
JOBS = st.builds(
    events.JobRecord,
    id=TEXTS,
    stage=st.sampled_from(Stage),
    submission=TEXTS,
    cells=st.lists(CELLS, max_size=2).map(tuple),
    keys=st.lists(TEXTS, max_size=2).map(tuple),
    origin_round=TEXTS,
)
PLANS = st.builds(events.PlanMade, jobs=st.lists(JOBS, max_size=3))
EVENTS = STEPS | ENDS | PLANS
STEP: dict[str, Any] = {
    "job": "j",
    "stage": Stage.CLASSIFY,
    "submission": "s",
    "step": 0,
    "cells": [],
    "blobs": {},
    "faults": [],
    "seconds": 0.0,
}


@given(EVENTS)
def test_large_rounds_events_are_written_as_canonical_json(event: events.Event) -> None:
    """The text that pydantic writes of an event is the one that RFC 8785 has for its value."""
    assert events.event_text(event) == canonical_json(event.model_dump(mode="json"))


@given(EVENTS)
def test_large_rounds_events_are_read_from_their_text(event: events.Event) -> None:
    """The text of an event is read as the event that its value is read as."""
    text = events.event_text(event)
    assert events.read_canonical_event(event.kind, text) == events.parse_core_event(parse_json(text)) == event


@pytest.mark.parametrize("seconds", [1e-5, 1e-7, 2.0**60, 1e300])
def test_numbers_with_an_exponent_are_written_too(seconds: float) -> None:
    """A number that pydantic writes in another form than RFC 8785 is written in that of RFC 8785."""
    event = events.StepFinished(**STEP | {"seconds": seconds})
    assert f'"seconds":{canonical_json(seconds)},' in events.event_text(event)


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": float("inf")},
        {"fault_seconds": float("inf")},
        {"step": 2**53},
        {"step": -(2**53)},
        {"job": "\ud800"},
        {"blobs": {"\ud800": "sha256:" + "0" * 64}},
    ],
)
def test_events_that_json_cannot_hold_are_refused(change: dict[str, Any]) -> None:
    """An event with a value that RFC 8785 cannot write has no text."""
    with pytest.raises(ValueError):
        events.event_text(events.StepFinished(**STEP | change))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        '{"kind":"job_finished"}',
        '{"device":null,"job":"j","kind":"job_finished","sandboxes":[],"seconds":0.0,"stage":"classify","submission":"s"}',
        '{"device":null,"job":"j","kind":"job_finished","sandboxes":[],"seconds":"0","stage":"classify","submission":"s"}',
        '{"device":null,"job":"j","kind":"job_finished","sandboxes":[],"seconds":1e400,"stage":"classify","submission":"s"}',
        '{"device":null,"job":"j","kind":"job_finished","sandboxes":[],"seconds":Infinity,"stage":"classify","submission":"s"}',
        '{"device":null,"job":"j","kind":"job_finished","seconds":0,"sandboxes":[],"stage":"classify","submission":"s"}',
        '{"device":null,"job":"j","job":"j","kind":"job_finished","sandboxes":[],"seconds":0,"stage":"classify","submission":"s"}',
        '{"device":null,"job":"j","kind":"job_finished","more":1,"sandboxes":[],"seconds":0,"stage":"classify","submission":"s"}',
    ],
)
def test_only_the_text_that_is_written_is_read_at_once(text: str) -> None:
    """A text that is not to the byte what this software writes of an event is left to who compares values."""
    assert events.read_canonical_event("job_finished", text) is None


def test_an_event_is_not_read_under_another_kind() -> None:
    """A text of one kind is no event of another, and other kinds are not read at once."""
    text = events.event_text(events.StepFinished(**STEP))
    assert events.read_canonical_event("step_finished", text) is not None
    assert events.read_canonical_event("job_finished", text) is None
    assert events.read_canonical_event("round_closed", '{"kind":"round_closed"}') is None
