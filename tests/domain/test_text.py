"""Text from strangers, and how times are written."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.text import (
    DEFAULT_LIMIT,
    iso_time,
    parse_digits,
    printable,
    reject_control_characters,
    reject_nul,
)


def test_plain_text_stays():
    """What can be shown is shown as it is, accents and emoji included."""
    assert printable("Gentle Slope, ünïcode ✓ 😀") == "Gentle Slope, ünïcode ✓ 😀"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("ok\r\nERROR: ours", r"ok\r\nERROR: ours"),
        ("\x00\x07\x7f\x9b", r"\x00\x07\x7f\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb\u2066c", r"a\u200bb\u2066c"),
        ("line\u2028line", r"line\u2028line"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_control_characters_are_written_as_escapes(hostile, shown):
    """Nothing moves the cursor, fakes a line, turns the text around or hides in it."""
    assert printable(hostile) == shown


def test_bytes_that_are_no_text_become_marks():
    """Bytes are read as UTF-8, and what is none becomes the replacement character."""
    assert printable(b"a\xff\xfeb") == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


def test_long_text_is_cut():
    """The text ends with an ellipsis within the limit, and text of exactly the limit is whole."""
    assert printable("x" * 1000, 10) == "xxxxxxxxx…"
    assert printable("x" * 10, 10) == "x" * 10
    assert len(printable("x" * 1000)) == DEFAULT_LIMIT


def test_escapes_do_not_stretch_the_limit():
    """A text of control characters is cut after it was escaped."""
    assert printable("\x1b" * 300, 10) == r"\x1b\x1b\…"


def test_bytes_are_cut_like_text():
    """Characters of four bytes are counted as characters."""
    assert printable(("😀" * 20).encode(), 5) == "😀😀😀😀…"


@given(st.text() | st.binary(), st.integers(1, 60))
def test_everything_is_printable_and_short(text, limit):
    """Whatever comes, the result is printable, within the limit, and stays itself when it passes again."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    assert printable(shown, limit) == shown


@pytest.mark.parametrize("text", ["a\0b", "a\nb", "\x7f", "a\x85b"])
def test_a_name_has_no_control_characters(text) -> None:
    """Whatever ends a line or a word elsewhere is no part of a name; letters of every script are."""
    assert reject_control_characters("Ünïversität 東京 😀") == "Ünïversität 東京 😀"
    with pytest.raises(ValueError, match="a control character"):
        reject_control_characters(text)


def test_a_word_of_a_command_has_no_nul() -> None:
    """A NUL would end the word where a program gets it; everything else is its own matter."""
    assert reject_nul("a\nb") == "a\nb"
    with pytest.raises(ValueError, match="a NUL character"):
        reject_nul("a\0b")


@pytest.mark.parametrize(
    ("microsecond", "shown"), [(0, "2026-12-01T12:00:05+00:00"), (123_000, "2026-12-01T12:00:05.123+00:00")]
)
def test_a_time_has_no_needless_digits(microsecond, shown):
    """A date of a contest file is written to the second, a time of the ledger to the millisecond."""
    assert iso_time(datetime(2026, 12, 1, 12, 0, 5, microsecond, UTC)) == shown


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("99999", 99999), ("100000", None), ("", None), ("²", None), ("٣", None), ("-1", None)],
)
def test_a_number_is_ascii_digits(text, number):
    """At most as many as the caller says: anything else is no number, and no error."""
    assert parse_digits(text, 5) == number
