"""From cells to jobs.

A job's id is a digest of all that goes into it, so the same work has the same id on every machine and is never done
twice. Whose work it is goes in too: two entries with the same image are two entries. Attacks are played once and shared
by all defences. What a defence's sandbox sees follows `isolation`.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from orchestrator.arena.setting import Setting
from orchestrator.domain.ids import JobId, job_id
from orchestrator.domain.plan import Cell, Job, Plan, Stage
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.wire.messages import PROTOCOL_VERSION


def lay_out(setting: Setting, cells: Sequence[Cell]) -> Plan:
    """Returns the plan that plays `cells`: attacks first, then defences, then replays of everything classified."""
    perturb = {attack.id: _perturb(setting, attack.id) for attack in setting.roster.side(Side.ATTACK)}
    classify = [_classify(setting, defence, part, perturb) for defence, part in _shared(setting, cells)]
    replay = list(_replays(setting, classify))
    return Plan((*perturb.values(), *classify, *replay))


def _perturb(setting: Setting, attack: str) -> Job:
    submission = setting.roster[attack]
    key = job_id(
        stage=Stage.PERTURB,
        protocol=PROTOCOL_VERSION,
        submission=attack,
        image=submission.digest,
        seed=setting.attack_seed(submission),
        labels=setting.labels,
        rules=[setting.on_missing, setting.on_violation],
        task=_task(setting),
        policy=repr(setting.policy),
    )
    return Job(key, Stage.PERTURB, attack)


def _shared(setting: Setting, cells: Sequence[Cell]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    """Yields what one job of a defence plays: one cell, or all of them where isolation is `round`."""
    for defence, group in groupby(sorted(cells, key=lambda cell: cell.defence), key=lambda cell: cell.defence):
        own = tuple(sorted(group, key=lambda cell: cell.attack or ""))
        if setting.isolation is Isolation.ROUND:
            yield defence, own
        else:
            yield from ((defence, (cell,)) for cell in own)


def _classify(setting: Setting, defence: str, cells: tuple[Cell, ...], perturb: dict[str, Job]) -> Job:
    sources = [perturb[cell.attack].id for cell in cells if cell.attack is not None]
    key = job_id(
        stage=Stage.CLASSIFY,
        protocol=PROTOCOL_VERSION,
        submission=defence,
        image=setting.roster[defence].digest,
        isolation=setting.isolation,
        cells=[cell.attack for cell in cells],
        sources=sources,
        task=_task(setting),
        policy=repr(setting.policy),
    )
    return Job(key, Stage.CLASSIFY, defence, cells, frozenset(sources))


def _replays(setting: Setting, classify: Sequence[Job]) -> Iterator[Job]:
    """Yields a replay per defence. Each waits for everything: replays are chosen after the last answer is known."""
    if not setting.replay_share:
        return
    everything = frozenset(job.id for job in classify)
    for defence, group in groupby(classify, key=lambda job: job.submission):
        jobs = list(group)
        key = job_id(
            stage=Stage.REPLAY,
            jobs=[job.id for job in jobs],
            after=sorted(everything),
            share=setting.replay_share,
            repeats=setting.replay_repeats,
        )
        yield Job(JobId(key), Stage.REPLAY, defence, tuple(cell for job in jobs for cell in job.cells), everything)


def _task(setting: Setting) -> list[str]:
    budget = setting.task.budget
    return [setting.task.digest, budget.norm, str(budget.epsilon)]
