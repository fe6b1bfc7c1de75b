"""The part of a backend that finds, judges and looks into images."""

from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource, ImageStore
from orchestrator.sandboxes.image_files.image_admission import ImageAdmission, ImageCollection


class ImageBackend:
    """A backend's calls about images, answered from a collection of them."""

    def __init__(self, images: ImageCollection) -> None:
        self._images, self._admission = images, ImageAdmission(images)

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with everything that its configuration may not say."""
        return self._admission.admit(source)

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns what an image is, without starting it; see `Backend.inspect_image`."""
        return self._admission.inspect_image(reference, files=files, max_bytes=max_bytes)

    def image_store(self) -> ImageStore:
        """Returns where images are built and brought in."""
        return self._images.store()

    def _known_image(self) -> Image | None:
        """Returns an image of ours, to compare others with or to look from inside of."""
        return self_probe.choose_image(self._images.images(self_probe.PROBE_IMAGE_PATTERN))
