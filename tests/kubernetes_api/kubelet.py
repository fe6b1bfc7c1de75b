"""The kubelets: they run the containers of bound pods as real processes, through a hook that the test gives.

Pod Lifecycle, "Termination of Pods": TERM, the grace period, KILL, a terminal phase, and only then the object goes;
Init Containers: one after the other, and one that fails fails the pod (restartPolicy Never); Images,
"ImagePullBackOff"; Node-pressure Eviction. What restarts containers is left out: every pod here has restartPolicy
Never.
"""

import signal
import threading
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any, Protocol

from .clock import eventually
from .conditions import condition, set_condition
from .context import Context
from .events import Recorder
from .images import Images
from .pod_status import Container, Run
from .registry import Deletion
from .resources import Resource
from .status import ApiError, bad_request
from .store import Change, Key

ENDED = {"Succeeded", "Failed"}
LONGEST_MESSAGE = 4096
"""Characters of a termination message that are kept (Determine the Reason for Pod Failure)."""


class Process(Protocol):
    """The return value of the hook: a `subprocess.Popen`, or an object with the same methods.

    It may also have `log()`, which returns what the container wrote, `message()`, which returns what it wrote to its
    `terminationMessagePath`, and `oom_killed`, true where the kernel killed it.
    """

    def wait(self) -> int:
        """Waits for the end; returns the exit status, -n for signal n."""

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it still runs."""


Hook = Callable[[dict[str, Any], dict[str, Any]], Process]
"""`run(container, pod)`: starts a container; an OSError is one that cannot be started."""


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, context: Context, hook: Hook, images: Images) -> None:
        self._context, self._registry, self._loop = context, context.registry, context.nodes
        self._hook, self._images = hook, images
        self._pods = context.of("pods")
        self._nodes = context.of("nodes")
        self._recorder = Recorder(context.registry, "kubelet")
        self._runs: dict[str, Run] = {}
        self._by_key: dict[Key, str] = {}
        self._lost: set[str] = set()
        self._rejections: dict[str, tuple[str, str]] = {}
        self._ended: dict[Key, list[Container]] = {}
        context.store.listen(self._noted)

    def _noted(self, resource: Resource, change: Change) -> None:
        pod = change.last.data
        if resource is self._pods and pod["spec"].get("nodeName"):
            self._loop.add(self.reconcile, change.last.key)

    def reconcile(self, key: Hashable) -> None:
        """Brings the processes of one pod in line with its object, and its status in line with the processes."""
        stored = self._context.store.get(self._pods, key)
        known = self._runs.get(self._by_key.get(key, ""))
        if known is not None and (stored is None or stored.data["metadata"]["uid"] != known.uid):
            self._abandon(known)
            known = None
        if stored is None:
            self._ended.pop(key, None)
        if stored is None or not stored.data["spec"].get("nodeName"):
            return
        pod = stored.data
        if pod["spec"]["nodeName"] in self._lost:
            return
        if known is None:
            if pod["status"].get("phase") in ENDED:
                self._finish(pod)
                return
            if (why := self._rejections.get(pod["spec"]["nodeName"])) is not None:
                self._reject(pod, *why)
                return
            known = self._begin(pod)
        self._collect(known)
        self._deadline(known, pod)
        if pod["metadata"].get("deletionTimestamp"):
            self._terminate(known, pod)
        if known.ending is None:
            self._advance(known, pod)
        self._report(known)

    def reject(self, node: str, reason: str = "", message: str = "") -> None:
        """Makes a node refuse every pod at its admission, for example because a device cannot be allocated.

        Without a reason, it admits pods again.
        """
        self._rejections.pop(node, None)
        if reason:
            self._rejections[node] = reason, message

    def _reject(self, pod: dict[str, Any], reason: str, message: str) -> None:
        """Fails a pod; its status has no containers (pkg/kubelet, `rejectPod`)."""
        verdict = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
        self._recorder.warning(pod, reason, message)

        def change(body: dict[str, Any]) -> None:
            body["status"] |= verdict

        self._registry.modify(self._pods, (pod["metadata"]["namespace"], pod["metadata"]["name"]), change, "status")

    def _begin(self, pod: dict[str, Any]) -> Run:
        spec, held = pod["spec"], pod["metadata"]
        run = Run(
            key=(held["namespace"], held["name"]),
            uid=held["uid"],
            node=spec["nodeName"],
            init=[Container(each) for each in spec.get("initContainers") or ()],
            main=[Container(each) for each in spec["containers"]],
            began=self._context.clock.now(),
        )
        self._runs[run.uid], self._by_key[run.key] = run, run.uid
        return run

    def _collect(self, run: Run) -> None:
        """Records which processes have ended."""
        now = self._context.clock.now()
        for each in run.containers:
            if each.running and (code := getattr(each.process, "ended", None)) is not None:
                killed = each.name in run.oom or getattr(each.process.inner, "oom_killed", False)
                said = getattr(each.process.inner, "message", str)()[:LONGEST_MESSAGE]
                each.end(code, now, "OOMKilled" if killed and code else "", said)

    def _deadline(self, run: Run, pod: dict[str, Any]) -> None:
        limit = pod["spec"].get("activeDeadlineSeconds")
        if limit is None or run.verdict:
            return
        left = (run.began + timedelta(seconds=limit) - self._context.clock.now()).total_seconds()
        if left > 0:
            self._loop.add(self.reconcile, run.key, left)
            return
        text = "Pod was active on the node longer than the specified deadline"
        run.verdict = ("DeadlineExceeded", text)
        self._recorder.normal(pod, "DeadlineExceeded", text)
        self._stop(run, pod, pod["spec"]["terminationGracePeriodSeconds"])

    def _advance(self, run: Run, pod: dict[str, Any]) -> None:
        """Starts what may start now: the next init container, or all others."""
        for each in run.init:
            if each.code == 0:
                continue
            if each.started is None:
                self._start(run, each, pod)
            return
        for each in run.main:
            if each.started is None and each.code is None:
                self._start(run, each, pod)

    def _start(self, run: Run, container: Container, pod: dict[str, Any]) -> None:
        where = "initContainers" if container in run.init else "containers"
        field = f"spec.{where}{{{container.name}}}"
        now = self._context.clock.now()
        if (after := self._images.pull(container, pod, field, self._recorder, now)) is not None:
            self._loop.add(self.reconcile, run.key, after)
            return
        self._recorder.normal(pod, "Created", "Container created", field)
        container.started = now
        try:
            container.process = Watched(
                self._hook(container.spec, pod), lambda: self._loop.add(self.reconcile, run.key)
            )
        except OSError as error:
            text = f"failed to create containerd task: failed to create shim task: {error}"
            container.end(128, now, "StartError", text)
            self._recorder.warning(pod, "Failed", f"Error: {text}", field)
            return
        self._recorder.normal(pod, "Started", "Container started", field)

    def _terminate(self, run: Run, pod: dict[str, Any]) -> None:
        self._stop(run, pod, pod["metadata"].get("deletionGracePeriodSeconds") or 0)

    def _stop(self, run: Run, pod: dict[str, Any], grace: float) -> None:
        """Sends TERM to the processes, and KILL after the grace period. A second call can only shorten that period."""
        if run.ending is not None and grace >= run.ending:
            return
        for each in run.containers:
            if each.running and run.ending is None:
                self._recorder.normal(
                    pod, "Killing", f"Stopping container {each.name}", f"spec.containers{{{each.name}}}"
                )
                each.process.send_signal(signal.SIGTERM)
        run.ending = grace
        self._loop.add(self._kill, run.uid, grace)

    def _kill(self, uid: Hashable) -> None:
        if (run := self._runs.get(uid)) is not None and run.node not in self._lost:
            self._kill_processes(run)

    def _kill_processes(self, run: Run) -> None:
        for each in run.containers:
            if each.running:
                each.process.send_signal(signal.SIGKILL)

    def _abandon(self, run: Run) -> None:
        """Kills the processes of a pod that was removed without waiting for them."""
        self._kill_processes(run)
        del self._runs[run.uid]
        self._by_key.pop(run.key, None)

    def _report(self, run: Run) -> None:
        now = self._context.clock.now()

        def change(body: dict[str, Any]) -> None:
            if body["metadata"]["uid"] == run.uid and body["status"].get("phase") not in ENDED:
                run.report(body, now)

        try:
            stored = self._registry.modify(self._pods, run.key, change, "status")
        except ApiError as error:
            if error.code != 404:
                raise
            return
        if run.phase in ENDED:
            self._ended[run.key] = run.containers
            self._runs.pop(run.uid, None)
            self._by_key.pop(run.key, None)
            self._finish(stored.data)

    def _finish(self, pod: dict[str, Any]) -> None:
        """Confirms that a deleted pod has ended: now the object may go."""
        held = pod["metadata"]
        if not held.get("deletionTimestamp") or not held.get("deletionGracePeriodSeconds"):
            return
        try:
            self._registry.delete(self._pods, (held["namespace"], held["name"]), Deletion(grace=0, uid=held["uid"]))
        except ApiError as error:
            if error.code not in {404, 409}:
                raise

    def lose(self, node: str, *, kill: bool) -> None:
        """Loses a node: its kubelet reports nothing, and with `kill` its processes end, also one that starts now."""
        self._lost.add(node)
        if kill:
            self._loop.add(self._kill_all_on, node)

    def _kill_all_on(self, node: Hashable) -> None:
        for run in list(self._runs.values()):
            if run.node == node:
                self._kill_processes(run)

    def find_again(self, node: str) -> None:
        """Makes a lost node report again."""
        self._lost.discard(node)
        for run in list(self._runs.values()):
            if run.node == node:
                self._loop.add(self.reconcile, run.key)

    def oom_kill(self, namespace: str, name: str, container: str) -> None:
        """Kills a container's process as the kernel does when it has used up its memory."""
        run, found = self._running(namespace, name, container)
        run.oom.add(container)
        found.process.send_signal(signal.SIGKILL)

    def evict_for(self, namespace: str, name: str, resource: str = "memory") -> None:
        """Evicts a pod because its node runs low on a resource (Node-pressure Eviction)."""
        self._loop.add(self._evict, ((namespace, name), resource))

    def _evict(self, what: Hashable) -> None:
        key, resource = what
        if (run := self._runs.get(self._by_key.get(key, ""))) is None:
            return
        text = f"The node was low on resource: {resource}. "
        run.verdict = ("Evicted", text)
        now = self._context.clock.now()
        target = condition("DisruptionTarget", "True", "TerminationByKubelet", text)
        stored = self._registry.modify(self._pods, run.key, lambda body: set_condition(body, target, now), "status")
        self._recorder.warning(stored.data, "Evicted", text)
        self._stop(run, stored.data, 0)
        self._loop.add(self.reconcile, key)

    def _running(self, namespace: str, name: str, container: str) -> tuple[Run, Container]:
        run = self._runs[self._by_key[namespace, name]]
        same = [each for each in run.containers if each.name == container]
        # What it runs may be quicker than the kubelet that started it.
        eventually(lambda: same[0].running and same[0].process, f"container {container} runs")
        return run, same[0]

    def log(self, key: Key, container: str) -> bytes:
        """Returns what a container wrote.

        Raises:
            ApiError: 400, it has not started.
        """
        run = self._runs.get(self._by_key.get(key, ""))
        for each in run.containers if run else self._ended.get(key, ()):
            if each.name == container and each.process is not None:
                log = getattr(each.process.inner, "log", None)
                return bytes(log()) if log else b""
        raise bad_request(f'container "{container}" in pod "{key[1]}" is waiting to start: ContainerCreating')

    def stop(self) -> None:
        """Kills every process that is left."""
        for run in list(self._runs.values()):
            self._kill_processes(run)
        for run in list(self._runs.values()):
            for each in run.containers:
                if each.process is not None:
                    each.process.watcher.join(10)


class Watched:
    """A process, and a thread that waits for its end."""

    def __init__(self, inner: Process, done: Callable[[], None]) -> None:
        self.inner = inner
        self.ended: int | None = None
        self._done = done
        self.watcher = threading.Thread(target=self._wait, name="container", daemon=True)
        self.watcher.start()

    def _wait(self) -> None:
        self.ended = self.inner.wait()
        self._done()

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it still runs."""
        if self.ended is None:
            self.inner.send_signal(number)
