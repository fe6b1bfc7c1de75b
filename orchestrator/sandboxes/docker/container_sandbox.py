"""One container as a sandbox.

Its stream may end for three reasons: the player ended, the engine ended, or somebody else ended the container. Only
the first is the player's doing. So at the end of the stream the engine is asked what became of the container, and then
it has to be shown that the engine lived through it (see `_witness`). Where it did not, the end is ambiguous.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.errors import AmbiguousExit, SandboxLost
from orchestrator.sandboxes.base import Ending, Exit, never_cancelled
from orchestrator.sandboxes.docker import uid_pool
from orchestrator.sandboxes.docker.attach_stream import Attachment
from orchestrator.sandboxes.docker.engine_liveness import EngineConnection
from orchestrator.sandboxes.linux.cgroup import ContainerCgroup
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup

_GRACE_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_KILL_SECONDS = 10.0
_REMOVAL_SECONDS = 30.0
_MAX_EXIT_CODE = 255


class ContainerEngine(Protocol):
    """What a sandbox needs of the engine. Each call raises SandboxLost when the engine fails."""

    def state(self, container: str) -> Mapping[str, Any] | None:
        """Returns the container's state, None when there is no such container."""
        ...

    def wait(self, container: str, seconds: float) -> None:
        """Returns when the container has ended, or when so much time has passed."""
        ...

    def kill(self, container: str) -> None:
        """Kills it; nothing happens when it has ended."""
        ...

    def remove(self, container: str) -> None:
        """Removes it and its volumes; nothing happens when it is gone."""
        ...

    def killed(self, container: str, since: float) -> bool:
        """Whether somebody had the engine kill it since that moment (seconds since 1970)."""
        ...


class ContainerSandbox:
    """One running container.

    Args:
        engine: where it runs.
        container: its id.
        line: its three pipes.
        witness: a line to the engine that is older than the container.
        account: the group above its own, if there is one.
        release: called once, when everything is gone.
        later: takes `stop` when it failed, to be called again when the engine is back.
    """

    def __init__(
        self,
        engine: ContainerEngine,
        container: str,
        line: Attachment,
        witness: EngineConnection,
        account: ParentCgroup | None,
        release: Callable[[], None],
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        self._engine = engine
        self._container = container
        self._line = line
        self._witness = witness
        self._account = account
        self._release, self._later = release, later
        self._group = ContainerCgroup(container, parent=None if account is None else account.parent)
        self._begun = time.monotonic()
        self._created = time.time()
        self._ended: float | None = None
        self._exit: Exit | None = None
        self._judged = False  # the stream ended, and it was the player's doing
        self._lost = False  # it ended, and it was not, or nobody can tell
        self._itself: bool | None = None  # whether the player ended by itself; None until `stop` asks
        self._stopping = threading.Lock()  # whoever owns it stops it, and so does whoever tidies up

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`."""
        sent = self._line.send(data, deadline, cancelled)
        if not sent and self._line.ended:
            self._judge()
        return sent

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`."""
        data = self._line.receive(deadline)
        if data == b"":
            self._judge()
        elif data and self._account is None:
            self._group.look()
        return data

    def stop(self) -> Exit:
        """Ends the container and removes it; see `Sandbox.stop`.

        Raises:
            SandboxLost: the engine fails, or something of the container survives. A second call tries again.
        """
        with self._stopping:
            if self._exit is None:
                try:
                    self._exit = self._end()
                except SandboxLost:
                    self._later(self.stop)
                    raise
                self._release()
            return self._exit

    def _judge(self) -> None:
        """Finds out why the stream ended. Raises SandboxLost when it was not, or not surely, the player's doing."""
        self._ended = self._ended or time.monotonic()
        if self._judged:
            return
        try:
            self._ask()
        except AmbiguousExit:
            if not self._witness.unbroken():
                self._lost = True
                raise
            time.sleep(_RETRY_SECONDS)  # the engine is there, and did not answer: perhaps it is merely busy
            self._lost = True
            self._ask()
        except SandboxLost:
            self._lost = True
            raise
        self._judged, self._lost = True, False

    def _ask(self) -> None:
        try:
            self._engine.wait(self._container, _GRACE_SECONDS)
            state = self._engine.state(self._container)
            ended = state is not None and not state.get("Running") and not state.get("OOMKilled")
            killed = ended and self._engine.killed(self._container, self._created)
        except SandboxLost as error:
            raise AmbiguousExit(f"a player's stream ended, and the engine cannot say why: {error}") from error
        if not self._witness.lived():
            raise AmbiguousExit("a player's stream ended while the engine was stopping or starting")
        if state is None:
            raise SandboxLost("somebody removed the container of a running player")
        if killed:
            raise SandboxLost("somebody had the engine kill a running player")

    def _end(self) -> Exit:
        if self._itself is None:
            self._line.drain()
            itself = self._line.ended
            self._ended = self._ended or time.monotonic()
            self._line.close()
            self._group.look(now=True)
            if itself and not self._lost:
                try:
                    self._judge()
                except SandboxLost:  # said by the ending
                    self._lost = True
            self._itself = itself
        state = self._engine.state(self._container) or {}
        if state.get("Running"):
            self._itself = False
            self._engine.kill(self._container)
            self._engine.wait(self._container, _KILL_SECONDS)
            state = self._engine.state(self._container) or {}
        remove_container(self._engine, self._container, self._group)
        made = self._verdict(state)
        if self._account is not None:
            self._account.close()
        return made

    def _verdict(self, state: Mapping[str, Any]) -> Exit:
        code = state.get("ExitCode")
        known = None if self._account is None else self._account.usage()
        usage = known or self._group.usage
        if self._lost:
            ending = Ending.LOST
        elif state.get("OOMKilled") or usage.kills:
            ending = Ending.OUT_OF_MEMORY
        elif not self._itself:
            ending = Ending.STOPPED
        else:
            ending = Ending.CLEAN if code == 0 else Ending.CRASHED
        own = self._itself and not self._lost
        return Exit(
            ending=ending,
            code=code if own and isinstance(code, int) and 0 <= code <= _MAX_EXIT_CODE else None,
            wall_seconds=(self._ended or self._begun) - self._begun,
            cpu_seconds=usage.cpu_seconds,
            peak_bytes=usage.peak_bytes,
            peak_pids=usage.peak_pids,
            kills=usage.kills,
            sampled=known is None,
            stdin_bytes=self._line.sent,
            stdout_bytes=self._line.stdout,
            stderr_bytes=self._line.stderr,
            stderr=bytes(self._line.tail),
        )


@dataclass
class PartialContainer:
    """What of a sandbox is there while it is being made."""

    uid: int
    account: ParentCgroup | None = None
    container: str | None = None
    line: Attachment | None = None

    def undo(self, engine: ContainerEngine) -> None:
        """Removes all of it. Raises SandboxLost when it cannot; a second call tries again."""
        if self.line is not None:
            self.line.close()
        if self.container is not None:
            remove_container(engine, self.container)
        if self.account is not None:
            self.account.close()
        uid_pool.release_uid(self.uid)


def remove_container(engine: ContainerEngine, container: str, group: ContainerCgroup | None = None) -> None:
    """Removes a container and makes sure: it is unknown to the engine, and its control group is empty.

    Raises:
        SandboxLost: it could not be removed, or processes of it live on.
    """
    group = group or ContainerCgroup(container)
    engine.remove(container)
    until = time.monotonic() + _REMOVAL_SECONDS
    while engine.state(container) is not None:
        if time.monotonic() > until:
            raise SandboxLost(f"container {container[:12]} is still there after it was removed")
        time.sleep(0.05)
    if not group.empty():
        raise SandboxLost(f"processes of container {container[:12]} outlive it; end them by hand")
