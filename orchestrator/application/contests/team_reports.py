"""A team's results and findings in the rounds, as the team may see them (rules A2, C9)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator import redaction
from orchestrator.application.contests import report_writer
from orchestrator.application.rounds import round_record
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.reports.evidence import finding_text
from orchestrator.reports.team import TeamPage, private_page, team_pages
from orchestrator.scoring.results_file import FindingPart, Results


@dataclass(frozen=True, slots=True)
class TeamFinding:
    """A finding against a submission. `part` is its public part; `id` is its id in the ledger.

    `label` identifies it within its contest without showing the id, which is derived from hidden data.
    """

    id: str
    label: str
    round: str
    task: str
    part: FindingPart
    meaning: str


@dataclass(frozen=True)
class TeamReports:
    """The private pages by team name, and the findings by submission."""

    pages: Mapping[str, TeamPage]
    findings: Mapping[str, tuple[TeamFinding, ...]]


def read_team_reports(folder: ContestFolder, rounds: list[RoundFolder]) -> TeamReports:
    """Returns what each team may see of these rounds. Raises StoreFault if a record is damaged."""
    history = report_writer.read_history(folder)
    results = [round_record.read_results(each) for each in rounds]
    public = [redaction.redact_results(each) for each in results]
    pages = {team: private_page(page, history.season) for team, page in team_pages(public, history).items()}
    findings: dict[str, tuple[TeamFinding, ...]] = {}
    for own, shown in zip(results, public, strict=True):
        for found in _findings_of(own, shown):
            findings[found.part.submission] = (*findings.get(found.part.submission, ()), found)
    return TeamReports(pages, findings)


def _findings_of(results: Results, public: Results) -> Iterator[TeamFinding]:
    sides = {part.id: part.side for part in results.submissions}
    for own, shown in zip(results.findings, public.findings, strict=True):
        label = f"{results.round}-{results.task.name}-{shown.id}"
        meaning = finding_text(shown.kind, sides[own.submission])
        yield TeamFinding(own.id, label, results.round, results.task.name, shown, meaning)
