"""The raters of a contest that a site serves: the people with the role, and their ids in the published plan."""

from dataclasses import dataclass
from hashlib import sha256

from orchestrator.domain import recusal
from orchestrator.domain.contest_events import Role
from orchestrator.domain.season import Season
from orchestrator.errors import Problem
from orchestrator.signatures import SigningKey

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Rater:
    """A person with the role of a rater: their id in the plan, their name, and the reasons why they cannot grade."""

    id: str
    name: str
    problems: tuple[Problem, ...]


def rater_id(key: SigningKey, person: str) -> str:
    """Returns a person's rater id in the plan: always the same in a contest, and unlike any person's id in form.

    Plans are published, and people's ids are not. An Ed25519 signature is a fixed function of key and text (RFC 8032),
    so only the holder of the contest's key can tell whose rater id it is.
    """
    signed = key.sign(b"sparring rater id\n" + person.encode())
    return f"r-{sha256(signed).hexdigest()[:_DIGITS]}"


def list_raters(season: Season, key: SigningKey) -> list[Rater]:
    """Returns all people with the role of a rater, in the order in which they got it."""
    return [
        Rater(rater_id(key, person.id), person.name, tuple(recusal.rater_problems(season, person.id)))
        for person in season.roles[Role.RATER].values()
    ]


def eligible_raters(season: Season, key: SigningKey) -> list[str]:
    """Returns the rater ids of the people who have the role and may grade."""
    return [each.id for each in list_raters(season, key) if not each.problems]
