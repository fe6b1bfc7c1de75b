"""Runs jobs as Jobs of Kubernetes: one attempt at a job is one pod, whose driver plays it (docs/run-on-kubernetes.md).

If the generator is closed, it returns at once. The pods run on, and the next controller finds them again.
"""

from collections.abc import Generator
from collections.abc import Set as AbstractSet

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Job, Plan
from orchestrator.executors.base import DevicePreference, EventBatch, MakeJob, any_device
from orchestrator.executors.kubernetes.controller import Controller, ControllerDeps


class KubernetesExecutor:
    """Runs jobs on a cluster.

    Args:
        deps: what the controller needs; its lease is already held.
    """

    def __init__(self, deps: ControllerDeps) -> None:
        self._deps = deps

    def run(
        self,
        plan: Plan,
        finished_jobs: AbstractSet[JobId],
        make_job: MakeJob,
        prefers_device: DevicePreference = any_device,
    ) -> Generator[EventBatch, None, None]:
        """Yields batches of events until the plan is done. `prefers_device` is unused: the cluster chooses devices.

        Raises:
            LeaseLost: another controller may have taken over; nothing was yielded or changed since.
            ClusterUnavailable, ClusterRefused, StoreFault: the cluster or the volume failed.
            ValueError: the remaining jobs need jobs that are not in the plan, and none is parked.
        """
        del prefers_device

        def assign(job: Job, partial_step: PartialStep | None) -> Assignment:
            return make_job(job, None).assignment(partial_step)

        yield from Controller(self._deps, plan, finished_jobs, assign).run()
