"""From cells to jobs.

A job's id is a digest of all that goes into it, so the same work has the same id on every machine and is never done
twice. Whose work it is goes in too: two entries with the same image are two entries. Attacks are played once and shared
by all defences. What a defence's sandbox sees follows `isolation`.

Every cell has a key, a digest of what goes into it and of nothing else. What was finished before, in this round or an
earlier one of the contest, is planned as it was; only cells without an answer become new jobs (X4). What this round
finished stays in its plan, even where a submission was withdrawn or disqualified since: no later act undoes what was
played.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from orchestrator.domain.events import JobRecord
from orchestrator.domain.ids import JobId, job_id
from orchestrator.domain.plan import Cell, Job, Plan, Stage
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.execution.round_context import RoundContext
from orchestrator.protocol.messages import PROTOCOL_VERSION

FinishedJobs = dict[tuple[Stage, str], list[JobRecord]]
"""Finished jobs by stage and submission."""


def make_plan(
    setting: RoundContext, cells: Sequence[Cell], finished: Iterable[JobRecord] = (), played: Sequence[JobRecord] = ()
) -> Plan:
    """Returns the plan that plays `cells`: attacks first, then defences, then replays of everything classified.

    Args:
        setting: what stays the same through the round.
        cells: what has to be played by those who take part now.
        finished: jobs whose answers are at hand: where their keys are wanted they are planned instead of new ones.
        played: the finished jobs of this round's last plan, in its order: they stay, those of submissions that take
            part no more included.
    """
    known: FinishedJobs = {}
    for record in finished:
        known.setdefault((record.stage, record.submission), []).append(record)
    attacks = {cell.attack for cell in cells}
    perturb = {a.id: _attack_job(setting, a.id) for a in setting.roster.side(Side.ATTACK) if a.id in attacks}
    made = _in_planned_order({**_finished_attack_jobs(played), **perturb}, played)
    classify = [
        job for defence, own in _cells_by_defence(cells) for job in _defence_jobs(setting, defence, own, perturb, known)
    ]
    classify = sorted(
        [*classify, *_finished_defence_jobs(played, classify)], key=lambda job: (job.submission, _sort_key(job))
    )
    replay = list(_replay_jobs(setting, classify, made, known))
    # Who could carry something from one cell to the next is not to know which one it is in.
    classify.sort(key=lambda job: (job.submission, setting.secret_seed("place", *job.place)))
    return Plan((*made.values(), *classify, *replay))


def _finished_attack_jobs(played: Iterable[JobRecord]) -> dict[str, Job]:
    """Returns the finished jobs of attacks, by attack."""
    return {record.submission: _job_from_record(record) for record in played if record.stage is Stage.PERTURB}


def _in_planned_order(perturb: Mapping[str, Job], played: Sequence[JobRecord]) -> dict[str, Job]:
    """Returns jobs of attacks in the order in which they were planned before; new ones follow."""
    before = {record.id: place for place, record in enumerate(played)}
    return dict(sorted(perturb.items(), key=lambda item: before.get(item[1].id, len(before))))


def _finished_defence_jobs(played: Iterable[JobRecord], classify: Iterable[Job]) -> Iterator[Job]:
    """Yields the finished jobs of defences none of whose cells is in another job of the plan."""
    planned = {cell for job in classify for cell in job.cells}
    for record in played:
        job = _job_from_record(record)
        if record.stage is Stage.CLASSIFY and planned.isdisjoint(job.cells):
            yield job


def _job_from_record(record: JobRecord) -> Job:
    cells = tuple(Cell(cell.defence, cell.attack) for cell in record.cells)
    return Job(JobId(record.id), record.stage, record.submission, cells, frozenset(), record.keys)


def _attack_job(setting: RoundContext, attack: str) -> Job:
    submission = setting.roster[attack]
    key = job_id(
        stage=Stage.PERTURB,
        protocol=PROTOCOL_VERSION,
        submission=attack,
        image=submission.digest,
        seed=setting.attack_seed(submission),
        labels=setting.labels,
        rules=[setting.on_missing, setting.on_violation],
        task=_task_key(setting),
        policy=repr(setting.policy),
    )
    return Job(key, Stage.PERTURB, attack)


def _cells_by_defence(cells: Sequence[Cell]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    for defence, group in groupby(sorted(cells, key=lambda cell: cell.defence), key=lambda cell: cell.defence):
        yield defence, tuple(sorted(group, key=lambda cell: cell.attack or ""))


def _defence_jobs(
    setting: RoundContext, defence: str, cells: tuple[Cell, ...], perturb: dict[str, Job], known: FinishedJobs
) -> list[Job]:
    """Returns the jobs that answer for these cells of one defence: those at hand and new ones."""
    play = job_id(
        stage=Stage.CLASSIFY,
        protocol=PROTOCOL_VERSION,
        submission=defence,
        image=setting.roster[defence].digest,
        isolation=setting.isolation,
        task=_task_key(setting),
        policy=repr(setting.policy),
    )
    keys = {cell: job_id(play=play, source=_source(cell, perturb)) for cell in cells}
    jobs, left = _reused(keys, known.get((Stage.CLASSIFY, defence), []))
    parts = [left] if setting.isolation is Isolation.ROUND else [(cell,) for cell in left]
    for part in filter(None, parts):
        sources = frozenset(perturb[cell.attack].id for cell in part if cell.attack is not None)
        own = tuple(keys[cell] for cell in part)
        jobs.append(Job(job_id(stage=Stage.CLASSIFY, keys=own), Stage.CLASSIFY, defence, part, sources, own))
    return sorted(jobs, key=_sort_key)


def _source(cell: Cell, perturb: dict[str, Job]) -> str | None:
    return None if cell.attack is None else perturb[cell.attack].id


def _reused(keys: Mapping[Cell, str], known: Sequence[JobRecord]) -> tuple[list[Job], tuple[Cell, ...]]:
    """Returns the finished jobs that hold some of these keys, and the cells that none holds."""
    wanted = {key: cell for cell, key in keys.items()}
    kept = []
    for record in known:
        if any(key in wanted for key in record.keys):
            kept.append(_job_from_record(record))
            for key in record.keys:
                wanted.pop(key, None)
    return kept, tuple(cell for cell in keys if keys[cell] in wanted)


def _replay_jobs(
    setting: RoundContext, classify: Sequence[Job], perturb: dict[str, Job], known: FinishedJobs
) -> Iterator[Job]:
    """Yields replays of what was not replayed yet. They wait for everything: what they ask is drawn after the last.

    Of a submission that takes part no more the replays that were judged stay, and no other is made: nothing starts it.
    """
    everything = frozenset(job.id for job in classify)
    present = {submission.id for submission in setting.roster}
    design = job_id(stage=Stage.REPLAY, design=asdict(setting.replay))
    for defence, group in groupby(classify, key=lambda job: job.submission):
        if not setting.replay.power:
            break
        plays = [(cell, key) for job in group for cell, key in zip(job.cells, job.keys, strict=True)]
        keys = {cell: job_id(design=design, play=key) for cell, key in plays}
        jobs, left = _reused(keys, known.get((Stage.REPLAY, defence), []))
        if left and defence in present:
            own = tuple(keys[cell] for cell in left)
            jobs.append(Job(job_id(stage=Stage.REPLAY, keys=own), Stage.REPLAY, defence, left, everything, own))
        yield from sorted(jobs, key=_sort_key)
    if setting.replay.attacks:
        for job in perturb.values():
            again = job_id(design=design, play=job.id)
            if job.submission in present or again in {r.id for r in known.get((Stage.REPLAY, job.submission), [])}:
                yield Job(again, Stage.REPLAY, job.submission, (), everything)


def _sort_key(job: Job) -> tuple[list[str], str]:
    """Returns where a job stands among its defence's: the same whether it is finished or new."""
    return [cell.attack or "" for cell in job.cells], job.id


def _task_key(setting: RoundContext) -> list[str]:
    budget = setting.task.budget
    return [setting.task.digest, budget.norm, str(budget.epsilon)]
