"""A team's page: what became of everything that it handed in.

From hidden data it has codes, counts and rounded numbers only (rule A2): it is made of what `results.public.shown`
returns. A private page, which goes to the team alone, also names its people and says why something was refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orchestrator.domain import acts
from orchestrator.domain.season import Entry, Season
from orchestrator.results.document import BoardPart, CellPart, FindingPart, Results, RowPart, SubmissionPart
from orchestrator.results.report import evidence, words
from orchestrator.results.report.evidence import Covered
from orchestrator.results.report.standings import people_of
from orchestrator.results.report.usage import KINDS, Use, usage_of

Told = tuple[str, acts.Act]
"""An act of a contest and when it was."""


@dataclass(frozen=True)
class Story:
    """What a contest's ledger tells: nothing, for a round by itself. `receipts` are their files by submission.

    `head` is the hash of its last entry and `entries` that one's number.
    """

    acts: tuple[Told, ...] = ()
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
class Deed:
    """Something that happened to a submission. `reason` is somebody's words, as the ledger keeps them."""

    time: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Handed:
    """A submission as it was received, and what happened to it since."""

    entry: Entry
    left: int
    warnings: tuple[str, ...]
    deeds: tuple[Deed, ...]
    receipt: bytes
    """Its file, as it was handed out: signed, so not one byte may change. Empty where there is none."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission that was not admitted; `problems` is empty where they are not said."""

    time: str
    act: acts.SubmissionRefused
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Met:
    """One of a submission's cells."""

    part: CellPart
    against: str
    accuracy: str
    delta: str
    limits: str


@dataclass(frozen=True, slots=True)
class Played:
    """One submission in one round."""

    results: Results
    part: SubmissionPart
    rows: tuple[tuple[BoardPart, RowPart], ...]
    cells: tuple[Met, ...]
    findings: tuple[tuple[FindingPart, str], ...]
    covered: tuple[Covered, ...]
    use: Use


@dataclass(frozen=True, slots=True)
class TeamPage:
    """Everything that the template needs."""

    team: str
    contest: str
    private: bool
    people: tuple[str, ...]
    size: int
    organizers: int
    handed: tuple[Handed, ...]
    refused: tuple[Refused, ...]
    played: tuple[Played, ...]
    kinds: tuple[str, ...]


def team_pages(rounds: Sequence[Results], story: Story) -> dict[str, TeamPage]:
    """Returns everybody's page as everybody may see it, by team. `rounds` are what `results.public.shown` returns."""
    season = story.season
    played = _by_team(rounds)
    handed: dict[str, list[Handed]] = {}
    for one in _handed(season, story):
        handed.setdefault(one.entry.team, []).append(one)
    refused = [Refused(time, act, ()) for time, act in story.acts if isinstance(act, acts.SubmissionRefused)]
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
            kinds=tuple(kind.name for kind in KINDS),
        )
        for team in teams_of(rounds, season)
    }


def private(page: TeamPage, season: Season) -> TeamPage:
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


def _handed(season: Season, story: Story) -> Iterable[Handed]:
    received = {act.id: act for _, act in story.acts if isinstance(act, acts.SubmissionReceived)}
    for entry in season.entries.values():
        deeds = (_deed(entry, time, act) for time, act in _after(entry, story))
        yield Handed(
            entry=entry,
            left=received[entry.id].left,
            warnings=tuple(received[entry.id].warnings),
            deeds=tuple(deed for deed in deeds if deed is not None),
            receipt=story.receipts.get(entry.id, b""),
        )


def _after(entry: Entry, story: Story) -> Iterable[tuple[str, acts.Act]]:
    """Returns what was done after a submission was received, in the order of the ledger."""
    told = iter(story.acts)
    next((act for _, act in told if isinstance(act, acts.SubmissionReceived) and act.id == entry.id), None)
    return told


def _deed(entry: Entry, time: str, act: acts.Act) -> Deed | None:
    """Returns what an act did to a submission, None where it was about another."""
    match act:
        case acts.SubmissionWithdrawn() if act.id == entry.id:
            return Deed(time, "Withdrawn", act.reason)
        case acts.SubmissionDisqualified() if act.id == entry.id:
            return Deed(time, "Disqualified", act.reason)
        case acts.SubmissionCorrected() if act.id == entry.id:
            changed = (("licence", act.licence), ("source", act.source))
            what = ", ".join(f"{name} is now {value}" for name, value in changed if value is not None)
            return Deed(time, f"Corrected: {what}", act.reason)
        case acts.FinalistsPromoted() if act.task == entry.task:
            on = entry.id in (*act.attacks, *act.defences)
            why = "" if on else act.not_standing.get(entry.id, "")
            return Deed(time, "Promoted to the final" if on else "Not promoted", why or act.reason)
        case _:
            return None


def _by_team(rounds: Iterable[Results]) -> dict[str, list[Played]]:
    found: dict[str, list[Played]] = {}
    for results in rounds:
        cells: dict[str, list[CellPart]] = {}
        for cell in results.cells:
            for who in filter(None, (cell.attack, cell.defence)):
                cells.setdefault(who, []).append(cell)
        rows: dict[str, list[tuple[BoardPart, RowPart]]] = {}
        for board in results.boards:
            for row in board.rows:
                rows.setdefault(row.submission, []).append((board, row))
        covered = evidence.covered(results, people_of(results))
        for use in (use for _, members in usage_of(results).sides for use in members if not use.who.baseline):
            part = use.who
            played = Played(
                results=results,
                part=part,
                rows=tuple(rows.get(part.id, ())),
                cells=tuple(_met(cell, part) for cell in cells.get(part.id, ())),
                findings=tuple(
                    (f, evidence.meaning(f.kind, part.side)) for f in results.findings if f.submission == part.id
                ),
                covered=tuple(one for one in covered if one.part.submission == part.id),
                use=use,
            )
            found.setdefault(part.team, []).append(played)
    return found


def _met(cell: CellPart, part: SubmissionPart) -> Met:
    defending = cell.defence == part.id
    return Met(
        part=cell,
        against=(cell.attack or "") if defending else cell.defence,
        accuracy=words.percent(cell.held, cell.total),
        delta="" if cell.delta is None else words.signed(cell.delta),
        limits="" if cell.delta_interval is None else " to ".join(map(words.signed, cell.delta_interval)),
    )
