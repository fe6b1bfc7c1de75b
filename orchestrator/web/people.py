"""The names of the people in a contest's ledger, and their texts as paragraphs."""

from collections.abc import Callable

from orchestrator.domain.season import Season
from orchestrator.web.models import Account


def names_of(season: Season) -> Callable[[str], str]:
    """Returns a function from a person's id to a name: the account's, otherwise the ledger's, otherwise the id."""
    noted = {person.id: person.name for people in season.teams.values() for person in people}
    noted |= {person.id: person.name for people in season.roles.values() for person in people.values()}
    noted |= dict(Account.objects.values_list("person", "name"))
    return lambda person: noted.get(person) or person


def paragraphs(text: str, limit: int = 1500) -> list[list[str]]:
    """Returns a text as paragraphs of lines. Splits lines of more than `limit` characters: pages cut those off."""
    found: list[list[str]] = []
    for block in "\n".join(text.splitlines()).split("\n\n"):
        lines = [line[at : at + limit] for line in block.split("\n") for at in range(0, len(line) or 1, limit)]
        if any(line.strip() for line in lines):
            found.append(lines)
    return found
