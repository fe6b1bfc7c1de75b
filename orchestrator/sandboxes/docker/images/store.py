"""The engine as a store of images: builds, loads, saves, pushes and untags them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from orchestrator.sandboxes.base import BuildRequest, ImageLayer
from orchestrator.sandboxes.docker.images import build, load, push
from orchestrator.sandboxes.image_files import image_config


class ImageStoreEngine(build.BuildEngine, load.LoadEngine, push.PushEngine, Protocol):
    """The engine's calls that an image store uses."""


class DockerImageStore:
    """See `ImageStore`."""

    def __init__(self, engine: ImageStoreEngine) -> None:
        self._engine = engine

    def build(self, request: BuildRequest, on_line: Callable[[str], None]) -> str:
        """Builds an image with the engine's classic builder."""
        return build.build_image(self._engine, request, on_line)

    def normalise_config(self, config: Mapping[str, Any]) -> bytes:
        """See `ImageStore.normalise_config`."""
        return image_config.normalise_config(config)

    def load(self, config: Mapping[str, Any], layers: Sequence[ImageLayer], tag: str) -> str:
        """Loads an image and tags it."""
        return load.load_image(self._engine, config, layers, tag)

    def save(self, reference: str) -> Iterator[bytes]:
        """Yields an image as a docker-archive."""
        return load.save_image(self._engine, reference)

    def push(self, image: str, name: str, login: tuple[str, str] | None) -> None:
        """Pushes an image."""
        push.push_image(self._engine, image, name, login)

    def untag(self, tag: str) -> None:
        """Removes a tag."""
        load.untag_image(self._engine, tag)
