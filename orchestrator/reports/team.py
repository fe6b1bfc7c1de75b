"""A team's page: its submissions, their history and their results.

It is made from the results that `redaction.redact_results` returns, so of hidden data it has only codes, counts and
rounded numbers (rule A2). A private page, which only the team gets, also names its people and gives the reasons of
refusals.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orchestrator.domain import contest_events
from orchestrator.domain.season import Entry, Season
from orchestrator.ledger.season_fold import format_of_season
from orchestrator.reports import evidence
from orchestrator.reports.blocks import Block, report_blocks
from orchestrator.reports.evidence import ReplayCoverage
from orchestrator.reports.examples import Example
from orchestrator.reports.gallery import ExampleView, example_views
from orchestrator.reports.leaderboards import submission_labels
from orchestrator.reports.usage import USAGE_KINDS, SubmissionUsage, round_usage
from orchestrator.scoring.results_file import FindingPart, LeaderboardPart, Results, RowPart, SubmissionPart

TimedEvent = tuple[str, contest_events.ContestEvent]
"""The time of a contest's event, and the event."""


@dataclass(frozen=True)
class ContestHistory:
    """The events of a contest's ledger; empty for a round by itself. `receipts` are the files by submission.

    `head` is the hash of the ledger's last entry and `entries` the number of that entry.
    """

    events: tuple[TimedEvent, ...] = ()
    receipts: Mapping[str, bytes] = field(default_factory=dict)
    head: str = ""
    entries: int = 0

    @cached_property
    def season(self) -> Season:
        """The season that follows from the events."""
        season = Season()
        for time, act in self.events:
            season.apply(act, time)
        return season


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event in the history of a submission. `reason` is a person's text, unchanged from the ledger."""

    time: str
    description: str
    reason: str


@dataclass(frozen=True, slots=True)
class SubmissionHistory:
    """A submission as it was received, and its history since. `attempts_left` is None without a limit."""

    entry: Entry
    attempts_left: int | None
    warnings: tuple[str, ...]
    history: tuple[HistoryEntry, ...]
    receipt: bytes
    """The receipt's file, byte for byte, because it is signed. Empty if there is none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A submission that was not admitted; `problems` is empty on a public page."""

    time: str
    event: contest_events.SubmissionRefused
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoundParticipation:
    """One submission in one round."""

    results: Results
    part: SubmissionPart
    rows: tuple[tuple[LeaderboardPart, RowPart], ...]
    blocks: tuple[Block, ...]
    """The sections that the format adds."""
    findings: tuple[tuple[FindingPart, str], ...]
    coverage: tuple[ReplayCoverage, ...]
    usage: SubmissionUsage


@dataclass(frozen=True, slots=True)
class TeamPage:
    """The values of the template of a team's page."""

    team: str
    contest: str
    private: bool
    people: tuple[str, ...]
    people_count: int
    organizers: int
    submissions: tuple[SubmissionHistory, ...]
    refusals: tuple[Refusal, ...]
    participations: tuple[RoundParticipation, ...]
    usage_kinds: tuple[str, ...]
    gallery: tuple[ExampleView, ...] = ()
    """Some of the team's own pictures, only on its private page."""


def team_pages(rounds: Sequence[Results], history: ContestHistory) -> dict[str, TeamPage]:
    """Returns the public page of each team, by team.

    `rounds` are results that `redaction.redact_results` returned.
    """
    season = history.season
    participations = _participations_by_team(rounds)
    by_team: dict[str, list[SubmissionHistory]] = {}
    for one in _submission_histories(season, history):
        by_team.setdefault(one.entry.team, []).append(one)
    refused = [
        Refusal(time, act, ()) for time, act in history.events if isinstance(act, contest_events.SubmissionRefused)
    ]
    return {
        team: TeamPage(
            team=team,
            contest=rounds[0].title if rounds else "",
            private=False,
            people=(),
            people_count=len(season.teams.get(team, ())),
            organizers=sum(person.organizer for person in season.teams.get(team, ())),
            submissions=tuple(by_team.get(team, ())),
            refusals=tuple(one for one in refused if one.event.team == team),
            participations=tuple(participations.get(team, ())),
            usage_kinds=tuple(kind.name for kind in USAGE_KINDS),
        )
        for team in teams_of(rounds, season)
    }


def private_page(page: TeamPage, season: Season, own_pictures: Sequence[Example] = ()) -> TeamPage:
    """Returns a team's private page: with its people, its pictures, and the reasons of refusals."""
    return replace(
        page,
        private=True,
        people=tuple(person.name for person in season.teams.get(page.team, ())),
        refusals=tuple(replace(one, problems=tuple(one.event.problems)) for one in page.refusals),
        gallery=example_views(own_pictures),
    )


def teams_of(rounds: Iterable[Results], season: Season) -> list[str]:
    """Returns every team that has a page, in order of appearance. The organizers' baselines have none."""
    playing = [part.team for results in rounds for part in results.submissions if not part.baseline]
    return list(dict.fromkeys((*season.teams, *(entry.team for entry in season.entries.values()), *playing)))


def _submission_histories(season: Season, history: ContestHistory) -> Iterable[SubmissionHistory]:
    received = {act.id: act for _, act in history.events if isinstance(act, contest_events.SubmissionReceived)}
    limited = bool(season.entries) and _limits_attempts(season)
    for entry in season.entries.values():
        entries = (_history_entry(entry, time, act) for time, act in _events_after(entry, history))
        yield SubmissionHistory(
            entry=entry,
            attempts_left=received[entry.id].attempts_left if limited else None,
            warnings=tuple(received[entry.id].warnings),
            history=tuple(item for item in entries if item is not None),
            receipt=history.receipts.get(entry.id, b""),
        )


def _limits_attempts(season: Season) -> bool:
    """Returns whether a team's submissions are limited in number, in total (A4) or in a day (C9)."""
    rules = format_of_season(season)
    return rules.submissions_per_team() is not None or rules.submissions_per_day() is not None


def _events_after(entry: Entry, history: ContestHistory) -> Iterable[tuple[str, contest_events.ContestEvent]]:
    """Returns the events after a submission was received, in the order of the ledger."""
    remaining = iter(history.events)
    next(
        (act for _, act in remaining if isinstance(act, contest_events.SubmissionReceived) and act.id == entry.id), None
    )
    return remaining


def _history_entry(entry: Entry, time: str, act: contest_events.ContestEvent) -> HistoryEntry | None:
    """Returns the effect of an event on a submission, None if it has none."""
    match act:
        case contest_events.SubmissionWithdrawn() if act.id == entry.id:
            return HistoryEntry(time, "Withdrawn", act.reason)
        case contest_events.SubmissionDisqualified() if act.id == entry.id:
            return HistoryEntry(time, "Disqualified", act.reason)
        case contest_events.SubmissionCorrected() if act.id == entry.id:
            changed = (("licence", act.licence), ("source", act.source))
            corrections = ", ".join(f"{name} is now {value}" for name, value in changed if value is not None)
            return HistoryEntry(time, f"Corrected: {corrections}", act.reason)
        case contest_events.OrganizersRecognized() if entry.id in act.submissions:
            return HistoryEntry(time, "No prize", "a member is of the organizing institution (A5)")
        case contest_events.FormatEvent():
            effect = act.effect_on(entry.id, entry.task)
            return None if effect is None else HistoryEntry(time, *effect)
        case _:
            return None


def _participations_by_team(rounds: Iterable[Results]) -> dict[str, list[RoundParticipation]]:
    participations: dict[str, list[RoundParticipation]] = {}
    for results in rounds:
        rows: dict[str, list[tuple[LeaderboardPart, RowPart]]] = {}
        for board in results.boards:
            for row in board.rows:
                rows.setdefault(row.submission, []).append((board, row))
        covered = evidence.replay_coverage(results, submission_labels(results))
        blocks = report_blocks(results.format).blocks_by_submission(results)
        for use in (use for _, members in round_usage(results).sides for use in members if not use.submission.baseline):
            part = use.submission
            participation = RoundParticipation(
                results=results,
                part=part,
                rows=tuple(rows.get(part.id, ())),
                blocks=tuple(blocks.get(part.id, ())),
                findings=tuple(
                    (f, evidence.finding_text(f.kind, part.side)) for f in results.findings if f.submission == part.id
                ),
                coverage=tuple(one for one in covered if one.part.submission == part.id),
                usage=use,
            )
            participations.setdefault(part.team, []).append(participation)
    return participations
