"""The lists of a sealed round: enough to recompute every count, and nothing that reveals a label.

`round.json` replaces the withheld entries of the ledger: how the round was opened, what was finished, how many of an
attack's pictures are forfeits, findings as codes. `cells.jsonl` has one letter for each picture, `pictures.jsonl` their
opaque ids, each with a commitment to the withheld label and answers.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from orchestrator import redaction
from orchestrator.bundles.bundle_records import AttackCounts, SealedRoundView, encode_outcomes
from orchestrator.bundles.layout import CELLS, PICTURES, ROUND
from orchestrator.bundles.pseudonyms import PicturePseudonyms, commitments
from orchestrator.domain import events
from orchestrator.domain.outcomes import Answers
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.submissions import Side
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring.results_file import Results, SubmissionPart

MEASURED_FIELDS = ("sandboxes", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out", "endings")
"""The fields of a submission's results that cannot be recomputed: a sealed bundle has the organizers' numbers."""
MAX_PICTURES = 10_000_000

_Count = Annotated[int, Field(ge=0, le=MAX_PICTURES)]


class _SealedModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FaultCount(_SealedModel):
    """A submission's faults of one kind, without its words."""

    code: str
    reason: str
    times: int
    pictures: int


class WorkPart(_SealedModel):
    """All jobs of one stage of one submission; `finished` says whether all are finished.

    `fresh_copy` says whether they are replays that ran from a fresh copy of the image.
    """

    submission: str
    stage: Stage
    finished: bool
    seconds: float
    faults: list[FaultCount]
    fresh_copy: bool


class MalformedPart(_SealedModel):
    """How many delivered arrays are forfeits for their form, by reason."""

    type: _Count
    shape: _Count
    not_finite: _Count


class AttackPart(_SealedModel):
    """See bundles.bundle_records.AttackCounts; `defence` is the one that the pictures were made for, empty for all."""

    attack: str
    defence: str = ""
    forfeits: _Count
    beyond: _Count
    violations: _Count
    malformed: MalformedPart

    def counts(self) -> AttackCounts:
        """Returns the counts as an `AttackCounts`."""
        return AttackCounts(self.forfeits, self.beyond, self.violations, self.malformed.model_dump())


class SealedRound(_SealedModel):
    """`round.json`."""

    opened: events.RoundOpened
    work: list[WorkPart]
    attacks: list[AttackPart]
    replays: list[events.ReplayJudged]
    findings: list[events.FindingMade]


def sorted_cells(record: RoundView) -> dict[Cell, Answers]:
    """Returns the answers of every cell that was played, in the order of bundles: by defence, then by attack."""
    return dict(sorted(record.cells(), key=lambda item: (item[0].defence, item[0].attack or "")))


def sealed_round_lists(record: RoundView, secret: bytes, *, withholds_outcomes: bool) -> dict[str, Any]:
    """Returns the contents of a sealed round's files, by name: `round.json`, and the lines of the other two.

    With `withholds_outcomes` they contain neither outcomes of single pictures (`Format.withholds_outcomes`) nor what a
    defence used: a fault of a defence, which is a picture that counts as misclassified, costs time.
    """
    cells = sorted_cells(record)
    labels = record.samples.labels
    pseudonyms = PicturePseudonyms(secret)
    order = pseudonyms.order(len(labels))
    commitment = commitments(pseudonyms, labels, list(cells.values()))
    return {
        ROUND: _round_document(record, withholds_outcomes=withholds_outcomes),
        PICTURES: [{"id": pseudonyms.picture_id(picture), "commitment": commitment[picture]} for picture in order],
        CELLS: [
            {"defence": cell.defence, "attack": cell.attack, "calls": encode_outcomes(labels[order], answers[order])}
            for cell, answers in ({} if withholds_outcomes else cells).items()
        ],
    }


def _round_document(record: RoundView, *, withholds_outcomes: bool) -> dict[str, Any]:
    round_ = record.round
    if round_.opening is None:
        raise ValueError("no round was opened")
    for_all = {(attack.id, ""): record.adversarial_examples(attack.id) for attack in round_.roster.by_side(Side.ATTACK)}
    queried = sorted(record.queried_cells(), key=lambda cell: (cell.attack or "", cell.defence))
    for_one = {(cell.attack or "", cell.defence): record.cell_examples(cell) for cell in queried}
    findings = [event for event in round_.judgements if isinstance(event, events.FindingMade)]
    replays = sorted(round_.replay_coverage.values(), key=lambda event: (event.submission, event.job))
    work = [_work_part(record, *key) for key in _work_keys(record)]
    if withholds_outcomes:
        defences = {defence.id for defence in round_.roster.by_side(Side.DEFENCE)}
        unsaid = {"seconds": 0.0, "faults": []}
        work = [part.model_copy(update=unsaid) if part.submission in defences else part for part in work]
    return {
        "opened": redaction.redact_round_opened(round_.opening),
        "work": [part.model_dump(mode="json") for part in work],
        "attacks": [
            {
                "attack": attack,
                **({"defence": defence} if defence else {}),
                **{name: getattr(AttackCounts.from_examples(pictures), name) for name in AttackCounts.__slots__},
            }
            for (attack, defence), pictures in (for_all | for_one).items()
            if pictures is not None
        ],
        "replays": [redaction.redact_replay(number, event) for number, event in enumerate(replays, start=1)],
        "findings": [redaction.redact_finding(number, event) for number, event in enumerate(findings, start=1)],
    }


def _work_keys(record: RoundView) -> list[tuple[str, Stage]]:
    stages = list(Stage)
    by_submission = record.round.planned_jobs_of.items()
    found = {(submission, job.stage) for submission, jobs in by_submission for job in jobs}
    return sorted(found, key=lambda key: (stages.index(key[1]), key[0]))


def _work_part(record: RoundView, submission: str, stage: Stage) -> WorkPart:
    round_ = record.round
    jobs = [job.id for job in round_.planned_jobs_of.get(submission, ()) if job.stage is stage]
    seconds = sum(end.seconds for end in round_.finished_jobs_of(submission) if end.job in set(jobs))
    return WorkPart(
        submission=submission,
        stage=stage,
        finished=all(job in round_.finished_jobs for job in jobs),
        seconds=redaction.round_to_figures(float(seconds)) or 0.0,
        faults=[
            FaultCount(code=code, reason=reason, times=times, pictures=pictures)
            for (code, reason), (times, pictures) in round_.fault_counts(submission, stage).items()
        ],
        fresh_copy=stage is Stage.REPLAY and round_.copied(submission),
    )


def sealed_round_view(
    sealed: SealedRound, shown: Sequence[events.Event], calls: Mapping[Cell, str], pictures: int
) -> SealedRoundView:
    """Returns the record from a sealed round's files; `shown` are the events that are not withheld in its ledger."""
    past: list[events.Event] = [sealed.opened]
    past += [event for event in shown if isinstance(event, events.SubmissionAdmitted)]
    past.append(events.PlanMade(jobs=[_work_job(work) for work in sealed.work]))
    for work in sealed.work:
        past += _work_events(work)
    past += [*sealed.replays, *sealed.findings]
    past += [event for event in shown if isinstance(event, events.RoundClosed)]
    counted = {(part.attack, part.defence): part.counts() for part in sealed.attacks}
    return SealedRoundView(past, calls, counted, pictures)


def _work_job(work: WorkPart) -> events.JobRecord:
    return events.JobRecord(id=f"{work.stage.value} {work.submission}", stage=work.stage, submission=work.submission)


def _work_events(work: WorkPart) -> list[events.Event]:
    job = _work_job(work)
    faults = [events.FaultRecord(**fault.model_dump(), message="") for fault in work.faults]
    step = events.StepFinished(
        job=job.id,
        stage=job.stage,
        submission=job.submission,
        step=0,
        cells=[],
        blobs={},
        faults=faults,
        seconds=0.0,
        fresh_copy=redaction.WITHHELD if work.fresh_copy else "",
    )
    if not work.finished:
        return [step]
    done = events.JobFinished(
        job=job.id, stage=job.stage, submission=job.submission, device=None, seconds=work.seconds, sandboxes=[]
    )
    return [step, done]


def rounded_measurements(results: Results, *, withholds_outcomes: bool) -> dict[str, dict[str, Any]]:
    """Returns the measured fields of each submission, rounded to two figures (A2); see `sealed_round_lists`."""
    parts = (
        [redaction.without_faults(part) for part in results.submissions] if withholds_outcomes else results.submissions
    )
    return {
        part.id: {name: getattr(part, name) for name in MEASURED_FIELDS}
        | {name: redaction.round_to_figures(getattr(part, name)) for name in redaction.MEASURED_AMOUNTS}
        for part in parts
    }


def with_measurements(results: Results, measured: Mapping[str, Mapping[str, Any]]) -> Results:
    """Returns the results with these measured fields."""
    parts: list[SubmissionPart] = [part.model_copy(update=dict(measured[part.id])) for part in results.submissions]
    return results.model_copy(update={"submissions": parts})


def measurements_in(results: Results) -> dict[str, dict[str, Any]]:
    """Returns the measured fields of each submission in the results."""
    return {part.id: {name: getattr(part, name) for name in MEASURED_FIELDS} for part in results.submissions}
