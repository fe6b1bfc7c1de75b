"""The names of the people in a contest's ledger, and their texts as paragraphs."""

from collections.abc import Callable

from orchestrator.domain.season import Season
from orchestrator.web.models import Account

_PIECE_LENGTH = 1500
"""Less than `reports.MAX_TEXT`, after which a page cuts a text off: some characters are shown as several."""


def names_of(season: Season) -> Callable[[str], str]:
    """Returns a function from a person's id to a name: the account's, otherwise the ledger's, otherwise the id."""
    noted = {person.id: person.name for people in season.teams.values() for person in people}
    noted |= {person.id: person.name for people in season.roles.values() for person in people.values()}
    noted |= dict(Account.objects.values_list("person", "name"))
    return lambda person: noted.get(person) or person


def paragraphs(text: str) -> list[list[list[str]]]:
    """Returns a text as paragraphs of lines, and each line as pieces that are short enough not to be cut off."""
    blocks = [block.split("\n") for block in "\n".join(text.splitlines()).split("\n\n")]
    return [list(map(_pieces, lines)) for lines in blocks if any(line.strip() for line in lines)]


def _pieces(line: str) -> list[str]:
    return [line[at : at + _PIECE_LENGTH] for at in range(0, len(line), _PIECE_LENGTH)]
