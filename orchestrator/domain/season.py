"""A whole contest as its ledger tells it: teams, entries, rounds, finalists, rules. No store, no clock."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.domain import contest_events, name_matching
from orchestrator.domain.submissions import Side


@dataclass(frozen=True, slots=True)
class Person:
    """A participant. `organizer`: of the organizing institution (rule A5)."""

    id: str
    name: str
    organizer: bool = False

    @property
    def known(self) -> str:
        """What tells this person apart, however the id was written (rule A1)."""
        return name_matching.person_key(self.id)


@dataclass(frozen=True, slots=True)
class Entry:
    """A submission that was admitted to the contest, and what became of it.

    `number` is its place among all that were received, from 1, in the order of the ledger: what is earlier (rule A16).
    `time` is when the clock said that it was received, in UTC. `people` were its team then, and are bound by it as long
    as it plays (rule A1). `withdrawn` and `disqualified` hold the reason, empty where neither happened.
    """

    id: str
    name: str
    team: str
    task: str
    side: Side
    digest: str
    image: str
    folder: str
    licence: str
    source: str
    attempt: int
    time: str
    number: int
    people: tuple[Person, ...] = ()
    withdrawn: str = ""
    disqualified: str = ""

    @property
    def plays(self) -> bool:
        """Whether it takes part in rounds from now on."""
        return not (self.withdrawn or self.disqualified)


@dataclass(frozen=True, slots=True)
class Finalists:
    """Who was promoted on one task, and which submissions do not stand because another of their team does (A4)."""

    attacks: tuple[str, ...]
    defences: tuple[str, ...]
    not_standing: dict[str, str]

    @property
    def everybody(self) -> frozenset[str]:
        """Both sides."""
        return frozenset((*self.attacks, *self.defences))


@dataclass
class Season:
    """What is known after some acts. `apply` is the only way to learn more."""

    opened: contest_events.ContestOpened | None = None
    teams: dict[str, tuple[Person, ...]] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    refused: list[contest_events.SubmissionRefused] = field(default_factory=list)
    rounds: dict[tuple[str, str], contest_events.RoundPlayed] = field(default_factory=dict)
    """What was played, by round and task."""
    finalists: dict[str, Finalists] = field(default_factory=dict)
    rules: dict[str, Any] | None = None
    """The rules after the last change, None before the first."""

    def apply(self, act: contest_events.ContestEvent, time: str) -> None:
        """Learns one act and when it was."""
        match act:
            case contest_events.ContestOpened():
                self.opened = act
            case contest_events.TeamAdded():
                self.teams[act.team] = tuple(Person(**person.model_dump()) for person in act.people)
            case contest_events.SubmissionRefused():
                self.refused.append(act)
            case contest_events.RoundPlayed():
                self.rounds[act.round, act.task] = act
            case contest_events.FinalistsPromoted():
                self.finalists[act.task] = Finalists(tuple(act.attacks), tuple(act.defences), act.not_standing)
            case contest_events.RulesChanged():
                self.rules = act.rules
            case _:
                self._entry(act, time)

    def _entry(self, act: contest_events.ContestEvent, time: str) -> None:
        match act:
            case contest_events.SubmissionReceived():
                known = act.model_dump(include={"id", "name", "team", "task", "digest", "image", "folder", "attempt"})
                self.entries[act.id] = Entry(
                    **known,
                    side=act.side,
                    licence=act.licence,
                    source=act.source,
                    time=time,
                    number=len(self.entries) + 1,
                    people=self.teams.get(act.team, ()),
                )
            case contest_events.SubmissionWithdrawn():
                self.entries[act.id] = replace(self.entries[act.id], withdrawn=act.reason)
            case contest_events.SubmissionDisqualified():
                self.entries[act.id] = replace(self.entries[act.id], disqualified=act.reason)
            case contest_events.SubmissionCorrected():
                old = self.entries[act.id]
                licence = old.licence if act.licence is None else act.licence
                source = old.source if act.source is None else act.source
                self.entries[act.id] = replace(old, licence=licence, source=source)

    def of_task(self, task: str) -> list[Entry]:
        """Returns the entries of a task, in the order in which they came."""
        return [entry for entry in self.entries.values() if entry.task == task]

    def attempts(self, team: str, task: str, side: Side) -> int:
        """Returns how many submissions of a team count on a task and side (rule A4)."""
        return sum((e.team, e.task, e.side) == (team, task, side) for e in self.entries.values())

    def bound(self, entry: Entry) -> frozenset[str]:
        """Returns the people whom an entry binds: its team's when it was handed in, and its team's now (rule A1)."""
        return frozenset(person.known for person in (*entry.people, *self.teams.get(entry.team, ())))

    def sides(self, person: Person, *, besides: Iterable[str] = ()) -> dict[str, set[Side]]:
        """Returns the tasks in which a person takes part through any team, and the sides there (rule A1).

        A withdrawn or disqualified submission binds nobody. `besides` are teams to leave out.
        """
        left_out = set(besides)
        found: dict[str, set[Side]] = {}
        for entry in self.entries.values():
            if entry.plays and entry.team not in left_out and person.known in self.bound(entry):
                found.setdefault(entry.task, set()).add(entry.side)
        return found

    def organizers(self) -> frozenset[str]:
        """Returns who is known to be of the organizing institution, from teams as they are and as they were (A5)."""
        handed_in = (entry.people for entry in self.entries.values())
        return frozenset(p.known for people in (*self.teams.values(), *handed_in) for p in people if p.organizer)

    def named_like(self, team: str) -> str:
        """Returns the team whose name differs from this one in case, spaces or invisible characters only, else ""."""
        like = name_matching.fold_name(team)
        return next((other for other in self.teams if other != team and name_matching.fold_name(other) == like), "")
