"""Who grades where a service asks: the people with the role, and the ids that the published plan has for them."""

from dataclasses import dataclass
from hashlib import sha256

from orchestrator.domain import recusal
from orchestrator.domain.contest_events import Role
from orchestrator.domain.season import Season
from orchestrator.errors import Problem
from orchestrator.signatures import SigningKey

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class RoleHolder:
    """Somebody with the role of a rater: the plan's id, and why they cannot grade, nothing where they can."""

    rater: str
    name: str
    problems: tuple[Problem, ...]


def rater_id(key: SigningKey, person: str) -> str:
    """Returns what the plan calls somebody: always the same in a contest, and of another form than any person's id.

    Plans are published and people's ids are not. A signature of Ed25519 is a fixed function of key and text (RFC 8032),
    so that only the holder of the contest's key can tell whose id it is.
    """
    signed = key.sign(b"sparring rater id\n" + person.encode())
    return f"r-{sha256(signed).hexdigest()[:_DIGITS]}"


def role_holders(season: Season, key: SigningKey) -> list[RoleHolder]:
    """Returns everybody who has the role, in the order in which they got it."""
    return [
        RoleHolder(rater_id(key, person.id), person.name, tuple(recusal.rater_problems(season, person.id)))
        for person in season.roles[Role.RATER].values()
    ]


def eligible_raters(season: Season, key: SigningKey) -> list[str]:
    """Returns the plan's ids of all who have the role and may grade."""
    return [each.rater for each in role_holders(season, key) if not each.problems]
