"""From the record to numbers: tallies, boards and the results file. Nothing here runs or measures anything."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.findings import Finding, OnFinding
from orchestrator.domain.leaderboard import Leaderboard, Row
from orchestrator.domain.outcomes import (
    Forfeit,
    OnViolation,
    Tally,
    accuracy_drop,
    count_by_reason,
    credited_pictures,
    decide_outcomes,
    tally_cell,
)
from orchestrator.domain.places import met_again
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.policy import Runtime
from orchestrator.domain.samples import AdversarialExamples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.formats.base import Eligibility, Format, Promotion, RoundTallies
from orchestrator.integrity import power
from orchestrator.integrity.power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring import intervals
from orchestrator.scoring import results_file as doc
from orchestrator.scoring.fault_texts import fault_text

ISOLATION_NOTES = {
    "round": "Isolation per round: one sandbox of a defence saw every version of every picture, so a defence that "
    "remembers pictures is caught by replay only. Results are weaker than with the default, isolation per attack.",
    "picture": "Isolation per picture: every question met a fresh sandbox.",
}
NOT_PLAYED = (
    "Not every picture was played of {}: faults took longer than the contest allows. Where a picture was not played "
    "nothing of the cell counts as correct, and no attack is measured on that defence (A7)."
)
MET_AGAIN = (
    "Replays of {} ran on a node where it had played: what the node's kernel kept of its image's files was there for "
    "them, so a memory in it is not found (docs/threat-model.md, memory by time)."
)
UNISOLATED = "Played on the process backend: submissions were not isolated from the organizers' machine."


class RoundScoring:
    """Everything that can be said of a round so far.

    Args:
        record: the fold of the ledger, with its arrays.
        contest_format: the format with this round's rules.
        standings: what the contest says of the submissions; nothing for a round by itself.
    """

    def __init__(
        self, record: RoundView, contest_format: Format[Any], standings: Mapping[str, Eligibility] | None = None
    ) -> None:
        self._record, self._format = record, contest_format
        self._round = record.round
        waiting = {event.submission: _waiting_eligibility(event) for event in self._round.parked.values()}
        self._standings = {**(standings or {}), **waiting}
        if self._round.opened is None:
            raise ValueError("no round was opened")
        self._opened = self._round.opened
        self._samples = record.samples
        self.candidates = self._candidates()
        self.tallies, self._held = self._count()

    def records(self) -> RoundTallies:
        """Returns what the format's rules see."""
        return RoundTallies(
            roster=self._round.roster,
            tallies=self.tallies,
            findings=tuple(self._round.findings),
            violations={attack: int(made.violations.sum()) for attack, made in self.candidates.items()},
            phase=self._opened.phase,
            standings=self._standings,
        )

    def promoted(self) -> Promotion:
        """Returns who goes on to the next round of a season."""
        return self._format.promoted(self.records())

    def results(self, head: str) -> doc.Results:
        """Returns the results file's content; `head` is the hash of the last ledger entry."""
        opened, contest = self._opened, self._opened.contest
        cells = [cell for cell in self._format.cells(self._round.roster) if cell in self.tallies]
        sure = intervals.cell_intervals(cells, self._held)
        return doc.Results(
            contest=contest["contest"],
            title=contest["title"],
            format=contest["format"],
            round=opened.round,
            complete=self._round.closed,
            task=doc.TaskPart(
                name=opened.task.name,
                classes=opened.task.classes,
                shape=opened.task.shape,
                pictures=opened.task.count,
                digest=opened.task.digest,
                norm=opened.task.norm,
                epsilon=opened.task.epsilon,
            ),
            isolation=contest["isolation"],
            backend=opened.backend,
            seed=contest["seed"],
            alarms=self.alarms(),
            waiting=[self._waiting(event) for event in self._round.parked.values()],
            notes=self._notes(),
            rules=self._format.rules.model_dump(mode="json"),
            commitment=opened.commitment,
            ledger=head,
            software=opened.software,
            submissions=[self._submission(s) for s in self._round.roster],
            cells=[self._cell(cell, sure[cell]) for cell in cells],
            boards=[
                _leaderboard_part(b, intervals.leaderboard_intervals(b, self._held))
                for b in self._format.boards(self.records())
            ],
            replay=doc.ReplayDesignPart.model_validate(contest["replay"]),
            replays=sorted(map(self._replay, self._round.replays.values()), key=lambda p: (p.submission, p.job)),
            findings=[self._finding(finding) for finding in self._round.findings],
            jobs=[self._job(job) for job in sorted(self._round.planned, key=_stage_order)],
        )

    def _candidates(self) -> dict[str, AdversarialExamples]:
        made = {a.id: self._record.candidates(a.id) for a in self._round.roster.side(Side.ATTACK)}
        return {attack: candidates for attack, candidates in made.items() if candidates is not None}

    def _count(self) -> tuple[dict[Cell, Tally], dict[Cell, NDArray[np.bool_]]]:
        """Returns each cell's counts, and which of its pictures count as classified correctly."""
        labels = self._samples.labels
        tallies, held = {}, {}
        for cell, answers in self._record.cells():
            made = self.candidates.get(cell.attack) if cell.attack else None
            tallies[cell] = tally_cell(labels, answers, None if made is None else made.forfeits)
            held[cell] = credited_pictures(decide_outcomes(labels, answers))
        return tallies, held

    def _notes(self) -> list[str]:
        notes = []
        if (isolation := self._opened.contest["isolation"]) in ISOLATION_NOTES:
            notes.append(ISOLATION_NOTES[isolation])
        if self._opened.backend == "process":
            notes.append(UNISOLATED)
        notes += dict.fromkeys(map(_network_note, self._round.overridden))
        notes += self._met_again()
        if self._opened.contest["limits"]["classify_batch"] > 1:
            notes.append("Defences got several pictures in one question, a departure from rule A9.")
        if incomplete := sorted({cell.defence for cell, tally in self.tallies.items() if not tally.complete}):
            notes.append(NOT_PLAYED.format(", ".join(incomplete)))
        notes += self._uncleared()
        if not self._round.closed:
            notes.append("The round is not finished; boards are of what is decided so far.")
        return notes

    def _met_again(self) -> list[str]:
        """Returns the note on replays that ran on nodes where their submissions had played, if these share a kernel."""
        if self._opened.contest.get("runtime", Runtime.RUNC) != Runtime.RUNC:
            return []
        steps = [step for job in self._round.planned for step in self._round.steps.get(job.id, {}).values()]
        teams = {submission.id for submission in self._round.roster if not submission.baseline}
        found = [submission for submission in met_again(steps) if submission in teams]
        return [MET_AGAIN.format(", ".join(found))] if found else []

    def alarms(self) -> list[str]:
        """Returns which baselines failed throughout: what is measured with them, the clean floor too, means nothing."""
        return [
            f"The baseline {submission.id} failed on every picture that counts: what is measured with it, such as the "
            "floor (A17) or who goes on (A11, A12), means nothing. Look at its faults, mend it, and play again."
            for submission in self._round.roster
            if submission.baseline and self._fails(submission)
        ]

    def _fails(self, submission: Submission) -> bool:
        """Returns whether nothing of a submission counts: of a defence on clean pictures, which nobody made."""
        if submission.side is Side.DEFENCE:
            clean = self.tallies.get(Cell(submission.id))
            return clean is not None and (clean.faults == clean.total or not clean.complete)
        made = self.candidates.get(submission.id)
        lost = made is not None and bool((made.forfeits == Forfeit.MISSING).all())
        return lost and bool(self._faults(submission.id))

    def _waiting(self, event: events.JobParked) -> doc.WaitingPart:
        return doc.WaitingPart.model_validate(event.model_dump(exclude={"kind"}))

    def _uncleared(self) -> list[str]:
        """Returns who is not accused and not cleared either: what could not be confirmed is not absent."""
        planned = self._opened.contest["replay"]["power"]
        accused = {finding.job for finding in self._round.findings}
        notes = []
        for judged in sorted(self._round.replays.values(), key=lambda event: event.submission):
            doubts = []
            if judged.job in accused:
                continue
            if judged.clashes:
                doubts.append(f"{judged.clashes} of {judged.compared} comparisons disagree and could not be confirmed")
            if judged.achieved < planned - power.TOLERANCE:
                doubts.append(f"only {judged.decided} of {judged.drawn} drawn questions could be compared")
            if doubts:
                notes.append(f"The replays do not clear {judged.submission}: {'; '.join(doubts)}.")
        return notes

    def _submission(self, submission: Submission) -> doc.SubmissionPart:
        finished = self._round.finished_of(submission.id)
        sandboxes = self._round.sandboxes(submission.id)
        made = self.candidates.get(submission.id)
        findings = [finding.id for finding in self._round.findings if finding.submission == submission.id]
        faults = self._faults(submission.id)
        violations = int(made.violations.sum()) if made else 0
        distances = made.distances[~np.isnan(made.distances)] if made else np.empty(0)
        return doc.SubmissionPart(
            id=submission.id,
            name=submission.name,
            team=submission.team,
            side=submission.side,
            baseline=submission.baseline,
            image=submission.digest,
            status=self._status(submission.id, findings, faults, violations),
            findings=findings,
            forfeits=int((made.forfeits != Forfeit.NONE).sum()) if made else 0,
            forfeit_reasons=count_by_reason(made.forfeits) if made else {},
            violations=violations,
            largest=round(float(distances.max()), 3) if distances.size else None,
            faults=faults,
            sandboxes=len(sandboxes),
            seconds=round(sum(job.seconds for job in finished), 3),
            cpu_seconds=_sum_known([sandbox.cpu_seconds for sandbox in sandboxes]),
            peak_bytes=max((s.peak_bytes for s in sandboxes if s.peak_bytes is not None), default=None),
            bytes_in=_sum_bytes([s.stdin_bytes for s in sandboxes]),
            bytes_out=_sum_bytes([part for s in sandboxes for part in (s.stdout_bytes, s.stderr_bytes)]),
            endings=dict(sorted(Counter(s.reason or s.ending for s in sandboxes).items())),
        )

    def _status(self, submission: str, findings: list[str], faults: list[doc.FaultPart], violations: int) -> Any:
        rules, standing = self._format.rules, self._standings.get(submission, Eligibility())
        cheated = findings and rules.on_finding is OnFinding.DISQUALIFY
        if standing.disqualified or cheated or (violations and rules.on_violation is OnViolation.DISQUALIFY):
            return "disqualified"
        waits = any(event.submission == submission for event in self._round.parked.values())
        if waits or any(job.id not in self._round.finished for job in self._round.planned_of.get(submission, ())):
            return "pending"
        return "faulted" if faults else "played"

    def _faults(self, submission: str) -> list[doc.FaultPart]:
        times: Counter[tuple[str, str]] = Counter()
        counts: Counter[tuple[str, str]] = Counter()
        planned = self._round.planned_of.get(submission, ())
        for step in (step for job in planned for step in self._round.steps.get(job.id, {}).values()):
            for fault in step.faults:
                times[fault.code, fault.reason] += fault.times
                counts[fault.code, fault.reason] += fault.pictures
        return [
            doc.FaultPart(code=code, reason=reason, times=times[code, reason], pictures=count, message=fault_text(code))
            for (code, reason), count in sorted(counts.items())
        ]

    def _cell(self, cell: Cell, sure: intervals.CellIntervals) -> doc.CellPart:
        counts = self.tallies[cell]
        clean = self.tallies.get(Cell(cell.defence))
        delta = accuracy_drop(clean.accuracy, counts.accuracy) if clean and cell.attack else None
        return doc.CellPart(
            defence=cell.defence,
            attack=cell.attack,
            total=counts.total,
            held=counts.held,
            fooled=counts.fooled,
            abstained=counts.abstained,
            forfeits=counts.forfeits,
            faults=counts.faults,
            not_played=counts.not_played,
            accuracy=float(counts.accuracy),
            accuracy_interval=sure.accuracy,
            delta=None if delta is None else float(delta),
            delta_interval=sure.delta,
        )

    def _replay(self, judged: events.ReplayJudged) -> doc.ReplayPart:
        design = SamplingDesign(**self._opened.contest["replay"])
        promise = power.detection_power(judged.questions, judged.decided, design)
        accused = doc.DetectionPart(sequence=promise.sequence, chance=promise.chance, start=promise.start)
        counts = judged.model_dump(include=set(doc.ReplayPart.model_fields))
        copied = self._fresh_copy(self._round.roster[judged.submission])
        return doc.ReplayPart.model_validate(counts | {"accused": accused, "fresh_copy": copied})

    def _fresh_copy(self, submission: Submission) -> str:
        """Returns whether the replays of a submission ran from a copy of its image's files, else why not."""
        if self._round.copied(submission.id):
            return "yes"
        if submission.baseline:
            return "baseline"
        return "unrecorded" if self._opened.backend == "docker" else "backend"

    def _finding(self, finding: Finding) -> doc.FindingPart:
        steps = self._round.steps.get(finding.job, {})
        sessions = [steps[step].session for step in finding.steps if step in steps]
        seeds = [session.seed for session in sessions if session]
        return doc.FindingPart.model_validate(asdict(finding) | {"rules": list(finding.rules), "seeds": seeds})

    def _job(self, job: events.JobRecord) -> doc.JobPart:
        finished = self._round.finished.get(job.id)
        return doc.JobPart(
            id=job.id,
            stage=job.stage,
            submission=job.submission,
            status="finished" if finished else "pending",
            seconds=round(finished.seconds, 3) if finished else None,
        )


def _stage_order(job: events.JobRecord) -> tuple[int, str, str]:
    """Returns where a job stands among the others: a plan's own order of cells is drawn from the secret."""
    return list(Stage).index(job.stage), job.submission, job.id


def _waiting_eligibility(event: events.JobParked) -> Eligibility:
    """Returns how a submission stands that waits: it is on no board, and no mean runs over it."""
    return Eligibility(f"waits for another run ({event.code})", counts=False)


def _network_note(begun: events.ClusterProbed) -> str:
    """Returns the note of a round that was played on a cluster whose network was not proved to be closed to players."""
    probe = f"its last probe, of {begun.at}, said `{begun.outcome}`" if begun.at else "it was never probed"
    why = begun.overridden.strip().rstrip(".")
    return f"Played on a cluster whose network was not proved to keep players from one another: {probe}. Reason: {why}."


def _leaderboard_part(board: Leaderboard, sure: Mapping[str, intervals.RowIntervals]) -> doc.LeaderboardPart:
    return doc.LeaderboardPart(
        name=board.name,
        title=board.title,
        measure=board.measure,
        unit=board.unit,
        more_is_better=board.more_is_better,
        rules=list(board.rules),
        rows=[_row_part(row, sure.get(row.submission, intervals.RowIntervals())) for row in board.rows],
    )


def _row_part(row: Row, sure: intervals.RowIntervals) -> doc.RowPart:
    return doc.RowPart(
        rank=row.rank,
        submission=row.submission,
        score=None if row.score is None else float(row.score),
        exact=None if row.score is None else str(Fraction(row.score)),
        interval=sure.interval,
        ranks=sure.ranks,
        violations=row.violations,
        reason=row.reason,
        place=row.place,
        no_prize=row.no_prize,
    )


def _sum_known(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None


def _sum_bytes(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
