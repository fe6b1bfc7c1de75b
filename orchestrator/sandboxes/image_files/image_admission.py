"""Admits images as submissions, from a Docker engine or a folder of images."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from orchestrator.domain.images import ImageConfig, is_image_reference, read_image_config
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, SandboxLost, UsageError
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource, ImageStore
from orchestrator.sandboxes.retry_start import StartFailedError


class ImageCollection(Protocol):
    """The images of this machine: an engine's, or those in a folder. Each call raises SandboxLost if it fails.

    The description of an image has the fields of `docker image inspect`.
    """

    place: ClassVar[str]
    """The name of the collection in error messages."""
    remedy: ClassVar[str]
    """How to add an image, for error messages."""

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the description of an image by its name or id; None if there is none."""
        ...

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images whose name matches a pattern."""
        ...

    def architecture(self) -> str:
        """Returns this machine's architecture in the notation of images, such as `amd64`."""
        ...

    def file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns the problems in an image's files that prevent it from playing.

        Raises:
            StartFailedError: the files cannot be read, because no container can be made of the image.
        """
        ...

    def facts(self, image: Mapping[str, Any], problems: Sequence[Problem], *, files: bool) -> ImageFacts:
        """Returns facts about an image, and about its files if `files`, without starting it."""
        ...

    def export(self, image: Mapping[str, Any], working_folder: str) -> AbstractContextManager[Iterator[bytes]]:
        """Yields an image's files as one tar stream in pieces, including `working_folder`."""
        ...

    def store(self) -> ImageStore:
        """Returns the store that builds and loads the images."""
        ...


class ImageAdmission:
    """Checks images before they play, and keeps the configurations of admitted ones."""

    def __init__(self, images: ImageCollection) -> None:
        self._images = images
        self._configs: dict[str, ImageConfig] = {}

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with all problems of its configuration and files."""
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
        """Returns facts about an image without starting it; see `Backend.inspect_image`."""
        inspected = self._images.image(reference) if is_image_reference(reference) else None
        if inspected is None:
            raise UsageError(f"{self._images.place} has no image {printable(reference)}; {self._images.remedy}")
        config, problems = read_image_config(inspected, self._images.architecture(), max_bytes)
        if files and not problems:
            problems = self._file_problems(inspected, config)
            files = not problems  # the files of such an image may block an engine for ever
        return self._images.facts(inspected, problems, files=files)

    def config_of(self, image: Image) -> ImageConfig:
        """Returns the configuration of an image that this or an earlier orchestrator admitted."""
        if image.digest not in self._configs:
            inspected = self._images.image(image.digest) if is_image_reference(image.digest) else None
            if inspected is None:
                raise SandboxLost(
                    f"image {image.name} ({image.digest}) is gone from {self._images.place}; load it again"
                )
            config, problems = read_image_config(inspected)
            if problems and not image.command:
                raise Rejected(f"image {image.name}", problems)
            self._configs[image.digest] = config
        return self._configs[image.digest]

    def add_copy(self, image_id: str, config: ImageConfig) -> None:
        """Registers a copy of an admitted image, with the configuration of the original."""
        self._configs[image_id] = config

    def _file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns the problems in the files of an image whose configuration has none."""
        try:
            return self._images.file_problems(image, config)
        except StartFailedError as error:
            return [Problem("image", str(error), "look at its files: no container can be made of it")]
