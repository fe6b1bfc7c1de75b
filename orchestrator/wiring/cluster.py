"""A contest's rounds on a cluster, put together; here what would be created there, for review."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.arena.planner import lay_out
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Image, Source
from orchestrator.cluster import lease
from orchestrator.cluster.admission import ClusterBackend
from orchestrator.cluster.job import backstop, job
from orchestrator.cluster.names import Attempt, Bout
from orchestrator.cluster.settings import ClusterSettings
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Job, Plan
from orchestrator.domain.samples import Samples
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, UsageError
from orchestrator.intake.admission import Admitted, admit
from orchestrator.intake.contest_file import Contest
from orchestrator.registry.references import NoNameError, parse
from orchestrator.wiring import building
from orchestrator.wiring.conditions import conditions
from orchestrator.wiring.folders import RoundFolder, blobs_in
from orchestrator.wiring.rounds import ROUND, Part

UNKNOWN = "sha256:" + "0" * 64
"""Stands for a digest that is not known: of an image that was not asked for, of a secret that is not drawn yet."""
UNKNOWN_COMMAND = ("the-command-of-this-image",)
UNREAD = 1000
"""How many pictures stand for those that were not there to be read."""
_SHAPE = (1, 8, 8)
_OFFLINE = "or give --offline: what only the registry knows is a placeholder then"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be rendered. `task` is the only one by default; `out` the folder of a round that was begun."""

    task: str | None = None
    whole: bool = False
    offline: bool = False
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """The Jobs of a plan's first wave, or of all of it; how many of them there are; and the round they are named for.

    `lease` is what its controller holds. `begun` is false where names hold a stand-in for the round's commitment,
    `pictures` where they hold one for pictures that were not there to be read.
    """

    jobs: tuple[dict[str, Any], ...]
    lease: dict[str, Any]
    planned: int
    bout: Bout
    begun: bool
    pictures: bool


def settings_of(contest: Contest) -> ClusterSettings:
    """Returns how a contest's rounds are played on a cluster."""
    return contest.file.cluster


def render(contest: Contest, asked: Asked) -> Rendered:
    """Returns the Jobs that a round would create: each job's first attempt. No cluster is asked.

    Raises:
        Rejected: the contest or a submission cannot play.
        UsageError: there is no such task, or no round in `out`; or the settings cannot be what they are.
        BackendUnavailable: the registry does not answer.
    """
    settings = settings_of(contest)
    part = Part(contest, asked.task or contest.only_task, _admitted(contest, settings, offline=asked.offline))
    secret = _secret(asked.out)
    samples, read = _samples(contest, part.task, offline=asked.offline)
    with tempfile.TemporaryDirectory(prefix="sparring-render-") as scratch:
        setting = _setting(part, samples, settings, secret or b"", Path(scratch))
    plan = lay_out(setting, part.cells(setting.roster))
    bout = Bout(contest.file.contest, setting.round, setting.task.name, digest(secret) if secret else UNKNOWN)
    chosen = plan.jobs if asked.whole else tuple(_first(plan))
    made = [
        job(
            Attempt(bout, each, 1),
            setting.images[each.submission],
            setting.policy,
            settings,
            backstop(each, setting.limits, setting.task.count, settings.pending_seconds),
        )
        for each in chosen
    ]
    held = lease.document(f"sparring-{bout.of}")
    held["metadata"]["namespace"] = settings.namespace
    return Rendered(tuple(made), held, len(plan.jobs), bout, begun=secret is not None, pictures=read)


def _admitted(contest: Contest, settings: ClusterSettings, *, offline: bool) -> Admitted:
    if offline:
        return admit(contest, lambda source: _placeholder(settings, source))
    try:
        return admit(contest, building.foretell(ClusterBackend(settings)))
    except BackendUnavailable as error:
        raise BackendUnavailable(f"{error}; {_OFFLINE}") from error


def _placeholder(settings: ClusterSettings, source: Source) -> Image:
    """Returns what can be said of an image without asking for it."""
    try:
        name = parse(source.image or "", "" if settings.registry == "none" else settings.registry.rstrip("/"))
    except NoNameError as error:
        remedy = "build and push it, and name it like registry/team/entry:1"
        raise Rejected("submission", [Problem("image", str(error), remedy)]) from error
    known = name.digest or UNKNOWN
    command = source.command or UNKNOWN_COMMAND
    return Image(known, printable(source.image or ""), command, reference=name.at(known))


def _secret(out: Path | None) -> bytes | None:
    """Returns the secret of the round in a folder, None where none is named."""
    if out is None:
        return None
    folder = RoundFolder(out)
    if not folder.exists:
        raise UsageError(f"there is no round in {out}; leave --out away to look at one that was not begun")
    return folder.secret()


def _samples(contest: Contest, task: str, *, offline: bool) -> tuple[Samples, bool]:
    """Returns a task's pictures, and whether they could be read; offline, stand-ins where they lie on the cluster only.

    Raises:
        Rejected: they cannot be read, and it is not offline.
    """
    try:
        return contest.samples(task), True
    except Rejected:
        if not offline:
            raise
    section = next(section for section in contest.file.every_task if section.name == task)
    count = section.dataset.get("first") or UNREAD
    pixels = np.zeros((count, *_SHAPE), np.uint8)
    return Samples(pixels, np.zeros(count, np.int64), ("0", "1")), False


def _setting(part: Part, samples: Samples, settings: ClusterSettings, secret: bytes, scratch: Path) -> Setting:
    contest = part.contest
    return Setting(
        **conditions(contest.file, contest.format.rules),
        round=ROUND,
        task=contest.task(samples, part.task),
        samples=samples,
        secret=secret,
        roster=part.admitted.roster,
        images=part.admitted.images,
        backend=ClusterBackend(settings),
        blobs=blobs_in(scratch),
    )


def _first(plan: Plan) -> Iterator[Job]:
    """Yields the jobs that wait for no other."""
    agenda = plan.agenda(frozenset())
    while (ready := agenda.take()) is not None:
        yield ready
