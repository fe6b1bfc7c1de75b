"""Makes the plan of a round: jobs from cells.

A job's id is a digest of all its inputs, so the same work has the same id on every machine and is never done twice. The
submission is one of the inputs: two entries with the same image are two entries. An attack is played once for all
defences; an attack that queries is played once for each. `isolation` decides what a defence's sandbox sees.

Every cell has a key, a digest of its inputs and of nothing else. Jobs that were finished before, in this round or an
earlier one of the contest, are planned unchanged; only cells without an answer become new jobs (X4). A finished job of
this round stays in its plan, even if a submission was withdrawn or disqualified since: no later act undoes what was
played.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import groupby
from typing import TypeVar

from orchestrator.domain.events import JobRecord
from orchestrator.domain.ids import JobId, digest, job_id
from orchestrator.domain.plan import Cell, Job, Plan, Stage
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.execution.round_context import RoundContext
from orchestrator.protocol.messages import PROTOCOL_VERSION

K = TypeVar("K")
FinishedJobs = dict[tuple[Stage, str], list[JobRecord]]
"""Finished jobs by stage and submission."""
_Sources = dict[tuple[str | None, str], Job]
"""The jobs that make pictures, by defence and attack; the defence is None for pictures for all defences."""


def make_plan(
    context: RoundContext,
    cells: Sequence[Cell],
    reusable: Iterable[JobRecord] = (),
    finished_planned: Sequence[JobRecord] = (),
) -> Plan:
    """Returns the plan that plays `cells`: attacks first, then queries, defences, and replays of everything classified.

    Args:
        context: what stays the same through the round.
        cells: the cells of all submissions that take part now.
        reusable: finished jobs, which are planned instead of new ones for cells with the same keys.
        finished_planned: the finished jobs of this round's last plan, in its order: they stay in the plan, also those
            of submissions that take part no more.
    """
    known: FinishedJobs = {}
    for record in reusable:
        known.setdefault((record.stage, record.submission), []).append(record)
    attacks = {cell.attack for cell in cells if cell.attack is not None and not context.queries(cell.attack)}
    perturb = {a.id: _attack_job(context, a.id) for a in context.roster.by_side(Side.ATTACK) if a.id in attacks}
    attack_jobs = _in_planned_order({**_finished_attack_jobs(finished_planned), **perturb}, finished_planned)
    queried = [cell for cell in cells if cell.attack is not None and context.queries(cell.attack)]
    query = {cell: _query_job(context, cell) for cell in sorted(queried, key=_cell_key)}
    query_jobs = _in_planned_order({**_finished_query_jobs(finished_planned), **query}, finished_planned)
    sources: _Sources = {**{(None, attack): job for attack, job in perturb.items()}, **_by_pair(query)}
    classify = [
        job
        for defence, defence_cells in _cells_by_defence(cells)
        for job in _defence_jobs(context, defence, defence_cells, sources, known)
    ]
    classify = sorted(
        [*classify, *_finished_defence_jobs(finished_planned, classify)],
        key=lambda job: (job.submission, _sort_key(job)),
    )
    replay = list(_replay_jobs(context, classify, attack_jobs, known))
    # A defence that could carry state from one cell to the next must not know which cell it plays.
    classify.sort(key=lambda job: (job.submission, context.secret_seed("place", *job.seed_parts)))
    return Plan((*attack_jobs.values(), *query_jobs.values(), *classify, *replay))


def _finished_attack_jobs(records: Iterable[JobRecord]) -> dict[str, Job]:
    """Returns the finished jobs of attacks, by attack."""
    return {record.submission: _job_from_record(record) for record in records if record.stage is Stage.PERTURB}


def _finished_query_jobs(records: Iterable[JobRecord]) -> dict[Cell, Job]:
    """Returns the finished query jobs, by cell."""
    jobs = (_job_from_record(record) for record in records if record.stage is Stage.QUERY)
    return {cell: job for job in jobs for cell in job.cells}


def _in_planned_order(jobs: Mapping[K, Job], finished: Sequence[JobRecord]) -> dict[K, Job]:
    """Returns jobs that make pictures in the order of the last plan; new ones follow."""
    before = {record.id: place for place, record in enumerate(finished)}
    return dict(sorted(jobs.items(), key=lambda item: before.get(item[1].id, len(before))))


def _finished_defence_jobs(records: Iterable[JobRecord], classify: Iterable[Job]) -> Iterator[Job]:
    """Yields the finished jobs of defences that share no cell with the jobs `classify`."""
    planned = {cell for job in classify for cell in job.cells}
    for record in records:
        job = _job_from_record(record)
        if record.stage is Stage.CLASSIFY and planned.isdisjoint(job.cells):
            yield job


def _job_from_record(record: JobRecord) -> Job:
    cells = tuple(Cell(cell.defence, cell.attack) for cell in record.cells)
    return Job(JobId(record.id), record.stage, record.submission, cells, frozenset(), record.keys)


def _attack_job(context: RoundContext, attack: str) -> Job:
    submission = context.roster[attack]
    common = {
        "stage": Stage.PERTURB,
        "submission": attack,
        "image": submission.digest,
        "rules": [context.on_missing, context.on_violation],
        "task": _task_key(context),
    }
    if attack in context.picture_sets:
        return Job(job_id(**common, pixels=submission.pixels), Stage.PERTURB, attack)
    key = job_id(
        **common,
        protocol=PROTOCOL_VERSION,
        seed=context.attack_seed(submission),
        labels=context.labels,
        policy=repr(context.policy),
    )
    return Job(key, Stage.PERTURB, attack)


def _query_job(context: RoundContext, cell: Cell) -> Job:
    attack, defence = context.roster[cell.attack or ""], context.roster[cell.defence]
    key = job_id(
        stage=Stage.QUERY,
        protocol=PROTOCOL_VERSION,
        attack=[attack.id, attack.digest],
        defence=[defence.id, defence.digest],
        access=asdict(context.access) if attack.id not in context.organizer_attacks else "organizers",
        chance=context.query_key(attack),
        labels=context.labels,
        rules=[context.on_missing, context.on_violation],
        task=_task_key(context),
        policy=repr(context.policy),
        **({"decision": "scores"} if context.decides_by_scores else {}),
    )
    return Job(key, Stage.QUERY, defence.id, (cell,))


def _by_pair(jobs: Mapping[Cell, Job]) -> _Sources:
    return {(cell.defence, cell.attack or ""): job for cell, job in jobs.items()}


def _cell_key(cell: Cell) -> tuple[str, str]:
    return cell.defence, cell.attack or ""


def _cells_by_defence(cells: Sequence[Cell]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    for defence, group in groupby(sorted(cells, key=lambda cell: cell.defence), key=lambda cell: cell.defence):
        yield defence, tuple(sorted(group, key=lambda cell: cell.attack or ""))


def _defence_jobs(
    context: RoundContext, defence: str, cells: tuple[Cell, ...], sources: _Sources, known: FinishedJobs
) -> list[Job]:
    """Returns the jobs that answer these cells of one defence, in no order: finished ones and new ones."""
    play = job_id(
        stage=Stage.CLASSIFY,
        protocol=PROTOCOL_VERSION,
        submission=defence,
        image=context.roster[defence].digest,
        isolation=context.isolation,
        task=_task_key(context),
        policy=repr(context.policy),
        **({"scores": True} if context.keep_scores else {}),
        **({"decision": "scores"} if context.decides_by_scores else {}),
        **({"chance": digest(context.secret)} if context.allows_chance else {}),
    )
    made_by = {cell: _source(cell, sources) for cell in cells}
    keys = {cell: job_id(play=play, source=made_by[cell]) for cell in cells}
    jobs, remaining = _reused(keys, known.get((Stage.CLASSIFY, defence), []))
    parts = [remaining] if context.isolation is Isolation.ROUND else [(cell,) for cell in remaining]
    for part in filter(None, parts):
        needs = _needs(tuple(source for cell in part if (source := made_by[cell]) is not None))
        part_keys = tuple(keys[cell] for cell in part)
        jobs.append(Job(job_id(stage=Stage.CLASSIFY, keys=part_keys), Stage.CLASSIFY, defence, part, needs, part_keys))
    return jobs


@lru_cache(4096)
def _needs(sources: tuple[JobId, ...]) -> frozenset[JobId]:
    """Returns the needs of a job. It is cached, so that all defences share one set for each attack."""
    return frozenset(sources)


def _source(cell: Cell, sources: _Sources) -> JobId | None:
    """Returns the job that makes a cell's pictures, or None for clean pictures."""
    if cell.attack is None:
        return None
    return (sources.get((cell.defence, cell.attack)) or sources[None, cell.attack]).id


def _reused(keys: Mapping[Cell, str], known: Sequence[JobRecord]) -> tuple[list[Job], tuple[Cell, ...]]:
    """Returns the finished jobs that have one of these keys or more, and the cells whose key none of them has."""
    open_cells = {key: cell for cell, key in keys.items()}
    jobs = []
    for record in known:
        if any(key in open_cells for key in record.keys):
            jobs.append(_job_from_record(record))
            for key in record.keys:
                open_cells.pop(key, None)
    return jobs, tuple(cell for cell in keys if keys[cell] in open_cells)


def _replay_jobs(
    context: RoundContext, classify: Sequence[Job], perturb: dict[str, Job], known: FinishedJobs
) -> Iterator[Job]:
    """Yields finished replays, and new ones for cells that were not replayed yet.

    A new replay needs all `classify` jobs, because its questions are drawn after the last answer. A submission that
    takes part no more keeps its judged replays and gets no new ones, because nothing starts its players.
    """
    everything = frozenset(job.id for job in classify)
    present = {submission.id for submission in context.roster}
    design = job_id(stage=Stage.REPLAY, design=asdict(context.replay))
    for defence, group in groupby(classify, key=lambda job: job.submission):
        if not context.replay.power:
            break
        plays = [(cell, key) for job in group for cell, key in zip(job.cells, job.keys, strict=True)]
        keys = {cell: job_id(design=design, play=key) for cell, key in plays}
        jobs, remaining = _reused(keys, known.get((Stage.REPLAY, defence), []))
        if remaining and defence in present:
            new_keys = tuple(keys[cell] for cell in remaining)
            jobs.append(
                Job(job_id(stage=Stage.REPLAY, keys=new_keys), Stage.REPLAY, defence, remaining, everything, new_keys)
            )
        yield from sorted(jobs, key=_sort_key)
    if context.replay.attacks:
        for job in (job for job in perturb.values() if job.submission not in context.picture_sets):
            replay = job_id(design=design, play=job.id)
            if job.submission in present or replay in {r.id for r in known.get((Stage.REPLAY, job.submission), [])}:
                yield Job(replay, Stage.REPLAY, job.submission, (), everything)


def _sort_key(job: Job) -> tuple[list[str], str]:
    """Returns a job's sort key among the jobs of its defence, the same for a finished and a new job."""
    return [cell.attack or "" for cell in job.cells], job.id


def _task_key(context: RoundContext) -> list[str]:
    budget = context.task.budget
    return [context.task.digest, *((budget.norm, str(budget.epsilon)) if budget else ())]
