"""A contest's ledger in words: one sentence for each entry, for the people who are responsible for the contest."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from orchestrator.domain import contest_events as acts
from orchestrator.domain.contest_events import ContestEvent, NameOf, Role
from orchestrator.domain.season import Season
from orchestrator.ledger.contest_folder import ContestFolder

ROLES = {Role.ORGANIZER: "an organizer", Role.RATER: "a rater", Role.BOARD: "a member of the review board"}


@dataclass(frozen=True, slots=True)
class ContestEntry:
    """An entry of a contest's ledger: its number, its time and its event."""

    number: int
    time: str
    event: ContestEvent

    @property
    def kind(self) -> str:
        """The event's kind, such as `team_added`."""
        return self.event.kind


def read_contest_entries(folder: ContestFolder) -> list[ContestEntry]:
    """Returns all entries of a contest's ledger that hold contest events, in order. Raises StoreFault."""
    with closing(folder.ledger()) as ledger:
        return [
            ContestEntry(entry.seq, entry.time, entry.event)
            for entry in ledger.read()
            if isinstance(entry.event, ContestEvent)
        ]


def reason_of(event: ContestEvent) -> str:
    """Returns the reason or the text of an event, "" if it has none."""
    if isinstance(event, acts.FormatEvent):
        return event.explanation()
    for name in ("reason", "text", "problem"):
        if text := getattr(event, name, ""):
            return str(text)
    return "\n".join(event.problems) if isinstance(event, acts.SubmissionRefused) else ""


def sentence(event: ContestEvent, season: Season, name_of: NameOf) -> str:
    """Returns an event in words that follow the actor's name, such as `opened the contest`.

    `season` is the fold of the whole ledger: it resolves ids of other events, such as an arrival's.
    """
    if isinstance(event, acts.FormatEvent):
        return event.in_words(name_of)
    return _WORDS[type(event)](event, season, name_of)


def _team_added(event: Any, *_: Any) -> str:
    people = ", ".join(person.name for person in event.people)
    return f"entered the team {event.team}: {people}"


def _arrived(event: Any, *_: Any) -> str:
    what = event.image or f"{event.file_name or 'a file'}, {event.size:,} bytes"
    return f"submitted {what} for {event.team} on {event.task}"


def _received(event: Any, *_: Any) -> str:
    # If a worker admitted it, the actor is the person who submitted it.
    what = f"{event.id} of {event.team}"
    said = f"had {what} received" if event.arrival else f"received {what}"
    return f"{said} on {event.task}, {event.side}, attempt {event.attempt}"


def _refused(event: Any, *_: Any) -> str:
    what = f"{event.name or 'a submission'} of {event.team} on {event.task}"
    return f"had {what} refused" if event.arrival else f"refused {what}"


def _corrected(event: Any, *_: Any) -> str:
    changed = (("licence", event.licence), ("source", event.source))
    new = ", ".join(f"its {name} is {value or 'none'}" for name, value in changed if value is not None)
    return f"corrected {event.id}: {new}"


def _appealed(event: Any, *_: Any) -> str:
    about = f"the finding {event.finding} against {event.submission}" if event.finding else event.submission
    return f"appealed for {event.team} about {about}"


def _decided(event: Any, season: Season, _: NameOf) -> str:
    appeal = season.appeals[event.appeal]
    return f"{'upheld' if event.upheld else 'dismissed'} the appeal of {appeal.team} about {appeal.submission}"


def _matched(event: Any, season: Season, _: NameOf) -> str:
    team = season.arrivals[event.arrival].team
    return f"submitted again, for {team}, the submission {event.submission}, which plays already"


_ENDS = {"played": "played", "failed": "gave up", "cancelled": "called off"}
_WORDS: Mapping[type, Callable[[Any, Season, NameOf], str]] = {
    acts.ContestOpened: lambda e, *_: f"opened the contest with version {e.software} of the software",
    acts.TeamAdded: _team_added,
    acts.SubmissionReceived: _received,
    acts.SubmissionRefused: _refused,
    acts.SubmissionWithdrawn: lambda e, *_: f"withdrew {e.id}",
    acts.SubmissionDisqualified: lambda e, *_: f"disqualified {e.id}",
    acts.SubmissionCorrected: _corrected,
    acts.OrganizersRecognized: lambda e, *_: (
        f"marked an organizer among the people who submitted {', '.join(e.submissions)}, so that no prize goes there"
    ),
    acts.RoundPlayed: lambda e, *_: f"completed the round {e.round} of {e.task}",
    acts.RulesChanged: lambda *_: "changed the rules by which the boards are judged",
    acts.RejudgementDropped: lambda *_: "looked at other rules and dropped them",
    acts.BundlePublished: lambda e, *_: f"published a {e.bundle} bundle, {e.digest}",
    acts.RoleGranted: lambda e, _, name_of: f"made {e.person.name or name_of(e.person.id)} {ROLES[e.role]}",
    acts.RoleRevoked: lambda e, _, name_of: f"took a role from {name_of(e.person)}, who was {ROLES[e.role]}",
    acts.SubmissionArrived: _arrived,
    acts.ArrivalMatched: _matched,
    acts.RoundRequested: lambda e, *_: f"requested the round {e.round} of {e.task or 'every task'}",
    acts.RoundRequestClosed: lambda e, *_: f"{_ENDS[e.outcome]} the request {e.request}",
    acts.ContestAnnounced: lambda e, *_: f"announced: {e.title}",
    acts.SubmissionsClosed: lambda *_: "closed submissions",
    acts.SubmissionsReopened: lambda *_: "opened submissions again",
    acts.AppealFiled: _appealed,
    acts.AppealDecided: _decided,
}
"""For each kind of event outside the formats, the function that puts it into words."""
