"""A sealed round: enough to count everything again, and nothing that tells a label.

`round.json` says what the withheld entries of the ledger would: how the round was opened, what was finished, how many
of an attack's pictures are forfeits, findings as codes. `cells.jsonl` has one letter a picture, `pictures.jsonl` their
opaque ids with a commitment each to what is withheld.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain import events
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.rulings import Answers
from orchestrator.domain.submissions import Side
from orchestrator.publication import disclosure
from orchestrator.publication.layout import CELLS, PICTURES, ROUND
from orchestrator.publication.records import Counted, SealedRecord, letters
from orchestrator.publication.veil import Veil, commitments
from orchestrator.record import Record
from orchestrator.results.document import Results, SubmissionPart
from orchestrator.results.public import rough

MEASURED = ("sandboxes", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out", "endings")
"""Of a submission's results, what no array tells: taken over as the organizers state it."""
MOST_PICTURES = 10_000_000

_Count = Annotated[int, Field(ge=0, le=MOST_PICTURES)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FaultCount(_Part):
    """A submission's faults of one kind, without its words."""

    code: str
    reason: str
    times: int
    pictures: int


class WorkPart(_Part):
    """All jobs of one stage of one submission; `finished` says whether none is left.

    `fresh_copy` says whether they are replays that ran from a fresh copy of the image; None in earlier bundles.
    """

    submission: str
    stage: Stage
    finished: bool
    seconds: float
    faults: list[FaultCount]
    fresh_copy: bool | None = None


class MalformedPart(_Part):
    """Forfeits of what was delivered and is no picture like its own, by reason."""

    type: _Count
    shape: _Count
    not_finite: _Count


class AttackPart(_Part):
    """See publication.records.Counted."""

    attack: str
    forfeits: _Count
    beyond: _Count
    violations: _Count
    malformed: MalformedPart | None = None

    def counted(self) -> Counted:
        """Returns the same for those who count."""
        malformed = None if self.malformed is None else self.malformed.model_dump()
        return Counted(self.forfeits, self.beyond, self.violations, malformed)


class SealedRound(_Part):
    """`round.json`."""

    opened: events.RoundOpened
    work: list[WorkPart]
    attacks: list[AttackPart]
    replays: list[events.ReplayJudged]
    findings: list[events.FindingMade]


def cells_of(record: Record) -> dict[Cell, Answers]:
    """Returns the answers of every cell that was played, in the one order of a bundle: by defence, then by attack."""
    return dict(sorted(record.cells(), key=lambda item: (item[0].defence, item[0].attack or "")))


def values(record: Record, secret: bytes) -> dict[str, Any]:
    """Returns what a sealed round's files hold, by name: `round.json`, and the lines of the other two."""
    cells = cells_of(record)
    labels = record.samples.labels
    veil = Veil(secret)
    order = veil.order(len(labels))
    commitment = commitments(veil, labels, list(cells.values()))
    return {
        ROUND: _round(record),
        PICTURES: [{"id": veil.name(picture), "commitment": commitment[picture]} for picture in order],
        CELLS: [
            {"defence": cell.defence, "attack": cell.attack, "calls": letters(labels[order], answers[order])}
            for cell, answers in cells.items()
        ],
    }


def _round(record: Record) -> dict[str, Any]:
    round_ = record.round
    if round_.opened is None:
        raise ValueError("no round was opened")
    attacks = {attack.id: record.candidates(attack.id) for attack in round_.roster.side(Side.ATTACK)}
    made = [event for event in round_.judgements if isinstance(event, events.FindingMade)]
    judged = sorted(round_.replays.values(), key=lambda event: (event.submission, event.job))
    return {
        "opened": disclosure.opened(round_.opened),
        "work": [_work(record, *key).model_dump(mode="json") for key in _stages(record)],
        "attacks": [
            {"attack": attack, **{name: getattr(Counted.of(pictures), name) for name in Counted.__slots__}}
            for attack, pictures in attacks.items()
            if pictures is not None
        ],
        "replays": [disclosure.replay(number, event) for number, event in enumerate(judged, start=1)],
        "findings": [disclosure.finding(number, event) for number, event in enumerate(made, start=1)],
    }


def _stages(record: Record) -> list[tuple[str, Stage]]:
    order = list(Stage)
    found = {(job.submission, job.stage) for job in record.round.planned}
    return sorted(found, key=lambda key: (order.index(key[1]), key[0]))


def _work(record: Record, submission: str, stage: Stage) -> WorkPart:
    round_ = record.round
    jobs = [job.id for job in round_.planned_of.get(submission, ()) if job.stage is stage]
    times: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for fault in (fault for job in jobs for step in round_.steps.get(job, {}).values() for fault in step.faults):
        times[fault.code, fault.reason] += fault.times
        counts[fault.code, fault.reason] += fault.pictures
    seconds = sum(round_.finished[job].seconds for job in jobs if job in round_.finished)
    return WorkPart(
        submission=submission,
        stage=stage,
        finished=all(job in round_.finished for job in jobs),
        seconds=rough(float(seconds)) or 0.0,
        faults=[
            FaultCount(code=code, reason=reason, times=times[code, reason], pictures=n)
            for (code, reason), n in sorted(counts.items())
        ],
        fresh_copy=stage is Stage.REPLAY and round_.copied(submission),
    )


def record_of(
    sealed: SealedRound, shown: Sequence[events.Event], calls: Mapping[Cell, str], pictures: int
) -> SealedRecord:
    """Returns the record that a sealed round's files tell; `shown` are the events that its ledger shows."""
    past: list[events.Event] = [sealed.opened]
    past += [event for event in shown if isinstance(event, events.SubmissionAdmitted)]
    past.append(events.PlanMade(jobs=[_job(work) for work in sealed.work]))
    for work in sealed.work:
        past += _played(work)
    past += [*sealed.replays, *sealed.findings]
    past += [event for event in shown if isinstance(event, events.RoundClosed)]
    counted = {part.attack: part.counted() for part in sealed.attacks}
    return SealedRecord(past, calls, counted, pictures)


def _job(work: WorkPart) -> events.JobRecord:
    return events.JobRecord(id=f"{work.stage.value} {work.submission}", stage=work.stage, submission=work.submission)


def _played(work: WorkPart) -> list[events.Event]:
    job = _job(work)
    faults = [events.FaultRecord(**fault.model_dump(), message="") for fault in work.faults]
    step = events.StepFinished(
        job=job.id, stage=job.stage, submission=job.submission, step=0, cells=[], blobs={}, faults=faults, seconds=0.0
    )
    if not work.finished:
        return [step]
    done = events.JobFinished(
        job=job.id,
        stage=job.stage,
        submission=job.submission,
        device=None,
        seconds=work.seconds,
        sandboxes=[],
        fresh_copy=disclosure.WITHHELD if work.fresh_copy else "",
    )
    return [step, done]


def roughly(results: Results) -> dict[str, dict[str, Any]]:
    """Returns, by submission, what was measured, to two figures (rule A2)."""
    amounts = ("cpu_seconds", "peak_bytes", "bytes_in", "bytes_out")
    return {
        part.id: {name: getattr(part, name) for name in MEASURED}
        | {name: rough(getattr(part, name)) for name in amounts}
        for part in results.submissions
    }


def with_measured(results: Results, measured: Mapping[str, Mapping[str, Any]]) -> Results:
    """Returns results with what was measured, which no array tells."""
    parts: list[SubmissionPart] = [part.model_copy(update=dict(measured[part.id])) for part in results.submissions]
    return results.model_copy(update={"submissions": parts})


def measured_in(results: Results) -> dict[str, dict[str, Any]]:
    """Returns what results state as measured, by submission."""
    return {part.id: {name: getattr(part, name) for name in MEASURED} for part in results.submissions}
