"""The values that the page of a round shows, computed before any HTML is written.

They contain texts of submissions unchanged: the templates' environment makes them printable and escapes them. Ids of
HTML elements come from positions, never from names, which may collide or contain anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from orchestrator.domain.ids import canonical_json
from orchestrator.domain.submissions import Side
from orchestrator.reports import formatting
from orchestrator.reports.blocks import Block, report_blocks
from orchestrator.reports.evidence import Evidence, ReplayCoverage, evidence_of, power_text, replay_coverage
from orchestrator.reports.examples import Example
from orchestrator.reports.gallery import ExampleView, example_views
from orchestrator.reports.leaderboards import LeaderboardView, leaderboard_view, submission_labels
from orchestrator.reports.query_curves import QueriesView, query_views
from orchestrator.reports.usage import RoundUsage, round_usage
from orchestrator.scoring.results_file import Results, SubmissionPart, TaskPart

SHARED_PAGE_ROWS: Final = 25
"""How many rows of each half of a board are shown if several rounds share a page."""


@dataclass(frozen=True, slots=True)
class OutcomeSummary:
    """The outcomes of all attacked pictures together."""

    caption: str
    parts: tuple[tuple[str, int, str, float], ...]
    """For each outcome: its word, the number of pictures, the share as text, the width of its bar in percent."""


@dataclass(frozen=True, slots=True)
class Page:
    """The values of a round for the templates.

    `max_rows` rows of each half of a board are shown, all if it is None. `id_prefix` precedes the ids of elements if
    several rounds share a page. `for_organizers`: the page is for the organizers, who see evidence and hidden pictures;
    public pages are made from the results of `redaction.redact_results` (A2).
    """

    results: Results
    id_prefix: str
    max_rows: int | None
    for_organizers: bool
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    outcome: OutcomeSummary | None
    evidence: tuple[Evidence, ...]
    coverage: tuple[ReplayCoverage, ...]
    power: str
    cheat: str
    leaderboards: tuple[LeaderboardView, ...]
    queries: tuple[QueriesView, ...]
    blocks: tuple[Block, ...]
    """The sections that the format adds after the boards."""
    terms: tuple[tuple[str, str], ...]
    usage: RoundUsage
    sides: tuple[tuple[str, tuple[SubmissionPart, ...]], ...]
    gallery: tuple[ExampleView, ...]
    rules: tuple[tuple[str, str], ...]
    fingerprints: tuple[tuple[str, str], ...]


def page_of(
    results: Results, examples: Sequence[Example] = (), *, for_organizers: bool = False, id_prefix: str = ""
) -> Page:
    """Returns the page of a round; with `id_prefix`, its part of a page that several rounds share.

    A submission that a part names but the results do not contain is shown by its id.
    """
    labels, added = submission_labels(results), report_blocks(results.format)
    return Page(
        results=results,
        id_prefix=id_prefix,
        max_rows=SHARED_PAGE_ROWS if id_prefix else None,
        for_organizers=for_organizers,
        facts=_facts(results),
        notes=_notes(results),
        outcome=_outcome_summary(results),
        evidence=tuple(evidence_of(results, finding, labels) for finding in results.findings),
        coverage=replay_coverage(results, labels),
        power=power_text(results.replay.power),
        cheat=f"{100 * results.replay.cheat:g}%",
        leaderboards=tuple(leaderboard_view(board, labels) for board in results.boards),
        queries=query_views(results.queries, labels),
        blocks=tuple(added.round_blocks(results)),
        terms=tuple(added.terms()),
        usage=round_usage(results),
        sides=tuple((side.value, tuple(s for s in results.submissions if s.side is side)) for side in Side),
        gallery=example_views(examples),
        rules=tuple(_flatten_rules(results.rules)),
        fingerprints=_fingerprints(results, inside=for_organizers),
    )


def _facts(results: Results) -> tuple[tuple[str, str], ...]:
    task = results.task
    shape = " × ".join(map(str, task.shape))  # noqa: RUF001  the sign for sizes
    return (
        ("Round", results.round),
        ("Format", results.format),
        ("Task", task.name),
        ("Pictures", f"{task.pictures:,} of {shape}, {formatting.counted_noun(len(task.classes), 'class', 'classes')}"),
        ("Budget", formatting.budget(task.norm, task.epsilon)),
        ("Isolation", results.isolation),
        ("Backend", results.backend),
    )


def _notes(results: Results) -> tuple[str, ...]:
    if results.complete:
        return tuple(results.notes)
    done = sum(job.status == "finished" for job in results.jobs)
    jobs = f"{done:,} of {formatting.counted_noun(len(results.jobs), 'job')} finished"
    return (f"This round is not complete: {jobs}. Every board is provisional.", *results.notes)


def _outcome_summary(results: Results) -> OutcomeSummary | None:
    cells = [cell for cell in results.cells if cell.attack is not None]
    total = sum(cell.total for cell in cells)
    if not total:
        return None
    counts = {
        "held": sum(cell.held for cell in cells),
        "abstained": sum(cell.abstained for cell in cells),
        "fooled": sum(cell.fooled for cell in cells),
        "not played": sum(cell.not_played for cell in cells),
    }
    parts = ((word, n, formatting.percent(n, total), round(100 * n / total, 3)) for word, n in counts.items() if n)
    when = "" if results.complete else "so far "
    caption = f"{formatting.counted_noun(total, 'attacked picture')} {when}over all cells, baselines included"
    return OutcomeSummary(caption, tuple(parts))


def _flatten_rules(rules: Mapping[str, object], before: str = "") -> list[tuple[str, str]]:
    rows = []
    for key, value in rules.items():
        if isinstance(value, dict) and value:
            rows += _flatten_rules(value, f"{before}{key}.")
        else:
            rows.append((before + key, value if isinstance(value, str) else canonical_json(value)))
    return rows


def _exact_budget(task: TaskPart) -> str:
    if task.norm is None or task.epsilon is None:
        return "none"
    return f"{formatting.NORMS.get(task.norm, task.norm)} {Fraction(task.epsilon)}/255"


def _fingerprints(results: Results, *, inside: bool) -> tuple[tuple[str, str], ...]:
    seconds = sum(job.seconds or 0.0 for job in results.jobs)
    finished = sum(job.status == "finished" for job in results.jobs)
    return (
        ("Software", results.software),
        ("Contest", f"{results.contest}, round {results.round}"),
        ("Jobs", f"{finished:,} of {len(results.jobs):,} finished, {formatting.duration(seconds)} of work"),
        ("Seed of the attacks", str(results.seed)),
        *((("Task digest", results.task.digest),) if inside else ()),
        ("Commitment to the secret", results.commitment),
        ("Ledger head", results.ledger),
        (
            "Budget, exactly",
            _exact_budget(results.task),
        ),
    )
