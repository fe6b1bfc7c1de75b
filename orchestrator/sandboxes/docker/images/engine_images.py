"""Images of the Docker engine, for the backends that play them."""

from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource
from orchestrator.sandboxes.docker.engine import DockerEngine
from orchestrator.sandboxes.docker.images.admission import ImageAdmission
from orchestrator.sandboxes.docker.images.store import DockerImageStore


class EngineImages:
    """The part of a backend that finds, judges and looks into images, where the engine of this machine has them."""

    def __init__(self) -> None:
        self._engine = DockerEngine()
        self._admission = ImageAdmission(self._engine)

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with everything that its configuration may not say."""
        return self._admission.admit(source)

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns what an image is, without starting it; see `Backend.inspect_image`."""
        return self._admission.inspect_image(reference, files=files, max_bytes=max_bytes)

    def image_store(self) -> DockerImageStore:
        """Returns where images are built and brought in."""
        return DockerImageStore(self._engine)

    def _known_image(self) -> Image | None:
        """Returns an image of ours, to compare others with or to look from inside of."""
        return self_probe.choose_image(self._engine.images(self_probe.PROBE_IMAGE_PATTERN))
