"""Text from strangers, made fit to show; and how counts and times are written for people."""

import unicodedata
from datetime import datetime

DEFAULT_LIMIT = 300


def printable(text: str | bytes, limit: int = DEFAULT_LIMIT) -> str:
    """Returns the text with control and non-printing characters written as escapes, cut to `limit` characters.

    Everything a submission wrote passes through here before it reaches a terminal, a log or an error message, so that
    it can neither move the cursor nor fake a line of ours. HTML is escaped where HTML is made.
    """
    if isinstance(text, bytes):
        text = text[: 4 * (limit + 1)].decode("utf-8", "replace")
    escaped = text[: limit + 1]
    if not escaped.isprintable():  # asked of all at once: nearly every text is, and reports have many
        escaped = "".join(c if c.isprintable() else _escape(c) for c in escaped)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def reject_control_characters(text: str) -> str:
    """Returns a text without control characters, as names of people and teams are. Raises ValueError for any other."""
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("a control character, which a name cannot have; leave it out")
    return text


def reject_nul(word: str) -> str:
    """Returns a word that a program can be given. Raises ValueError for a NUL, at which every word would end."""
    if "\0" in word:
        raise ValueError("a NUL character, which no argument can contain; leave it out")
    return word


def counted_noun(number: int, one: str, many: str = "") -> str:
    """Returns `1 finding`, `2 findings`, `1,200 findings`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def iso_time(moment: datetime) -> str:
    """Returns a time with its zone: to the millisecond as in ledgers, or to the second where it has no more digits."""
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
