"""Renders the Jobs that a contest's round would create on a cluster, for review."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.application.rounds import entry_images
from orchestrator.application.rounds.assemble_context import assemble_context
from orchestrator.application.rounds.attempt_jobs import attack_in_pod, attempt_job
from orchestrator.application.rounds.play_rounds import ROUND_NAME, TaskRound
from orchestrator.domain.ids import JobId, digest
from orchestrator.domain.plan import Job, Plan
from orchestrator.domain.samples import Samples
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, UsageError
from orchestrator.execution.planner import make_plan
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.kubernetes import lease
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.intake.admission import AdmittedRoster, admit_entries
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder, open_blobs
from orchestrator.oci.references import InvalidReferenceError, parse_reference
from orchestrator.sandboxes.base import Image, ImageSource

PLACEHOLDER_DIGEST = "sha256:" + "0" * 64
"""Stands for an unknown digest: of an image that was not looked up, or of a secret that is not drawn yet."""
PLACEHOLDER_COMMAND = ("the-command-of-this-image",)
PLACEHOLDER_PICTURES = 1000
"""The number of placeholder pictures for a dataset that cannot be read here."""
_SHAPE = (1, 8, 8)
_OFFLINE_REMEDY = "or give --offline: what only the registry knows is a placeholder then"


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """What to render.

    `task` is the contest's only one by default. `all_jobs`: all jobs of the plan, not only its first wave. `offline`:
    without asking the registry. `round_folder` is the folder of a round that was begun, None for a new round.
    """

    task: str | None = None
    all_jobs: bool = False
    offline: bool = False
    round_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class RenderedJobs:
    """The rendered Jobs, the number of all planned jobs, and the round after which the Jobs are named.

    `lease` is the Lease that the round's controller holds. `has_round` is false if a placeholder stands for the round's
    commitment, `has_pictures` is false if placeholders stand for pictures that could not be read.
    """

    jobs: tuple[dict[str, Any], ...]
    lease: dict[str, Any]
    planned_jobs: int
    round_ref: RoundRef
    has_round: bool
    has_pictures: bool


def render_jobs(contest: Contest, asked: RenderRequest) -> RenderedJobs:
    """Returns the Jobs that a round would create: the first attempt at each job. Does not connect to a cluster.

    Raises:
        Rejected: the contest or a submission cannot play.
        UsageError: there is no such task, no round in `asked.round_folder`, or the settings are impossible.
        BackendUnavailable: the registry does not answer.
    """
    settings = contest.file.cluster
    task_round = TaskRound(
        contest, asked.task or contest.only_task, _admit_entries(contest, settings, offline=asked.offline)
    )
    secret = _secret(asked.round_folder)
    samples, read = _samples(contest, task_round.task, offline=asked.offline)
    with tempfile.TemporaryDirectory(prefix="sparring-render-") as scratch:
        context = _round_context(task_round, samples, settings, secret or b"", Path(scratch))
    plan = make_plan(context, task_round.cells(context.roster))
    round_ref = RoundRef(
        contest.file.contest, context.round, context.task.name, digest(secret) if secret else PLACEHOLDER_DIGEST
    )
    imported = frozenset(job.id for job in plan.jobs if job.submission in context.picture_sets)  # which no pod plays
    chosen = [job for job in plan.jobs if job.id not in imported] if asked.all_jobs else _first_wave(plan, imported)
    jobs = [
        attempt_job(context, settings, Attempt(round_ref, job, 1, has_attack=bool(attack_in_pod(context, job))))
        for job in chosen
    ]
    round_lease = lease.lease_manifest(f"sparring-{round_ref.label_value}")
    round_lease["metadata"]["namespace"] = settings.namespace
    planned = len(plan.jobs) - len(imported)
    return RenderedJobs(tuple(jobs), round_lease, planned, round_ref, has_round=secret is not None, has_pictures=read)


def _admit_entries(contest: Contest, settings: ClusterSettings, *, offline: bool) -> AdmittedRoster:
    if offline:
        return admit_entries(contest, lambda source: _placeholder_image(settings, source))
    try:
        return admit_entries(contest, entry_images.admitter_without_builds(RegistryBackend(settings)))
    except BackendUnavailable as error:
        raise BackendUnavailable(f"{error}; {_OFFLINE_REMEDY}") from error


def _placeholder_image(settings: ClusterSettings, source: ImageSource) -> Image:
    """Returns an image as far as it is known without asking the registry, with placeholders. Raises Rejected."""
    try:
        name = parse_reference(source.image or "", "" if settings.registry == "none" else settings.registry.rstrip("/"))
    except InvalidReferenceError as error:
        remedy = "build and push it, and name it like registry/team/entry:1"
        raise Rejected("submission", [Problem("image", str(error), remedy)]) from error
    known = name.digest or PLACEHOLDER_DIGEST
    command = source.command or PLACEHOLDER_COMMAND
    return Image(known, printable(source.image or ""), command, reference=name.pull_name(known))


def _secret(out: Path | None) -> bytes | None:
    """Returns the secret of the round in a folder, None without a folder. Raises UsageError if it has no round."""
    if out is None:
        return None
    folder = RoundFolder(out)
    if not folder.exists:
        raise UsageError(f"there is no round in {out}; leave --out out to look at one that was not begun")
    return folder.secret()


def _samples(contest: Contest, task: str, *, offline: bool) -> tuple[Samples, bool]:
    """Returns a task's pictures and True; or, offline, placeholders and False if only the cluster has the pictures.

    Raises:
        Rejected: the pictures cannot be read, and `offline` is false.
    """
    try:
        return contest.load_samples(task), True
    except Rejected:
        if not offline:
            raise
    section = next(section for section in contest.file.all_tasks if section.name == task)
    count = section.dataset.get("first") or PLACEHOLDER_PICTURES
    pixels = np.zeros((count, *_SHAPE), np.uint8)
    return Samples(pixels, np.zeros(count, np.int64), ("0", "1")), False


def _round_context(
    task_round: TaskRound, samples: Samples, settings: ClusterSettings, secret: bytes, scratch: Path
) -> RoundContext:
    contest = task_round.contest
    return assemble_context(
        contest.file,
        contest.format,
        round=ROUND_NAME,
        task=contest.make_task(samples, task_round.task),
        samples=samples,
        secret=secret,
        roster=task_round.admitted.roster,
        images=task_round.admitted.images,
        picture_sets=task_round.admitted.pictures,
        backend=RegistryBackend(settings),
        blobs=open_blobs(scratch),
    )


def _first_wave(plan: Plan, done: frozenset[JobId]) -> Iterator[Job]:
    """Yields the jobs that wait only for jobs in `done`."""
    agenda = plan.ready_queue(done)
    while (ready := agenda.take()) is not None:
        yield ready
