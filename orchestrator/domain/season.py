"""The state of a contest, folded from its ledger: teams, entries, rounds, rules, requests. No store, no clock."""

from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from orchestrator.domain import contest_events, name_matching
from orchestrator.domain.contest_events import Role
from orchestrator.domain.submissions import Side


@dataclass(frozen=True, slots=True)
class Person:
    """A participant. `organizer`: whether this person belongs to the organizing institution (rule A5)."""

    id: str
    name: str
    organizer: bool = False

    @property
    def identity_key(self) -> str:
        """The key by which people are compared; it is the same for every spelling of the id (rule A1)."""
        return name_matching.person_key(self.id)


@dataclass(frozen=True, slots=True)
class Entry:
    """A submission that was admitted to the contest, and its state.

    `receipt_number` is its place in the ledger's order of arrivals, from 1; the lower number is the earlier submission
    (rule A16), in whichever order they were admitted. A submission without an arrival counts where it is received.
    `received_at` is the time of the ledger entry that received it, `arrived_at` the time of its arrival, in UTC, empty
    if an organizer submitted it with a command. `people` are the members of its team at that time; it binds them as
    long as it plays (rule A1). `organizer_recognized`: whether one of them was marked as an organizer later (rule A5).
    `withdrawn` and `disqualified` hold the reason, empty if it was not.
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
    received_at: str
    receipt_number: int
    people: tuple[Person, ...] = ()
    pixels: str = ""
    decoder: str = ""
    arrived_at: str = ""
    organizer_recognized: bool = False
    withdrawn: str = ""
    disqualified: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it takes part in further rounds: it was neither withdrawn nor disqualified."""
        return not (self.withdrawn or self.disqualified)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An upload that arrived completely, and its outcome. The first fields are those of `SubmissionArrived`.

    `time` is when it arrived, in UTC; `number` becomes the `receipt_number` of its entry; `people` are the members of
    its team at that time. `outcome` is empty while it waits for admission. `submission` is the entry that was made from
    it, or that it is identical to. `problems` are the reasons for which it was refused.
    """

    id: str
    actor: str
    team: str
    task: str
    side: Side | None
    name: str
    file_name: str
    size: int
    digest: str
    image: str
    time: str
    number: int
    people: tuple[Person, ...] = ()
    outcome: Literal["", "received", "refused"] = ""
    submission: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundRequest:
    """A request to play a round, and its time. An empty `task` means the round of every task."""

    id: str
    actor: str
    round: str
    task: str
    time: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """An announcement of the organizers to everybody, and its time."""

    actor: str
    title: str
    text: str
    time: str


@dataclass(frozen=True, slots=True)
class Closing:
    """The organizers' decision to close submissions, and its time."""

    actor: str
    reason: str
    time: str


@dataclass(frozen=True, slots=True)
class AppealDecision:
    """The decision about an appeal, and its time."""

    actor: str
    upheld: bool
    reason: str
    time: str


@dataclass(frozen=True, slots=True)
class Appeal:
    """An appeal of a team. `decision` is None while it is open."""

    id: str
    actor: str
    team: str
    submission: str
    finding: str
    text: str
    time: str
    decision: AppealDecision | None = None


@dataclass
class Season:
    """The state of a contest after some of its events. Only `apply` changes it."""

    opening: contest_events.ContestOpened | None = None
    teams: dict[str, tuple[Person, ...]] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    refusals: list[contest_events.SubmissionRefused] = field(default_factory=list)
    played_rounds: dict[tuple[str, str], contest_events.RoundPlayed] = field(default_factory=dict)
    """The rounds that are complete, by round and task."""
    format_events: list[tuple[contest_events.FormatEvent, str]] = field(default_factory=list)
    """The events of the contest's format, each with its time. The format folds its own state from them."""
    rules: dict[str, Any] | None = None
    """The rules after the last change, None before the first."""
    roles: dict[Role, dict[str, Person]] = field(default_factory=lambda: {role: {} for role in Role})
    """The people who have each role now, by their ids."""
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    """All arrivals, in the order of the ledger."""
    pending_arrivals: dict[str, Arrival] = field(default_factory=dict)
    """The arrivals without an outcome yet, in the order of the ledger."""
    round_requests: dict[str, RoundRequest] = field(default_factory=dict)
    """The open requests, in the order of the ledger."""
    closed_requests: dict[str, contest_events.RoundRequestClosed] = field(default_factory=dict)
    """The events that closed the other requests, by request."""
    announcements: list[Announcement] = field(default_factory=list)
    closing: Closing | None = None
    """Set while the organizers keep submissions closed. It does not reflect the contest file's dates."""
    published_bundles: list[contest_events.BundlePublished] = field(default_factory=list)
    appeals: dict[str, Appeal] = field(default_factory=dict)
    _last_number: int = 0
    _outcome_count: int = 0
    _latest_outcomes: dict[str, int] = field(default_factory=dict)
    """For each team, how many arrivals had an outcome when its latest one got one."""

    def apply(self, event: contest_events.ContestEvent, time: str) -> None:
        """Applies one event of the contest, with its time."""
        match event:
            case contest_events.ContestOpened():
                self.opening = event
            case contest_events.TeamAdded():
                self.teams[event.team] = tuple(Person(**person.model_dump()) for person in event.people)
            case contest_events.SubmissionRefused():
                self.refusals.append(event)
                self._close_arrival(event.arrival, outcome="refused", problems=tuple(event.problems))
            case contest_events.RoundPlayed():
                self.played_rounds[event.round, event.task] = event
            case contest_events.FormatEvent():
                self.format_events.append((event, time))
            case contest_events.RulesChanged():
                self.rules = event.rules
            case contest_events.ContestAnnounced():
                self.announcements.append(Announcement(event.actor, event.title, event.text, time))
            case _:
                self._apply_to_entry(event, time)
                self._apply_to_arrivals(event, time)
                self._apply_to_requests(event, time)
                self._apply_other(event, time)

    def copy(self) -> "Season":
        """Returns an independent copy. The two share what is in their containers, which is immutable."""
        made = copy(self)
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), dict | list):
                setattr(made, each.name, value.copy())
        made.roles = {role: people.copy() for role, people in self.roles.items()}
        return made

    def _apply_to_entry(self, event: contest_events.ContestEvent, time: str) -> None:
        match event:
            case contest_events.SubmissionReceived():
                arrival = self.arrivals.get(event.arrival)
                self.entries[event.id] = Entry(
                    **event.model_dump(exclude={"kind", "actor", "attempts_left", "warnings", "arrival"}),
                    received_at=time,
                    arrived_at=arrival.time if arrival else "",
                    receipt_number=arrival.number if arrival else self._next_number(),
                    people=arrival.people if arrival else self.teams.get(event.team, ()),
                )
                self._close_arrival(event.arrival, outcome="received", submission=event.id)
            case contest_events.SubmissionWithdrawn():
                self.entries[event.id] = replace(self.entries[event.id], withdrawn=event.reason)
            case contest_events.SubmissionDisqualified():
                self.entries[event.id] = replace(self.entries[event.id], disqualified=event.reason)
            case contest_events.SubmissionCorrected():
                old = self.entries[event.id]
                licence = old.licence if event.licence is None else event.licence
                source = old.source if event.source is None else event.source
                self.entries[event.id] = replace(old, licence=licence, source=source)
            case contest_events.OrganizersRecognized():
                for name in event.submissions:
                    self.entries[name] = replace(self.entries[name], organizer_recognized=True)

    def _apply_to_arrivals(self, event: contest_events.ContestEvent, time: str) -> None:
        match event:
            case contest_events.SubmissionArrived():
                fields = event.model_dump(exclude={"kind", "arrival", "last_byte"})
                time = min(time, event.last_byte or time)
                people, number = self.teams.get(event.team, ()), self._next_number()
                arrival = Arrival(event.arrival, **fields, time=time, number=number, people=people)
                self.arrivals[event.arrival] = self.pending_arrivals[event.arrival] = arrival
            case contest_events.ArrivalMatched():
                self._close_arrival(event.arrival, outcome="received", submission=event.submission)

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _close_arrival(
        self,
        arrival: str,
        *,
        outcome: Literal["received", "refused"],
        submission: str = "",
        problems: tuple[str, ...] = (),
    ) -> None:
        """Sets the outcome of an arrival. Does nothing if `arrival` is empty: the submission came without one."""
        if arrival:
            closed = replace(self.arrivals[arrival], outcome=outcome, submission=submission, problems=problems)
            self.arrivals[arrival] = closed
            self._outcome_count += 1
            self._latest_outcomes[closed.team] = self._outcome_count
            self.pending_arrivals.pop(arrival, None)

    def _apply_to_requests(self, event: contest_events.ContestEvent, time: str) -> None:
        match event:
            case contest_events.RoundRequested():
                fields = event.model_dump(exclude={"kind", "request"})
                self.round_requests[event.request] = RoundRequest(event.request, **fields, time=time)
            case contest_events.RoundRequestClosed():
                self.round_requests.pop(event.request)
                self.closed_requests[event.request] = event
            case contest_events.AppealFiled():
                fields = event.model_dump(exclude={"kind", "appeal"})
                self.appeals[event.appeal] = Appeal(event.appeal, **fields, time=time)
            case contest_events.AppealDecided():
                decision = AppealDecision(event.actor, event.upheld, event.reason, time)
                self.appeals[event.appeal] = replace(self.appeals[event.appeal], decision=decision)

    def _apply_other(self, event: contest_events.ContestEvent, time: str) -> None:
        match event:
            case contest_events.RoleGranted():
                self.roles[event.role][event.person.id] = Person(**event.person.model_dump())
            case contest_events.RoleRevoked():
                self.roles[event.role].pop(event.person, None)
            case contest_events.SubmissionsClosed():
                self.closing = Closing(event.actor, event.reason, time)
            case contest_events.SubmissionsReopened():
                self.closing = None
            case contest_events.BundlePublished():
                self.published_bundles.append(event)

    def entries_of_task(self, task: str) -> list[Entry]:
        """Returns the entries of a task, in the order of their receipt numbers."""
        own = (entry for entry in self.entries.values() if entry.task == task)
        return sorted(own, key=lambda entry: entry.receipt_number)

    def count_attempts(self, team: str, task: str, side: Side) -> int:
        """Returns how many submissions of a team count as attempts on a task and side (rule A4)."""
        return sum((e.team, e.task, e.side) == (team, task, side) for e in self.entries.values())

    def count_on_day(self, team: str, task: str, day: str) -> int:
        """Returns how many tries of a day, written 2026-11-23, in UTC, a team has used up on a task (rule C9).

        A submission uses up a try of each person whom it binds, in all their teams. The count is that of the person
        who has used up most.
        """
        today = [e for e in self.entries.values() if e.task == task and (e.arrived_at or e.received_at).startswith(day)]
        used = Counter(person for entry in today for person in self.bound_people(entry))
        people = (used[person.identity_key] for person in self.people_entering(team, task))
        return max(sum(entry.team == team for entry in today), *people, 0)

    def bound_people(self, entry: Entry) -> frozenset[str]:
        """Returns the keys of the people whom an entry binds: its team's members at its arrival, and now (rule A1)."""
        return frozenset(person.identity_key for person in (*entry.people, *self.teams.get(entry.team, ())))

    def people_entering(self, team: str, task: str) -> list[Person]:
        """Returns the people whom an entry of a team on a task would bind.

        They are the team's members now and at its arrivals that wait for admission: a member who leaves in the meantime
        is still bound by these (rule A1).
        """
        waiting = [each.people for each in self.pending_arrivals.values() if (each.team, each.task) == (team, task)]
        every = [*self.teams.get(team, ()), *(person for people in waiting for person in people)]
        return list({person.identity_key: person for person in reversed(every)}.values())[::-1]

    def admission_queue(self) -> list[Arrival]:
        """Returns the arrivals without an outcome in the order in which workers admit them.

        Teams take turns: the next is that of the team whose latest outcome is longest ago, and of several without any,
        that of the first in the ledger. So a team that submits a lot keeps only itself waiting.
        """
        before = Counter[str]()
        turns: list[tuple[int, int, Arrival]] = []
        for arrival in self.pending_arrivals.values():
            turns.append((before[arrival.team], self._latest_outcomes.get(arrival.team, 0), arrival))
            before[arrival.team] += 1
        return [arrival for *_, arrival in sorted(turns, key=lambda turn: turn[:2])]

    def sides_by_task(self, person: Person, *, except_teams: Iterable[str] = ()) -> dict[str, set[Side]]:
        """Returns the tasks on which a person takes part in any team, each with the person's sides (rule A1).

        A withdrawn or disqualified submission binds nobody. `except_teams` are left out.
        """
        left_out = set(except_teams)
        sides: dict[str, set[Side]] = {}
        for entry in self.entries.values():
            if entry.is_active and entry.team not in left_out and person.identity_key in self.bound_people(entry):
                sides.setdefault(entry.task, set()).add(entry.side)
        return sides

    def organizer_keys(self) -> frozenset[str]:
        """Returns the keys of everybody who is known to belong to the organizing institution (A5).

        These are the people who are marked so in a team, now or when it submitted, and everybody with the role of an
        organizer.
        """
        groups = (*self.teams.values(), *(entry.people for entry in self.entries.values()))
        marked = {person.identity_key for people in groups for person in people if person.organizer}
        return frozenset(marked | {person.identity_key for person in self.roles[Role.ORGANIZER].values()})

    def unrecognized_entries(self) -> list[str]:
        """Returns the entries that an organizer submitted, as far as no event has marked them so (A5)."""
        organizers = self.organizer_keys()
        return [
            entry.id
            for entry in self.entries.values()
            if not (entry.organizer_recognized or any(person.organizer for person in entry.people))
            and any(person.identity_key in organizers for person in entry.people)
        ]

    def find_similar_team(self, team: str) -> str:
        """Returns another team whose name differs only in case, spaces or invisible characters, "" if there is none."""
        like = name_matching.fold_name(team)
        return next((other for other in self.teams if other != team and name_matching.fold_name(other) == like), "")
