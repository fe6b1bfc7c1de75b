"""What the page shows, worked out before any HTML is written.

Texts of submissions are carried as they are: the templates' environment makes them printable and escapes them. Ids of
HTML elements come from positions, never from names, which may collide or be anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from orchestrator.domain.ids import canonical_json
from orchestrator.domain.submissions import Side
from orchestrator.results.document import Results, SubmissionPart
from orchestrator.results.examples import Example
from orchestrator.results.report import words
from orchestrator.results.report.evidence import Covered, Evidence, covered, evidence_of, power
from orchestrator.results.report.gallery import Exhibit, exhibits
from orchestrator.results.report.matrix import Matrix, matrix_of
from orchestrator.results.report.standings import Standing, people_of, standing_of
from orchestrator.results.report.transfer import Transfer, transfer_of
from orchestrator.results.report.usage import Usage, usage_of

SHARED: Final = 25
"""Rows of each half of a board where several rounds share a page."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all attacked pictures together."""

    caption: str
    parts: tuple[tuple[str, int, str, float], ...]
    """Word, pictures, share as written, width in percent."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the templates need of a round.

    `most` rows of each half of a board are shown, all where it is None. `at` goes before the ids of elements, where
    several rounds share a page. `inside` says that it is for the organizers, who see evidence and hidden pictures; what
    everybody sees is made from `results.public.shown` (A2).
    """

    results: Results
    at: str
    most: int | None
    inside: bool
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    outcome: Outcome | None
    evidence: tuple[Evidence, ...]
    covered: tuple[Covered, ...]
    power: str
    cheat: str
    standings: tuple[Standing, ...]
    matrix: Matrix
    transfer: Transfer | None
    usage: Usage
    sides: tuple[tuple[str, tuple[SubmissionPart, ...]], ...]
    gallery: tuple[Exhibit, ...]
    readings: tuple[tuple[str, str], ...]
    prints: tuple[tuple[str, str], ...]


def page_of(results: Results, examples: Sequence[Example] = (), *, inside: bool = False, at: str = "") -> Page:
    """Returns the page of a round, or its part `at` a place of a page that rounds share.

    Submissions that a part names and the results do not know are shown by their id.
    """
    people = people_of(results)
    return Page(
        results=results,
        at=at,
        most=SHARED if at else None,
        inside=inside,
        facts=_facts(results),
        notes=_notes(results),
        outcome=_outcome(results),
        evidence=tuple(evidence_of(results, finding, people) for finding in results.findings),
        covered=covered(results, people),
        power=power(results.replay.power),
        cheat=f"{100 * results.replay.cheat:g}%",
        standings=tuple(standing_of(board, people) for board in results.boards),
        matrix=matrix_of(results),
        transfer=transfer_of(results),
        usage=usage_of(results),
        sides=tuple((side.value, tuple(s for s in results.submissions if s.side is side)) for side in Side),
        gallery=exhibits(examples),
        readings=tuple(_flat(results.rules)),
        prints=_prints(results, inside=inside),
    )


def _facts(results: Results) -> tuple[tuple[str, str], ...]:
    task = results.task
    shape = " × ".join(map(str, task.shape))  # noqa: RUF001  the sign for sizes
    return (
        ("Round", results.round),
        ("Format", results.format),
        ("Task", task.name),
        ("Pictures", f"{task.pictures:,} of {shape}, {words.count(len(task.classes), 'class', 'classes')}"),
        ("Budget", words.budget(task.norm, task.epsilon)),
        ("Isolation", results.isolation),
        ("Backend", results.backend),
    )


def _notes(results: Results) -> tuple[str, ...]:
    if results.complete:
        return tuple(results.notes)
    done = sum(job.status == "finished" for job in results.jobs)
    jobs = f"{done:,} of {words.count(len(results.jobs), 'job')} finished"
    return (f"This round is not complete: {jobs}. Every board is provisional.", *results.notes)


def _outcome(results: Results) -> Outcome | None:
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
    parts = ((word, n, words.percent(n, total), round(100 * n / total, 3)) for word, n in counts.items() if n)
    when = "" if results.complete else "so far "
    caption = f"{words.count(total, 'attacked picture')} {when}over all cells, baselines included"
    return Outcome(caption, tuple(parts))


def _flat(rules: Mapping[str, object], before: str = "") -> list[tuple[str, str]]:
    found = []
    for key, value in rules.items():
        if isinstance(value, dict) and value:
            found += _flat(value, f"{before}{key}.")
        else:
            found.append((before + key, value if isinstance(value, str) else canonical_json(value)))
    return found


def _prints(results: Results, *, inside: bool) -> tuple[tuple[str, str], ...]:
    seconds = sum(job.seconds or 0.0 for job in results.jobs)
    finished = sum(job.status == "finished" for job in results.jobs)
    return (
        ("Software", results.software),
        ("Contest", f"{results.contest}, round {results.round}"),
        ("Jobs", f"{finished:,} of {len(results.jobs):,} finished, {words.duration(seconds)} of work"),
        ("Seed of the attacks", str(results.seed)),
        *((("Task digest", results.task.digest),) if inside else ()),
        ("Commitment to the secret", results.commitment),
        ("Ledger head", results.ledger),
        (
            "Budget, exactly",
            f"{words.NORMS.get(results.task.norm, results.task.norm)} {Fraction(results.task.epsilon)}/255",
        ),
    )
