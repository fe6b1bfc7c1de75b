"""The Job of one attempt: one pod, which the cluster never tries again, with failure rules that tell faults apart.

An attempt whose driver ends without a result ends its Job at once; the pod's status says whose fault it was (see
`executors.kubernetes.attempt_status`). The cluster repeats nothing: another try is a new attempt with a new name.
"""

from math import ceil
from typing import Any

from orchestrator.domain.plan import Job, Stage
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.executors.kubernetes import pod_manifest
from orchestrator.executors.kubernetes.labels import QUEUE_LABEL, Attempt
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.sandboxes.base import Image

TTL_SECONDS = 86_400
"""How long the cluster keeps a finished Job that no controller deletes."""
DEADLINE_SLACK_SECONDS = 3_600.0
_MAX_SECONDS = 2**31 - 1


def render_job(
    attempt: Attempt,
    player: Image,
    policy: SandboxPolicy,
    settings: ClusterSettings,
    seconds: int,
    attack: Image | None = None,
) -> dict[str, Any]:
    """Returns the Job of an attempt, which the cluster ends after `seconds` whatever happens.

    `attack` is the image of the attack that queries the player, if one does.

    Raises:
        UsageError: the policy is weaker than for strangers.
        Rejected: a player's command cannot be given to a program.
    """
    players = [pod_manifest.PLAYER, *([] if attack is None else [pod_manifest.ATTACK])]
    queue = {} if settings.queue is None else {QUEUE_LABEL: settings.queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": attempt.name,
            "namespace": settings.namespace,
            "labels": attempt.labels() | queue,
            "annotations": attempt.annotations(),
        },
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "completionMode": "NonIndexed",
            "backoffLimit": 0,
            # No new pod while the old one may still write to the volume.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    # Evicted, preempted, its node drained or lost.
                    {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    *map(_fail_on_exit, players),
                    _fail_on_exit(pod_manifest.DRIVER),
                ]
            },
            "activeDeadlineSeconds": seconds,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "suspend": settings.queue is not None,
            "template": pod_manifest.pod_template(attempt, player, policy, settings, attack),
        },
    }


def active_deadline(
    planned_job: Job, limits: Limits, pictures: int, pending: float, attacked: int = 0, reply_seconds: float = 0.0
) -> int:
    """Returns the seconds after which an attempt is over in any case: more than it can take, so nothing depends on it.

    `pictures` counts the pictures of the task, or in a query job all about which the defence may be asked; `pending` is
    how many seconds a pod may wait for its node and images. A player is asked about all pictures of the job's cells
    once; in a replay about each, and about a clean one before it. If a submission queries, `attacked` counts the
    pictures that it is given: then each picture may be a question of its own, whose reply takes up to `reply_seconds`.
    """
    if not planned_job.cells:
        asking, attacked, players = 0.0, pictures, 1
    elif attacked:
        asking, players = pictures * (limits.classify_seconds + reply_seconds), 2
    else:
        questions = pictures * len(planned_job.cells) * (2 if planned_job.stage is Stage.REPLAY else 1)
        asking, players = ceil(questions / limits.classify_batch) * limits.classify_seconds, 1
    asking += ceil(attacked / limits.perturb_batch) * limits.perturb_seconds
    starting = players * (1 + limits.restarts) * limits.ready_seconds
    return ceil(min(pending + starting + asking + DEADLINE_SLACK_SECONDS, float(_MAX_SECONDS)))


def _fail_on_exit(container: str) -> dict[str, Any]:
    codes = {"containerName": container, "operator": "NotIn", "values": [0]}
    return {"action": "FailJob", "onExitCodes": codes}
