"""One container as a sandbox.

Its stream may end for three reasons: the player ended, the engine ended, or somebody else ended the container. Only
the first is the player's doing, so at the end of the stream the engine is asked, and where it does not answer the
sandbox is lost.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from orchestrator.backends._attach import Attachment
from orchestrator.backends._cgroup import Group
from orchestrator.backends.base import STDERR_KEPT, Ending, Exit
from orchestrator.errors import SandboxLost

_GRACE = 1.0
_KILL_PATIENCE = 10.0
_GONE_PATIENCE = 5.0
_KILLED = 128 + 9
_LARGEST_CODE = 255


class Containers(Protocol):
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


class Contained:
    """One running container. `release` is called once, when it is gone."""

    def __init__(self, engine: Containers, container: str, line: Attachment, release: Callable[[], None]) -> None:
        self._engine = engine
        self._container = container
        self._line = line
        self._release = release
        self._group = Group(container)
        self._begun = time.monotonic()
        self._created = time.time()
        self._ended: float | None = None
        self._exit: Exit | None = None
        self._itself: bool | None = None  # whether the player ended by itself; None until `stop` asks

    def send(self, data: bytes, deadline: float) -> bool:
        """Writes all of `data`; see `Sandbox.send`."""
        sent = self._line.send(data, deadline)
        if not sent and self._line.ended:
            self._judge()
        return sent

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`."""
        data = self._line.receive(deadline)
        if data == b"":
            self._judge()
        elif data:
            self._group.look()
        return data

    def stop(self) -> Exit:
        """Ends the container and removes it; see `Sandbox.stop`.

        Raises:
            SandboxLost: the engine fails, or something of the container survives. A second call tries again.
        """
        if self._exit is None:
            self._exit = self._end()
            self._release()
        return self._exit

    def _judge(self) -> None:
        """Finds out why the stream ended. Raises SandboxLost when it was not the player's doing."""
        if self._ended is not None:
            return
        self._engine.wait(self._container, _GRACE)
        state = self._engine.state(self._container)
        if state is None:
            raise SandboxLost("somebody removed the container of a running player")
        alone = state.get("ExitCode") == _KILLED and not state.get("Running") and not state.get("OOMKilled")
        if alone and self._engine.killed(self._container, self._created):
            raise SandboxLost("somebody had the engine kill a running player")
        self._ended = time.monotonic()

    def _end(self) -> Exit:
        if self._itself is None:
            self._line.drain()
            self._itself = self._line.ended
            self._ended = self._ended or time.monotonic()
            self._line.close()
            self._group.look(now=True)
            if self._itself:
                self._engine.wait(self._container, _GRACE)
        state = self._engine.state(self._container) or {}
        if state.get("Running"):
            self._itself = False
            self._engine.kill(self._container)
            self._engine.wait(self._container, _KILL_PATIENCE)
            state = self._engine.state(self._container) or {}
        remove(self._engine, self._container, self._group)
        return self._verdict(state)

    def _verdict(self, state: Mapping[str, Any]) -> Exit:
        code = state.get("ExitCode")
        if state.get("OOMKilled") or self._group.kills:
            ending = Ending.OUT_OF_MEMORY
        elif not self._itself:
            ending = Ending.STOPPED
        else:
            ending = Ending.CLEAN if code == 0 else Ending.CRASHED
        return Exit(
            ending=ending,
            code=code if self._itself and isinstance(code, int) and 0 <= code <= _LARGEST_CODE else None,
            wall_seconds=(self._ended or self._begun) - self._begun,
            cpu_seconds=self._group.cpu_seconds,
            peak_bytes=self._group.peak_bytes,
            stderr=bytes(self._line.tail),
        )


class Stillborn:
    """A player whose image cannot be started: it ended before it began."""

    def __init__(self, reason: str) -> None:
        self._exit = Exit(Ending.CRASHED, stderr=reason.encode()[-STDERR_KEPT:])

    def send(self, data: bytes, deadline: float) -> bool:  # noqa: ARG002  nobody reads
        """Returns False: nobody reads."""
        return False

    def receive(self, deadline: float) -> bytes | None:  # noqa: ARG002  nobody writes
        """Returns the end."""
        return b""

    def stop(self) -> Exit:
        """Returns the reason as if the player had written it to stderr."""
        return self._exit


def remove(engine: Containers, container: str, group: Group | None = None) -> None:
    """Removes a container and makes sure: it is unknown to the engine, and its control group is empty.

    Raises:
        SandboxLost: it could not be removed, or processes of it live on.
    """
    group = group or Group(container)
    engine.remove(container)
    until = time.monotonic() + _GONE_PATIENCE
    while engine.state(container) is not None:
        if time.monotonic() > until:
            raise SandboxLost(f"container {container[:12]} is still there after it was removed")
        time.sleep(0.05)
    if not group.empty():
        raise SandboxLost(f"processes of container {container[:12]} outlive it; end them by hand")
