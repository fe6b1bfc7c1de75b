"""Everything that is wrong with what somebody handed in, of which a bounded number is kept and shown."""

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

MAX_PROBLEMS = 20
"""How many problems are listed; the rest are counted."""


class ProblemList:
    """Problems with one archive, in the order in which they were found."""

    def __init__(self) -> None:
        self._shown: list[Problem] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, place: str | bytes, what: str, remedy: str) -> None:
        """Notes a problem; place and text may be a stranger's."""
        self._count += 1
        if len(self._shown) < MAX_PROBLEMS:
            self._shown.append(Problem(printable(place, 120), printable(what), remedy))

    def raise_if_any(self, subject: str) -> None:
        """Raises Rejected with the problems, if there are some."""
        rest = self._count - len(self._shown)
        more = [Problem("archive", f"and {rest} more problems like these")] if rest else []
        if self._shown:
            raise Rejected(subject, [*self._shown, *more])
