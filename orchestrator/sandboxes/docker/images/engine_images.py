"""The images of this machine's Docker engine."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar

from orchestrator.domain.images import ImageConfig
from orchestrator.errors import Problem
from orchestrator.sandboxes.base import ImageFacts
from orchestrator.sandboxes.docker import container_spec
from orchestrator.sandboxes.docker.engine import DockerEngine
from orchestrator.sandboxes.docker.images.store import DockerImageStore
from orchestrator.sandboxes.image_files import file_checks, image_facts
from orchestrator.sandboxes.linux.sandbox_owner import Owner


class EngineImages:
    """See `ImageCollection`. It reads files from containers that never start."""

    place: ClassVar[str] = "the engine"
    remedy: ClassVar[str] = (
        "build it (`sparring submission build FOLDER`, or `sparring image build` for the shipped ones), or bring it in "
        "with `sparring image load`"
    )

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the engine's description of an image, None if it has none with that name or id."""
        return self._engine.image(reference)

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images whose name matches a pattern."""
        return self._engine.images(pattern)

    def architecture(self) -> str:
        """Returns the engine's architecture."""
        return self._engine.architecture()

    def file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns the problems in an image's files that prevent it from playing."""
        return file_checks.image_file_problems(
            self._engine, image, config, self._engine.architecture(), inspection_labels()
        )

    def facts(self, image: Mapping[str, Any], problems: Sequence[Problem], *, files: bool) -> ImageFacts:
        """Returns facts about an image; see `Backend.inspect_image`."""
        return image_facts.inspect_image(self._engine, image, problems, inspection_labels(), files=files)

    @contextmanager
    def export(self, image: Mapping[str, Any], working_folder: str) -> Iterator[Iterator[bytes]]:
        """Yields the files as the engine exports them; the engine creates a working folder that the image lacks."""
        options = image_facts.inert_container_options(image, inspection_labels()) | {"WorkingDir": working_folder}
        container = self._engine.create(options, f"sparring-rootfs-{secrets.token_hex(8)}")
        try:
            with closing(self._engine.export(container)) as tar:
                yield tar
        finally:
            self._engine.remove(container)

    def store(self) -> DockerImageStore:
        """Returns the engine as a store of images."""
        return DockerImageStore(self._engine)


def inspection_labels() -> dict[str, str]:
    """Returns the labels of a container that is created only to read its files."""
    return {container_spec.RUN_LABEL: "look", container_spec.OWNER_LABEL: str(Owner.current_process())}
