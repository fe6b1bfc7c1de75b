"""Which members of the review board may vote about a team's case (U8): enforced, not trusted.

Sources of a conflict are declared ones, and computed ones: the same person, or an address of the same organization. A
computed conflict of the second kind may be a coincidence, and is waived where two other members without a conflict
say so. Nobody lifts their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

MIN_QUORUM = 2
"""The fewest votes with which a board decides anything."""
WAIVERS = 2
"""How many other members have to find that a computed conflict is none."""
CO_AUTHOR_MONTHS = 48
_MONTHS = 12
_PROVIDERS = """
    gmail.com googlemail.com outlook.com hotmail.com live.com yahoo.com icloud.com me.com aol.com gmx.de gmx.net
    web.de proton.me protonmail.com qq.com 163.com 126.com mail.ru yandex.ru fastmail.com posteo.de zoho.com
"""
_PUBLIC_PROVIDERS = frozenset(_PROVIDERS.split())
"""Where anybody gets an address, so that a common domain says nothing."""


class ConflictSource(StrEnum):
    """How a conflict is known. Those of `CO_AUTHOR` end after 48 months; the others do not end."""

    DECLARED = "declared"
    PERSON = "person"
    """The member is in the team, or was when it handed something in."""
    ORGANIZATION = "organization"
    """The member's address and one of the team are of one organization."""
    CO_AUTHOR = "co_author"
    ADVISOR = "advisor"


SOURCE_WORDS = {
    ConflictSource.DECLARED: "another stake",
    ConflictSource.PERSON: "in the team, or was",
    ConflictSource.ORGANIZATION: "an address of the same organization",
    ConflictSource.CO_AUTHOR: "co-author of the last 48 months",
    ConflictSource.ADVISOR: "advisor, or advised, at any time",
}
"""What a conflict is, as people read it."""
WAIVABLE = frozenset({ConflictSource.ORGANIZATION})
COMPUTED = frozenset({ConflictSource.PERSON, ConflictSource.ORGANIZATION})


@dataclass
class Conflict:
    """A member's conflict with a team, and who waived it."""

    source: ConflictSource
    until: date | None = None
    waived_by: set[str] = field(default_factory=set)

    def holds(self, today: date) -> bool:
        """Returns whether it keeps the member from voting."""
        return len(self.waived_by) < WAIVERS and (self.until is None or today <= self.until)


@dataclass
class Board:
    """Who is of the review board, what conflicts they have, and how they voted."""

    members: dict[str, str] = field(default_factory=dict)
    """Member -> what the person is known by (`name_matching.person_key`)."""
    outside: dict[str, dict[str, str]] = field(default_factory=dict)
    """Case -> members who are of the board for it alone."""
    conflicts: dict[tuple[str, str], list[Conflict]] = field(default_factory=dict)
    """Of a member and a team."""
    votes: dict[str, dict[str, bool]] = field(default_factory=dict)
    """Question -> member -> whether in favour."""

    def person_of(self, member: str) -> str:
        """Returns what a member is known by, also one of a case alone; "" where nobody is called so."""
        return next((seats[member] for seats in (self.members, *self.outside.values()) if member in seats), "")

    def members_of(self, case: str) -> dict[str, str]:
        """Returns who is of the board for a case."""
        return {**self.members, **self.outside.get(case, {})}

    def recusal(self, member: str, teams: Iterable[str], today: date) -> str:
        """Returns why a member does not vote on a case of these teams, "" where nothing is against it."""
        found = [
            f"{conflict.source} ({team})"
            for team in sorted(teams)
            for conflict in self.conflicts.get((member, team), ())
            if conflict.holds(today)
        ]
        return ", ".join(found)

    def recusals(self, case: str, teams: Iterable[str], today: date) -> dict[str, str]:
        """Returns who is recused from a case of these teams, and why."""
        teams = tuple(teams)
        reasons = {member: self.recusal(member, teams, today) for member in sorted(self.members_of(case))}
        return {member: reason for member, reason in reasons.items() if reason}

    def eligible(self, case: str, teams: Iterable[str], today: date) -> list[str]:
        """Returns who may vote on a case of these teams."""
        recused = self.recusals(case, teams, today)
        return [member for member in sorted(self.members_of(case)) if member not in recused]


def quorum(eligible: int) -> int:
    """Returns how many have to vote: more than half of those who may, and at least two."""
    return max(MIN_QUORUM, eligible // 2 + 1)


def computed_sources(member_person: str, people: Iterable[str]) -> list[ConflictSource]:
    """Returns which computed conflicts a person has with a team of these people, all by `person_key`."""
    people = frozenset(people)
    if not member_person:
        return []
    found = [ConflictSource.PERSON] if member_person in people else []
    if any(same_organization(member_person, person) for person in people - {member_person}):
        found.append(ConflictSource.ORGANIZATION)
    return found


def same_organization(one: str, other: str) -> bool:
    """Returns whether two addresses, by `person_key`, are of one domain, or one of a subdomain of the other's."""
    first, second = (each.rpartition("@")[2] if "@" in each else "" for each in (one, other))
    if not first or not second or {first, second} & _PUBLIC_PROVIDERS:
        return False
    shorter, longer = sorted((first, second), key=len)
    return longer == shorter or ("." in shorter and longer.endswith(f".{shorter}"))


def months_later(day: date, months: int = CO_AUTHOR_MONTHS) -> date:
    """Returns the same day of the month so many months later, or the first of the next month where there is none."""
    years, month = divmod(day.month - 1 + months, _MONTHS)
    try:
        return day.replace(year=day.year + years, month=month + 1)
    except ValueError:
        years, month = divmod(day.month + months, _MONTHS)
        return date(day.year + years, month + 1, 1)


def waivers_left(conflicts: Mapping[tuple[str, str], list[Conflict]], member: str, team: str) -> list[Conflict]:
    """Returns a member's conflicts with a team that may be waived and are not."""
    return [
        each for each in conflicts.get((member, team), ()) if each.source in WAIVABLE and len(each.waived_by) < WAIVERS
    ]
