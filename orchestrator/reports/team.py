"""A team's page: what became of everything that it handed in.

From hidden data it has codes, counts and rounded numbers only (rule A2): it is made of what
`scoring.redaction.redact_results`
returns. A private page, which goes to the team alone, also names its people and says why something was refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orchestrator.domain import contest_events
from orchestrator.domain.season import Entry, Season
from orchestrator.reports import evidence, formatting
from orchestrator.reports.evidence import ReplayCoverage
from orchestrator.reports.leaderboards import submission_labels
from orchestrator.reports.usage import USAGE_KINDS, SubmissionUsage, round_usage
from orchestrator.scoring.results_file import CellPart, FindingPart, LeaderboardPart, Results, RowPart, SubmissionPart

TimedEvent = tuple[str, contest_events.ContestEvent]
"""An act of a contest and when it was."""


@dataclass(frozen=True)
class ContestHistory:
    """What a contest's ledger tells: nothing, for a round by itself. `receipts` are their files by submission.

    `head` is the hash of its last entry and `entries` that one's number.
    """

    acts: tuple[TimedEvent, ...] = ()
    receipts: Mapping[str, bytes] = field(default_factory=dict)
    head: str = ""
    entries: int = 0

    @cached_property
    def season(self) -> Season:
        """The fold of the acts."""
        season = Season()
        for time, act in self.acts:
            season.apply(act, time)
        return season


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Something that happened to a submission. `reason` is somebody's words, as the ledger keeps them."""

    time: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class SubmissionHistory:
    """A submission as it was received, and what happened to it since."""

    entry: Entry
    left: int
    warnings: tuple[str, ...]
    deeds: tuple[HistoryEntry, ...]
    receipt: bytes
    """Its file, as it was handed out: signed, so not one byte may change. Empty where there is none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A submission that was not admitted; `problems` is empty where they are not said."""

    time: str
    act: contest_events.SubmissionRefused
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpponentCell:
    """One of a submission's cells."""

    part: CellPart
    against: str
    accuracy: str
    delta: str
    limits: str


@dataclass(frozen=True, slots=True)
class RoundParticipation:
    """One submission in one round."""

    results: Results
    part: SubmissionPart
    rows: tuple[tuple[LeaderboardPart, RowPart], ...]
    cells: tuple[OpponentCell, ...]
    findings: tuple[tuple[FindingPart, str], ...]
    covered: tuple[ReplayCoverage, ...]
    use: SubmissionUsage


@dataclass(frozen=True, slots=True)
class TeamPage:
    """Everything that the template needs."""

    team: str
    contest: str
    private: bool
    people: tuple[str, ...]
    size: int
    organizers: int
    handed: tuple[SubmissionHistory, ...]
    refused: tuple[Refusal, ...]
    played: tuple[RoundParticipation, ...]
    kinds: tuple[str, ...]


def team_pages(rounds: Sequence[Results], story: ContestHistory) -> dict[str, TeamPage]:
    """Returns everybody's page as everybody may see it, by team.

    `rounds` are what `scoring.redaction.redact_results` returns.
    """
    season = story.season
    played = _participations_by_team(rounds)
    handed: dict[str, list[SubmissionHistory]] = {}
    for one in _submission_histories(season, story):
        handed.setdefault(one.entry.team, []).append(one)
    refused = [Refusal(time, act, ()) for time, act in story.acts if isinstance(act, contest_events.SubmissionRefused)]
    return {
        team: TeamPage(
            team=team,
            contest=rounds[0].title if rounds else "",
            private=False,
            people=(),
            size=len(season.teams.get(team, ())),
            organizers=sum(person.organizer for person in season.teams.get(team, ())),
            handed=tuple(handed.get(team, ())),
            refused=tuple(one for one in refused if one.act.team == team),
            played=tuple(played.get(team, ())),
            kinds=tuple(kind.name for kind in USAGE_KINDS),
        )
        for team in teams_of(rounds, season)
    }


def private_page(page: TeamPage, season: Season) -> TeamPage:
    """Returns the page that goes to the team alone: with its people, and with why something was refused."""
    return replace(
        page,
        private=True,
        people=tuple(person.name for person in season.teams.get(page.team, ())),
        refused=tuple(replace(one, problems=tuple(one.act.problems)) for one in page.refused),
    )


def teams_of(rounds: Iterable[Results], season: Season) -> list[str]:
    """Returns every team that has a page, in the order in which they came; the organizers' baselines have none."""
    playing = [part.team for results in rounds for part in results.submissions if not part.baseline]
    return list(dict.fromkeys((*season.teams, *(entry.team for entry in season.entries.values()), *playing)))


def _submission_histories(season: Season, story: ContestHistory) -> Iterable[SubmissionHistory]:
    received = {act.id: act for _, act in story.acts if isinstance(act, contest_events.SubmissionReceived)}
    for entry in season.entries.values():
        deeds = (_history_entry(entry, time, act) for time, act in _events_after(entry, story))
        yield SubmissionHistory(
            entry=entry,
            left=received[entry.id].left,
            warnings=tuple(received[entry.id].warnings),
            deeds=tuple(deed for deed in deeds if deed is not None),
            receipt=story.receipts.get(entry.id, b""),
        )


def _events_after(entry: Entry, story: ContestHistory) -> Iterable[tuple[str, contest_events.ContestEvent]]:
    """Returns what was done after a submission was received, in the order of the ledger."""
    told = iter(story.acts)
    next((act for _, act in told if isinstance(act, contest_events.SubmissionReceived) and act.id == entry.id), None)
    return told


def _history_entry(entry: Entry, time: str, act: contest_events.ContestEvent) -> HistoryEntry | None:
    """Returns what an act did to a submission, None where it was about another."""
    match act:
        case contest_events.SubmissionWithdrawn() if act.id == entry.id:
            return HistoryEntry(time, "Withdrawn", act.reason)
        case contest_events.SubmissionDisqualified() if act.id == entry.id:
            return HistoryEntry(time, "Disqualified", act.reason)
        case contest_events.SubmissionCorrected() if act.id == entry.id:
            changed = (("licence", act.licence), ("source", act.source))
            what = ", ".join(f"{name} is now {value}" for name, value in changed if value is not None)
            return HistoryEntry(time, f"Corrected: {what}", act.reason)
        case contest_events.FinalistsPromoted() if act.task == entry.task:
            on = entry.id in (*act.attacks, *act.defences)
            why = "" if on else act.not_standing.get(entry.id, "")
            return HistoryEntry(time, "Promoted to the final" if on else "Not promoted", why or act.reason)
        case _:
            return None


def _participations_by_team(rounds: Iterable[Results]) -> dict[str, list[RoundParticipation]]:
    found: dict[str, list[RoundParticipation]] = {}
    for results in rounds:
        cells: dict[str, list[CellPart]] = {}
        for cell in results.cells:
            for who in filter(None, (cell.attack, cell.defence)):
                cells.setdefault(who, []).append(cell)
        rows: dict[str, list[tuple[LeaderboardPart, RowPart]]] = {}
        for board in results.boards:
            for row in board.rows:
                rows.setdefault(row.submission, []).append((board, row))
        covered = evidence.replay_coverage(results, submission_labels(results))
        for use in (use for _, members in round_usage(results).sides for use in members if not use.who.baseline):
            part = use.who
            played = RoundParticipation(
                results=results,
                part=part,
                rows=tuple(rows.get(part.id, ())),
                cells=tuple(_opponent_cell(cell, part) for cell in cells.get(part.id, ())),
                findings=tuple(
                    (f, evidence.finding_text(f.kind, part.side)) for f in results.findings if f.submission == part.id
                ),
                covered=tuple(one for one in covered if one.part.submission == part.id),
                use=use,
            )
            found.setdefault(part.team, []).append(played)
    return found


def _opponent_cell(cell: CellPart, part: SubmissionPart) -> OpponentCell:
    defending = cell.defence == part.id
    return OpponentCell(
        part=cell,
        against=(cell.attack or "") if defending else cell.defence,
        accuracy=formatting.percent(cell.held, cell.total),
        delta="" if cell.delta is None else formatting.signed(cell.delta),
        limits="" if cell.delta_interval is None else " to ".join(map(formatting.signed, cell.delta_interval)),
    )
