"""One attempt's Job: one pod, never a second try by the cluster, and reasons that tell fault from fault.

An attempt that ends without a word of its driver ends its Job at once; whose fault it was is read from the pod (see
`executors.kubernetes.attempt_status`). The cluster repeats nothing: what is tried again is a new attempt under a new
name.
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
"""How long a Job that is over may lie where no controller deletes it."""
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
    """Returns the Job of an attempt, which the cluster ends after so many seconds whatever happens.

    `attack` is the image of the attack that queries the player, where one does.

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
    """Returns after how many seconds an attempt is over in any case: more than it can take. Nothing is decided by it.

    `pictures` are those of the task, of a query job all that the defence may be asked about; `pending` the seconds that
    a pod may wait for its node and images. A player is asked about all pictures of the job's cells once; of a replay
    about each and a clean one before it. Where a submission queries, `attacked` are the pictures that it is given: then
    each picture may be a question of its own, whose reply waits for up to `reply_seconds`.
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
