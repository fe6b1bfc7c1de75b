"""Computes tallies, leaderboards and the results file from the record. Nothing here runs or measures anything."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from fractions import Fraction
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.access import Access, AccessKind
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.contest_format import Eligibility, Format, Observations, SeasonState
from orchestrator.domain.findings import Finding
from orchestrator.domain.leaderboard import Leaderboard, Row, Value
from orchestrator.domain.node_placement import replayed_where_played
from orchestrator.domain.outcomes import (
    Answers,
    Forfeit,
    ForfeitCounts,
    PictureOutcome,
    Tally,
    accuracy_drop,
    count_by_reason,
    count_forfeits,
    credited_pictures,
    decide_outcomes,
    tally_cells,
)
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.policy import Runtime
from orchestrator.domain.samples import AdversarialExamples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring import intervals
from orchestrator.scoring import results_file as doc
from orchestrator.scoring.fault_texts import fault_text
from orchestrator.scoring.picture_bits import PictureBits
from orchestrator.scoring.query_curves import query_parts

N = TypeVar("N", int, float)

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
    "them, so a memory in it is not found (`sparring explain threat-model#memory-by-time`)."
)
UNISOLATED = "Played on the process backend: submissions were not isolated from the organizers' machine."


class RoundScoring:
    """The scores of a round so far.

    Args:
        record: the fold of the ledger, with its arrays.
        contest_format: the format with this round's rules.
        season: the part of the contest's ledger that affects the round; None for a round by itself.
    """

    def __init__(self, record: RoundView, contest_format: Format[Any], season: SeasonState | None = None) -> None:
        self._record, self._format = record, contest_format
        self._round = record.round
        waiting = {event.submission: _waiting_eligibility(event) for event in self._round.parked_jobs.values()}
        self._season = season or SeasonState()
        self._eligibilities = {**self._season.eligibilities, **waiting}
        if self._round.opening is None:
            raise ValueError("no round was opened")
        self._opened = self._round.opening
        self._samples = record.samples
        self._examples = self._collect_examples()
        self._queried = frozenset(self._record.queried_cells())
        self.tallies: dict[Cell, Tally] = {}
        self._correct = PictureBits()
        self._attacked: dict[Cell, NDArray[np.bool_]] = {}
        self._successes: dict[Cell, NDArray[np.bool_]] = {}  # only of cells whose attack queried the defence
        self._count_cells()

    def observations(self) -> Observations:
        """Returns the observations that the format gets."""
        return Observations(
            roster=self._round.roster,
            tallies=self.tallies,
            findings=tuple(self._round.findings),
            violations={
                attack: sum(int(examples.violations.sum()) for examples in made.values())
                for attack, made in self._examples.items()
            },
            round=self._opened.phase,
            task=self._opened.task.name,
            classes=tuple(self._opened.task.classes),
            seconds_of=self._answer_seconds,
            eligibilities=self._eligibilities,
            labels=self._samples.labels,
            answers_of=lambda defence: self._record.answers(defence, len(self._samples)),
            scores_of=lambda defence: self._record.scores(defence, len(self._samples)),
            queries_of=self._record.query_record,
            originals=self._samples.pixels if self._record.has_pictures else None,
            examples_of=self.examples_of if self._record.has_pictures else lambda _: None,
            season_events=self._season.events,
        )

    def outcome(self, *, actor: str, task: str, reason: str = "") -> FormatEvent | None:
        """Returns the season's event that follows from the leaderboards, None if none does."""
        return self._format.round_outcome(self.observations(), actor=actor, task=task, reason=reason)

    def results(self, head: str) -> doc.Results:
        """Returns the results file's content; `head` is the hash of the last ledger entry."""
        opening, contest, observed = self._opened, self._opened.contest, self.observations()
        cells = [cell for cell in self._format.schedule(self._round.roster) if cell in self.tallies]
        cell_intervals = intervals.cell_intervals(cells, self._correct, self._attacked)
        return doc.Results(
            contest=contest["contest"],
            title=contest["title"],
            format=contest["format"],
            round=opening.round,
            complete=self._round.closed,
            task=doc.TaskPart(
                name=opening.task.name,
                classes=opening.task.classes,
                shape=opening.task.shape,
                pictures=opening.task.count,
                digest=opening.task.digest,
                norm=opening.task.norm,
                epsilon=opening.task.epsilon,
            ),
            isolation=contest["isolation"],
            backend=opening.backend,
            seed=contest["seed"],
            alarms=self.alarms(),
            waiting=[
                doc.WaitingPart(**event.model_dump(exclude={"kind"})) for event in self._round.parked_jobs.values()
            ],
            notes=self._notes(observed),
            rules=self._format.rules.model_dump(mode="json"),
            commitment=opening.commitment,
            ledger=head,
            software=opening.software,
            submissions=[self._submission_part(s, observed) for s in self._round.roster],
            cells=[self._cell_part(cell, cell_intervals[cell]) for cell in cells],
            boards=[
                leaderboard_part(b, intervals.leaderboard_intervals(b, self._correct))
                for b in self._format.leaderboards(observed)
            ],
            coarse=not self._format.scores_released(observed),
            queries=self.query_parts(),
            replay=doc.ReplayDesignPart.model_validate(contest["replay"]),
            replays=sorted(
                map(self._coverage_part, self._round.replay_coverage.values()),
                key=lambda p: (p.submission, p.job),
            ),
            findings=[self._finding_part(finding) for finding in self._round.findings],
            jobs=[self._job_part(job) for job in sorted(self._round.planned_jobs, key=_stage_order)],
        )

    def query_parts(self) -> list[doc.QueryPart]:
        """Returns the query numbers of each pair of a submitted attack and a defence."""
        return list(query_parts(self._record, self._round.roster, self._successes))

    def _collect_examples(self) -> dict[str, dict[str, AdversarialExamples]]:
        """Returns each attack's adversarial examples, by attack and defence; under "" those for all defences."""
        examples: dict[str, dict[str, AdversarialExamples]] = {}
        for attack in self._round.roster.by_side(Side.ATTACK):
            if (made := self._record.adversarial_examples(attack.id)) is not None:
                examples.setdefault(attack.id, {})[""] = made
        for cell in self._record.queried_cells():
            made = self._record.cell_examples(cell)
            if made is not None and cell.attack is not None:
                examples.setdefault(cell.attack, {})[cell.defence] = made
        return examples

    def examples_of(self, cell: Cell) -> AdversarialExamples | None:
        """Returns the adversarial examples that a cell's defence was shown; None for a clean cell, or without any."""
        made = self._examples.get(cell.attack or "", {})
        return made.get(cell.defence, made.get(""))

    def _count_cells(self) -> None:
        """Counts the outcomes of each cell, and stores which of its pictures count as classified correctly."""
        made = ((attack, of, each) for attack, several in self._examples.items() for of, each in several.items())
        forfeits = {(attack, of): count_forfeits(examples.forfeits) for attack, of, examples in made}
        for _, row in groupby(self._record.cells(), key=lambda item: item[0].defence):
            self._count_row(dict(row), forfeits)

    def _count_row(self, row: Mapping[Cell, Answers], forfeits: Mapping[tuple[str, str], ForfeitCounts]) -> None:
        """Counts the cells of one defence. `forfeits` are by attack and defence, "" for all defences."""
        answers = np.stack(list(row.values()))
        outcomes = decide_outcomes(self._samples.labels, answers)
        made = [
            forfeits.get((cell.attack or "", cell.defence)) or forfeits.get((cell.attack or "", ""), ForfeitCounts())
            for cell in row
        ]
        self.tallies.update(zip(row, tally_cells(outcomes, answers, made), strict=True))
        self._correct.add(row, credited_pictures(outcomes))
        attacked = outcomes != PictureOutcome.NOT_ATTACKED
        self._attacked |= {cell: attacked[place] for place, cell in enumerate(row) if not attacked[place].all()}
        for cell, found in zip(row, outcomes, strict=True):
            examples = self.examples_of(cell) if cell in self._queried else None
            if examples is not None:
                wrong = np.isin(found, (PictureOutcome.MISCLASSIFIED, PictureOutcome.ABSTAINED))  # A7
                self._successes[cell] = wrong & (examples.forfeits == Forfeit.NONE)

    def _notes(self, observed: Observations) -> list[str]:
        notes = []
        if (isolation := self._opened.contest["isolation"]) in ISOLATION_NOTES:
            notes.append(ISOLATION_NOTES[isolation])
        if self._opened.backend == "process":
            notes.append(UNISOLATED)
        notes += dict.fromkeys(map(_network_note, self._round.probe_overrides))
        notes += self._met_again()
        if self._opened.contest["limits"]["classify_batch"] > 1:
            notes.append("Defences got several pictures in one question, a departure from rule A9.")
        if incomplete := sorted({cell.defence for cell, tally in self.tallies.items() if not tally.complete}):
            notes.append(NOT_PLAYED.format(", ".join(incomplete)))
        notes += self._uncleared_notes()
        notes += self._access_notes()
        notes += self._resizing_notes()
        notes += self._format.notes(observed)
        if not self._round.closed:
            notes.append("The round is not finished; boards are of what is decided so far.")
        return notes

    def _access_notes(self) -> list[str]:
        """Returns a note on what attacks could ask defences, which affects every number under attack (X6)."""
        access = self._opened.contest.get("access", {"kind": "none"})
        if access["kind"] == AccessKind.NONE:
            return []
        shown = {AccessKind.DECISION: "labels", AccessKind.SCORES: "labels and scores"}.get(
            AccessKind(access["kind"]), "labels, scores and gradients"
        )
        if access["decimals"] is not None:
            shown += f", rounded to {access['decimals']} decimals"
        if access["top_score_only"]:
            shown += ", of which only the largest is shown"
        prices = Access(**access | {"kind": AccessKind(access["kind"])}).prices_in_words
        counted = f"; {prices}" if prices else ""
        return [f"Attacks could query each defence: {shown}, {access['queries']:,} queries a picture{counted} (X6)."]

    def _resizing_notes(self) -> list[str]:
        """Returns a note if the task's pictures were resized."""
        contest, name = self._opened.contest, self._opened.task.name
        tasks = [task for task in [contest.get("task"), *contest.get("tasks", [])] if task and task.get("name") == name]
        sides = [side for task in tasks if (side := task.get("dataset", {}).get("side")) is not None]
        return [f"The task's pictures were resized to {side} x {side} pixels." for side in sides]

    def _met_again(self) -> list[str]:
        """Returns a note if replays ran on nodes where their submissions had played, and sandboxes share the kernel."""
        if self._opened.contest.get("runtime", Runtime.RUNC) != Runtime.RUNC:
            return []
        steps = [step for job in self._round.planned_jobs for step in self._round.steps.get(job.id, {}).values()]
        teams = {submission.id for submission in self._round.roster if not submission.baseline}
        found = [submission for submission in replayed_where_played(steps) if submission in teams]
        return [MET_AGAIN.format(", ".join(found))] if found else []

    def alarms(self) -> list[str]:
        """Returns an alarm for each baseline that failed throughout: scores that depend on it are meaningless."""
        return [
            f"The baseline {submission.id} failed on every picture that counts, so everything that is measured with it "
            "means nothing. Look at its faults, correct it, and play again."
            for submission in self._round.roster
            if submission.baseline and self._failed_throughout(submission)
        ]

    def _failed_throughout(self, submission: Submission) -> bool:
        """Returns whether a defence failed on its clean pictures, or an attack, with faults, delivered no picture."""
        if submission.side is Side.DEFENCE:
            clean = self.tallies.get(Cell(submission.id))
            return clean is not None and (clean.faults == clean.total or not clean.complete)
        made = self._examples.get(submission.id, {}).values()
        lost = bool(made) and all((examples.forfeits == Forfeit.MISSING).all() for examples in made)
        return lost and bool(self._fault_parts(submission.id))

    def _uncleared_notes(self) -> list[str]:
        """Returns a note for each submission that the replays neither accuse nor clear."""
        planned = self._opened.contest["replay"]["power"]
        accused = {finding.job for finding in self._round.findings}
        notes = []
        for coverage in sorted(self._round.replay_coverage.values(), key=lambda event: event.submission):
            doubts = []
            if coverage.job in accused:
                continue
            if coverage.mismatches:
                doubts.append(
                    f"{coverage.mismatches} of {coverage.compared} comparisons disagree and could not be confirmed"
                )
            if coverage.achieved < planned - detection_power.TOLERANCE:
                doubts.append(f"only {coverage.decided} of {coverage.drawn} drawn questions could be compared")
            if doubts:
                notes.append(f"The replays do not clear {coverage.submission}: {'; '.join(doubts)}.")
        return notes

    def _submission_part(self, submission: Submission, observed: Observations) -> doc.SubmissionPart:
        finished = self._round.finished_jobs_of(submission.id)
        sandboxes = self._round.sandboxes_of(submission.id)
        made = self._examples.get(submission.id, {}).values()
        forfeits = np.concatenate([examples.forfeits for examples in made] or [np.empty(0, np.uint8)])
        distances = np.concatenate([examples.distances for examples in made] or [np.empty(0)])
        distances = distances[~np.isnan(distances)]
        findings = [finding.id for finding in self._round.findings if finding.submission == submission.id]
        faults = self._fault_parts(submission.id)
        violations = sum(int(examples.violations.sum()) for examples in made)
        return doc.SubmissionPart(
            id=submission.id,
            name=submission.name,
            team=submission.team,
            side=submission.side,
            baseline=submission.baseline,
            submitted=submission.submitted,
            image=submission.digest,
            status=self._status(submission, observed, faults),
            findings=findings,
            forfeits=int((forfeits != Forfeit.NONE).sum()),
            forfeit_reasons=count_by_reason(forfeits),
            violations=violations,
            largest=round(float(distances.max()), 3) if distances.size else None,
            faults=faults,
            sandboxes=len(sandboxes),
            seconds=round(sum(job.seconds for job in finished) + self._query_seconds(submission.id), 3),
            cpu_seconds=_sum_known(s.cpu_seconds for s in sandboxes),
            peak_bytes=max((s.peak_bytes for s in sandboxes if s.peak_bytes is not None), default=None),
            bytes_in=_sum_known(s.stdin_bytes for s in sandboxes),
            bytes_out=_sum_known(part for s in sandboxes for part in (s.stdout_bytes, s.stderr_bytes)),
            endings=dict(sorted(Counter(s.reason or s.ending for s in sandboxes).items())),
        )

    def _answer_seconds(self, defence: str) -> float:
        """Returns how long a defence worked in its CLASSIFY jobs, in seconds."""
        planned = self._round.planned_jobs_of.get(defence, ())
        jobs = {job.id for job in planned if job.submission == defence and job.stage is Stage.CLASSIFY}
        return sum(step.seconds for job in sorted(jobs) for step in self._round.steps.get(job, {}).values())

    def _query_seconds(self, attack: str) -> float:
        """Returns how long an attack worked in its QUERY jobs, in seconds."""
        jobs = [job.id for job in self._round.planned_jobs_of.get(attack, ()) if job.submission != attack]
        return sum(step.attack_seconds for job in jobs for step in self._round.steps.get(job, {}).values())

    def _status(self, submission: Submission, observed: Observations, faults: list[doc.FaultPart]) -> Any:
        standing = observed.eligibility(submission.id)
        if standing.disqualified or self._format.disqualification(observed, submission):
            return "disqualified"
        waits = any(event.submission == submission.id for event in self._round.parked_jobs.values())
        planned = self._round.planned_jobs_of.get(submission.id, ())
        if waits or any(job.id not in self._round.finished_jobs for job in planned):
            return "pending"
        return "faulted" if faults else "played"

    def _fault_parts(self, submission: str) -> list[doc.FaultPart]:
        return [
            doc.FaultPart(code=code, reason=reason, times=times, pictures=pictures, message=fault_text(code))
            for (code, reason), (times, pictures) in self._round.fault_counts(submission).items()
        ]

    def _cell_part(self, cell: Cell, sure: intervals.CellIntervals) -> doc.CellPart:
        counts = self.tallies[cell]
        clean = self._clean_accuracy(cell)
        accuracy = counts.accuracy
        delta = accuracy_drop(clean, accuracy) if clean is not None and cell.attack else None
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
            accuracy=float(accuracy),
            accuracy_interval=sure.accuracy,
            delta=delta,
            delta_interval=sure.delta,
        )

    def _clean_accuracy(self, cell: Cell) -> Fraction | None:
        """Returns the defence's accuracy on the clean versions of a cell's pictures, None if not played yet."""
        clean, attacked = Cell(cell.defence), self._attacked.get(cell)
        if clean not in self._correct:
            return None
        if attacked is None:
            return self.tallies[clean].accuracy
        correct = self._correct[clean]
        return Fraction(int((correct & attacked).sum()), int(attacked.sum()))

    def _coverage_part(self, coverage: events.ReplayJudged) -> doc.ReplayCoveragePart:
        design = SamplingDesign(**self._opened.contest["replay"])
        promise = detection_power.detection_power(coverage.questions, coverage.decided, design)
        accused = doc.DetectionPart(sequence=promise.sequence, chance=promise.chance, start=promise.start)
        counts = coverage.model_dump(include=set(doc.ReplayCoveragePart.model_fields))
        copied = self._fresh_copy(self._round.roster[coverage.submission])
        return doc.ReplayCoveragePart.model_validate(counts | {"accused": accused, "fresh_copy": copied})

    def _fresh_copy(self, submission: Submission) -> str:
        """Returns "yes" if the replays of a submission ran from a copy of its image's files, else why they did not."""
        if self._round.copied(submission.id):
            return "yes"
        if submission.baseline:
            return "baseline"
        return {"runc": "mount", "docker": "unrecorded"}.get(self._opened.backend, "backend")

    def _finding_part(self, finding: Finding) -> doc.FindingPart:
        steps = self._round.steps.get(finding.job, {})
        sessions = [steps[step].session for step in finding.steps if step in steps]
        seeds = [session.seed for session in sessions if session]
        return doc.FindingPart.model_validate(asdict(finding) | {"rules": list(finding.rules), "seeds": seeds})

    def _job_part(self, job: events.JobRecord) -> doc.JobPart:
        finished = self._round.finished_jobs.get(job.id)
        return doc.JobPart(
            id=job.id,
            stage=job.stage,
            submission=job.submission,
            status="finished" if finished else "pending",
            seconds=round(finished.seconds, 3) if finished else None,
        )


_STAGE_ORDER = {stage: place for place, stage in enumerate(Stage)}


def _stage_order(job: events.JobRecord) -> tuple[int, str, str]:
    """Returns the sort key of a job: the plan's own order is not shown, since it is drawn from the secret."""
    return _STAGE_ORDER[job.stage], job.submission, job.id


def _waiting_eligibility(event: events.JobParked) -> Eligibility:
    """Returns the eligibility of a submission that waits: it is not ranked, and no mean includes it."""
    return Eligibility(f"waits for another run ({event.code})", counts_in_means=False)


def _network_note(probe_event: events.ClusterProbed) -> str:
    """Returns the note on a round that was played on a cluster without proof that players have no network."""
    probe = (
        f"its last probe, of {probe_event.probed_at}, said `{probe_event.outcome}`"
        if probe_event.probed_at
        else "it was never probed"
    )
    why = probe_event.override_reason.strip().rstrip(".")
    return f"Played on a cluster whose network was not proved to keep players from one another: {probe}. Reason: {why}."


def leaderboard_part(board: Leaderboard, sure: Mapping[str, intervals.RowIntervals]) -> doc.LeaderboardPart:
    """Returns a leaderboard in the form of the results file. `sure` are the intervals of its rows, by submission."""
    return doc.LeaderboardPart(
        name=board.name,
        title=board.title,
        measure=board.measure,
        unit=board.unit,
        more_is_better=board.more_is_better,
        columns=[doc.ColumnPart(**asdict(column)) for column in board.columns],
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
        values={name: _value_part(value, sure.values.get(name)) for name, value in row.values.items()},
        reason=row.reason,
        remark=row.remark,
        prize_rank=row.prize_rank,
        no_prize=row.no_prize,
    )


def _value_part(value: Value, interval: tuple[float, float] | None) -> doc.ValuePart:
    number = value.number
    return doc.ValuePart(
        value=None if number is None else float(number),
        exact=None if number is None else str(Fraction(number)),
        interval=interval,
    )


def _sum_known(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None
