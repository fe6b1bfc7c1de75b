"""Collects the problems of a submitted archive; a bounded number is kept and shown."""

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

MAX_PROBLEMS = 20
"""How many different problems are listed."""
MAX_PLACE_CHARACTERS = 16_384
"""The largest total length of places: those of about a thousand pictures. Further problems are only counted."""


class ProblemList:
    """The problems of one archive, in the order in which they were found. One in several places is listed once."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}
        self._shown_count = self._shown_characters = self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, place: str | bytes, what: str, remedy: str) -> None:
        """Adds a problem; place and text may be hostile input."""
        self._count += 1
        name, kind = printable(place, 120), (printable(what), remedy)
        if self._shown_characters + len(name) > MAX_PLACE_CHARACTERS:
            return
        if kind not in self._places and len(self._places) == MAX_PROBLEMS:
            return
        self._places.setdefault(kind, []).append(name)
        self._shown_count += 1
        self._shown_characters += len(name)

    def raise_if_any(self, subject: str) -> None:
        """Raises Rejected with the problems, if there are any."""
        found = [Problem(", ".join(places), what, remedy) for (what, remedy), places in self._places.items()]
        rest = self._count - self._shown_count
        more = [Problem("archive", f"and {rest} more problems like these")] if rest else []
        if found:
            raise Rejected(subject, [*found, *more])
