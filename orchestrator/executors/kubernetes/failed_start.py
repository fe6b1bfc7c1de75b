"""A backend for players that no node starts: the rest of their jobs is played without a pod."""

from typing import ClassVar

from orchestrator.domain.policy import Runtime
from orchestrator.sandboxes.base import Backend, Check, Image, ImageFacts, ImageSource, ImageStore, Sandbox, SandboxSpec
from orchestrator.sandboxes.never_started import NeverStarted


class FailedStartBackend:
    """A backend whose players have ended before they began, like a player on docker whose image cannot start.

    Args:
        inner: the backend that knows the images.
        reason: the cluster's reason, recorded as if the player had written it to stderr.
    """

    name: ClassVar[str] = "unstarted"

    def __init__(self, inner: Backend, reason: str) -> None:
        self._inner, self._reason = inner, reason

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:
        """Does nothing: the backend is always available."""

    def diagnose(self) -> list[Check]:
        """Returns the checks of the inner backend."""
        return self._inner.diagnose()

    def admit(self, source: ImageSource) -> Image:
        """Returns the image that the inner backend admits."""
        return self._inner.admit(source)

    def fresh_copy(self, image: Image, run: str) -> Image:  # noqa: ARG002  nobody is started
        """Returns the image itself."""
        return image

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns the facts that the inner backend finds."""
        return self._inner.inspect_image(reference, files=files, max_bytes=max_bytes)

    def image_store(self) -> ImageStore:
        """Returns the inner backend's store."""
        return self._inner.image_store()

    def start(self, spec: SandboxSpec) -> Sandbox:  # noqa: ARG002  nobody is started
        """Returns a player that has ended."""
        return NeverStarted(self._reason)

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:  # noqa: ARG002  as every sweep is called
        """Returns 0: nothing is left behind."""
        return 0
