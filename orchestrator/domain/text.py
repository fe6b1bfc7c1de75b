"""Makes text from strangers safe to show, and writes counts and times for people."""

import shlex
import unicodedata
from datetime import datetime
from typing import Literal

DEFAULT_LIMIT = 300


def printable(text: str | bytes, limit: int = DEFAULT_LIMIT) -> str:
    """Returns the text with control and non-printing characters written as escapes, cut to `limit` characters.

    Everything that a submission wrote passes through here before it reaches a terminal, a log or an error message, so
    that it can neither move the cursor nor fake a line of ours. HTML is escaped by the code that writes HTML.
    """
    if isinstance(text, bytes):
        text = text[: 4 * (limit + 1)].decode("utf-8", "replace")
    escaped = text[: limit + 1]
    if not escaped.isprintable():  # the whole text first: nearly every text is printable, and reports have many
        escaped = "".join(c if c.isprintable() else _escape(c) for c in escaped)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shell_word(value: object) -> str:
    """Returns a path or a name as one printable word of a command that a person pastes into a shell."""
    return shlex.quote(printable(str(value), 4096))


def reject_control_characters(text: str) -> str:
    """Returns the text, such as the name of a person or a team. Raises ValueError if it has a control character."""
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("a control character, which a name cannot have; leave it out")
    return text


def reject_nul(word: str) -> str:
    """Returns the word, an argument of a program. Raises ValueError if it has a NUL, which would end the argument."""
    if "\0" in word:
        raise ValueError("a NUL character, which no argument can contain; leave it out")
    return word


def parse_digits(text: str, most: int) -> int | None:
    """Returns the number that a text of at most `most` ASCII digits writes, None for any other text.

    `str.isdigit` alone lets through `²`, which `int` refuses, and thousands of digits, which take long.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most else None


def counted_noun(number: int, one: str, many: str = "") -> str:
    """Returns `1 finding`, `2 findings`, `1,200 findings`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def unequal_numbers(one: float, other: float, *, kind: Literal["f", "%"] = "f") -> tuple[str, str]:
    """Returns two different numbers with one decimal each, or with as many as show that they differ.

    `kind` is that of Python's format specification: `%` shows the numbers as percentages.
    """
    texts = ((f"{one:.{digits}{kind}}", f"{other:.{digits}{kind}}") for digits in range(1, 17))
    return next((pair for pair in texts if pair[0] != pair[1]), (repr(one), repr(other)))


def iso_time(moment: datetime) -> str:
    """Returns a time with its zone: to the millisecond as in ledgers, or to the second if it has no fraction."""
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
