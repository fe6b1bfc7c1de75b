"""Images as submissions: which of them may play, and what is in them, wherever this machine has them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from orchestrator.domain.images import ImageConfig, is_image_reference, read_image_config
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, SandboxLost, UsageError
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource, ImageStore
from orchestrator.sandboxes.retry_start import StartFailedError


class ImageCollection(Protocol):
    """The images of this machine: an engine's, or those in a folder. Each call raises SandboxLost where that fails.

    An image is described as `docker image inspect` does.
    """

    place: ClassVar[str]
    """The words for where the images are, in an error message."""
    remedy: ClassVar[str]
    """How an image gets there."""

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the description of an image by its name or id; None if there is none."""
        ...

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images with such a name."""
        ...

    def architecture(self) -> str:
        """Returns this machine's architecture as images spell it."""
        ...

    def file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns what of an image's files keeps it from playing. Raises StartFailedError where nobody can look."""
        ...

    def facts(self, image: Mapping[str, Any], problems: Sequence[Problem], *, files: bool) -> ImageFacts:
        """Returns what an image is, and with `files` what lies in it, without starting it."""
        ...

    def export(self, image: Mapping[str, Any], working_folder: str) -> AbstractContextManager[Iterator[bytes]]:
        """Gives an image's files as one tar stream in pieces; `working_folder` is among them."""
        ...

    def store(self) -> ImageStore:
        """Returns where images are made and brought in."""
        ...


class ImageAdmission:
    """Looks at images before they play, and remembers what is used of those that were admitted."""

    def __init__(self, images: ImageCollection) -> None:
        self._images = images
        self._configs: dict[str, ImageConfig] = {}

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with everything that its configuration may not say."""
        reference = source.image
        if reference is None:
            raise Rejected("submission", [Problem("image", "missing", "build it, and give its name or id")])
        subject = f"image {printable(reference)}"
        if not is_image_reference(reference):
            raise Rejected(
                subject, [Problem("image", "not the name or id of an image", "use a name like team/entry:1")]
            )
        inspected = self._images.image(reference)
        if inspected is None:
            problem = f"{self._images.place} does not have it"
            raise Rejected(subject, [Problem("image", problem, f"{self._images.remedy}; nothing is pulled")])
        config, problems = read_image_config(inspected, self._images.architecture())
        if not problems and inspected["Id"] not in self._configs:
            problems = self._file_problems(inspected, config)
        if problems:
            raise Rejected(subject, problems)
        self._configs[inspected["Id"]] = config
        return Image(digest=inspected["Id"], name=printable(reference), command=config.command)

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns what an image is, without starting it; see `Backend.inspect_image`."""
        inspected = self._images.image(reference) if is_image_reference(reference) else None
        if inspected is None:
            raise UsageError(f"{self._images.place} has no image {printable(reference)}; {self._images.remedy}")
        config, problems = read_image_config(inspected, self._images.architecture(), max_bytes)
        if files and not problems:
            problems = self._file_problems(inspected, config)
            files = not problems  # an engine may wait without end for what lies in such an image
        return self._images.facts(inspected, problems, files=files)

    def config_of(self, image: Image) -> ImageConfig:
        """Returns what is used of an image that was admitted, perhaps by an orchestrator before this one."""
        if image.digest not in self._configs:
            found = self._images.image(image.digest) if is_image_reference(image.digest) else None
            if found is None:
                raise SandboxLost(
                    f"image {image.name} ({image.digest}) is gone from {self._images.place}; load it again"
                )
            config, problems = read_image_config(found)
            if problems and not image.command:
                raise Rejected(f"image {image.name}", problems)
            self._configs[image.digest] = config
        return self._configs[image.digest]

    def add_copy(self, copied: str, config: ImageConfig) -> None:
        """Notes that the image `copied` has the files of an admitted one, whose configuration it goes by."""
        self._configs[copied] = config

    def _file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns what of an image's files keeps it from playing, whose configuration is as it should be."""
        try:
            return self._images.file_problems(image, config)
        except StartFailedError as error:
            return [Problem("image", str(error), "look at its files: no container can be made of it")]
