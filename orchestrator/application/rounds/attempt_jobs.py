"""Makes the Kubernetes Job for one attempt at a job of a round, with its pod's images and its deadline."""

from typing import Any

from orchestrator.domain.plan import Job, Stage
from orchestrator.execution.estimate import question_count
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.kubernetes.job_manifest import active_deadline, render_job
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.executors.kubernetes.settings import ClusterSettings


def attack_in_pod(context: RoundContext, job: Job) -> str:
    """Returns the id of the attack that queries a job's defence from a container of the same pod, "" if there is none.

    The organizers' own attacks have no image: the driver plays them.
    """
    attack = (job.cells[0].attack or "") if job.stage is Stage.QUERY else ""
    return attack if attack in context.images else ""


def attempt_job(context: RoundContext, settings: ClusterSettings, attempt: Attempt) -> dict[str, Any]:
    """Returns the manifest of an attempt's Kubernetes Job. Raises like `render_job`."""
    job = attempt.job
    attack = attack_in_pod(context, job) if attempt.has_attack else ""
    seconds = active_deadline(
        job,
        context.limits,
        question_count(context, job),
        settings.pending_seconds,
        context.task.count if attack else 0,
        context.access.reply_seconds,
    )
    player = context.images[job.submission]
    return render_job(attempt, player, context.policy, settings, seconds, context.images.get(attack))
