"""Repeats the judgements of a round's replays, from its secret and its answers (X3)."""

from collections.abc import Mapping

from orchestrator.bundles import comparison
from orchestrator.bundles.layout import LEDGER
from orchestrator.bundles.round_checks import VerifiedRound
from orchestrator.domain import events
from orchestrator.domain.findings import Finding, FindingKind
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.submissions import Side
from orchestrator.errors import NotGenuine
from orchestrator.intake.contest_file import ContestFile
from orchestrator.integrity import findings, query_findings
from orchestrator.ledger.read_model import RoundView


class ReplayCheck:
    """Reads a round's ledger and repeats every judgement at its entry.

    Copies from an earlier round are compared with that round. A finding against an attack compares pictures, so it is
    repeated only if the bundle has them.
    """

    def __init__(
        self,
        played: VerifiedRound,
        file: ContestFile,
        before: Mapping[tuple[str, str], VerifiedRound],
        *,
        pictures: bool,
    ) -> None:
        self._round, self._previous_rounds, self._has_pictures = played, before, pictures
        self._parameters = findings.CheckParameters(
            file.replay.design(), file.isolation, file.limits.classify_batch, played.secret
        )
        self._ledger = f"{played.part.folder}/{LEDGER}"
        self._copies_left, self._copyable_events = 0, set[str]()
        self._expected_events: list[events.Event] = []
        self._checked_jobs: set[str] = set()

    def check(self, record: RoundView) -> int:
        """Returns how many replays were judged again. `record` has to be empty; the round's events are applied to it.

        Raises:
            NotGenuine: at the first entry that does not follow from those before it.
        """
        before = ""
        for entry in self._round.entries:
            if entry.event is not None:
                self._check_event(record, entry.event, before, f"{self._ledger} entry {entry.seq}")
                record.apply(entry.event)
            before = entry.hash
        if self._expected_events or self._copies_left:
            raise NotGenuine(self._ledger, "ends before everything that follows from it was noted")
        for job in record.round.planned_jobs:
            if job.stage is Stage.REPLAY:
                self._check_on_record(record, job)
            elif job.stage is Stage.QUERY:
                self._check_queries(record, job)
        return len(self._checked_jobs)

    def _check_event(self, record: RoundView, event: events.Event, before: str, place: str) -> None:
        if self._copies_left:
            self._copies_left -= 1
            if event.model_dump_json() not in self._copyable_events:
                raise NotGenuine(place, "is no copy of an entry of the round that it is said to come from")
        elif self._expected_events:
            comparison.check_equal(
                place, event.model_dump(mode="json"), self._expected_events.pop(0).model_dump(mode="json")
            )
        elif isinstance(event, events.JobsReused):
            self._begin_copies(event, place)
        elif isinstance(event, events.PlayClosed):
            if (event.head, event.answers_digest) != (before, findings.answers_digest(record)):
                raise NotGenuine(place, "is not the digest of the answers before it, or not the chain's hash")
        elif isinstance(event, events.ReplayJudged):
            self._check_verdict(record, event, place)
        elif isinstance(event, events.FindingMade):
            self._check_finding(record, event, place)

    def _begin_copies(self, event: events.JobsReused, place: str) -> None:
        origin = self._previous_rounds.get((event.round, self._round.part.task))
        places = {entry.hash: number for number, entry in enumerate(origin.entries, start=1)} if origin else {}
        if origin is None or event.head not in places:
            raise NotGenuine(place, "reuses jobs of a round that is not in this bundle")
        past = origin.events[: places[event.head]]
        copied = (events.StepFinished, events.JobFinished, events.ReplayJudged, events.FindingMade)
        self._copies_left = event.count
        jobs = set(event.jobs)
        self._copyable_events = {
            each.model_dump_json() for each in past if isinstance(each, copied) and each.job in jobs
        }

    def _check_verdict(self, record: RoundView, event: events.ReplayJudged, place: str) -> None:
        """Judges a defence's replay again: compares this event, and expects the finding that follows, if any."""
        job = _planned_job(record, event.job, place)
        play, verdict = findings.verdict_on_record(record, job, self._parameters)
        comparison.check_equal(
            place, event.model_dump(mode="json"), findings.verdict_event(job, verdict).model_dump(mode="json")
        )
        finding = findings.make_finding(job, record.round.roster[job.submission].digest, play, verdict)
        if finding is not None and finding.id not in {known.id for known in record.round.findings}:
            self._expected_events.append(findings.finding_event(finding))
        self._checked_jobs.add(job.id)

    def _check_finding(self, record: RoundView, event: events.FindingMade, place: str) -> None:
        """Repeats a finding against an attack or from queries. One against a defence may only follow its replay."""
        job = _planned_job(record, event.job, place)
        submission = record.round.roster[job.submission]
        if event.finding is FindingKind.QUERIES:
            shown = query_findings.query_finding(record, record.round.jobs[event.job], self._parameters.design.noise)
            if shown is None:
                raise NotGenuine(place, "is a finding that does not follow from queries")
            _check_same(event, shown, place)
            return
        if submission.side is not Side.ATTACK:
            raise NotGenuine(place, "is a finding that does not follow from a replay")
        if self._has_pictures:
            found = findings.make_attack_finding(record, job, submission.digest)
            if found is None:
                raise NotGenuine(place, "is a finding that does not follow from a replay")
            _check_same(event, found, place)

    def _check_queries(self, record: RoundView, job: events.JobRecord) -> None:
        """Raises NotGenuine if the repeated queries of a job prove a finding that is not in the ledger."""
        found = query_findings.query_finding(record, job, self._parameters.design.noise)
        if found is not None and found.id not in {known.id for known in record.round.findings}:
            raise NotGenuine(self._ledger, f"has no finding {found.id}, which follows from the queries of {job.id}")

    def _check_on_record(self, record: RoundView, job: events.JobRecord) -> None:
        """Raises NotGenuine if a replay has no judgement in the ledger, or proves a finding that is not there."""
        submission = record.round.roster[job.submission]
        if submission.side is Side.DEFENCE:
            if job.id not in record.round.replay_coverage:
                raise NotGenuine(self._ledger, f"does not tell what the replay {job.id} covered")
        elif self._has_pictures and not job.origin_round:
            found = findings.make_attack_finding(record, _planned_job(record, job.id, self._ledger), submission.digest)
            if found is not None and found.id not in {known.id for known in record.round.findings}:
                raise NotGenuine(self._ledger, f"has no finding {found.id}, which follows from the replay {job.id}")


def _planned_job(record: RoundView, name: str, place: str) -> Job:
    job = record.round.jobs.get(name)
    if job is None:
        raise NotGenuine(place, "names a job that was not planned")
    cells = tuple(Cell(cell.defence, cell.attack) for cell in job.cells)
    return Job(JobId(job.id), job.stage, job.submission, cells)


def _check_same(event: events.FindingMade, found: Finding, place: str) -> None:
    """Raises NotGenuine if a finding in the ledger differs from the one that follows from the record."""
    expected = findings.finding_event(found).model_dump(mode="json")
    comparison.check_equal(place, event.model_dump(mode="json"), expected)
