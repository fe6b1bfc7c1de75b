"""Decides which members of the review board may vote on a team's case (U8). The software enforces it.

A conflict is declared, or computed: the member is in the team, or has a mail address of the same organization. A
conflict of the latter kind may be a coincidence; two other members without a conflict can waive it. Members cannot
waive their own conflicts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

MIN_QUORUM = 2
"""The smallest number of votes with which the board decides anything."""
WAIVERS = 2
"""How many other members have to waive a computed conflict."""
CO_AUTHOR_MONTHS = 48
_MONTHS = 12
_PROVIDERS = """
    gmail.com googlemail.com outlook.com hotmail.com live.com yahoo.com icloud.com me.com aol.com gmx.de gmx.net
    web.de proton.me protonmail.com qq.com 163.com 126.com mail.ru yandex.ru fastmail.com posteo.de zoho.com
"""
_PUBLIC_PROVIDERS = frozenset(_PROVIDERS.split())
"""Mail providers that are open to everybody, so a common domain does not mean a common organization."""


class ConflictSource(StrEnum):
    """The source of a conflict. A conflict of `CO_AUTHOR` ends after 48 months; the others do not end."""

    DECLARED = "declared"
    PERSON = "person"
    """The member is in the team, or was when it submitted something."""
    ORGANIZATION = "organization"
    """The member's mail address and one of the team's belong to the same organization."""
    CO_AUTHOR = "co_author"
    ADVISOR = "advisor"


SOURCE_WORDS = {
    ConflictSource.DECLARED: "another stake",
    ConflictSource.PERSON: "in the team, or was",
    ConflictSource.ORGANIZATION: "an address of the same organization",
    ConflictSource.CO_AUTHOR: "co-author of the last 48 months",
    ConflictSource.ADVISOR: "advisor, or advised, at any time",
}
"""The sources in words for pages and forms."""
WAIVABLE = frozenset({ConflictSource.ORGANIZATION})
COMPUTED = frozenset({ConflictSource.PERSON, ConflictSource.ORGANIZATION})


@dataclass
class Conflict:
    """A member's conflict with a team, and the members who waived it."""

    source: ConflictSource
    until: date | None = None
    waived_by: set[str] = field(default_factory=set)

    def holds(self, today: date) -> bool:
        """Returns whether the conflict keeps the member from voting on a day."""
        return len(self.waived_by) < WAIVERS and (self.until is None or today <= self.until)


@dataclass
class Board:
    """The members of the review board, their conflicts and their votes."""

    members: dict[str, str] = field(default_factory=dict)
    """Member -> the person's key (`name_matching.person_key`)."""
    outside: dict[str, dict[str, str]] = field(default_factory=dict)
    """Case -> the members who were seated only for it, each with the person's key."""
    names: dict[str, str] = field(default_factory=dict)
    """Everybody who has or had a seat: member -> the person's key."""
    conflicts: dict[tuple[str, str], list[Conflict]] = field(default_factory=dict)
    """Member and team -> the member's conflicts with the team."""
    votes: dict[str, dict[str, bool]] = field(default_factory=dict)
    """Question -> member -> whether the member voted in favour."""

    @property
    def seated(self) -> dict[str, str]:
        """Everybody who has a seat now, on the whole board or for a single case: member -> the person's key."""
        return {**self.members, **{name: who for seats in self.outside.values() for name, who in seats.items()}}

    def name_of(self, person: str) -> str:
        """Returns the name under which a person has or had a seat, by the person's key; "" if there was none."""
        return next((name for name, who in self.names.items() if person and who == person), "")

    def seat(self, member: str, person: str, case: str) -> None:
        """Gives a person a seat, on the whole board if `case` is empty."""
        seats = self.outside.setdefault(case, {}) if case else self.members
        seats[member] = self.names[member] = person

    def unseat(self, member: str) -> None:
        """Takes all seats of a member away."""
        for seats in (self.members, *self.outside.values()):
            seats.pop(member, None)

    def members_of(self, case: str) -> dict[str, str]:
        """Returns the members of the board for a case, each with the person's key."""
        return {**self.members, **self.outside.get(case, {})}

    def recusal(self, member: str, teams: Iterable[str], today: date) -> str:
        """Returns why a member may not vote on a case of these teams, "" if the member may vote."""
        found = [
            f"{conflict.source} ({team})"
            for team in sorted(teams)
            for conflict in self.conflicts.get((member, team), ())
            if conflict.holds(today)
        ]
        return ", ".join(found)

    def recusals(self, case: str, teams: Iterable[str], today: date) -> dict[str, str]:
        """Returns the members who are recused from a case of these teams, each with the reason."""
        teams = tuple(teams)
        reasons = {member: self.recusal(member, teams, today) for member in sorted(self.members_of(case))}
        return {member: reason for member, reason in reasons.items() if reason}

    def eligible(self, case: str, teams: Iterable[str], today: date) -> list[str]:
        """Returns the members who may vote on a case of these teams, sorted."""
        recused = self.recusals(case, teams, today)
        return [member for member in sorted(self.members_of(case)) if member not in recused]


def quorum(eligible: int) -> int:
    """Returns how many members have to vote: more than half of the eligible ones, and at least two."""
    return max(MIN_QUORUM, eligible // 2 + 1)


def computed_sources(member_person: str, people: Iterable[str]) -> list[ConflictSource]:
    """Returns the computed conflicts of a person with a team of these people, all given by `person_key`."""
    people = frozenset(people)
    if not member_person:
        return []
    found = [ConflictSource.PERSON] if member_person in people else []
    if any(same_organization(member_person, person) for person in people - {member_person}):
        found.append(ConflictSource.ORGANIZATION)
    return found


def same_organization(one: str, other: str) -> bool:
    """Returns whether two addresses, given by `person_key`, have the same domain, or one a subdomain of the other's."""
    first, second = (each.rpartition("@")[2] if "@" in each else "" for each in (one, other))
    if not first or not second or {first, second} & _PUBLIC_PROVIDERS:
        return False
    shorter, longer = sorted((first, second), key=len)
    return longer == shorter or ("." in shorter and longer.endswith(f".{shorter}"))


def months_later(day: date, months: int = CO_AUTHOR_MONTHS) -> date:
    """Returns the same day of the month `months` later, or the first of the following month if that has no such day."""
    years, month = divmod(day.month - 1 + months, _MONTHS)
    try:
        return day.replace(year=day.year + years, month=month + 1)
    except ValueError:
        years, month = divmod(day.month + months, _MONTHS)
        return date(day.year + years, month + 1, 1)


def waivers_left(conflicts: Mapping[tuple[str, str], list[Conflict]], member: str, team: str) -> list[Conflict]:
    """Returns a member's conflicts with a team that can be waived and are not waived yet."""
    return [
        each for each in conflicts.get((member, team), ()) if each.source in WAIVABLE and len(each.waived_by) < WAIVERS
    ]
