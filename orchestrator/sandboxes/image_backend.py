"""The part of a backend that finds, admits and inspects images."""

from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource, ImageStore
from orchestrator.sandboxes.image_files.image_admission import ImageAdmission, ImageCollection


class ImageBackend:
    """Implements a backend's methods for images with an `ImageCollection`."""

    def __init__(self, images: ImageCollection) -> None:
        self._images, self._admission = images, ImageAdmission(images)

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with all problems of its configuration and files."""
        return self._admission.admit(source)

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns facts about an image without starting it; see `Backend.inspect_image`."""
        return self._admission.inspect_image(reference, files=files, max_bytes=max_bytes)

    def image_store(self) -> ImageStore:
        """Returns the store that builds and loads images."""
        return self._images.store()

    def _known_image(self) -> Image | None:
        """Returns an image of Sparring's, to compare others with or to run the probe in; None if there is none."""
        # By its name first: an engine with many images takes long to list them.
        base = self._images.image(self_probe.PREFERRED_IMAGE)
        if base is not None:
            return Image(digest=base["Id"], name=self_probe.PREFERRED_IMAGE)
        return self_probe.choose_image(self._images.images(self_probe.PROBE_IMAGE_PATTERN))
