"""A small run of the fuzzer that `python tests/protocol/fuzz_frames.py` runs at full size."""

import os

import pytest

INPUTS = 1_000_000 if os.environ.get("SPARRING_SOAK") else 5000


@pytest.mark.slow
def test_a_small_run_breaks_no_promise(script):
    """Five thousand mutated conversations (a million in the soak) end in replies and faults, of many kinds."""
    report = script("fuzz_frames.py")["run"](INPUTS, 1)
    assert sum(report.endings.values()) == INPUTS
    assert {"(answered)", "(waiting)", "json", "header", "type", "magic", "flood", "id"} <= set(report.endings)
    assert report.endings["json"] < INPUTS / 2


def test_the_same_seed_makes_the_same_run(script):
    """A finding can be reproduced from its seed."""
    run = script("fuzz_frames.py")["run"]
    assert run(200, 7).endings == run(200, 7).endings
    assert run(200, 7).endings != run(200, 8).endings


def test_a_broken_promise_is_found(script, monkeypatch):
    """When the session hears what nobody asked for, the fuzzer stops and names the input."""
    names = script("fuzz_frames.py")
    monkeypatch.setattr(names["Session"], "_raise_if_unsolicited", lambda _: None)
    with pytest.raises(AssertionError, match=r"input \d+ of seed 3.*a second answer was taken"):
        names["run"](INPUTS, 3)
