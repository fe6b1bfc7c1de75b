"""Judges a defence by its queries that were asked again (rules A9, A10, X6)."""

from orchestrator.domain import events
from orchestrator.domain.findings import RULES_BY_KIND, Disagreement, Finding, FindingKind
from orchestrator.domain.ids import job_id
from orchestrator.domain.outcomes import FAULTED
from orchestrator.integrity.detection_power import ALPHA, binomial_tail
from orchestrator.integrity.findings import MAX_SHOWN
from orchestrator.ledger.read_model import RoundView


def query_finding(view: RoundView, job: events.JobRecord, noise: float) -> Finding | None:
    """Returns the finding from a query job's check, or None if the defence is not accused.

    The check asked some queries again, each in a fresh sandbox. If more decisions differ than `noise` explains, an
    answer depends on the queries before it, or on chance.
    """
    step = view.query_check(job.id)
    if step is None:
        return None
    rows = view.read_array(step, "checked_rows")
    rows = rows[(rows[:, 1:] > FAULTED).all(axis=1)]
    differ = rows[rows[:, 1] != rows[:, 2]]
    p_value = binomial_tail(len(differ), len(rows), noise)
    if not len(differ) or p_value >= ALPHA:
        return None
    attack = job.cells[0].attack
    summary = (
        f"answers queries differently than the same questions in a fresh sandbox: {len(differ)} of {len(rows)} "
        f"decisions disagree; an honest defence shows as much with a probability below {max(p_value, 1e-12):.1g}"
    )
    return Finding(
        id=job_id(finding=job.submission, job=job.id, kind=FindingKind.QUERIES)[:8],
        submission=job.submission,
        kind=FindingKind.QUERIES,
        rules=RULES_BY_KIND[FindingKind.QUERIES],
        summary=summary,
        compared=len(rows),
        disagreements=tuple(Disagreement(attack, *map(int, row)) for row in differ[:MAX_SHOWN]),
        image=view.round.roster[job.submission].digest,
        job=job.id,
        steps=(step.step,),
        p_value=p_value,
    )
