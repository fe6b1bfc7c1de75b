"""The Job controller.

Jobs, "Job termination and cleanup", "Pod failure policy", "Suspending a Job", "Pod replacement policy", "Clean up
finished jobs automatically"; the order of decisions is that of `pkg/controller/job/job_controller.go`: a failure that
is decided already, the pod failure policy, the backoff limit, the deadline. Since 1.31 a Job first gets
`FailureTarget` or `SuccessCriteriaMet`, and `Failed` or `Complete` only when no pod of it is left running; every pod
is counted once, by its finalizer and `uncountedTerminatedPods`.
"""

from collections.abc import Hashable
from datetime import timedelta
from typing import Any

from .clock import parse, stamp
from .conditions import condition, is_true, set_condition
from .context import Context
from .events import Recorder
from .failure_policy import judge
from .registry import Deletion, Request
from .status import ApiError
from .store import Change, Stored, clone

FINALIZER = "batch.kubernetes.io/job-tracking"
ENDED = {"Succeeded", "Failed"}
BUILT_IN = "kubernetes.io/job-controller"
LIMIT_TEXT = "Job has reached the specified backoff limit"
DEADLINE_TEXT = "Job was active longer than specified deadline"


def finished(job: dict[str, Any]) -> bool:
    """Whether a Job is Complete or Failed."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def _tracked(pod: dict[str, Any]) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


class Sync:
    """The state of one Job and its pods at one reconciliation."""

    def __init__(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        self.job, self.pods = job, pods
        self.spec, self.status = job["spec"], job["status"]
        self.uncounted = self.status.setdefault("uncountedTerminatedPods", {})
        running = [each for each in pods if each["status"].get("phase") not in ENDED]
        self.active = [each for each in running if not each["metadata"].get("deletionTimestamp")]
        self.terminating = [each for each in running if each["metadata"].get("deletionTimestamp")]
        known = {*self.uncounted.get("succeeded", ()), *self.uncounted.get("failed", ())}
        fresh = [each for each in pods if _tracked(each) and each["metadata"]["uid"] not in known]
        self.succeeded = [each for each in fresh if each["status"].get("phase") == "Succeeded"]
        self.failed = [each for each in fresh if self.is_failed(each)]

    def is_failed(self, pod: dict[str, Any]) -> bool:
        """Whether a pod counts as failed: by its phase, or while it ends unless only failed pods are replaced."""
        if pod["status"].get("phase") == "Failed":
            return True
        only_failed = self.spec["podReplacementPolicy"] == "Failed"
        return (
            not only_failed and bool(pod["metadata"].get("deletionTimestamp")) and pod["status"]["phase"] != "Succeeded"
        )

    def total(self, name: str) -> int:
        """Returns how many pods succeeded, or failed and count."""
        policy = self.spec.get("podFailurePolicy")
        fresh = self.succeeded if name == "succeeded" else [p for p in self.failed if judge(policy, p).counts]
        return self.status.get(name, 0) + len(fresh) + len(self.uncounted.get(name, ()))

    def failure(self) -> str | None:
        """Returns the message of the pod failure policy that fails the Job, if one does."""
        policy = self.spec.get("podFailurePolicy")
        return next((text for pod in self.pods if self.is_failed(pod) and (text := judge(policy, pod).fails)), None)


class JobController:
    """Creates the pods of Jobs, and writes how the Jobs ended."""

    def __init__(self, context: Context) -> None:
        self._context, self._registry, self._loop = context, context.registry, context.control
        self._jobs, self._pods = context.of("jobs", "batch"), context.of("pods")
        self._recorder = Recorder(context.registry, "job-controller")
        self._failures: dict[str, int] = {}
        self._retries: dict[str, float] = {}
        context.store.listen(self._noted)

    def _noted(self, resource: Any, change: Change) -> None:
        if resource is self._jobs:
            self._loop.add(self.reconcile, change.last.key)
            return
        if resource is not self._pods:
            return
        for owner in change.last.data["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Job" and owner.get("controller"):
                self._loop.add(self.reconcile, (change.last.key[0], owner["name"]))
        if change.after is not None and _tracked(change.after.data):
            self._loop.add(self._orphan, change.last.key)

    def _orphan(self, key: Hashable) -> None:
        """Removes the finalizer of a pod whose Job is gone or finished."""
        stored = self._context.store.get(self._pods, key)
        if stored is None or not _tracked(stored.data):
            return
        owners = [each for each in stored.data["metadata"].get("ownerReferences") or () if each.get("controller")]
        job = self._context.store.get(self._jobs, (key[0], owners[0]["name"])) if owners else None
        if job is None or job.data["metadata"]["uid"] != owners[0]["uid"] or finished(job.data):
            self._release(stored.data)

    def _release(self, pod: dict[str, Any]) -> None:
        def change(body: dict[str, Any]) -> None:
            body["metadata"]["finalizers"] = [
                each for each in body["metadata"].get("finalizers", ()) if each != FINALIZER
            ]

        self._quietly(lambda key: self._registry.modify(self._pods, key, change), pod)

    def _quietly(self, act: Any, pod: dict[str, Any]) -> None:
        try:
            act((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        except ApiError as error:
            if error.code != 404:
                raise

    def reconcile(self, key: Hashable) -> None:
        """Reconciles one Job."""
        stored = self._context.store.get(self._jobs, key)
        if stored is None or stored.data["spec"].get("managedBy", BUILT_IN) != BUILT_IN:
            return
        job = stored.copy()
        if finished(job):
            self._expire(job)
            return
        pods = [each.data for each in self._context.store.owned(self._pods, job["metadata"]["uid"])]
        sync = Sync(job, pods)
        now = self._context.clock.now()
        if not sync.status.get("startTime") and not sync.spec["suspend"]:
            sync.status["startTime"] = stamp(now)
        verdict = self._verdict(sync)
        if verdict is not None:
            for pod in sync.active:
                self._quietly(lambda key: self._registry.delete(self._pods, key), pod)
            sync.terminating += sync.active
            sync.active = []
        elif not job["metadata"].get("deletionTimestamp"):
            self._manage(sync)
            if sync.total("succeeded") >= sync.spec.get("completions", 1) and not sync.active:
                verdict = condition(
                    "SuccessCriteriaMet", "True", "CompletionsReached", "Reached expected number of succeeded pods"
                )
            else:
                self._suspension(sync)
        self._count(stored, sync, verdict)

    def _verdict(self, sync: Sync) -> dict[str, Any] | None:
        """Returns the condition that ends the Job, if it is decided."""
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            if is_true(sync.job, kind):
                return next(each for each in sync.status["conditions"] if each["type"] == kind)
        if (message := sync.failure()) is not None:
            return condition("FailureTarget", "True", "PodFailurePolicy", message)
        if sync.total("failed") > sync.spec["backoffLimit"]:
            return condition("FailureTarget", "True", "BackoffLimitExceeded", LIMIT_TEXT)
        limit = sync.spec.get("activeDeadlineSeconds")
        if limit is not None and not sync.spec["suspend"]:
            left = parse(sync.status["startTime"]) + timedelta(seconds=limit) - self._context.clock.now()
            if left <= timedelta(0):
                return condition("FailureTarget", "True", "DeadlineExceeded", DEADLINE_TEXT)
            self._again(sync.job, left.total_seconds())
        return None

    def _again(self, job: dict[str, Any], seconds: float) -> None:
        self._loop.add(self.reconcile, (job["metadata"]["namespace"], job["metadata"]["name"]), seconds)

    def _manage(self, sync: Sync) -> None:
        """Creates the pods that are missing, or removes those that are too many or suspended."""
        wanted = 0
        if not sync.spec["suspend"]:
            left = sync.spec.get("completions", 1) - sync.total("succeeded")
            wanted = max(0, min(left, sync.spec["parallelism"]))
        surplus = sync.active[wanted:]
        for pod in surplus:
            self._release(pod)
            self._quietly(lambda key: self._registry.delete(self._pods, key), pod)
            self._recorder.normal(sync.job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        sync.active, sync.terminating = sync.active[:wanted], sync.terminating + surplus
        held = len(sync.terminating) if sync.spec["podReplacementPolicy"] == "Failed" else 0
        missing = wanted - len(sync.active) - held
        if missing <= 0 or surplus or self._backing_off(sync):
            return
        for _ in range(missing):
            if (pod := self._create(sync)) is None:
                return
            sync.active.append(pod)

    def _backing_off(self, sync: Sync) -> bool:
        """Whether a pod that failed must be waited for: 10 s, doubled with each failure, at most 10 min."""
        uid = sync.job["metadata"]["uid"]
        known = self._failures.get(uid, 0)
        now = self._context.clock.now()
        if sync.failed:
            self._failures[uid] = known = known + len(sync.failed)
            self._retries[uid] = now.timestamp() + min(600.0, self._context.timings.pod_backoff * 2 ** (known - 1))
        left = self._retries.get(uid, 0.0) - now.timestamp()
        if left > 0:
            self._again(sync.job, left)
        return left > 0

    def _create(self, sync: Sync) -> dict[str, Any] | None:
        held, template = sync.job["metadata"], clone(sync.spec["template"])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": held["name"], "uid": held["uid"]}
        metadata = template.get("metadata") or {}
        metadata["generateName"] = f"{held['name']}-"
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
        metadata["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
        body = {"metadata": metadata, "spec": template["spec"]}
        try:
            made = self._registry.create(self._pods, held["namespace"], body, Request(trusted=True))
        except ApiError as error:
            self._recorder.warning(sync.job, "FailedCreate", f"Error creating: {error.message}")
            if error.code not in {403, 409, 422, 404}:
                raise
            self._again(sync.job, self._context.timings.create_retry)
            return None
        self._recorder.normal(sync.job, "SuccessfulCreate", f"Created pod: {made.key[1]}")
        return made.data

    def _suspension(self, sync: Sync) -> None:
        suspended, now = sync.spec["suspend"], self._context.clock.now()
        if suspended:
            if set_condition(sync.job, condition("Suspended", "True", "JobSuspended", "Job suspended"), now):
                self._recorder.normal(sync.job, "Suspended", "Job suspended")
        elif is_true(sync.job, "Suspended"):
            set_condition(sync.job, condition("Suspended", "False", "JobResumed", "Job resumed"), now)
            self._recorder.normal(sync.job, "Resumed", "Job resumed")
            sync.status["startTime"] = stamp(now)

    def _count(self, stored: Stored, sync: Sync, verdict: dict[str, Any] | None) -> None:
        """Records which pods ended, removes their finalizers, counts them, and then writes how the Job ended."""
        status, now = sync.status, self._context.clock.now()
        policy = sync.spec.get("podFailurePolicy")
        leaving = []
        for pod in filter(_tracked, sync.pods):
            uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
            failed = sync.is_failed(pod)
            over = verdict is not None or bool(sync.job["metadata"].get("deletionTimestamp"))
            if not (over or phase == "Succeeded" or failed):
                continue
            leaving.append(pod)
            kind = "succeeded" if phase == "Succeeded" else "failed"
            lost = verdict is not None and verdict["type"] != "SuccessCriteriaMet"
            counts = kind == "succeeded" or (failed and judge(policy, pod).counts) or (not failed and lost)
            if counts and uid not in sync.uncounted.setdefault(kind, []):
                sync.uncounted[kind].append(uid)
        if verdict is not None:
            set_condition(sync.job, verdict, now)
        status["active"], status["terminating"] = len(sync.active), len(sync.terminating)
        status["ready"] = sum(is_true(each, "Ready") for each in sync.active)
        self._flush(stored, status)
        for pod in leaving:
            self._release(pod)
        for kind in ("succeeded", "failed"):
            if uids := sync.uncounted.pop(kind, []):
                status[kind] = status.get(kind, 0) + len(uids)
        ended = verdict is not None and not sync.terminating
        if ended:
            self._end(sync, verdict)
        self._flush(stored, status)
        if ended:
            self._tell(sync.job, verdict)

    def _end(self, sync: Sync, verdict: dict[str, Any]) -> None:
        now = self._context.clock.now()
        kind = "Complete" if verdict["type"] == "SuccessCriteriaMet" else "Failed"
        set_condition(sync.job, condition(kind, "True", verdict.get("reason", ""), verdict.get("message", "")), now)
        if kind == "Complete":
            sync.status["completionTime"] = stamp(now)

    def _tell(self, job: dict[str, Any], verdict: dict[str, Any]) -> None:
        self._failures.pop(job["metadata"]["uid"], None)
        self._retries.pop(job["metadata"]["uid"], None)
        if verdict["type"] == "SuccessCriteriaMet":
            self._recorder.normal(job, "Completed", "Job completed")
        else:
            self._recorder.warning(job, verdict["reason"], verdict["message"])

    def _flush(self, stored: Stored, status: dict[str, Any]) -> None:
        fresh = {
            name: value
            for name, value in status.items()
            if value not in (0, [], None) or name in {"terminating", "ready"}
        }
        self._quietly(
            lambda key: self._registry.modify(self._jobs, key, lambda body: body.update(status=clone(fresh)), "status"),
            stored.data,
        )

    def _expire(self, job: dict[str, Any]) -> None:
        """Deletes a finished Job when its time to live is over (`ttlSecondsAfterFinished`)."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or job["metadata"].get("deletionTimestamp"):
            return
        ended = next(each for each in job["status"]["conditions"] if each["type"] in {"Complete", "Failed"})
        left = parse(ended["lastTransitionTime"]) + timedelta(seconds=ttl) - self._context.clock.now()
        if left > timedelta(0):
            self._again(job, left.total_seconds())
            return
        options = Deletion(policy="Foreground", uid=job["metadata"]["uid"])
        self._quietly(lambda key: self._registry.delete(self._jobs, key, options), job)
