"""One container as a sandbox.

Its stream may end for three reasons: the player exited, the engine stopped, or another program ended the container.
Only the first is charged to the player. So at the end of the stream the sandbox asks the engine for the container's
state, and then checks that the engine ran all the time (see `engine_liveness`). If it did not, the end is ambiguous.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from orchestrator.errors import AmbiguousExit, SandboxLost
from orchestrator.sandboxes.base import Ending, Exit, StreamTail, never_cancelled
from orchestrator.sandboxes.docker.engine_liveness import EngineConnection
from orchestrator.sandboxes.linux.cgroup import ContainerCgroup
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.pending_cleanup import PendingCleanup, StopOnce

_GRACE_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_KILL_SECONDS = 10.0
_REMOVAL_SECONDS = 30.0
_MAX_EXIT_CODE = 255


class ContainerEngine(Protocol):
    """The engine's calls that a sandbox uses. Each raises SandboxLost if the engine fails."""

    def state(self, container: str) -> Mapping[str, Any] | None:
        """Returns the container's state, None if there is no such container."""
        ...

    def wait(self, container: str, seconds: float) -> None:
        """Waits until the container has exited, for at most `seconds`."""
        ...

    def kill(self, container: str) -> None:
        """Kills a container; does nothing if it has exited."""
        ...

    def remove(self, container: str) -> None:
        """Kills and removes a container and its volumes; does nothing if there is no such container."""
        ...

    def was_killed(self, container: str, since: float) -> bool:
        """Returns whether a client asked the engine to kill the container after `since` (seconds since 1970)."""
        ...


class PlayerStream(Protocol):
    """A player's streams: the engine's attach stream, or FIFOs."""

    @property
    def stream_ended(self) -> bool:
        """Whether the stream from the player has ended, for whatever reason."""
        ...

    @property
    def stdin_bytes(self) -> int:
        """How many bytes were written to stdin."""
        ...

    @property
    def stdout_bytes(self) -> int:
        """How many bytes of stdout were read."""
        ...

    @property
    def stderr_bytes(self) -> int:
        """How many bytes of stderr were read."""
        ...

    @property
    def stderr_tail(self) -> StreamTail:
        """The last bytes of stderr."""
        ...

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool]) -> bool:
        """Writes all of `data`; see `Sandbox.send`."""
        ...

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`."""
        ...

    def drain(self) -> None:
        """Reads what has arrived, without waiting: keeps stderr, notices the end, drops stdout."""
        ...

    def close(self) -> None:
        """Closes the streams."""
        ...


class ContainerSandbox:
    """One running container.

    Args:
        engine: the engine that runs it.
        container: the container's id.
        stream: its stdin, stdout and stderr.
        liveness: a connection to the engine that was opened before the container was created.
        cgroup: the parent of its control group, if it has one.
        release: called once, after the container was removed.
        pending: stops the sandbox later if the engine failed in `stop`.
    """

    def __init__(
        self,
        engine: ContainerEngine,
        container: str,
        stream: PlayerStream,
        liveness: EngineConnection,
        cgroup: ParentCgroup | None,
        release: Callable[[], None],
        pending: PendingCleanup,
    ) -> None:
        self._engine = engine
        self._container = container
        self._stream = stream
        self._liveness = liveness
        self._cgroup = cgroup
        self._release = release
        self._stop = StopOnce(self._remove, pending)
        self._group = ContainerCgroup(container, parent=None if cgroup is None else cgroup.path)
        self._begun = time.monotonic()
        self._created = time.time()
        self._ended: float | None = None
        self._attributed = False  # the stream ended because the player exited
        self._lost = False  # the stream ended for another reason, or for one that cannot be determined
        self._ended_itself: bool | None = None  # whether the player exited by itself; None until `stop` checks

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`."""
        sent = self._stream.send(data, deadline, cancelled)
        if not sent and self._stream.stream_ended:
            self._attribute_end()
        return sent

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`."""
        data = self._stream.receive(deadline)
        if data == b"":
            self._attribute_end()
        elif data and self._cgroup is None:
            self._group.sample()
        return data

    def stop(self) -> Exit:
        """Kills and removes the container; see `Sandbox.stop`.

        Raises:
            SandboxLost: the engine failed, or a process of the container survived. A second call tries again.
        """
        return self._stop()

    def _attribute_end(self) -> None:
        """Determines why the stream ended. Raises SandboxLost unless the player certainly exited by itself."""
        self._ended = self._ended or time.monotonic()
        if self._attributed:
            return
        try:
            self._require_player_exit()
        except AmbiguousExit:
            if not self._liveness.is_open():
                self._lost = True
                raise
            time.sleep(_RETRY_SECONDS)  # the engine runs but did not answer: it may only be busy
            self._lost = True
            self._require_player_exit()
        except SandboxLost:
            self._lost = True
            raise
        self._attributed, self._lost = True, False

    def _require_player_exit(self) -> None:
        """Raises SandboxLost if another program ended the container, AmbiguousExit if that cannot be determined."""
        try:
            self._engine.wait(self._container, _GRACE_SECONDS)
            state = self._engine.state(self._container)
            has_exited = state is not None and not state.get("Running") and not state.get("OOMKilled")
            killed = has_exited and self._engine.was_killed(self._container, self._created)
        except SandboxLost as error:
            raise AmbiguousExit(f"a player's stream ended, and the engine cannot say why: {error}") from error
        if not self._liveness.engine_survived():
            raise AmbiguousExit("a player's stream ended while the engine was stopping or starting")
        if state is None:
            raise SandboxLost("somebody removed the container of a running player")
        if killed:
            raise SandboxLost("somebody had the engine kill a running player")

    def _remove(self) -> Exit:
        if self._ended_itself is None:
            self._stream.drain()
            ended_itself = self._stream.stream_ended
            self._ended = self._ended or time.monotonic()
            self._stream.close()
            self._group.sample(now=True)
            if ended_itself and not self._lost:
                try:
                    self._attribute_end()
                except SandboxLost:  # reported as Ending.LOST
                    self._lost = True
            self._ended_itself = ended_itself
        # How a running player ends is known, and its control group counts kills: the removal also ends it.
        state = self._final_state() if self._ended_itself or self._cgroup is None else {}
        remove_container(self._engine, self._container, self._group)
        player_exit = self._exit_from(state)
        if self._cgroup is not None:
            self._cgroup.close()
        self._release()
        return player_exit

    def _final_state(self) -> Mapping[str, Any]:
        """Kills the container if it runs; returns its state, empty if there is no such container."""
        state = self._engine.state(self._container) or {}
        if state.get("Running"):
            self._ended_itself = False
            self._engine.kill(self._container)
            self._engine.wait(self._container, _KILL_SECONDS)
            state = self._engine.state(self._container) or {}
        return state

    def _exit_from(self, state: Mapping[str, Any]) -> Exit:
        code = state.get("ExitCode")
        counted = None if self._cgroup is None else self._cgroup.usage()
        usage = counted or self._group.usage
        if self._lost:
            ending = Ending.LOST
        elif state.get("OOMKilled") or usage.kills:
            ending = Ending.OUT_OF_MEMORY
        elif not self._ended_itself:
            ending = Ending.STOPPED
        else:
            ending = Ending.CLEAN if code == 0 else Ending.CRASHED
        is_own_exit = self._ended_itself and not self._lost
        return Exit(
            ending=ending,
            code=code if is_own_exit and isinstance(code, int) and 0 <= code <= _MAX_EXIT_CODE else None,
            wall_seconds=(self._ended or self._begun) - self._begun,
            cpu_seconds=usage.cpu_seconds,
            peak_bytes=usage.peak_bytes,
            peak_pids=usage.peak_pids,
            kills=usage.kills,
            sampled=counted is None,
            stdin_bytes=self._stream.stdin_bytes,
            stdout_bytes=self._stream.stdout_bytes,
            stderr_bytes=self._stream.stderr_bytes,
            stderr=bytes(self._stream.stderr_tail),
        )


def remove_container(engine: ContainerEngine, container: str, group: ContainerCgroup | None = None) -> None:
    """Removes a container, and verifies that the engine no longer knows it and that its control group is empty.

    Raises:
        SandboxLost: the container is still there after 30 s, or processes of it still run.
    """
    group = group or ContainerCgroup(container)
    engine.remove(container)
    until = time.monotonic() + _REMOVAL_SECONDS
    while engine.state(container) is not None:
        if time.monotonic() > until:
            raise SandboxLost(f"container {container[:12]} is still there after it was removed")
        time.sleep(0.05)
    if not group.kill_all():
        raise SandboxLost(f"processes of container {container[:12]} outlive it; end them by hand")
